//! Metrics of a round, then of a start. Pure.

pub mod distribution;
mod failure_words;
pub mod good;
pub mod goodput;
pub mod lockstep;
pub mod measured;
mod reported;
pub mod series;
pub mod steadiness;
mod summarise;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::metric::{Measure, Metric};
use crate::record::stored::RoundStatus;
use crate::record::{GapHistogram, RequestRecord, StoredRound};
use crate::scenario::Slo;
use crate::transport::{FailureKind, TokenSource};

pub use distribution::Distribution;
pub use failure_words::failure_words;
pub use summarise::summarise;

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
    /// Requests per second that meet the SLO; `None` without an SLO.
    pub goodput: Option<f64>,
    /// The highest load that meets the SLO, where this is of a search for it.
    #[serde(skip)]
    pub slo_capacity: Option<f64>,
    /// The logarithm of latency / limit (the largest of a request's) that the least share of good
    /// requests stays below: at most 0 where the SLO is met. Infinite where too many failed.
    #[serde(skip)]
    pub slo_excess: Option<f64>,
    /// The measured requests by the limits of the SLO; `None` without one.
    #[serde(skip)]
    pub good: Option<good::GoodCounts>,
    /// Measured requests that completed.
    pub completed: u64,
    /// Measured requests that failed; of a round that was stopped before its window opened, all that
    /// failed.
    pub failed: u64,
    /// Requests that completed in a round that was stopped before its window opened: no latency of
    /// theirs counts, but they are part of the error rate.
    #[serde(default)]
    pub ramp_completed: u64,
    /// Statuses of the failures, by kind, where there was an answer with one of 400 or more.
    #[serde(default)]
    pub failure_statuses: BTreeMap<FailureKind, BTreeMap<u16, u64>>,
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
    /// Failed / attempted; `None` if nothing was attempted.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn error_rate(&self) -> Option<f64> {
        let attempted = self.completed + self.failed + self.ramp_completed;
        (attempted > 0).then(|| self.failed as f64 / attempted as f64)
    }

    /// Good / attempted requests: those that failed are not good either. `None` without an SLO or
    /// without single requests.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // counts of requests
    pub fn good_share(&self) -> Option<f64> {
        let attempted = self.completed + self.failed;
        self.good.filter(|_| attempted > 0).map(|counts| counts.good as f64 / attempted as f64)
    }

    /// Whether a load point of this status meets its SLO: enough good requests, few failures, and a
    /// backlog that does not grow. `None` without an SLO or requests.
    #[must_use]
    pub fn meets(&self, slo: &Slo, status: RoundStatus) -> Option<bool> {
        if status.is_failing() {
            return Some(false);
        }
        let share = self.good_share()?;
        // One alone may be the connection's: of few requests it would be many per cent.
        let few_errors = self.failed <= 1 || self.error_rate().unwrap_or(0.0) <= good::MOST_ERRORS;
        Some(share >= slo.least_share() && few_errors && status != RoundStatus::Saturated)
    }

    /// One number: latencies in ms, rates per second, error rate as a share.
    #[must_use]
    pub fn get(&self, measure: Measure) -> Option<f64> {
        match measure.metric {
            Metric::RequestThroughput => self.request_throughput,
            Metric::OutputThroughput => self.output_throughput,
            Metric::TotalTokenThroughput => self.total_token_throughput,
            Metric::Goodput => self.goodput,
            Metric::GoodShare => self.good_share(),
            Metric::ErrorRate => self.error_rate(),
            Metric::SloCapacity => self.slo_capacity,
            metric => self.distributions.get(&metric)?.get(measure.statistic?),
        }
    }
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
        | Metric::GoodShare
        | Metric::ErrorRate
        | Metric::SloCapacity => return Vec::new(),
    };
    let records = rounds.iter().flat_map(|input| input.records);
    records.filter(|record| record.is_sample()).filter_map(of).collect()
}
