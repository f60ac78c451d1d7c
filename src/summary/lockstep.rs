//! The finding about requests that run in lockstep.

use crate::record::stored::Health;
use crate::record::{Finding, FindingCode, Severity};

/// Fewer send times than this prove no waves: chance alone has length 1/√n, 0.25 at 16.
const FEWEST_SENDS: usize = 16;

/// Waves above this are a finding (DESIGN: what is left of the waves).
const WAVES_LIMIT: f64 = 0.5;

/// Whether the requests of a round run in lockstep: TTFT then includes the wait for the others.
#[must_use]
pub fn marches(health: &Health) -> bool {
    health.lockstep.is_some_and(|index| index > WAVES_LIMIT)
}

/// The finding about waves among this many sends; `None` if there are none.
#[must_use]
pub fn waves_finding(health: &Health, sends: usize, point: &str) -> Option<Finding> {
    let enough = sends >= FEWEST_SENDS;
    let index = health.lockstep.filter(|_| enough && marches(health))?;
    let text = format!(
        "requests run in lockstep (index {index:.2}, where 1 means that all start together), so TTFT includes the \
         wait for each other's prefill"
    );
    let hint = "vary the lengths with `--random-range-ratio 0.2`: answers of equal length bring the slots back into step";
    Some(Finding::new(FindingCode::Lockstep, Severity::Warning, text).with_hint(hint).at(point))
}
