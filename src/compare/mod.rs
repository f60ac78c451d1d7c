//! Against a baseline or the other side: comparisons and verdicts. Pure.

pub mod assumed_spread;
pub mod calibration;
pub mod capacity;
pub mod cell;
mod cells;
pub mod comparison;
pub mod decide;
pub mod decision;
pub mod design;
pub mod exit;
pub mod failures;
pub mod gate;
pub mod gate_reason;
pub mod interim_looks;
pub mod judge;
pub mod knee;
pub mod options;
mod sample;
pub mod side;
mod suspicion;
pub mod trend;
mod values;
pub mod verdict;
pub mod working;

pub use comparison::{Cell, CellReason, Comparison, Mode, Note, SuiteResult};
pub use exit::GateResult;
pub use gate_reason::{GateCause, GateReason};
pub use verdict::Verdict;
