//! Measured: one side of a report as exports see it, load point by load point.

use crate::error::{Error, Result};
use crate::metric::{Measure, Metric, Statistic};
use crate::plan::Side;
use crate::record::StoredRun;
use crate::record::stored::StoredSide;
use crate::report::{PointInput, PointSide, Report, SideInput};
use crate::summary::Summary;

/// One side with all its load points.
pub(super) struct Measured<'a> {
    pub(super) side: &'a SideInput,
    /// The newest of its runs.
    pub(super) run: &'a StoredRun,
    pub(super) points: Vec<Point<'a>>,
}

/// One load point.
pub(super) struct Point<'a> {
    pub(super) input: &'a PointInput,
    pub(super) figures: &'a PointSide,
}

impl<'a> Measured<'a> {
    /// The last side, or the one of this role.
    pub(super) fn of(report: &'a Report, role: Option<Side>) -> Result<Self> {
        let sides = &report.input().sides;
        let place = match role {
            None => sides.len().checked_sub(1),
            Some(role) => sides.iter().position(|side| side.side == role),
        };
        let found = place.and_then(|place| Some((place, sides.get(place)?)));
        let found = found.and_then(|(place, side)| Some((place, side, side.runs.last()?)));
        let Some((place, side, run)) = found else {
            let role = role.unwrap_or(Side::New).name();
            return Err(Error::usage(format!("the run has no side `{role}`"))
                .with_hint("a run against one server has the side `new` alone"));
        };
        let points: Vec<Point<'_>> = report
            .input()
            .points
            .iter()
            .filter_map(|input| Some(Point { input, figures: input.side(place)? }))
            .collect();
        if points.is_empty() {
            return Err(Error::usage(format!("nothing was measured in run `{}`", run.id))
                .with_hint("`inferometer runs list` shows the runs with their load points"));
        }
        Ok(Self { side, run, points })
    }

    /// The server as it was found.
    pub(super) fn server(&self) -> Option<&StoredSide> {
        self.run.sides.get(&self.side.side)
    }

    /// The load points without the references.
    pub(super) fn loads(&self) -> impl Iterator<Item = &Point<'a>> {
        self.points.iter().filter(|point| point.input.phase.is_judged())
    }
}

impl Point<'_> {
    /// `group/scenario/load`.
    pub(super) fn id(&self) -> &str {
        &self.input.id
    }

    pub(super) fn summary(&self) -> &Summary {
        &self.figures.summary
    }

    /// One number over all starts.
    pub(super) fn get(&self, measure: Measure) -> Option<f64> {
        self.summary().get(measure).filter(|value| value.is_finite())
    }

    /// Its 95 % interval over starts, if there are enough of them.
    pub(super) fn interval(&self, measure: Measure) -> Option<(f64, f64)> {
        self.figures.intervals.get(&measure.name()).copied()
    }

    /// One number of each start.
    pub(super) fn by_start(&self, measure: Measure) -> Vec<f64> {
        let values = self.figures.starts.iter().filter_map(|start| start.summary.get(measure));
        values.filter(|value| value.is_finite()).collect()
    }

    /// Its name as a file name.
    pub(super) fn file_name(&self) -> String {
        file_name(self.id())
    }
}

/// A text as a file name: what some file systems or shells would not take is replaced.
pub(super) fn file_name(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '/' => '-',
            c if c.is_alphanumeric() || "-_.+=~".contains(c) => c,
            _ => '_',
        })
        .collect()
}

/// The figures that trackers of benchmarks follow.
pub(super) fn tracked() -> Vec<Measure> {
    let latencies = [Metric::Ttft, Metric::Tpot, Metric::Itl, Metric::E2el];
    let statistics = [Statistic::Mean, Statistic::P50, Statistic::P99];
    let latencies = latencies.into_iter().flat_map(|metric| {
        statistics.into_iter().map(move |statistic| Measure::of(metric, statistic))
    });
    let rates = [
        Metric::RequestThroughput,
        Metric::OutputThroughput,
        Metric::TotalTokenThroughput,
        Metric::Goodput,
        Metric::GoodShare,
        Metric::ErrorRate,
    ];
    latencies.chain(rates.into_iter().map(Measure::rate)).collect()
}

/// The name of a figure with its unit: `ttft_p50_ms`, `output_throughput_tok_per_s`.
pub(super) fn key(measure: Measure) -> String {
    let unit = match measure.metric.unit() {
        "ms" => "ms",
        "req/s" => "per_s",
        "tok/s" => "tok_per_s",
        _ => "share",
    };
    format!("{}_{unit}", measure.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_harmless_in_paths() {
        assert_eq!(file_name("chat/short p50/c1"), "chat-short_p50-c1");
        assert_eq!(file_name("a:b*c?\"<>|"), "a_b_c_____");
    }

    #[test]
    fn keys_carry_their_unit_once() {
        let keys: Vec<String> = tracked().into_iter().map(key).collect();
        assert!(keys.contains(&"ttft_p50_ms".to_owned()), "{keys:?}");
        assert!(keys.contains(&"request_throughput_per_s".to_owned()), "{keys:?}");
        assert!(keys.contains(&"error_rate_share".to_owned()), "{keys:?}");
    }
}
