//! The chart of something over the time of a round, or over the tokens of an answer.

use super::axis::{AxisSpec, Scale};
use super::frame::{Spec, draw};
use super::{Chart, Point, Series, Weight};

/// Most points of a drawn line.
const POINTS: usize = 300;

/// One side's samples.
#[derive(Debug, Clone)]
pub struct Track<'a> {
    /// The side's name.
    pub name: &'a str,
    /// The number of its colour.
    pub color: usize,
    /// (seconds since the window opened, or token; value), rising.
    pub samples: &'a [(f64, f64)],
}

/// Whether single events or a quantity over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A dot each: the TTFT of each request.
    Events,
    /// A line: requests in flight.
    Level,
    /// A line over the tokens of an answer instead of time.
    Positions,
}

/// Draws `tracks`; `None` if no side has a sample.
#[must_use]
pub fn chart(title: &str, unit: &str, shape: Shape, tracks: &[Track<'_>]) -> Option<Chart> {
    let series: Vec<Series> = tracks
        .iter()
        .filter(|t| !t.samples.is_empty())
        .map(|t| Series {
            name: t.name.to_owned(),
            color: t.color,
            weight: if shape == Shape::Events { Weight::Specks } else { Weight::Bare },
            points: super::thinned(t.samples, POINTS)
                .into_iter()
                .map(|(x, y)| Point::new(x, y))
                .collect(),
            ..Series::default()
        })
        .collect();
    if series.is_empty() {
        return None;
    }
    let (over, label, head) = match shape {
        Shape::Positions => ("over the tokens of an answer", "token of the answer", "token"),
        _ => ("over the seconds of the measured window", "s since the window opened", "time (s)"),
    };
    let spec = Spec {
        title: title.to_owned(),
        description: format!("{title} ({unit}) {over}"),
        x: AxisSpec { label: label.into(), scale: Some(Scale::Linear), ..AxisSpec::default() },
        y: AxisSpec { label: unit.to_owned(), scale: Some(Scale::Linear), ..AxisSpec::default() },
        series,
        marks: Vec::new(),
        ..Spec::default()
    };
    let drawn = Chart { title: title.to_owned(), svg: draw(&spec), ..Chart::default() };
    Some(drawn.with_series_table(head, &spec.series, unit, crate::units::significant))
}
