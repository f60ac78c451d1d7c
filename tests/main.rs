//! The one integration-test binary: a module per subject.

mod json_schema;
mod kept;
mod preflight;
mod scripted;
mod server;
mod store;
mod telemetry;
