//! Good requests: how many met the SLO, how many each of its limits stopped, and whether that is enough.

use super::distribution::of_sorted;
use super::goodput::meets;
use crate::record::request::Part;
use crate::record::{Outcome, RequestRecord};
use crate::scenario::Slo;

/// Highest error rate of a load point that meets its SLO.
pub const MOST_ERRORS: f64 = 0.01;

/// The measured requests of a load point by the limits of its SLO.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GoodCounts {
    /// Completed within every limit.
    pub good: u64,
    /// Completed with a TTFT above its limit.
    pub late: u64,
    /// Completed with a TPOT above its limit.
    pub slow: u64,
    /// Completed with an E2EL above its limit.
    pub long: u64,
}

impl GoodCounts {
    /// Counts a measured request.
    pub(super) fn add(&mut self, record: &RequestRecord, slo: &Slo) {
        if record.outcome != Outcome::Completed {
            return;
        }
        let above = |limit: Option<f64>, value: Option<f64>| {
            u64::from(limit.zip(value).is_some_and(|(limit, value)| value > limit))
        };
        self.good += u64::from(meets(record, slo));
        self.late += above(slo.ttft_ms, record.ttft_ms());
        self.slow += above(slo.tpot_ms, record.tpot_ms());
        self.long += above(slo.e2el_ms, record.e2el_ms());
    }

    /// The counts of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            good: self.good + other.good,
            late: self.late + other.late,
            slow: self.slow + other.slow,
            long: self.long + other.long,
        }
    }

    /// The limit that stopped most requests; `None` where none stopped any.
    #[must_use]
    pub fn limit(&self) -> Option<&'static str> {
        let limits = [(self.late, "TTFT"), (self.slow, "TPOT"), (self.long, "E2EL")];
        // The first of several that stopped as many.
        let most = limits.into_iter().rev().max_by_key(|(requests, _)| *requests)?;
        (most.0 > 0).then_some(most.1)
    }
}

/// The logarithm of the largest latency / limit of a measured request that is completed, else infinite.
fn ratio(record: &RequestRecord, slo: &Slo) -> f64 {
    if record.outcome != Outcome::Completed {
        return f64::INFINITY;
    }
    let limits = [
        (slo.ttft_ms, record.ttft_ms()),
        (slo.tpot_ms, record.tpot_ms()),
        (slo.e2el_ms, record.e2el_ms()),
    ];
    let ratios = limits.into_iter().filter_map(|(limit, value)| Some((value? / limit?).ln()));
    ratios.fold(f64::NEG_INFINITY, f64::max)
}

/// The logarithm of latency / limit that the least share of good requests stays below.
pub(super) fn excess<'a>(
    records: impl Iterator<Item = &'a RequestRecord>,
    slo: &Slo,
) -> Option<f64> {
    let measured = records.filter(|r| r.part == Part::Measured && r.outcome != Outcome::Cancelled);
    let mut ratios: Vec<f64> = measured.map(|record| ratio(record, slo)).collect();
    ratios.sort_by(f64::total_cmp);
    of_sorted(&ratios, slo.least_share()).filter(|excess| !excess.is_nan())
}
