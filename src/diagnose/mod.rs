//! Diagnosis: why figures may not be trusted, and what limits a load point. Pure.

pub(crate) mod capacity;
pub(crate) mod client;
pub(crate) mod limit;
pub(crate) mod point;
pub(crate) mod samples;
pub(crate) mod server_metrics;
pub(crate) mod tokens;
pub(crate) mod validity;
