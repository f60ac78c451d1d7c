//! Tests of the inside: compiled into the library, so that what they test need not be public.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    clippy::type_complexity,
    clippy::too_many_lines,
    clippy::large_futures
)]

mod acceptance;
mod arrivals;
mod compare;
mod declare;
mod drive;
mod faults;
mod fidelity;
mod import;
mod import_clients;
#[path = "../json_schema.rs"]
mod json_schema;
pub(crate) mod kept;
mod negotiation;
mod plan;
mod preflight;
mod report;
mod running;
mod scripted;
mod searching;
mod server;
mod sim;
mod sim_http;
mod simulator_process;
mod statistics;
mod store;
mod summary;
mod telemetry;
mod wire;
