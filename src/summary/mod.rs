//! Metrics of a round, then of a start. Pure.

pub mod measured;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::metric::{Measure, Metric, Statistic};
use crate::transport::FailureKind;

/// A distribution, in ms; numbers that are undefined are none. Percentiles are type 7 (linear).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Distribution {
    pub count: u64,
    pub mean: Option<f64>,
    /// Sample standard deviation (n − 1).
    pub std: Option<f64>,
    pub min: Option<f64>,
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub max: Option<f64>,
}

impl Distribution {
    /// One of its numbers.
    #[must_use]
    pub fn get(&self, statistic: Statistic) -> Option<f64> {
        match statistic {
            Statistic::Mean => self.mean,
            Statistic::P50 => self.p50,
            Statistic::P90 => self.p90,
            Statistic::P95 => self.p95,
            Statistic::P99 => self.p99,
        }
    }
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
    /// Input tokens of the measured requests, by the server's count.
    pub input_tokens: u64,
    /// Output tokens of the measured requests.
    pub output_tokens: u64,
    /// Time average of requests in flight inside the window.
    pub concurrency_mean: Option<f64>,
    /// Length of the window (sum over rounds), seconds.
    pub duration_s: f64,
    /// Measured requests whose TPOT is undefined.
    pub tpot_undefined: u64,
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
