//! The chart of blocks: base against new, so that a reader sees the pairing.

use super::axis::{AxisSpec, Scale};
use super::frame::{Spec, draw};
use super::{Chart, LegendItem, Point, Series};
use crate::compare::Cell;
use crate::metric::Metric;
use crate::units;

/// Draws the start-level values of a cell by block; none where no block has both.
#[must_use]
pub fn chart(cell: &Cell, base: &str, new: &str) -> Option<Chart> {
    let shown = |v: Option<f64>| match cell.measure.metric {
        Metric::ErrorRate => v.map(|share| share * 100.0),
        _ => v,
    };
    let pairs: Vec<(f64, Option<f64>, Option<f64>)> = (1_u32..)
        .zip(&cell.pairs)
        .map(|(block, (b, n))| (f64::from(block), shown(*b), shown(*n)))
        .collect();
    if !pairs.iter().any(|(_, b, n)| b.is_some() && n.is_some()) {
        return None;
    }
    let side = |color: usize, name: &str, pick: fn(&(f64, Option<f64>, Option<f64>)) -> Option<f64>| {
        Series {
            name: name.to_owned(),
            color,
            points: pairs.iter().filter_map(|p| Some(Point::new(p.0, pick(p)?))).collect(),
            ..Series::default()
        }
    };
    let title = cell.measure.label();
    let spec = Spec {
        description: format!("{title} of each restart pair, {base} against {new}"),
        title: title.clone(),
        x: AxisSpec {
            label: "restart pair".into(),
            scale: Some(Scale::Linear),
            ticks: pairs.iter().map(|p| p.0).collect(),
            #[allow(clippy::cast_precision_loss)] // some blocks
            end: Some(pairs.len() as f64 + 0.5),
        },
        y: AxisSpec { label: cell.measure.metric.unit().into(), ..AxisSpec::default() },
        series: vec![side(0, base, |p| p.1), side(1, new, |p| p.2)],
        marks: Vec::new(),
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
    })
}
