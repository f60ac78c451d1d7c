//! The health of a round as its records tell it: load, waves, bursts.

use std::f64::consts::TAU;

use super::distribution;
use super::{RoundInput, Summary};
use crate::metric::{Metric, Statistic};
use crate::record::stored::Health;
use crate::record::{Finding, Outcome, RequestRecord, Severity, Window};

/// Fewer send times than this give no index of waves: chance alone has length 1/√n, 0.25 at 16.
const FEWEST_SENDS: usize = 16;

/// Waves above this are a finding (DESIGN: what is left of the waves).
const WAVES_LIMIT: f64 = 0.5;

/// QPS × mean E2EL from the send: by Little's law (Operations Research 9, 1961) the mean number in
/// flight, where arrivals and departures of the window balance. None without completions.
#[must_use]
pub fn little(summary: &Summary) -> Option<f64> {
    let mean_ms = summary.distributions.get(&Metric::E2elFromSent)?.get(Statistic::Mean)?;
    Some(summary.request_throughput? * mean_ms / 1e3)
}

/// How far requests march in waves: the mean resultant length |mean of exp(2πi·t/P)| of the send
/// times t, for the period P (Mardia and Jupp, Directional Statistics, 2.3): 0 even, 1 all at once.
/// None for fewer than 16 sends or no period.
#[must_use]
#[allow(clippy::cast_precision_loss)] // times below 2^53 ns, 104 days
pub fn lockstep(sends_ns: &[u64], period_ns: f64) -> Option<f64> {
    let usable = period_ns.is_finite() && period_ns > 0.0;
    if sends_ns.len() < FEWEST_SENDS || !usable {
        return None;
    }
    let (mut east, mut north) = (0.0, 0.0);
    for sent_ns in sends_ns {
        let angle = TAU * (*sent_ns as f64 / period_ns).fract();
        east += angle.cos();
        north += angle.sin();
    }
    Some(east.hypot(north) / sends_ns.len() as f64)
}

/// Fills what the records of a round can tell of its health. What the client measured of itself
/// (lags, CPU, the cap) stays as it is.
#[allow(clippy::cast_precision_loss)] // counts of records
pub fn fill(health: &mut Health, input: &RoundInput<'_>) {
    let window = Window::of(input.round);
    let length_s = window.seconds();
    let per_second = |count: usize| (length_s > 0.0).then(|| count as f64 / length_s);
    let summary = super::summarise(std::slice::from_ref(input), None);
    let within = |at_ns: &u64| window.contains(*at_ns);
    let sends: Vec<u64> =
        input.records.iter().filter_map(|record| record.sent_ns).filter(within).collect();
    let due = input.records.iter().filter_map(|record| record.due_ns).filter(within).count();
    let completions = input
        .records
        .iter()
        .filter(|record| record.outcome == Outcome::Completed && window.ended_inside(record))
        .count();
    health.in_flight_mean = summary.concurrency_mean;
    health.little = little(&summary);
    health.sent_per_s = per_second(sends.len());
    health.offered_per_s = per_second(due).filter(|_| due > 0);
    health.completion_ratio = (due > 0).then(|| completions as f64 / due as f64);
    health.coalesced_share = coalesced_share(input.records);
    health.lockstep = waves(&summary, &sends);
}

/// The index of waves, where more than one request is in flight: a lone one always starts when the
/// one before has ended, which is no wave.
fn waves(summary: &Summary, sends_ns: &[u64]) -> Option<f64> {
    summary.concurrency_mean.filter(|mean| *mean >= 2.0)?;
    let median_ms = summary.distributions.get(&Metric::E2elFromSent)?.p50?;
    lockstep(sends_ns, median_ms * 1e6)
}

fn coalesced_share(records: &[RequestRecord]) -> Option<f64> {
    let sum = |of: fn(&RequestRecord) -> u32| records.iter().map(|r| f64::from(of(r))).sum::<f64>();
    let events = sum(|record| record.events);
    (events > 0.0).then(|| sum(|record| record.coalesced_events) / events)
}

/// The finding about waves, where there is one.
#[must_use]
pub fn waves_finding(health: &Health, point: &str) -> Option<Finding> {
    let index = health.lockstep.filter(|index| *index > WAVES_LIMIT)?;
    let text = format!(
        "requests march in waves (index {index:.2} of 1): they wait for each other's prompts, and TTFT is that of the wave"
    );
    let mend = "spread the slots (`--slot-start spread`) or vary the lengths";
    Some(Finding::new("lockstep", Severity::Warning, text).with_mend(mend).at(point))
}

/// Median of values in any order.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    distribution::of_sorted(&sorted, 0.5)
}
