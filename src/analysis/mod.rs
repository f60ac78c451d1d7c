//! Analysis: stored runs to comparisons and a report. No network.

mod conclude;
mod explained;
mod failed_starts;
mod gather;
pub(crate) mod measure;
mod opponents;
pub(crate) mod runs;
mod search;
mod stored;
mod trend;
mod write;

pub use conclude::{Conclusion, compare_stored, rebuild_report};
pub use explained::explained;
pub use stored::stored_report;
pub use trend::trend;

pub(crate) use conclude::{ConclusionInput, conclude_loaded, conclude_run, so_far};
