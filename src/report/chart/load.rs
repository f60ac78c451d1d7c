//! The chart of a measure against the load.

use super::axis::{AxisSpec, Scale};
use super::frame::{Limit, Size, Spec, draw};
use super::{Chart, LegendItem, Series};
use crate::metric::Metric;

/// What a chart of a measure against the load shows.
#[derive(Debug, Clone)]
pub struct Against<'a> {
    /// What it is called: `TTFT`.
    pub title: &'a str,
    /// What is measured.
    pub metric: Metric,
    /// The load and its unit: `concurrent requests`.
    pub x_label: &'a str,
    /// The loads by rising level, as they are named: `c1`, `c4`. The x of a point is its load's place among them.
    pub loads: &'a [String],
    /// Limits of the SLO.
    pub limits: Vec<Limit>,
    /// Requests per second and output tokens per second in one chart: tokens per request.
    pub tokens_per_request: Option<f64>,
}

/// An error rate below this many per cent looks small.
const ERROR_SCALE: f64 = 5.0;

/// Draws `series` of a metric against loads.
#[must_use]
pub fn chart(against: Against<'_>, series: Vec<Series>) -> Chart {
    let Against { title, metric, x_label, loads, limits, tokens_per_request } = against;
    let log = metric == Metric::Ttft;
    let unit = match (tokens_per_request, log) {
        (Some(_), _) => "left: output tok/s; right: req/s".to_owned(),
        (None, true) => format!("{}, log scale", metric.unit()),
        (None, false) => match metric {
            metric if metric.is_share() => "% of requests".to_owned(),
            _ => metric.unit().to_owned(),
        },
    };
    let spec = Spec {
        title: title.to_owned(),
        description: format!("{title} ({unit}) against {x_label}"),
        x: AxisSpec { label: x_label.to_owned(), names: loads.to_vec(), ..AxisSpec::default() },
        y: AxisSpec {
            // A plateau must look like one; the TTFT spans decades.
            scale: Some(if log { Scale::Log } else { Scale::Linear }),
            at_least: (metric == Metric::ErrorRate).then_some(ERROR_SCALE),
            ..AxisSpec::default()
        },
        series,
        limits,
        right: tokens_per_request.filter(|tokens| *tokens > 0.0),
        size: Size::SMALL,
        ..Spec::default()
    };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // places among the loads
    let name = |x: f64| loads.get(x as usize).cloned().unwrap_or_default();
    Chart { title: title.to_owned(), unit, is_small: true, svg: draw(&spec), ..Chart::default() }
        .with_series_table(x_label, &spec.series, metric.unit(), name)
}

impl Chart {
    /// Adds legend and data table of lines that share their x, which `name` names.
    #[must_use]
    pub(super) fn with_series_table(
        mut self,
        x: &str,
        series: &[Series],
        unit: &str,
        name: impl Fn(f64) -> String,
    ) -> Self {
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
            let mut row = vec![name(x)];
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
