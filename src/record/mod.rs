//! What happened: requests, rounds and runs, as kept.

pub mod finding;
pub mod finding_code;
pub mod gaps;
pub mod health;
pub mod positions;
pub mod request;
pub mod stored;
pub mod window;

pub use finding::{Finding, Severity};
pub use finding_code::FindingCode;
pub use gaps::{GapHistogram, GapView, record_gaps};
pub use positions::PositionGaps;
pub use request::{Outcome, Part, RequestIdent, RequestRecord};
pub use stored::{StoredRound, StoredRun, StoredStart};
pub use window::Window;
