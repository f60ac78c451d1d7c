//! The chart of blocks: base against new, so that a reader sees the pairing.

use super::axis::{AxisSpec, Scale};
use super::frame::{Spec, draw};
use super::{Chart, LegendItem, Point, Series, Weight};
use crate::compare::Cell;
use crate::units;

/// `Output throughput`: titles begin with a capital, as those of other charts.
fn capital(label: &str) -> String {
    let mut letters = label.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Draws the start-level values of a cell by block; `None` if fewer than two blocks have both.
#[must_use]
pub fn chart(cell: &Cell, base: &str, new: &str) -> Option<Chart> {
    let shown = |v: Option<f64>| match cell.measure.metric {
        metric if metric.is_share() => v.map(|share| share * 100.0),
        _ => v,
    };
    let pairs: Vec<(f64, Option<f64>, Option<f64>)> = (1_u32..)
        .zip(&cell.pairs)
        .map(|(block, (b, n))| (f64::from(block), shown(*b), shown(*n)))
        .collect();
    if pairs.iter().filter(|(_, b, n)| b.is_some() && n.is_some()).count() < 2 {
        return None; // one pair is in the table
    }
    let point = |x: f64, y: f64, other: Option<f64>| Point {
        interval: other.map(|o| (o.min(y), o.max(y))), // the connector of the pair
        ..Point::new(x, y)
    };
    let side = |color: usize, name: &str, points: Vec<Point>| Series {
        name: name.to_owned(),
        color,
        weight: Weight::Dots,
        points,
        ..Series::default()
    };
    let bases = pairs.iter().filter_map(|p| Some(point(p.0, p.1?, None))).collect();
    let news = pairs.iter().filter_map(|p| Some(point(p.0, p.2?, p.1))).collect();
    let title = capital(&cell.measure.label());
    let spec = Spec {
        description: format!("{title} of each restart pair, {base} against {new}"),
        title: title.clone(),
        x: AxisSpec {
            label: "restart pair".into(),
            scale: Some(Scale::Linear),
            ticks: pairs.iter().map(|p| p.0).collect(),
            #[allow(clippy::cast_precision_loss)] // some blocks
            end: Some(pairs.len() as f64 + 0.5),
            ..AxisSpec::default()
        },
        y: AxisSpec {
            label: format!("{} (not from zero)", cell.measure.metric.unit()),
            scale: Some(Scale::Tight),
            ..AxisSpec::default()
        },
        series: vec![side(0, base, bases), side(1, new, news)],
        marks: Vec::new(),
        ..Spec::default()
    };
    let row = |(block, b, n): &(f64, Option<f64>, Option<f64>)| {
        let change = b.zip(*n).map(|(b, n)| n / b - 1.0);
        vec![
            units::significant(*block),
            units::optional(*b),
            units::optional(*n),
            change.map_or_else(|| "–".into(), units::change),
        ]
    };
    Some(Chart {
        title,
        note: super::super::view::cell_sentence(cell),
        svg: draw(&spec),
        legend: vec![
            LegendItem { name: base.to_owned(), series: 0 },
            LegendItem { name: new.to_owned(), series: 1 },
        ],
        head: vec!["pair".into(), base.to_owned(), new.to_owned(), "change".into()],
        rows: pairs.iter().map(row).collect(),
        ..Chart::default()
    })
}
