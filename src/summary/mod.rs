//! Metrics of a round, then of a start. Pure.

pub mod distribution;
pub mod goodput;
pub mod health;
pub mod measured;
pub mod multiple;
mod reported;
pub mod series;
pub mod steadiness;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::metric::{Measure, Metric};
use crate::plan::Side;
use crate::record::request::Part;
use crate::record::{GapHistogram, Outcome, RequestRecord, StoredRound, Window};
use crate::scenario::Slo;
use crate::transport::{FailureKind, TokenSource};
use crate::units::ns_to_s;

pub use distribution::Distribution;

pub use series::Series;

/// One round with what it measured.
#[derive(Debug, Clone, Copy)]
pub struct RoundInput<'a> {
    /// The round.
    pub round: &'a StoredRound,
    /// Its requests, in any order.
    pub records: &'a [RequestRecord],
    /// Gaps between tokens, of its measured completed requests.
    pub itl: &'a GapHistogram,
    /// Gaps between events, of the same.
    pub icl: &'a GapHistogram,
}

/// The start that a round belongs to: the unit of inference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StartKey {
    /// Whose server.
    pub side: Side,
    /// Which block.
    pub block: u32,
    /// Ordinal of the start in the run.
    pub start: u32,
}

/// Rounds by start, so that each start can be summarised alone.
#[must_use]
pub fn by_start<'a>(rounds: &[RoundInput<'a>]) -> BTreeMap<StartKey, Vec<RoundInput<'a>>> {
    let mut starts: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for input in rounds {
        let StoredRound { side, block, start, .. } = *input.round;
        starts.entry(StartKey { side, block, start }).or_default().push(*input);
    }
    starts
}

/// The metrics of a round, a start (its rounds pooled) or a load point (its starts pooled).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The distributions.
    pub distributions: BTreeMap<Metric, Distribution>,
    /// Completed requests per second of the window (QPS).
    pub request_throughput: Option<f64>,
    /// Output tokens per second of the window.
    pub output_throughput: Option<f64>,
    /// Input and output tokens per second of the window.
    pub total_token_throughput: Option<f64>,
    /// Requests per second that meet the SLO; none without an SLO.
    pub goodput: Option<f64>,
    /// Measured requests that completed.
    pub completed: u64,
    /// Measured requests that failed.
    pub failed: u64,
    /// Failures by kind.
    pub failures: BTreeMap<FailureKind, u64>,
    /// Input tokens of the measured requests that completed: by the server's count, else as asked.
    pub input_tokens: u64,
    /// Output tokens of the measured requests that completed.
    pub output_tokens: u64,
    /// Time average of requests in flight inside the window.
    pub concurrency_mean: Option<f64>,
    /// Length of the window (sum over rounds), seconds.
    pub duration_s: f64,
    /// Measured requests whose TPOT is undefined.
    pub tpot_undefined: u64,
    /// Measured requests that completed, by who counted their tokens.
    #[serde(default)]
    pub token_sources: BTreeMap<TokenSource, u64>,
}

impl Summary {
    /// Failed / attempted; none where nothing was attempted.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn error_rate(&self) -> Option<f64> {
        let attempted = self.completed + self.failed;
        (attempted > 0).then(|| self.failed as f64 / attempted as f64)
    }

    /// One number: latencies in ms, rates per second, error rate as a share.
    #[must_use]
    pub fn get(&self, measure: Measure) -> Option<f64> {
        match measure.metric {
            Metric::RequestThroughput => self.request_throughput,
            Metric::OutputThroughput => self.output_throughput,
            Metric::TotalTokenThroughput => self.total_token_throughput,
            Metric::Goodput => self.goodput,
            Metric::ErrorRate => self.error_rate(),
            metric => self.distributions.get(&metric)?.get(measure.statistic?),
        }
    }
}

/// The metrics of rounds of one load point, pooled.
///
/// Latencies are of the measured requests that completed (docs/statistics.md, section 1); rates are what
/// happened inside the windows over their length, by any request, so that ramp and drain count
/// nowhere.
#[must_use]
pub fn summarise(rounds: &[RoundInput<'_>], slo: Option<Slo>) -> Summary {
    let mut summary = Summary { distributions: distributions(rounds), ..Summary::default() };
    let mut rates = Rates::default();
    for input in rounds {
        count_requests(&mut summary, input.records);
        if input.round.reported.is_empty() {
            rates.add(input, slo.as_ref());
        } else {
            rates.add_reported(input);
        }
    }
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
        for record in input.records {
            // What a failed request had brought is of no use to its sender. One that we cancelled after
            // the window was served as well as any other inside it.
            if record.outcome != Outcome::Failed {
                self.output_tokens += f64::from(record.window_tokens);
                self.tokens += f64::from(record.window_tokens);
            }
            self.in_flight_s += ns_to_s(window.in_flight_ns(record));
            if record.outcome != Outcome::Completed || !window.ended_inside(record) {
                continue;
            }
            self.completions += 1.0;
            self.tokens += f64::from(input_tokens(record));
            if slo.is_some_and(|slo| goodput::meets(record, slo)) {
                self.good += 1.0;
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

fn input_tokens(record: &RequestRecord) -> u32 {
    record.input_tokens.unwrap_or(record.input_tokens_asked)
}

fn count_requests(summary: &mut Summary, records: &[RequestRecord]) {
    for record in records.iter().filter(|record| record.part == Part::Measured) {
        match record.outcome {
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

/// One latency of every measured completed request, ms, in the order of the records; those that
/// are undefined left out. Empty for ITL and ICL (which are kept as histograms) and for rates.
#[must_use]
pub fn values_ms(rounds: &[RoundInput<'_>], metric: Metric) -> Vec<f64> {
    let of: fn(&RequestRecord) -> Option<f64> = match metric {
        Metric::Ttft => RequestRecord::ttft_ms,
        Metric::Ttfo => RequestRecord::ttfo_ms,
        Metric::Tpot => RequestRecord::tpot_ms,
        Metric::WorstGap => RequestRecord::worst_gap_ms,
        Metric::E2el => RequestRecord::e2el_ms,
        Metric::ScheduleDelay => RequestRecord::schedule_delay_ms,
        Metric::TtftFromSent => RequestRecord::ttft_from_sent_ms,
        Metric::E2elFromSent => RequestRecord::e2el_from_sent_ms,
        Metric::Itl
        | Metric::Icl
        | Metric::RequestThroughput
        | Metric::OutputThroughput
        | Metric::TotalTokenThroughput
        | Metric::Goodput
        | Metric::ErrorRate => return Vec::new(),
    };
    let records = rounds.iter().flat_map(|input| input.records);
    records.filter(|record| record.is_sample()).filter_map(of).collect()
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
