//! Goodput: which requests meet the limits.

use crate::record::{Outcome, RequestRecord};
use crate::scenario::Slo;

/// Whether a request completed and met every limit that is set. A TPOT that is undefined meets its
/// limit (one event has no rate); a TTFT or E2EL that did not happen meets none.
#[must_use]
pub fn meets(record: &RequestRecord, slo: &Slo) -> bool {
    let within = |limit: Option<f64>, value: Option<f64>| {
        limit.is_none_or(|limit| value.is_some_and(|value| value <= limit))
    };
    let tpot_ms = record.tpot_ms();
    record.outcome == Outcome::Completed
        && within(slo.ttft_ms, record.ttft_ms())
        && within(slo.tpot_ms.filter(|_| tpot_ms.is_some()), tpot_ms)
        && within(slo.e2el_ms, record.e2el_ms())
}
