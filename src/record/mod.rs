//! What happened: requests, rounds and runs, as kept.

pub mod finding;
pub mod finding_code;
pub mod gap_histogram;
pub mod health;
pub mod itl_by_position;
mod latency;
pub mod request;
pub mod server_state;
pub mod stored;
pub mod window;

pub use finding::{Finding, Severity};
pub use finding_code::FindingCode;
pub use gap_histogram::{GapHistogram, record_gaps};
pub use itl_by_position::PositionGaps;
pub use request::{Finish, Outcome, Part, RequestIdent, RequestRecord};
pub use server_state::{Ended, ServerState};
pub use stored::{StoredRound, StoredRun, StoredStart};
pub use window::Window;
