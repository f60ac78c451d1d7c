//! The one integration-test binary: a module per subject.

mod architecture;
mod drive;
mod fidelity;
mod json_schema;
mod kept;
mod server;
mod sim;
mod sim_http;
mod statistics;
mod store;
mod wire;
