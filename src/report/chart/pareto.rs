//! The chart of throughput against latency: up and to the left is better.

use super::axis::{AxisSpec, Scale};
use super::frame::{Spec, draw};
use super::{Chart, Series};
use crate::metric::Measure;

/// Draws `series` of (latency, output throughput), a point per load, labelled with it.
#[must_use]
pub fn chart(latency: Measure, series: Vec<Series>) -> Chart {
    let title = format!("Throughput against {}", latency.label());
    let spec = Spec {
        title: title.clone(),
        description: format!("output tokens per second against {}", latency.label()),
        x: AxisSpec { label: format!("{} (ms)", latency.label()), ..AxisSpec::default() },
        y: AxisSpec {
            label: "output tok/s".into(),
            scale: Some(Scale::Linear),
            ..AxisSpec::default()
        },
        series,
        marks: Vec::new(),
        ..Spec::default()
    };
    let mut chart = Chart {
        title,
        note: "up and to the left is better; a point per load".into(),
        svg: draw(&spec),
        legend: super::load::legend(&spec.series),
        ..Chart::default()
    };
    chart.head = vec!["side".into(), "load".into(), spec.x.label, spec.y.label];
    for line in &spec.series {
        chart.rows.extend(line.points.iter().map(|p| {
            vec![
                line.name.clone(),
                p.label.clone().unwrap_or_default(),
                crate::units::significant(p.x),
                crate::units::significant(p.y),
            ]
        }));
    }
    chart
}
