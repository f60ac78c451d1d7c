//! The view of a group's page: measures against the load, per scenario.

use serde::Serialize;

use super::figures::{self, FigureRow, Head};
use super::length_words;
use crate::compare::capacity::SloCapacity;
use crate::metric::{Measure, Metric, Statistic};
use crate::report::chart::frame::{COLORS, Limit};
use crate::report::chart::{self, Chart, Dash, LegendItem, Point, Series, Weight};
use crate::report::{PointInput, ReportInput, SideInput};
use crate::scenario::{Length, Load};

/// Scenarios of a group that get all charts, and those that get the first four.
const FULL_SCENARIOS: usize = 12;
/// See [`FULL_SCENARIOS`].
const BRIEF_SCENARIOS: usize = 60;

/// Everything a group's page shows.
#[derive(Debug, Clone, Serialize)]
pub struct GroupView {
    /// The group's name.
    pub name: String,
    /// The names of the sides, where there are several.
    pub sides: Vec<String>,
    /// A section per scenario.
    pub scenarios: Vec<ScenarioView>,
    /// The heads of the tables of figures.
    pub heads: Vec<Head>,
}

/// What the marks of charts against the load mean.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Key {
    /// A name a side, where there are several.
    pub sides: Vec<LegendItem>,
    /// Whether a load point is drawn hollow.
    pub has_hollow: bool,
    /// Whether a limit of the SLO is drawn.
    pub has_limits: bool,
}

impl Key {
    /// The key of a scenario's charts.
    #[must_use]
    pub fn of(input: &ReportInput, group: &str, scenario: &str) -> Self {
        let points = points_of(input, group, scenario);
        let item = |(index, side): (usize, &SideInput)| LegendItem {
            name: side.name.clone(),
            series: super::color(input, index) % COLORS,
        };
        let is_failing = |p: &&PointInput| p.sides.iter().flatten().any(|s| s.status.is_failing());
        let sides = input.sides.iter().enumerate().filter(|_| input.sides.len() > 1);
        Self {
            sides: sides.map(item).collect(),
            has_hollow: points.iter().any(is_failing),
            has_limits: points.iter().any(|p| p.point.slo.is_some()),
        }
    }
}

/// A scenario's section.
#[derive(Debug, Clone, Serialize)]
pub struct ScenarioView {
    /// Its name.
    pub name: String,
    /// Its lengths in words.
    pub lengths: String,
    /// Crossover, knee and the like, a sentence each.
    pub limits: Vec<String>,
    /// What the marks of its charts mean.
    pub key: Key,
    /// Measures against the load.
    pub charts: Vec<Chart>,
    /// Throughput against latency, and the multiples.
    pub shapes: Vec<Chart>,
    /// Its figures.
    pub figures: Vec<FigureRow>,
}

/// The names of a group's scenarios, in order. A group that holds only references names those.
#[must_use]
pub fn scenarios<'a>(input: &'a ReportInput, group: &str) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    let here = || input.points.iter().filter(|p| p.point.group == group);
    let any_load = here().any(|p| p.phase.is_judged());
    for point in here().filter(|p| p.phase.is_judged() || !any_load) {
        if !names.contains(&point.point.scenario.as_str()) {
            names.push(&point.point.scenario);
        }
    }
    names
}

/// Makes the view.
#[must_use]
pub fn view(input: &ReportInput, group: &str) -> GroupView {
    let several = input.sides.len() > 1;
    let names = scenarios(input, group);
    let section = |(index, name): (usize, &&str)| {
        let points = points_of(input, group, name);
        let mut charts = load_charts(input, &points, names.len() > FULL_SCENARIOS);
        let mut shapes = Vec::new();
        if names.len() > BRIEF_SCENARIOS && index >= BRIEF_SCENARIOS {
            charts.clear();
        } else if names.len() <= FULL_SCENARIOS {
            shapes = shape_charts(input, &points, group, name);
        }
        let first = points.first().map(|p| &p.point);
        ScenarioView {
            name: (*name).to_owned(),
            lengths: first.map_or_else(String::new, |p| {
                format!("{} tokens in, {} out", length_words(&p.input), length_words(&p.output))
            }),
            limits: limits(input, group, name),
            key: Key::of(input, group, name),
            charts,
            shapes,
            figures: points.iter().flat_map(|p| figures::figure_rows(input, p)).collect(),
        }
    };
    GroupView {
        name: group.to_owned(),
        sides: if several { input.sides.iter().map(|s| s.name.clone()).collect() } else { vec![] },
        scenarios: names.iter().enumerate().map(section).collect(),
        heads: figures::heads(input),
    }
}

fn points_of<'a>(input: &'a ReportInput, group: &str, scenario: &str) -> Vec<&'a PointInput> {
    let here =
        || input.points.iter().filter(|p| p.point.group == group && p.point.scenario == scenario);
    let loads: Vec<&PointInput> = here().filter(|p| p.phase.is_judged()).collect();
    if loads.is_empty() { here().collect() } else { loads }
}

/// What searches found of a scenario, a side each.
fn capacities<'a>(
    input: &'a ReportInput,
    group: &'a str,
    scenario: &'a str,
) -> impl Iterator<Item = &'a SloCapacity> {
    input.capacities.iter().filter(move |c| c.group == group && c.scenario == scenario)
}

/// Its words, with the side where there are several.
pub(super) fn capacity_line(input: &ReportInput, found: &SloCapacity) -> String {
    match input.sides.get(found.side) {
        Some(side) if input.sides.len() > 1 => format!("{}: {}", side.name, found.words()),
        _ => found.words(),
    }
}

fn limits(input: &ReportInput, group: &str, scenario: &str) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(capacities(input, group, scenario).map(|found| capacity_line(input, found)));
    for knee in input.knees.iter().filter(|k| k.group == group && k.scenario == scenario) {
        let whose = match input.sides.get(knee.side) {
            Some(side) if input.sides.len() > 1 => format!("{}: ", side.name),
            _ => String::new(),
        };
        let latency = knee.measure.label();
        let best = knee
            .best_value
            .as_ref()
            .map(|b| format!("best throughput per latency at {b}; "))
            .unwrap_or_default();
        lines.push(format!(
            "{whose}{latency} against QPS: {best}knee {}; crossover {}",
            knee.knee.state, knee.crossover.state
        ));
    }
    lines
}

/// The charts of a card on the index: the group's first scenario in four charts.
#[must_use]
pub fn card_charts(input: &ReportInput, group: &str) -> Vec<Chart> {
    let Some(first) = scenarios(input, group).first().copied() else { return Vec::new() };
    load_charts(input, &points_of(input, group, first), true)
}

/// Charts against the load; `brief`: the four that show most. One load is no curve: then its
/// distributions.
fn load_charts(input: &ReportInput, points: &[&PointInput], brief: bool) -> Vec<Chart> {
    use Statistic::{Mean, P50, P90, P99};
    if let [only] = points {
        let distributions = super::point::ecdfs(input, only);
        if !distributions.is_empty() {
            return distributions;
        }
    }
    let tokens = tokens_per_request(points);
    let all: [(&str, Metric, &[Option<Statistic>]); 9] = [
        ("Throughput", Metric::OutputThroughput, &[None]),
        ("TTFT", Metric::Ttft, &[Some(P50), Some(P90), Some(P99)]),
        ("TPOT", Metric::Tpot, &[Some(Mean), Some(P99)]),
        ("Error rate", Metric::ErrorRate, &[None]),
        ("ITL", Metric::Itl, &[Some(P50), Some(P99)]),
        ("E2EL", Metric::E2el, &[Some(Mean), Some(P99)]),
        ("QPS", Metric::RequestThroughput, &[None]),
        ("Goodput", Metric::Goodput, &[None]),
        ("Good requests", Metric::GoodShare, &[None]),
    ];
    let take = if brief { 4 } else { all.len() };
    let mut loads: Vec<Load> = points.iter().map(|p| p.point.load).collect();
    loads.sort_by(|a, b| a.level().total_cmp(&b.level()));
    loads.dedup_by_key(|load| load.id());
    let names: Vec<String> = loads.iter().map(Load::id).collect();
    let chart = |(title, metric, statistics): (&str, Metric, &[Option<Statistic>])| {
        let series = series(input, points, &names, metric, statistics);
        let nothing = |s: &Series| s.points.iter().all(|p| p.y == 0.0);
        // That nothing failed is worth a chart.
        if series.is_empty() || (metric != Metric::ErrorRate && series.iter().all(nothing)) {
            return None;
        }
        let against = chart::load::Against {
            title,
            metric,
            x_label: x_label(points),
            loads: &names,
            limits: limits_of(points, metric),
            tokens_per_request: tokens.filter(|_| metric == Metric::OutputThroughput),
        };
        Some(chart::load::chart(against, series))
    };
    // One chart with two scales holds both throughputs.
    let twice = |metric: Metric| metric == Metric::RequestThroughput && tokens.is_some();
    all.into_iter().take(take).filter(|(_, metric, _)| !twice(*metric)).filter_map(chart).collect()
}

/// Output tokens of a request, where every request asks for the same length.
fn tokens_per_request(points: &[&PointInput]) -> Option<f64> {
    let asked = |p: &&PointInput| match p.point.output {
        Length::Fixed(n) => Some(n),
        _ => None,
    };
    let first = points.first().and_then(asked)?;
    let all_alike = points.iter().all(|p| asked(p) == Some(first));
    all_alike.then(|| f64::from(first))
}

/// The limits of the SLO on a metric.
fn limits_of(points: &[&PointInput], metric: Metric) -> Vec<Limit> {
    let Some(slo) = points.first().and_then(|p| p.point.slo) else { return Vec::new() };
    let ms = match metric {
        Metric::Ttft => slo.ttft_ms,
        Metric::Tpot => slo.tpot_ms,
        Metric::E2el => slo.e2el_ms,
        _ => None,
    };
    let limit = |y: f64| Limit { y, label: format!("SLO {y} ms") };
    ms.map(limit).into_iter().collect()
}

fn x_label(points: &[&PointInput]) -> &'static str {
    match points.first().map(|p| p.point.load) {
        Some(Load::RequestRate(_)) => "request rate, req/s",
        _ => "concurrent requests",
    }
}

/// The dash of a statistic: solid for a mean or median, dashed for percentiles.
fn dash(statistic: Option<Statistic>) -> Dash {
    match statistic {
        Some(Statistic::P90 | Statistic::P95) => Dash::Long,
        Some(Statistic::P99) => Dash::Dots,
        _ => Dash::Solid,
    }
}

/// A line per side and statistic. With more than two sides the middle percentile is left out.
fn series(
    input: &ReportInput,
    points: &[&PointInput],
    loads: &[String],
    metric: Metric,
    statistics: &[Option<Statistic>],
) -> Vec<Series> {
    let mut all = Vec::new();
    for (index, side) in input.sides.iter().enumerate() {
        for (rank, &statistic) in statistics.iter().enumerate() {
            if input.sides.len() > 2 && statistics.len() > 2 && rank == 1 {
                continue;
            }
            let measure = Measure { metric, statistic };
            let line = Series {
                name: [side.name.as_str(), statistic.map_or("", Statistic::name)]
                    .join(" ")
                    .trim()
                    .to_owned(),
                side: Some(side.name.clone()),
                color: super::color(input, index),
                weight: if rank == 0 { Weight::Strong } else { Weight::Pale },
                dash: dash(statistic),
                points: line_points(points, loads, index, measure, rank),
                // Every side's lines end near each other: one side's labels are enough.
                end_label: (index == 0).then(|| statistic.map(|s| s.name().to_owned())).flatten(),
            };
            if !line.points.is_empty() {
                all.push(line);
            }
        }
    }
    all
}

/// With several lines of a colour only the first shows its intervals, or they would hide each other.
fn line_points(
    points: &[&PointInput],
    loads: &[String],
    side: usize,
    measure: Measure,
    rank: usize,
) -> Vec<Point> {
    let percent = if measure.metric.is_share() { 100.0 } else { 1.0 };
    let point = |p: &&PointInput| {
        let figures = p.side(side)?;
        let interval = figures.intervals.get(&measure.name()).copied().filter(|_| rank == 0);
        let id = p.point.load.id();
        #[allow(clippy::cast_precision_loss)] // some loads
        let place = loads.iter().position(|name| *name == id)? as f64;
        Some(Point {
            x: place,
            y: p.get(side, measure)? * percent,
            interval: interval.map(|(low, high)| (low * percent, high * percent)),
            is_hollow: figures.status.is_failing(),
            ..Point::default()
        })
    };
    let mut line: Vec<Point> = points.iter().filter_map(point).collect();
    line.sort_by(|a, b| a.x.total_cmp(&b.x));
    line
}

/// Throughput against latency, and the multiples.
fn shape_charts(
    input: &ReportInput,
    points: &[&PointInput],
    group: &str,
    scenario: &str,
) -> Vec<Chart> {
    let latency = Measure::E2EL_MEAN;
    let side_line = |(index, side): (usize, &crate::report::SideInput)| Series {
        name: side.name.clone(),
        color: super::color(input, index),
        points: points
            .iter()
            .filter_map(|p| {
                Some(Point {
                    x: p.get(index, latency)?,
                    y: p.get(index, Measure::THROUGHPUT)?,
                    label: (index == 0).then(|| p.point.load.id()),
                    is_hollow: p.side(index)?.status.is_failing(),
                    ..Point::default()
                })
            })
            .collect(),
        ..Series::default()
    };
    let lines: Vec<Series> = input.sides.iter().enumerate().map(side_line).collect();
    let mut charts = Vec::new();
    if lines.iter().any(|l| l.points.len() > 1) {
        charts.push(chart::pareto::chart(latency, lines));
    }
    for found in capacities(input, group, scenario) {
        let mut drawn = chart::search::chart(found, super::color(input, found.side));
        if let (true, Some(side)) = (input.sides.len() > 1, input.sides.get(found.side)) {
            drawn.title = format!("{}: {}", drawn.title, side.name);
        }
        charts.push(drawn);
    }
    let knees = input.knees.iter().filter(|k| k.group == group && k.scenario == scenario);
    for knee in knees.filter(|k| !k.multiples.is_empty()) {
        let mut drawn = chart::multiples::chart(knee);
        if let (true, Some(side)) = (input.sides.len() > 1, input.sides.get(knee.side)) {
            drawn.title = format!("{}: {}", drawn.title, side.name);
        }
        charts.push(drawn);
    }
    charts
}
