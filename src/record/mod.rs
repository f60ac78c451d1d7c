//! What happened: requests, rounds and runs, as kept.

pub mod finding;
pub mod gaps;
pub mod request;
pub mod stored;

pub use finding::{Finding, Severity};
pub use gaps::GapHistogram;
pub use request::{Outcome, RequestRecord};
pub use stored::{StoredRound, StoredRun, StoredStart};
