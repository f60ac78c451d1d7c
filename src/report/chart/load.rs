//! The chart of a measure against the load.

use super::axis::{AxisSpec, Scale};
use super::frame::{Spec, draw};
use super::{Chart, LegendItem, Series};
use crate::metric::Metric;

/// Draws `series` of `metric` against loads; `x_label` names the load and its unit.
#[must_use]
pub fn chart(
    title: &str,
    metric: Metric,
    x_label: &str,
    loads: &[f64],
    series: Vec<Series>,
) -> Chart {
    let spec = Spec {
        title: title.to_owned(),
        description: format!("{title} ({}) against {x_label}", metric.unit()),
        x: AxisSpec {
            label: x_label.to_owned(),
            scale: Some(Scale::Log),
            ticks: loads.to_vec(),
            end: None,
        },
        y: AxisSpec {
            label: metric.unit().to_owned(),
            // A plateau must look like one; latencies may span decades.
            scale: (!metric.is_distribution()).then_some(Scale::Linear),
            ..AxisSpec::default()
        },
        series,
        marks: Vec::new(),
    };
    Chart { title: title.to_owned(), svg: draw(&spec), ..Chart::default() }.with_series_table(
        x_label,
        &spec.series,
        metric.unit(),
    )
}

impl Chart {
    /// Adds legend and data table of lines that share their x.
    #[must_use]
    pub(super) fn with_series_table(mut self, x: &str, series: &[Series], unit: &str) -> Self {
        let mut xs: Vec<f64> = series.iter().flat_map(|s| s.points.iter().map(|p| p.x)).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        self.head = vec![x.to_owned()];
        self.head.extend(series.iter().map(|s| format!("{} ({unit})", s.name)));
        let cell = |s: &Series, x: f64| {
            let point = s.points.iter().find(|p| p.x.total_cmp(&x).is_eq());
            let Some(point) = point else { return "–".to_owned() };
            let number = crate::units::significant(point.y);
            match point.interval {
                Some((low, high)) => format!(
                    "{number} [{}, {}]",
                    crate::units::significant(low),
                    crate::units::significant(high)
                ),
                None => number,
            }
        };
        let row = |x: f64| {
            let mut row = vec![crate::units::significant(x)];
            row.extend(series.iter().map(|s| cell(s, x)));
            row
        };
        self.rows = super::thinned(&xs, 60).into_iter().map(row).collect();
        self.legend = legend(series);
        self
    }
}

/// One entry per colour, where there are several; the name up to its statistic.
pub(super) fn legend(series: &[Series]) -> Vec<LegendItem> {
    let mut items: Vec<LegendItem> = Vec::new();
    for one in series {
        if items.iter().all(|i| i.series != one.color) {
            let name = one.side.as_ref().unwrap_or(&one.name).clone();
            items.push(LegendItem { name, series: one.color % super::frame::COLORS });
        }
    }
    if items.len() < 2 { Vec::new() } else { items }
}
