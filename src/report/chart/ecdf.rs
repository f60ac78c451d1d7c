//! The chart of a distribution: which share of the requests was at most so slow.

use super::axis::{AxisSpec, Scale};
use super::frame::{Spec, draw};
use super::{Chart, Point, Series, Weight};
use crate::metric::Metric;
use crate::units;

/// Most steps of a drawn curve: one per two units of the drawing's width.
const STEPS: usize = 240;

/// One side's values.
#[derive(Debug, Clone)]
pub struct Sample<'a> {
    /// The side's name.
    pub name: &'a str,
    /// The number of its colour.
    pub color: usize,
    /// Its values, ms, in any order.
    pub values_ms: &'a [f64],
}

/// Draws the ECDFs of `samples`; `None` if no side has a value.
#[must_use]
pub fn chart(metric: Metric, samples: &[Sample<'_>]) -> Option<Chart> {
    let sorted: Vec<(&Sample<'_>, Vec<f64>)> = samples
        .iter()
        .map(|s| (s, sorted(s.values_ms)))
        .filter(|(_, values)| !values.is_empty())
        .collect();
    if sorted.is_empty() {
        return None;
    }
    let curves = sorted.iter().map(|(sample, values)| Series {
        name: sample.name.to_owned(),
        color: sample.color,
        weight: Weight::Bare,
        points: curve(values),
        ..Series::default()
    });
    let dots = sorted.iter().map(|(sample, values)| Series {
        name: sample.name.to_owned(),
        color: sample.color,
        weight: Weight::Dots,
        points: PERCENTILES.iter().map(|p| Point::new(quantile(values, *p / 100.0), *p)).collect(),
        ..Series::default()
    });
    let spec = Spec {
        title: format!("{metric}: distribution over requests"),
        description: format!("cumulative share of requests (%) by {metric} in ms"),
        x: AxisSpec { label: format!("{metric} (ms)"), ..AxisSpec::default() },
        y: AxisSpec {
            label: "% of requests".into(),
            scale: Some(Scale::Linear),
            ticks: vec![0.0, 50.0, 90.0, 100.0],
            end: Some(102.0),
            ..AxisSpec::default()
        },
        series: curves.clone().chain(dots).collect(),
        marks: Vec::new(),
        ..Spec::default()
    };
    let mut chart = Chart {
        title: format!("{metric}"),
        note: "dots: p50, p90, p99".into(),
        svg: draw(&spec),
        legend: super::load::legend(&curves.collect::<Vec<_>>()),
        ..Chart::default()
    };
    chart.head = vec!["percentile".into()];
    chart.head.extend(sorted.iter().map(|(s, _)| format!("{} (ms)", s.name)));
    chart.rows = [0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 100.0]
        .into_iter()
        .map(|p| {
            let numbers = sorted.iter().map(|(_, v)| units::significant(quantile(v, p / 100.0)));
            std::iter::once(percentile_name(p)).chain(numbers).collect()
        })
        .collect();
    Some(chart)
}

const PERCENTILES: [f64; 3] = [50.0, 90.0, 99.0];

fn percentile_name(percent: f64) -> String {
    match percent {
        p if p <= 0.0 => "min".into(),
        p if p >= 100.0 => "max".into(),
        p => format!("p{p}"),
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values
}

fn curve(sorted: &[f64]) -> Vec<Point> {
    #[allow(clippy::cast_precision_loss)] // bounded samples
    let step = |(i, v): (usize, &f64)| Point::new(*v, (i + 1) as f64 / sorted.len() as f64 * 100.0);
    let mut points = vec![Point::new(sorted[0], 0.0)];
    points.extend(super::thinned(&sorted.iter().enumerate().map(step).collect::<Vec<_>>(), STEPS));
    points
}

/// Type 7 (linear), as everywhere in the reports.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    #[allow(clippy::cast_precision_loss)]
    let place = q * (sorted.len() - 1) as f64;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within the slice
    let below = place.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * (place - place.floor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_type_7() {
        let values = [1.0, 2.0, 3.0, 4.0];
        assert!((quantile(&values, 0.5) - 2.5).abs() < 1e-12);
        assert!((quantile(&values, 0.99) - 3.97).abs() < 1e-12);
        assert!((quantile(&[7.0], 0.9) - 7.0).abs() < 1e-12);
    }

    #[test]
    fn nothing_to_draw_is_none() {
        let sample = Sample { name: "a", color: 0, values_ms: &[f64::NAN] };
        assert!(chart(Metric::Ttft, &[sample]).is_none());
        assert!(chart(Metric::Ttft, &[]).is_none());
    }
}
