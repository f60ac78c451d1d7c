//! The library, told by its README.
#![doc = ""]
#![doc = include_str!("../README.md")]

// Layer 0: words.
#![cfg_attr(not(test), allow(dead_code))] // being cut

mod clock;
mod error;
mod metric;
mod rng;
mod units;
// Layer 1: what the user declares, and numbers.
mod scenario;
mod settings;
mod stats;
// Layer 2: the plan, and the wire.
mod api;
mod plan;
mod transport;
// Layer 3: what happened.
mod record;
// Layer 4: driving and keeping.
mod drive;
mod environment;
mod import;
mod preflight;
mod server;
mod store;
mod telemetry;
// Layers 5 to 7: summarise, judge, show.
mod compare;
mod report;
mod summary;
// Layers 8 and 9: compose, and the surfaces.
mod cli;
mod harness;
mod macros;
mod selftest;
// Aside: the embedded server.
mod sim;

pub use api::chat::Chat;
pub use api::completions::Completions;
pub use api::{Content, Dialect, GenerateRequest, Offers, Place as TokenPlace, StreamEvent, Usage};
pub use cli::bench_main;
pub use drive::Interrupt;
pub use error::{Error, ErrorKind, Result};
pub use harness::{Conclusion, Harness};
pub use metric::{Measure, Metric, Statistic};
pub use report::progress::{Event, Reporter, Silent};
pub use rng::Seed;
pub use scenario::length::Weighted;
pub use scenario::prompt::WORDS;
pub use scenario::{Length, Load, Prompt, PromptSource, RequestRate, Scenario, ScenarioGroup, Slo};
pub use settings::{
    ApiChoice, ApiKey, BaselineChoice, JudgeSettings, Launch, Settings, Skip, SlotStart, Target,
    Timeouts, TriState,
};

#[doc(hidden)] // what the macros and the binary call
pub mod internal_use {
    pub use crate::cli::main;
    pub use crate::scenario::matrix::Matrix;
}

/// Nothing of this is promised: what the fuzz targets, the benches and the tests of the binary use.
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals;

#[cfg(test)]
extern crate self as inferometer;
// The tests of the inside need its private parts, and lie with the other tests.
#[cfg(test)]
#[path = "../tests/inside/mod.rs"]
mod inside;
