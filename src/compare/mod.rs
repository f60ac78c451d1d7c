//! Against a baseline or the other side: comparisons and verdicts. Pure.

#[doc(hidden)]
pub mod acceptance;
pub mod assumed_spread;
pub mod calibration;
pub mod cell;
pub mod comparison;
pub mod contender;
pub mod decide;
pub mod decision;
pub mod exit;
pub mod failures;
pub mod gate;
pub mod gate_reason;
pub mod judge;
pub mod limits;
pub mod looks;
pub mod mode;
pub mod options;
mod sample;
mod shown;
mod suspicion;
pub mod validity;
mod values;
pub mod verdict;
#[doc(hidden)]
pub mod world;

pub use comparison::{Cell, CellReason, Comparison, Mode, Note, SuiteResult};
pub use gate_reason::{GateCause, GateReason, GateResult};
pub use verdict::Verdict;
