//! Steadiness: whether a round's latencies drifted while it was measured.

use crate::record::{Finding, FindingCode, RequestRecord, Severity};
use crate::stats::moments::mean;
use crate::stats::mser::{SearchEnd, mser5};
use crate::stats::quantile::median;

/// Fewer samples than this in a third give no ratio: the median of fewer moves by itself.
const FEWEST_IN_A_THIRD: usize = 10;

/// Median TTFT of the last third / of the first third outside these is not steady (docs/statistics.md,
/// section 5).
const STEADY: std::ops::RangeInclusive<f64> = 0.67..=1.5;

/// Fewer batches of five than this give MSER-5 nothing to search: a minimum beyond a quarter of them
/// is then chance.
const FEWEST_BATCHES: usize = 12;

/// The part that MSER-5 would cut has to differ by this much from the rest to be a finding. Of noise
/// without any drift the minimum often lies beyond the first quarter too, but then both parts agree.
const UNSETTLED: f64 = 0.10;

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

/// How a round's beginning differs from the rest: mean of what MSER-5 (STATISTICS, D.8) would cut over
/// the mean of what it would keep, the further from 1 of TTFT and TPOT. `None` if it would cut less
/// than a quarter, where both parts agree within 10 %, or of fewer than 60 samples.
#[must_use]
pub fn unsettled_ratio(records: &[RequestRecord]) -> Option<f64> {
    let mut samples: Vec<&RequestRecord> =
        records.iter().filter(|record| record.is_sample()).collect();
    samples.sort_by_key(|record| record.clock_start_ns());
    let of = |value: fn(&RequestRecord) -> Option<f64>| {
        unsettled(&samples.iter().filter_map(|record| value(record)).collect::<Vec<_>>())
    };
    let ratios = [of(RequestRecord::ttft_ms), of(RequestRecord::tpot_ms)];
    let far = |ratio: &f64| ratio.max(1.0 / ratio);
    ratios.into_iter().flatten().max_by(|a, b| far(a).total_cmp(&far(b)))
}

fn unsettled(values: &[f64]) -> Option<f64> {
    let cut = mser5(values).filter(|cut| cut.batches >= FEWEST_BATCHES)?;
    if cut.end == SearchEnd::Inside && cut.values * 4 <= values.len() {
        return None;
    }
    let (first, rest) = values.split_at(cut.values);
    let ratio = mean(first)? / mean(rest)?;
    ((ratio - 1.0).abs() > UNSETTLED && ratio.is_finite() && ratio > 0.0).then_some(ratio)
}

/// The finding about a beginning that is not like the rest, by [`unsettled_ratio`].
#[must_use]
pub fn unsettled_finding(ratio: f64) -> Finding {
    let text = format!(
        "the first part of the window is not like the rest (MSER-5: its mean is {ratio:.2} × theirs): it \
         was still settling"
    );
    Finding::new(FindingCode::NotSettled, Severity::Warning, text)
        .with_hint("warm up longer: `--warm-up-time`")
}

/// The finding about a round that was not steady.
#[must_use]
#[cfg(test)]
pub fn finding(records: &[RequestRecord], point: &str) -> Option<Finding> {
    let Steadiness::Drifting { ratio } = steadiness(records) else { return None };
    Some(drift_finding(ratio).at(point))
}

/// The finding about a drift of this ratio (last third / first third).
#[must_use]
pub fn drift_finding(ratio: f64) -> Finding {
    let (direction, hint) = if ratio > 1.0 {
        ("grew", "the queue may be growing: lower the load, or warm up longer (`--warm-up-time`)")
    } else {
        ("fell", "warm up longer: `--warm-up-time`")
    };
    let text = format!(
        "not steady: TTFT {direction} while measured (last third / first third = {ratio:.2})"
    );
    Finding::new(FindingCode::NotSteady, Severity::Warning, text).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty values that repeat: 0.9 to 1.1, mean 1.
    fn noise(n: usize) -> Vec<f64> {
        (0..n).map(|i| 0.9 + 0.2 * f64::from(u32::try_from(i * 7 % 20).unwrap()) / 19.0).collect()
    }

    #[test]
    fn a_beginning_unlike_the_rest_is_seen_and_noise_is_not() {
        assert_eq!(unsettled(&noise(120)), None);
        let mut settling = noise(120);
        settling.iter_mut().take(40).for_each(|value| *value *= 2.0);
        let ratio = unsettled(&settling).unwrap();
        // The cut may take a batch of the rest along: (40 × 2 + 5) / 45.
        assert!((1.85..2.05).contains(&ratio), "{ratio}");
        // A short start is what the ramp leaves; it is cut by nobody and moves little.
        let mut short = noise(120);
        short.iter_mut().take(10).for_each(|value| *value *= 2.0);
        assert_eq!(unsettled(&short), None);
        assert_eq!(unsettled(&settling[..50]), None, "too few to tell");
    }
}
