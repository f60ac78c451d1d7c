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
//! | send prompts of your own | [`scenario::PromptSource`] with [`Harness::prompts`] |
//! | use an API of your own | [`api::Dialect`] with [`Harness::dialect`] |
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
pub mod report;
pub mod summary;
// Layers 8 and 9: compose, and the surfaces.
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
