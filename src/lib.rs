//! A Criterion-style benchmark harness for LLM inference servers.
//!
//! A bench file declares groups of scenarios. [`Harness`] sends their requests to a server, or to the embedded simulator if
//! none is configured, stores every request, and writes a report. Against a saved baseline it decides whether a
//! metric changed, and the exit code reports it.
//!
//! In `Cargo.toml`:
//!
//! ```toml
//! [lib]
//! bench = false # or libtest rejects the flags of `cargo bench -- --save-baseline main`; the same for [[bin]]
//!
//! [[bench]]
//! name = "serving"
//! harness = false
//! ```
//!
//! and in `benches/serving.rs`:
//!
//! ```no_run
//! use inferometer::{Harness, Load, Scenario, Slo, scenario_group, scenario_main};
//!
//! fn chat(harness: &mut Harness) {
//!     harness.group("chat").scenario(
//!         Scenario::new("short")
//!             .input(512) // tokens
//!             .output(128)
//!             .sweep(Load::concurrency, [1, 4, 16, 64])
//!             .goodput(Slo::new().ttft_ms(200).tpot_ms(30)),
//!     );
//! }
//!
//! scenario_group! { name = serving; config = Harness::from_env(); targets = chat }
//! scenario_main!(serving);
//! ```
//!
//! | to | use |
//! |---|---|
//! | declare lengths, prompts, loads and limits | [`Scenario`], [`Length`], [`Load`], [`Slo`], or [`scenarios!`] |
//! | run the groups of a bench file | [`scenario_group!`] and [`scenario_main!`] |
//! | run groups from a program's own `main` | [`bench_main`] |
//! | send prompts of your own | [`PromptSource`] with [`Harness::prompts`] |
//! | use an API of your own | [`Dialect`] with [`Harness::dialect`] |
//!
//! [README.md] describes the command line, the environment variables, the exit codes and the glossary.
//! [ARCHITECTURE.md] describes the stages and layers of this crate.
//!
//! # Features
//!
//! - `tls` (default): servers with `https://` URLs.
//!
//! [README.md]: https://github.com/inferometer/inferometer/blob/main/README.md
//! [ARCHITECTURE.md]: https://github.com/inferometer/inferometer/blob/main/ARCHITECTURE.md

/// The code of README.md compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

// Layer 0: words.
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
mod diagnose;
mod export;
mod report;
mod summary;
// Layers 8 and 9: compose, and the surfaces.
mod analysis;
mod bench_serve;
mod cli;
mod harness;
mod macros;
mod selftest;
// Aside: the embedded server. Its truth log and its restarts serve the tests.
#[cfg_attr(not(any(test, feature = "internals")), allow(dead_code, unused_imports))]
mod sim;

pub use analysis::Conclusion;
pub use api::chat::Chat;
pub use api::completions::Completions;
pub use api::{
    Content, Dialect, GenerateRequest, LeftOut, Offers, Place as TokenPlace, StreamEvent, Usage,
};
pub use cli::bench_main;
pub use drive::{Interrupt, Progress};
pub use error::{Error, ErrorKind, Result};
pub use harness::Harness;
pub use metric::{Measure, Metric, Statistic};
pub use report::progress::{Event, Reporter, Silent};
pub use rng::Seed;
pub use scenario::length::Weighted;
pub use scenario::prompt::WORDS;
pub use scenario::{Length, Load, Prompt, PromptSource, RequestRate, Scenario, ScenarioGroup, Slo};
pub use settings::launch::ReadyWait;
pub use settings::{
    ApiChoice, ApiKey, BaselineChoice, JudgeSettings, Launch, PromptForm, Settings, Skip,
    SlotStart, Target, Timeouts, TriState,
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
