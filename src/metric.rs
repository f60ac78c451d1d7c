//! Each metric defined once: name, unit, direction, definition. Tables, charts, tooltips and glossary read it here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, Result};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Time to first token.
    Ttft,
    /// Time to first visible output.
    Ttfo,
    /// Time per output token.
    Tpot,
    /// Inter-token latency.
    Itl,
    /// Inter-chunk latency.
    Icl,
    /// The longest gap between two events of a request.
    WorstGap,
    /// End-to-end latency.
    E2el,
    /// Sent minus due.
    ScheduleDelay,
    /// TTFT counted from the send.
    TtftFromSent,
    /// E2EL counted from the send.
    E2elFromSent,
    /// Requests served per second (QPS); one that crosses an edge of the window counts by its share inside.
    RequestThroughput,
    /// Output tokens per second.
    OutputThroughput,
    /// Input and output tokens per second.
    TotalTokenThroughput,
    /// Requests per second that meet every limit.
    Goodput,
    /// Good / attempted.
    GoodShare,
    /// Failed / attempted.
    ErrorRate,
    /// The highest load that meets the SLO: of a scenario, not of a load point.
    SloCapacity,
}

/// Whether more of it is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Latencies, errors.
    Lower,
    /// Throughputs.
    Higher,
}

impl Metric {
    /// The metrics that are a distribution over requests (or tokens), in the order of tables.
    pub const DISTRIBUTIONS: [Self; 10] = [
        Self::Ttft,
        Self::Ttfo,
        Self::Tpot,
        Self::Itl,
        Self::Icl,
        Self::WorstGap,
        Self::E2el,
        Self::ScheduleDelay,
        Self::TtftFromSent,
        Self::E2elFromSent,
    ];

    /// Every metric of a load point, in the order of tables.
    pub const ALL: [Self; 16] = [
        Self::Ttft,
        Self::Ttfo,
        Self::Tpot,
        Self::Itl,
        Self::Icl,
        Self::WorstGap,
        Self::E2el,
        Self::ScheduleDelay,
        Self::TtftFromSent,
        Self::E2elFromSent,
        Self::RequestThroughput,
        Self::OutputThroughput,
        Self::TotalTokenThroughput,
        Self::Goodput,
        Self::GoodShare,
        Self::ErrorRate,
    ];

    /// The name in flags and keys, without its unit: `ttft`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ttft => "ttft",
            Self::Ttfo => "ttfo",
            Self::Tpot => "tpot",
            Self::Itl => "itl",
            Self::Icl => "icl",
            Self::WorstGap => "worst_gap",
            Self::E2el => "e2el",
            Self::ScheduleDelay => "schedule_delay",
            Self::TtftFromSent => "ttft_from_sent",
            Self::E2elFromSent => "e2el_from_sent",
            Self::RequestThroughput => "request_throughput",
            Self::OutputThroughput => "output_throughput",
            Self::TotalTokenThroughput => "total_token_throughput",
            Self::Goodput => "goodput",
            Self::GoodShare => "good_share",
            Self::ErrorRate => "error_rate",
            Self::SloCapacity => "slo_capacity",
        }
    }

    /// The key in JSON and CSV, with its unit: `ttft_ms`.
    #[must_use]
    pub fn key(self) -> String {
        if self.is_distribution() { format!("{}_ms", self.name()) } else { self.name().to_owned() }
    }

    /// The label in tables and charts: `TTFT`.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Ttft => "TTFT",
            Self::Ttfo => "TTFO",
            Self::Tpot => "TPOT",
            Self::Itl => "ITL",
            Self::Icl => "ICL",
            Self::WorstGap => "worst gap",
            Self::E2el => "E2EL",
            Self::ScheduleDelay => "schedule delay",
            Self::TtftFromSent => "TTFT from sent",
            Self::E2elFromSent => "E2EL from sent",
            Self::RequestThroughput => "QPS",
            Self::OutputThroughput => "output throughput",
            Self::TotalTokenThroughput => "total token throughput",
            Self::Goodput => "goodput",
            Self::GoodShare => "good",
            Self::ErrorRate => "error rate",
            Self::SloCapacity => "SLO capacity",
        }
    }

    /// The unit as shown: `ms`, `req/s`, `tok/s`, `%`.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::RequestThroughput | Self::Goodput => "req/s",
            Self::OutputThroughput | Self::TotalTokenThroughput => "tok/s",
            Self::ErrorRate | Self::GoodShare => "%",
            Self::SloCapacity => "",
            _ => "ms",
        }
    }

    /// The definition, for tooltips and the glossary.
    #[must_use]
    pub fn definition(self) -> &'static str {
        match self {
            Self::Ttft => {
                "time to first token: clock start (closed loop: sent; open loop: due) to the first event that carries a generated token"
            }
            Self::Ttfo => {
                "time to first output: as TTFT, to the first event of visible (non-reasoning) output"
            }
            Self::Tpot => {
                "time per output token: (E2EL − TTFT) / (output tokens − tokens in the first event); undefined where nothing follows the first event"
            }
            Self::Itl => {
                "inter-token latency: gap between two consecutive generated tokens; where one event carries n tokens the gap is spread over n"
            }
            Self::Icl => {
                "inter-chunk latency: gap between two consecutive events that carry tokens"
            }
            Self::WorstGap => "the longest gap between two consecutive token events of a request",
            Self::E2el => "end-to-end latency: clock start to the last generated token",
            Self::ScheduleDelay => {
                "sent minus due: how late the client was (open loop, time in the queue of a cap included)"
            }
            Self::TtftFromSent => {
                "time to first token counted from the send, as vLLM's client does"
            }
            Self::E2elFromSent => "end-to-end latency counted from the send, as vLLM's client does",
            Self::RequestThroughput => {
                "QPS: requests served inside the measured window / its length; one that crosses an edge counts by the share of its duration inside"
            }
            Self::OutputThroughput => {
                "output tokens delivered inside the measured window / its length"
            }
            Self::TotalTokenThroughput => {
                "input and output tokens of the measured window / its length"
            }
            Self::Goodput => "completed requests per second that meet every limit of the SLO",
            Self::GoodShare => {
                "completed requests that meet every limit of the SLO / attempted requests"
            }
            Self::ErrorRate => "failed / attempted requests",
            Self::SloCapacity => {
                "the highest load (requests in flight, or per second) at which enough requests meet every limit of the SLO"
            }
        }
    }

    /// Which direction is good.
    #[must_use]
    pub fn better(self) -> Better {
        match self {
            Self::RequestThroughput
            | Self::OutputThroughput
            | Self::TotalTokenThroughput
            | Self::Goodput
            | Self::GoodShare
            | Self::SloCapacity => Better::Higher,
            _ => Better::Lower,
        }
    }

    /// Whether it is a share of the requests, shown in per cent.
    #[must_use]
    pub fn is_share(self) -> bool {
        matches!(self, Self::ErrorRate | Self::GoodShare)
    }

    /// Whether it is a distribution over requests or tokens (in ms), rather than one number a round.
    #[must_use]
    pub fn is_distribution(self) -> bool {
        Self::DISTRIBUTIONS.contains(&self)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// One number of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// Arithmetic mean.
    Mean,
    /// Median.
    P50,
    /// 90th percentile.
    P90,
    /// 95th percentile.
    P95,
    /// 99th percentile.
    P99,
}

impl Statistic {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Mean, Self::P50, Self::P90, Self::P95, Self::P99];

    /// The name in flags and keys.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P95 => "p95",
            Self::P99 => "p99",
        }
    }

    /// The quantile, where it is one.
    #[must_use]
    pub fn quantile(self) -> Option<f64> {
        match self {
            Self::Mean => None,
            Self::P50 => Some(0.50),
            Self::P90 => Some(0.90),
            Self::P95 => Some(0.95),
            Self::P99 => Some(0.99),
        }
    }
}

/// One number of a start that may be judged: a statistic of a distribution, or a rate.
///
/// Written `ttft_p50`, `itl_p99`, `tpot_mean`, `output_throughput`; `throughput` and `qps` are
/// understood for `output_throughput` and `request_throughput`, `e2e` for `e2el`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Measure {
    /// What is measured.
    pub metric: Metric,
    /// Which number of it; none for rates.
    pub statistic: Option<Statistic>,
}

impl Measure {
    /// Median inter-token latency: the decode step, the quietest number of a server.
    pub const ITL_P50: Self = Self::of(Metric::Itl, Statistic::P50);
    /// 99th percentile of the inter-token latency.
    pub const ITL_P99: Self = Self::of(Metric::Itl, Statistic::P99);
    /// Mean time per output token.
    pub const TPOT_MEAN: Self = Self::of(Metric::Tpot, Statistic::Mean);
    /// Median time to first token.
    pub const TTFT_P50: Self = Self::of(Metric::Ttft, Statistic::P50);
    /// 99th percentile of the time to first token.
    pub const TTFT_P99: Self = Self::of(Metric::Ttft, Statistic::P99);
    /// Mean end-to-end latency.
    pub const E2EL_MEAN: Self = Self::of(Metric::E2el, Statistic::Mean);
    /// Output tokens per second.
    pub const THROUGHPUT: Self = Self::rate(Metric::OutputThroughput);
    /// Completed requests per second.
    pub const QPS: Self = Self::rate(Metric::RequestThroughput);
    /// The highest load that meets the SLO.
    pub const SLO_CAPACITY: Self = Self::rate(Metric::SloCapacity);
    /// Requests per second that meet the SLO.
    pub const GOODPUT: Self = Self::rate(Metric::Goodput);
    /// Good / attempted.
    pub const GOOD_SHARE: Self = Self::rate(Metric::GoodShare);
    /// Failed / attempted.
    pub const ERROR_RATE: Self = Self::rate(Metric::ErrorRate);

    /// A statistic of a distribution.
    #[must_use]
    pub const fn of(metric: Metric, statistic: Statistic) -> Self {
        Self { metric, statistic: Some(statistic) }
    }

    /// A rate.
    #[must_use]
    pub const fn rate(metric: Metric) -> Self {
        Self { metric, statistic: None }
    }

    /// The name in flags and files: `ttft_p50`.
    #[must_use]
    pub fn name(self) -> String {
        match self.statistic {
            Some(statistic) => format!("{}_{}", self.metric.name(), statistic.name()),
            None => self.metric.name().to_owned(),
        }
    }

    /// The label in tables: `TTFT p50`.
    #[must_use]
    pub fn label(self) -> String {
        match self.statistic {
            Some(statistic) => format!("{} {}", self.metric.label(), statistic.name()),
            None => self.metric.label().to_owned(),
        }
    }

    /// The smallest change that counts, as a ratio (docs/statistics.md, section 2). The default
    /// floors come from the spreads between starts of real servers.
    #[must_use]
    pub fn floor(self) -> f64 {
        match (self.metric, self.statistic) {
            (Metric::Itl, Some(Statistic::P50)) => 0.005,
            (Metric::ErrorRate, _) => 0.005,
            (Metric::SloCapacity, _) => 0.03,
            (_, Some(Statistic::P99 | Statistic::P95)) | (Metric::WorstGap, _) => 0.10,
            (Metric::Ttft | Metric::Ttfo | Metric::TtftFromSent, _) => 0.05,
            _ => 0.02,
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl FromStr for Measure {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = match text {
            "throughput" => "output_throughput",
            "qps" => "request_throughput",
            other => other,
        };
        if text == Metric::SloCapacity.name() {
            return Ok(Self::SLO_CAPACITY);
        }
        if let Some(metric) = Metric::ALL.into_iter().find(|m| m.name() == text) {
            // A bare distribution means its mean, but TTFT's usual number is the median.
            let statistic = match metric {
                Metric::Ttft | Metric::Itl => Statistic::P50,
                _ => Statistic::Mean,
            };
            return Ok(Self { metric, statistic: metric.is_distribution().then_some(statistic) });
        }
        if let Some((name, statistic)) = text.rsplit_once('_') {
            let name = if name == "e2e" { "e2el" } else { name };
            let metric = Metric::DISTRIBUTIONS.into_iter().find(|m| m.name() == name);
            let statistic = Statistic::ALL.into_iter().find(|s| s.name() == statistic);
            if let (Some(metric), Some(statistic)) = (metric, statistic) {
                return Ok(Self::of(metric, statistic));
            }
        }
        Err(Error::usage(format!("unknown metric `{text}`")).with_hint(
            "write for example `ttft_p50`, `itl_p99`, `tpot_mean`, `e2el_mean`, `throughput`, `qps` or `error_rate`",
        ))
    }
}

impl Serialize for Measure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name())
    }
}

impl<'de> Deserialize<'de> for Measure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|e: Error| serde::de::Error::custom(e.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for metric in Metric::ALL {
            for statistic in Statistic::ALL {
                let measure =
                    Measure { metric, statistic: metric.is_distribution().then_some(statistic) };
                assert_eq!(measure.name().parse::<Measure>().unwrap(), measure);
            }
        }
        assert_eq!("slo_capacity".parse::<Measure>().unwrap(), Measure::SLO_CAPACITY);
        assert_eq!("e2e_mean".parse::<Measure>().unwrap(), Measure::E2EL_MEAN);
        assert_eq!("throughput".parse::<Measure>().unwrap(), Measure::THROUGHPUT);
        assert!("ttfx_p50".parse::<Measure>().is_err());
    }
}
