//! The one integration-test binary: a module per subject.

mod architecture;
mod sim;
mod sim_http;
mod statistics;
