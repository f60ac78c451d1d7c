//! Summarising: the metrics of rounds, pooled.

use std::collections::BTreeMap;

use super::good::excess;
use super::{Distribution, RoundInput, Summary, goodput, reported, values_ms};
use crate::metric::Metric;
use crate::record::request::Part;
use crate::record::stored::RoundStatus;
use crate::record::{GapHistogram, Outcome, RequestRecord, StoredRound, Window};
use crate::scenario::Slo;
use crate::units::ns_to_s;

/// The metrics of rounds of one load point, pooled.
///
/// Latencies are of the measured requests that completed (docs/statistics.md, section 1); rates are what
/// happened inside the windows over their length, by any request, each by the share of its duration inside, so
/// that ramp and drain count nowhere.
#[must_use]
pub fn summarise(rounds: &[RoundInput<'_>], slo: Option<Slo>) -> Summary {
    let mut summary = Summary { distributions: distributions(rounds), ..Summary::default() };
    let mut rates = Rates::default();
    for input in rounds {
        let ramp_counts = is_cut_in_ramp(input.round);
        count_requests(&mut summary, input.records, ramp_counts);
        count_good(&mut summary, input.records, slo.as_ref());
        if input.round.reported.is_empty() {
            rates.add(input, slo.as_ref());
        } else {
            rates.add_reported(input);
        }
    }
    summary.slo_excess =
        slo.and_then(|slo| excess(rounds.iter().flat_map(|input| input.records), &slo));
    reported::fill(&mut summary, rounds);
    summary.duration_s = rates.length_s;
    let per_second = |sum: f64| Some(sum / rates.length_s).filter(|rate| rate.is_finite());
    summary.request_throughput = per_second(rates.completions);
    summary.output_throughput = per_second(rates.output_tokens);
    summary.total_token_throughput = per_second(rates.tokens);
    summary.goodput = per_second(rates.good);
    summary.concurrency_mean = per_second(rates.in_flight_s);
    summary
}

/// Sums over the windows of several rounds; not a number where one of the rounds cannot tell.
#[derive(Debug, Default)]
struct Rates {
    length_s: f64,
    completions: f64,
    good: f64,
    tokens: f64,
    output_tokens: f64,
    in_flight_s: f64,
}

impl Rates {
    fn add(&mut self, input: &RoundInput<'_>, slo: Option<&Slo>) {
        let window = Window::of(input.round);
        self.length_s += window.seconds();
        if slo.is_none() {
            self.good = f64::NAN;
        }
        let typical_ns = mean_duration_ns(input.records);
        for record in input.records {
            // What a failed request had brought is of no use to its sender. One that we cancelled after
            // the window was served as well as any other inside it.
            if record.outcome != Outcome::Failed {
                self.output_tokens += f64::from(record.window_tokens);
                self.tokens += f64::from(record.window_tokens);
            }
            self.in_flight_s += ns_to_s(window.in_flight_ns(record));
            let share = share_inside(window, record, typical_ns);
            self.completions += share;
            self.tokens += share * f64::from(input_tokens(record));
            if slo.is_some_and(|slo| goodput::meets(record, slo)) {
                self.good += share;
            }
        }
    }

    /// A round of another tool: its rates are its own word, by its own definition.
    fn add_reported(&mut self, input: &RoundInput<'_>) {
        let window = Window::of(input.round);
        let length_s = window.seconds();
        let sum = |metric: Metric| {
            input.round.reported.get(metric.name()).map_or(f64::NAN, |rate| rate * length_s)
        };
        self.length_s += length_s;
        self.completions += sum(Metric::RequestThroughput);
        self.output_tokens += sum(Metric::OutputThroughput);
        self.tokens += sum(Metric::TotalTokenThroughput);
        self.good += sum(Metric::Goodput);
        self.in_flight_s += reported::in_flight_s(input);
    }
}

/// How much of a request was served inside the window: the share of its duration. Where requests run in
/// lockstep a window opens and closes with a wave, so that k intervals hold k + 1 ends of waves.
///
/// One that we cancelled after the window counts by how long such requests take; a failed one not at all.
#[allow(clippy::cast_precision_loss)] // exact below 104 days
fn share_inside(window: Window, record: &RequestRecord, typical_ns: f64) -> f64 {
    let inside_ns = window.in_flight_ns(record) as f64;
    let lived_ns = || Some(record.ended_ns()?.saturating_sub(record.sent_ns?) as f64);
    let duration_ns = match record.outcome {
        Outcome::Failed => return 0.0,
        Outcome::Completed => match lived_ns() {
            Some(lived) if lived > 0.0 => lived,
            _ => return f64::from(u8::from(window.ended_inside(record))),
        },
        Outcome::Cancelled => typical_ns.max(lived_ns().unwrap_or(0.0)).max(inside_ns),
    };
    if duration_ns > 0.0 { (inside_ns / duration_ns).min(1.0) } else { 0.0 }
}

/// The mean duration of the completed requests, ns; infinite where none completed, so that nothing cancelled
/// counts.
#[allow(clippy::cast_precision_loss)] // exact below 104 days
fn mean_duration_ns(records: &[RequestRecord]) -> f64 {
    let completed = records.iter().filter(|r| r.outcome == Outcome::Completed);
    let durations = completed.filter_map(|r| Some(r.ended_ns()?.saturating_sub(r.sent_ns?) as f64));
    let all: Vec<f64> = durations.collect();
    crate::stats::moments::mean(&all).unwrap_or(f64::INFINITY)
}

fn input_tokens(record: &RequestRecord) -> u32 {
    record.input_tokens.unwrap_or(record.input_tokens_asked)
}

/// Whether too much failed before the window opened: then only the ramp shows failures.
fn is_cut_in_ramp(round: &StoredRound) -> bool {
    round.status == RoundStatus::Stopped && round.window_open_ns == round.window_close_ns
}

fn count_good(summary: &mut Summary, records: &[RequestRecord], slo: Option<&Slo>) {
    let Some(slo) = slo else { return };
    let counts = summary.good.get_or_insert_default();
    records.iter().filter(|r| r.part == Part::Measured).for_each(|r| counts.add(r, slo));
}

fn count_requests(summary: &mut Summary, records: &[RequestRecord], ramp_counts: bool) {
    for record in records.iter().filter(|record| record.part == Part::Measured || ramp_counts) {
        match record.outcome {
            Outcome::Completed if record.part != Part::Measured => summary.ramp_completed += 1,
            Outcome::Completed => {
                summary.completed += 1;
                summary.input_tokens += u64::from(input_tokens(record));
                summary.output_tokens += u64::from(record.output_tokens.unwrap_or(0));
                summary.tpot_undefined += u64::from(record.tpot_ms().is_none());
                if let Some(source) = record.token_source {
                    *summary.token_sources.entry(source).or_default() += 1;
                }
            }
            Outcome::Failed => {
                summary.failed += 1;
                if let Some(kind) = record.failure {
                    *summary.failures.entry(kind).or_default() += 1;
                    if let Some(status) = record.status.filter(|status| *status >= 400) {
                        let statuses = summary.failure_statuses.entry(kind).or_default();
                        *statuses.entry(status).or_default() += 1;
                    }
                }
            }
            Outcome::Cancelled => {}
        }
    }
}

fn distributions(rounds: &[RoundInput<'_>]) -> BTreeMap<Metric, Distribution> {
    let of = |metric| match metric {
        Metric::Itl => pooled(rounds, |input| input.itl),
        Metric::Icl => pooled(rounds, |input| input.icl),
        _ => Distribution::of(&values_ms(rounds, metric)),
    };
    Metric::DISTRIBUTIONS.into_iter().map(|metric| (metric, of(metric))).collect()
}

/// The gaps of all rounds together; those of one round are not copied, a histogram takes a megabyte.
fn pooled<'a>(
    rounds: &[RoundInput<'a>],
    gaps: impl Fn(&RoundInput<'a>) -> &'a GapHistogram,
) -> Distribution {
    match rounds {
        [] => Distribution::default(),
        [only] => Distribution::of_gaps(gaps(only)),
        [first, others @ ..] => {
            let mut all = gaps(first).clone();
            others.iter().for_each(|input| all.merge(gaps(input)));
            Distribution::of_gaps(&all)
        }
    }
}
