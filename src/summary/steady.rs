//! Steadiness: whether a round's latencies drifted while it was measured.

use super::health::median;
use crate::record::{Finding, RequestRecord, Severity};

/// Fewer samples than this in a third give no ratio: the median of fewer moves by itself.
const FEWEST_IN_A_THIRD: usize = 10;

/// Median TTFT of the last third / of the first third outside these is not steady (docs/statistics.md,
/// section 5).
const STEADY: std::ops::RangeInclusive<f64> = 0.67..=1.5;

/// Whether a round was steady.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Steadiness {
    /// It was.
    Steady,
    /// TTFT of the last third / of the first third lies outside the limits.
    Drifting {
        /// That ratio.
        ratio: f64,
    },
    /// Too few samples to tell.
    Unknown,
}

/// The median TTFT of the last third of a round's measured requests / that of the first third, by
/// the start of their clocks. None below ten samples in a third.
#[must_use]
pub fn thirds_ratio(records: &[RequestRecord]) -> Option<f64> {
    let mut samples: Vec<(u64, f64)> = records
        .iter()
        .filter(|record| record.is_sample())
        .filter_map(|record| Some((record.clock_start_ns()?, record.ttft_ms()?)))
        .collect();
    samples.sort_by_key(|(start_ns, _)| *start_ns);
    let third = samples.len() / 3;
    if third < FEWEST_IN_A_THIRD {
        return None;
    }
    let ttft =
        |part: &[(u64, f64)]| median(&part.iter().map(|(_, ttft)| *ttft).collect::<Vec<_>>());
    let ratio = ttft(&samples[samples.len() - third..])? / ttft(&samples[..third])?;
    ratio.is_finite().then_some(ratio)
}

/// Whether a round was steady, by [`thirds_ratio`].
#[must_use]
pub fn steadiness(records: &[RequestRecord]) -> Steadiness {
    match thirds_ratio(records) {
        None => Steadiness::Unknown,
        Some(ratio) if STEADY.contains(&ratio) => Steadiness::Steady,
        Some(ratio) => Steadiness::Drifting { ratio },
    }
}

/// The finding about a round that was not steady.
#[must_use]
pub fn finding(records: &[RequestRecord], point: &str) -> Option<Finding> {
    let Steadiness::Drifting { ratio } = steadiness(records) else { return None };
    let (direction, mend) = if ratio > 1.0 {
        ("grew", "the queue may be growing: lower the load, or warm up longer (`--warm-up-time`)")
    } else {
        ("fell", "warm up longer: `--warm-up-time`")
    };
    let text = format!(
        "not steady: TTFT {direction} while measured (last third / first third = {ratio:.2})"
    );
    Some(Finding::new("not_steady", Severity::Warning, text).with_mend(mend).at(point))
}
