//! The one integration-test binary: a module per subject.

mod sim;
mod sim_http;
