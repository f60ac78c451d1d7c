//! The library, told by its README.
#![doc = ""]
#![doc = include_str!("../README.md")]

// Layer 0: words.
pub mod clock;
pub mod error;
pub mod metric;
pub mod rng;
pub mod units;
// Layer 1: what the user declares, and numbers.
pub mod scenario;
pub mod settings;
pub mod stats;
// Layer 2: the plan, and the wire.
pub mod api;
pub mod plan;
pub mod transport;
// Layer 3: what happened.
pub mod record;
// Layer 4: driving and keeping.
pub mod drive;
pub mod environment;
pub mod import;
pub mod preflight;
pub mod server;
pub mod store;
pub mod telemetry;
// Layers 5 to 7: summarise, judge, show.
pub mod compare;
mod export;
pub mod report;
pub mod summary;
// Layers 8 and 9: compose, and the surfaces.
mod bench_serve;
pub mod cli;
pub mod harness;
mod macros;
pub mod selftest;
// Aside: the embedded server.
pub mod sim;

pub use cli::bench_main;
pub use error::{Error, ErrorKind, Result};
pub use harness::Harness;
pub use scenario::{Length, Load, Scenario, ScenarioGroup, Slo};
