//! Charts as SVG: one file per chart type, one frame, one palette.
//!
//! plotters draws with placeholder colours which become CSS variables, so that one drawing fits
//! light, dark and print. It guesses the width of text: titles and legends are HTML.

pub mod axis;
pub mod ecdf;
pub mod frame;
pub mod load;
pub mod multiples;
pub mod pairs;
pub mod pareto;
pub mod search;
pub mod timeline;

use serde::Serialize;

/// A chart with everything around it, ready to print.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Chart {
    /// What it shows: `TTFT`.
    pub title: String,
    /// Its unit and scale: `ms, log scale`; may be empty.
    pub unit: String,
    /// Whether four of it fit side by side.
    pub is_small: bool,
    /// What the reader should know to read it.
    pub note: String,
    /// The drawing, safe to print as it is.
    pub svg: String,
    /// What the colours mean; empty where there is one.
    pub legend: Vec<LegendItem>,
    /// The head of the data table.
    pub head: Vec<String>,
    /// The data.
    pub rows: Vec<Vec<String>>,
}

/// One entry of a legend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LegendItem {
    /// What it stands for.
    pub name: String,
    /// The number of its colour.
    pub series: usize,
}

/// A line of a chart.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// What it is, for the data table.
    pub name: String,
    /// What its colour stands for, where that is less than its name: the side of `main p50`.
    pub side: Option<String>,
    /// The number of its colour, from 0.
    pub color: usize,
    /// How strongly it is drawn.
    pub weight: Weight,
    /// Its statistic: solid for a mean or median, dashed for percentiles.
    pub dash: Dash,
    /// Its points, by rising x.
    pub points: Vec<Point>,
    /// What is written at its right end.
    pub end_label: Option<String>,
}

/// How strongly a line is drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Weight {
    /// The first of its colour.
    #[default]
    Strong,
    /// A companion of a strong one.
    Pale,
    /// Points, each with its interval as a connector.
    Dots,
    /// Many small points.
    Specks,
    /// A line without dots.
    Bare,
}

/// The dash of a line: which statistic it shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dash {
    /// A mean or median.
    #[default]
    Solid,
    /// p90.
    Long,
    /// p99.
    Dots,
}

/// A point of a line.
#[derive(Debug, Clone, Default)]
pub struct Point {
    /// Across.
    pub x: f64,
    /// Up.
    pub y: f64,
    /// The interval of y.
    pub interval: Option<(f64, f64)>,
    /// What is written beside it.
    pub label: Option<String>,
    /// Drawn hollow: an overloaded load point.
    pub is_hollow: bool,
}

impl Point {
    /// A plain point.
    #[must_use]
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y, ..Self::default() }
    }
}

/// At most `limit` of `values`, evenly chosen, the first and the last among them.
fn thinned<T: Clone>(values: &[T], limit: usize) -> Vec<T> {
    if values.len() <= limit || limit < 2 {
        return values.to_vec();
    }
    (0..limit).map(|i| values[i * (values.len() - 1) / (limit - 1)].clone()).collect()
}
