//! Scenarios from TOML text.
