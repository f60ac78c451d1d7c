//! Multiples: a load point against the reference.

use serde::{Deserialize, Serialize};

use super::Summary;
use crate::metric::Measure;
use crate::record::stored::RoundStatus;

/// What the multiples of a report are taken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Denominator {
    /// The rate-1 reference.
    Reference,
    /// Concurrency 1, because rate 1 already saturates or was left out.
    ConcurrencyOne,
}

/// A load point / its reference; none where either is undefined or the reference is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Multiples {
    /// × TTFT, medians.
    pub ttft: Option<f64>,
    /// × TPOT, means.
    pub tpot: Option<f64>,
    /// × E2EL, means.
    pub e2el: Option<f64>,
    /// × QPS.
    pub request_throughput: Option<f64>,
}

impl Multiples {
    /// Of `summary` to `reference`.
    #[must_use]
    pub fn of(summary: &Summary, reference: &Summary) -> Self {
        let of = |measure| multiple(summary, reference, measure);
        Self {
            ttft: of(Measure::TTFT_P50),
            tpot: of(Measure::TPOT_MEAN),
            e2el: of(Measure::E2EL_MEAN),
            request_throughput: of(Measure::QPS),
        }
    }
}

/// One number of `summary` / the same of `reference`.
#[must_use]
pub fn multiple(summary: &Summary, reference: &Summary, measure: Measure) -> Option<f64> {
    let ratio = summary.get(measure)? / reference.get(measure)?;
    ratio.is_finite().then_some(ratio)
}

/// What to take multiples to: the reference, unless it saturated or is missing.
#[must_use]
pub fn denominator<'a>(
    reference: Option<(&'a Summary, RoundStatus)>,
    concurrency_one: Option<&'a Summary>,
) -> Option<(Denominator, &'a Summary)> {
    match reference {
        Some((summary, RoundStatus::Complete | RoundStatus::Interrupted)) => {
            Some((Denominator::Reference, summary))
        }
        _ => concurrency_one.map(|summary| (Denominator::ConcurrencyOne, summary)),
    }
}
