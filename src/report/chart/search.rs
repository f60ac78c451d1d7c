//! The chart of a search: the share of good requests at every load tried, and the capacity it came to.

use super::axis::{AxisSpec, Scale};
use super::frame::{Limit, Mark, Spec, draw};
use super::{Chart, Point, Series, Weight};
use crate::compare::capacity::SloCapacity;

/// Draws what was tried on one side: a dot for each load of each start.
#[must_use]
pub fn chart(found: &SloCapacity, color: usize) -> Chart {
    let mut points: Vec<Point> = found
        .starts
        .iter()
        .flat_map(|start| &start.tried)
        .map(|tried| Point {
            is_hollow: !tried.met,
            ..Point::new(tried.level, tried.good_share * 100.0)
        })
        .collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let series = vec![Series {
        name: "good".into(),
        color,
        weight: Weight::Dots,
        points,
        ..Series::default()
    }];
    let title = "Search for the SLO capacity".to_owned();
    let mark = found.value.map(|value| Mark {
        x: value,
        interval: found.interval.map(|ci| (ci.low, ci.high)),
        label: "capacity".to_owned(),
    });
    let least = found.slo.least_share() * 100.0;
    let spec = Spec {
        description: format!("good requests in % against {}: {}", found.axis.unit(), found.words()),
        title: title.clone(),
        x: AxisSpec {
            label: found.axis.unit().to_owned(),
            scale: Some(Scale::Log),
            ..AxisSpec::default()
        },
        y: AxisSpec {
            label: "good requests (%)".into(),
            scale: Some(Scale::Linear),
            at_least: Some(100.0),
            ..AxisSpec::default()
        },
        series,
        marks: mark.into_iter().collect(),
        limits: vec![Limit { y: least, label: format!("{least} % good") }],
        ..Spec::default()
    };
    let note = format!("{}. Hollow: the SLO was missed. A dot is one start.", found.words());
    let mut chart = Chart { title, note, svg: draw(&spec), ..Chart::default() };
    chart.head =
        vec![found.axis.unit().to_owned(), "start".into(), "good (%)".into(), "SLO".into()];
    for start in &found.starts {
        let rows = start.tried.iter().map(|tried| {
            let met = if tried.met { "met" } else { "missed" };
            let share = format!("{:.1}", tried.good_share * 100.0);
            let block = (start.block + 1).to_string();
            vec![crate::units::significant(tried.level), block, share, met.to_owned()]
        });
        chart.rows.extend(rows);
    }
    chart
}
