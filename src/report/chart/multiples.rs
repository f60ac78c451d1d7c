//! The chart of latency multiple and QPS multiple against the load, with crossover and knee.

use super::axis::{AxisSpec, Scale};
use super::frame::{Mark, Spec, draw};
use super::{Chart, Point, Series};
use crate::report::Knee;

/// Draws one scenario on one side.
#[must_use]
pub fn chart(knee: &Knee) -> Chart {
    let latency = format!("{} ×", knee.measure.label());
    let line = |name: &str, color: usize, value: fn(&crate::report::Multiple) -> f64| Series {
        name: name.to_owned(),
        color,
        points: knee.multiples.iter().map(|m| Point::new(m.in_flight, value(m))).collect(),
        ..Series::default()
    };
    let marks = [("crossover", &knee.crossover), ("knee", &knee.knee)];
    let marks = marks.into_iter().filter_map(|(label, turning)| {
        Some(Mark { x: turning.in_flight?, interval: turning.interval, label: label.to_owned() })
    });
    let title = "What more load buys".to_owned();
    let spec = Spec {
        description: format!(
            "multiples of {}: {latency} and QPS × against mean requests in flight; crossover {}, knee {}",
            knee.relative_to, knee.crossover.state, knee.knee.state
        ),
        title: title.clone(),
        x: AxisSpec {
            label: "mean requests in flight".into(),
            scale: Some(Scale::Log),
            ..AxisSpec::default()
        },
        y: AxisSpec {
            label: format!("multiple of {}", knee.relative_to),
            scale: Some(Scale::Log),
            ..AxisSpec::default()
        },
        // Other colours than the sides have.
        series: vec![line("QPS ×", 2, |m| m.qps), line(&latency, 3, |m| m.latency)],
        marks: apart(marks.collect()),
        ..Spec::default()
    };
    let best = knee
        .best_value
        .as_ref()
        .map(|b| format!("best throughput per latency at {b}; "))
        .unwrap_or_default();
    let note = format!("{best}knee {}; crossover {}", knee.knee.state, knee.crossover.state);
    Chart { title, note, svg: draw(&spec), ..Chart::default() }.with_series_table(
        "in flight",
        &spec.series,
        "×",
        crate::units::significant,
    )
}

/// Two marks at nearly the same place share one label.
fn apart(mut marks: Vec<Mark>) -> Vec<Mark> {
    if let [first, second] = marks.as_slice()
        && (first.x / second.x).ln().abs() < 0.5
    {
        let label = if first.x <= second.x {
            format!("{}, {}", first.label, second.label)
        } else {
            format!("{}, {}", second.label, first.label)
        };
        let mut merged = marks.remove(0);
        let mut other = marks.remove(0);
        merged.label = label;
        other.label = String::new();
        return vec![merged, other];
    }
    marks
}
