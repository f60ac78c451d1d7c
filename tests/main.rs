//! The one integration-test binary: a module per subject.

mod architecture;
mod cli;
mod compare;
mod declare;
mod drive;
mod faults;
mod fidelity;
mod import;
mod json_schema;
mod kept;
mod plan;
mod preflight;
mod report;
mod scripted;
mod server;
mod sim;
mod sim_http;
mod statistics;
mod store;
mod summary;
mod telemetry;
mod wire;
