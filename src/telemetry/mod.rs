//! Telemetry: what the server and the client's machine say of themselves.

pub mod host;
