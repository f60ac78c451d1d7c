//! The one integration-test binary: a module per subject.

mod json_schema;
mod kept;
mod preflight;
mod server;
mod store;
