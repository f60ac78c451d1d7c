//! The finding about requests that run in lockstep.

use crate::record::stored::Health;
use crate::record::{Finding, FindingCode, Severity};

/// Fewer send times than this prove no waves: chance alone has length 1/√n, 0.25 at 16.
const FEWEST_SENDS: usize = 16;

/// Waves above this are a finding (DESIGN: what is left of the waves).
const WAVES_LIMIT: f64 = 0.5;

/// The finding about waves among this many sends; `None` if there are none.
#[must_use]
pub fn waves_finding(health: &Health, sends: usize, point: &str) -> Option<Finding> {
    let enough = sends >= FEWEST_SENDS;
    let index = health.lockstep.filter(|index| enough && *index > WAVES_LIMIT)?;
    let text = format!(
        "requests march in waves (index {index:.2} of 1): they wait for each other's prompts, and TTFT is that of the wave"
    );
    let mend = "spread the slots (`--slot-start spread`) or vary the lengths";
    Some(Finding::new(FindingCode::Lockstep, Severity::Warning, text).with_mend(mend).at(point))
}
