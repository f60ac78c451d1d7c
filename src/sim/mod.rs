//! The embedded server: a continuous-batching scheduler with known truth.

pub mod engine;
pub mod noise;
pub mod preset;
pub mod profile;
pub mod virtual_run;

pub use engine::{Engine, EngineEvent, EventKind, Gauges, RequestId, RequestSpec};
pub use noise::{Noise, start_seed};
pub use preset::Preset;
pub use profile::{Costs, FrontEnd, Limits, Prefill, Profile};
