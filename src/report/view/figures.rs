//! The views of tables of figures and of changes, and the glossary.

use serde::Serialize;

use super::{
    cell_note, cell_rank, change, change_interval, columns, slug, value, value_interval,
    value_unit, verdict_class, verdict_mark,
};
use crate::compare::{Cell, Comparison, Verdict};
use crate::metric::{Measure, Metric, Statistic};
use crate::plan::Phase;
use crate::record::stored::RoundStatus;
use crate::record::{RequestRecord, ServerState};
use crate::report::{PointInput, PointSide, ReportInput};
use crate::scenario::Load;
use crate::units;

/// A column's head with its definition.
#[derive(Debug, Clone, Serialize)]
pub struct Head {
    /// What it is: `TTFT p50`.
    pub label: String,
    /// Its unit.
    pub unit: String,
    /// Its definition.
    pub definition: String,
}

impl Head {
    /// The head of a measure.
    #[must_use]
    pub fn of(measure: Measure) -> Self {
        Self {
            label: measure.label(),
            unit: measure.metric.unit().to_owned(),
            definition: measure.metric.definition().to_owned(),
        }
    }
}

/// The heads of the table of figures.
#[must_use]
pub fn heads(input: &ReportInput) -> Vec<Head> {
    columns(input).into_iter().map(Head::of).collect()
}

/// A row of the table of figures.
#[derive(Debug, Clone, Serialize)]
pub struct FigureRow {
    /// The load point's id.
    pub id: String,
    /// Its page, from the report's root.
    pub href: String,
    /// The side, where there are several.
    pub side: String,
    /// The number of the side's colour.
    pub series: usize,
    /// What the reader should know: `saturated`, `reference`.
    pub status: String,
    /// The numbers.
    pub numbers: Vec<Number>,
}

/// A number to print, and to sort by.
#[derive(Debug, Clone, Serialize)]
pub struct Number {
    /// The text.
    pub text: String,
    /// Its interval over starts, where there is one.
    pub interval: String,
    /// What to sort by; empty where undefined.
    pub sort: String,
}

/// The page of a load point, from the report's root.
#[must_use]
pub fn point_href(point: &PointInput) -> String {
    let place = &point.point;
    // A sweep may hold the reference's own rate.
    let kind = if point.phase == Phase::Reference { "reference-" } else { "" };
    let file = format!("{kind}{}-{}", slug(&place.scenario), slug(&place.load.id()));
    format!("{}/{file}.html", slug(&place.group))
}

/// The page of a group, from the report's root.
#[must_use]
pub fn group_href(group: &str) -> String {
    format!("{}/index.html", slug(group))
}

/// Where a capacity is drawn: the page of its group; empty where there is none.
fn capacity_href(input: &ReportInput, id: &str) -> String {
    let found = input.capacities.iter().find(|capacity| capacity.id() == id);
    found.map(|capacity| group_href(&capacity.group)).unwrap_or_default()
}

/// The rows of `point`, one per side that has it; one that says so where none has.
#[must_use]
pub fn figure_rows(input: &ReportInput, point: &PointInput) -> Vec<FigureRow> {
    let several = input.sides.len() > 1;
    let row = |(index, side): (usize, &crate::report::SideInput)| {
        let figures = point.side(index)?;
        Some(FigureRow {
            id: point.id.clone(),
            href: point_href(point),
            side: if several { side.name.clone() } else { String::new() },
            series: super::color(input, index),
            status: status_words(point.phase, figures),
            numbers: columns(input).into_iter().map(|m| number(figures, m)).collect(),
        })
    };
    let rows: Vec<FigureRow> = input.sides.iter().enumerate().filter_map(row).collect();
    if rows.is_empty() { vec![not_measured(input, point)] } else { rows }
}

/// A point of the plan that the run did not come to.
fn not_measured(input: &ReportInput, point: &PointInput) -> FigureRow {
    let nothing = |_: &Measure| Number {
        text: value(Measure::QPS, None),
        interval: String::new(),
        sort: String::new(),
    };
    FigureRow {
        id: point.id.clone(),
        href: point_href(point),
        side: String::new(),
        series: 0,
        status: "not measured".to_owned(),
        numbers: columns(input).iter().map(nothing).collect(),
    }
}

fn number(figures: &PointSide, measure: Measure) -> Number {
    let own = figures.summary.get(measure).filter(|v| v.is_finite());
    Number {
        text: value(measure, own),
        interval: value_interval(measure, figures.intervals.get(&measure.name())),
        sort: own.map(|v| v.to_string()).unwrap_or_default(),
    }
}

/// What a reader should know of a point before its numbers; empty where all is well.
#[must_use]
pub fn status_words(phase: Phase, side: &PointSide) -> String {
    match (&side.server, side.status) {
        (server, _) if server.is_lost() => return server_word(server).to_owned(),
        (server, RoundStatus::Overloaded | RoundStatus::Stopped) if !server.is_ran() => {
            return server_word(server).to_owned();
        }
        _ => {}
    }
    let words = match (side.status, phase) {
        (RoundStatus::Saturated, _) => "saturated",
        (RoundStatus::Overloaded, _) => "overloaded",
        (RoundStatus::Stopped, _) => "stopped",
        (RoundStatus::Interrupted, _) => "interrupted",
        (RoundStatus::Complete, Phase::Reference) => "reference",
        (RoundStatus::Complete, _) => "",
    };
    words.to_owned()
}

/// The state of a server in a word or two, for a column.
fn server_word(server: &ServerState) -> &'static str {
    match server {
        ServerState::Ran => "",
        ServerState::Restarted => "restarted",
        ServerState::Degraded { .. } => "failing",
        ServerState::Refused { .. } => "refused",
        ServerState::Hung => "hung",
        ServerState::StoppedAnswering { .. } => "server lost",
        ServerState::Died { .. } => "died",
    }
}

/// A change bar: places in percent of its width.
#[derive(Debug, Clone, Serialize)]
pub struct Bar {
    /// Left end of the interval.
    pub left: String,
    /// Its width.
    pub width: String,
    /// Where the estimate lies.
    pub at: String,
    /// `low` or `high` where the estimate lies beyond that end; else empty.
    pub beyond: String,
    /// Left end of the floor's band.
    pub floor_left: String,
    /// Its width.
    pub floor_width: String,
}

/// A row of the table of changes.
#[derive(Debug, Clone, Serialize)]
pub struct ChangeRow {
    /// The load point's id.
    pub id: String,
    /// Its page, from the report's root.
    pub href: String,
    /// What it is compared with, where there are several comparisons.
    pub side: String,
    /// The measure: `TPOT mean`.
    pub measure: String,
    /// Its unit.
    pub unit: String,
    /// Its definition.
    pub definition: String,
    /// Whether it can fail the gate.
    pub gated: bool,
    /// Base value.
    pub base: String,
    /// New value.
    pub new: String,
    /// The change.
    pub change: String,
    /// Its interval.
    pub interval: String,
    /// What to sort the change by.
    pub change_sort: String,
    /// The verdict in words.
    pub verdict: String,
    /// Its class.
    pub class: String,
    /// Its mark.
    pub mark: String,
    /// What to sort the verdict by.
    pub rank: u8,
    /// Whether it is reported before all others.
    pub told: bool,
    /// The change drawn; `None` if there is none.
    pub bar: Option<Bar>,
    /// Why, where the numbers do not say.
    pub note: String,
}

/// The widest change that bars show: beyond it they are cut.
const BAR_LIMITS: (f64, f64) = (0.05, 0.50);

/// How wide the bars of `cells` reach to either side: as far as the intervals of what is decided, or
/// where nothing is, as far as the changes. What goes beyond is cut.
#[must_use]
pub fn bar_reach<'a>(cells: impl Iterator<Item = &'a Cell> + Clone) -> f64 {
    let decided = |c: &&Cell| {
        use Verdict::{Improved, Regressed, Unchanged, WithinNoise};
        matches!(c.verdict, Regressed | Improved | Unchanged | WithinNoise)
    };
    let end = |c: &Cell| c.interval.map_or(0.0, |(low, high)| low.abs().max(high.abs()));
    let size = |c: &Cell| c.change.map_or(0.0, f64::abs);
    let widest = |sizes: &mut dyn Iterator<Item = f64>| {
        sizes.filter(|x| x.is_finite()).fold(0.0, f64::max) * 1.05
    };
    let of_decided = widest(&mut cells.clone().filter(decided).map(|c| end(c).max(size(c))));
    let widest = if of_decided > 0.0 { of_decided } else { widest(&mut cells.map(size)) };
    clamped_reach(widest)
}

/// A bar reaches at least ± 5 % and at most ± 50 %.
#[must_use]
pub fn clamped_reach(widest: f64) -> f64 {
    widest.clamp(BAR_LIMITS.0, BAR_LIMITS.1)
}

/// The bar of a change; `reach` is how far it goes to either side.
#[must_use]
pub fn bar(at: f64, interval: Option<(f64, f64)>, floor: f64, reach: f64) -> Bar {
    let share = |x: f64| ((x / reach).clamp(-1.0, 1.0) + 1.0) * 50.0;
    let (low, high) = interval.unwrap_or((at, at));
    Bar {
        left: format!("{:.1}", share(low)),
        width: format!("{:.1}", share(high) - share(low)),
        at: format!("{:.1}", share(at)),
        beyond: match at {
            at if at < -reach => "low".to_owned(),
            at if at > reach => "high".to_owned(),
            _ => String::new(),
        },
        floor_left: format!("{:.1}", share(-floor)),
        floor_width: format!("{:.1}", share(floor) - share(-floor)),
    }
}

/// A row of the table of changes; `reach` is [`bar_reach`] of the whole table.
#[must_use]
pub fn change_row(
    input: &ReportInput,
    comparison: &Comparison,
    cell: &Cell,
    reach: f64,
) -> ChangeRow {
    let point = input.points.iter().find(|p| p.id == cell.point);
    let several = input.comparisons.len() > 1;
    let finite = cell.change.filter(|c| c.is_finite());
    let bar = finite.map(|at| bar(at, cell.interval, cell.floor, reach));
    ChangeRow {
        id: cell.point.clone(),
        href: point.map_or_else(|| capacity_href(input, &cell.point), point_href),
        side: if several { comparison.new_label.clone() } else { String::new() },
        measure: cell.measure.label(),
        unit: cell.measure.metric.unit().to_owned(),
        definition: cell.measure.metric.definition().to_owned(),
        gated: cell.gated,
        base: value(cell.measure, cell.base),
        new: value(cell.measure, cell.new),
        change: change(cell.measure, cell.change),
        interval: change_interval(cell.interval),
        change_sort: cell.change.map(|c| c.to_string()).unwrap_or_default(),
        verdict: cell.verdict.label().to_owned(),
        class: verdict_class(cell.verdict).to_owned(),
        mark: verdict_mark(cell.verdict).to_owned(),
        rank: cell_rank(cell),
        told: super::is_told(cell),
        bar,
        note: cell_note(cell).unwrap_or_default(),
    }
}

/// What neither side has was not measured (imported files hold no gaps, say): no change to show,
/// unless it fails a gate.
#[must_use]
pub fn is_shown(comparison: &Comparison, cell: &Cell) -> bool {
    let may_fail = cell.gated && comparison.advice.is_none();
    may_fail || cell.base.is_some() || cell.new.is_some()
}

/// The cells of a load point (or of all) with their comparison, those that matter most first.
#[must_use]
pub fn ranked_cells<'a>(
    input: &'a ReportInput,
    point: Option<&str>,
) -> Vec<(&'a Comparison, &'a Cell)> {
    let all = input.comparisons.iter().flat_map(|c| c.cells.iter().map(move |cell| (c, cell)));
    let here = all.filter(|(_, cell)| point.is_none_or(|id| cell.point == id));
    let here = here.filter(|(comparison, cell)| is_shown(comparison, cell));
    let mut all: Vec<(&Comparison, &Cell)> = here.collect();
    let size = |cell: &Cell| cell.change.map_or(0.0, f64::abs);
    all.sort_by(|(_, a), (_, b)| cell_rank(a).cmp(&cell_rank(b)).then(size(b).total_cmp(&size(a))));
    all
}

/// A distribution's row: statistics of one metric on one side.
#[derive(Debug, Clone, Serialize)]
pub struct DistributionRow {
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Its definition.
    pub definition: String,
    /// The side, where there are several.
    pub side: String,
    /// The number of the side's colour.
    pub series: usize,
    /// Mean, p50, p90, p95, p99, max, count.
    pub numbers: Vec<String>,
}

/// The rows of every distribution that was measured at `point`.
#[must_use]
pub fn distribution_rows(input: &ReportInput, point: &PointInput) -> Vec<DistributionRow> {
    let several = input.sides.len() > 1;
    let mut rows = Vec::new();
    // In a closed loop a request is due when it is sent: the same numbers twice.
    let closed = matches!(point.point.load, Load::Concurrency(_));
    let twice = |m: &Metric| closed && matches!(m, Metric::TtftFromSent | Metric::E2elFromSent);
    for metric in Metric::DISTRIBUTIONS.into_iter().filter(|m| !twice(m)) {
        for (index, side) in input.sides.iter().enumerate() {
            let found = point.side(index).and_then(|s| s.summary.distributions.get(&metric));
            let shown = |d: &&crate::summary::Distribution| d.count > 0 || d.mean.is_some();
            let Some(distribution) = found.filter(shown) else { continue };
            let mut numbers: Vec<String> =
                Statistic::ALL.iter().map(|s| units::optional(distribution.get(*s))).collect();
            numbers.push(units::optional(distribution.max));
            // An imported tool may tell a mean and not of how many.
            let known = Some(distribution.count).filter(|count| *count > 0);
            numbers.push(known.map_or_else(|| "–".to_owned(), units::count));
            rows.push(DistributionRow {
                metric: metric.label().to_owned(),
                unit: metric.unit().to_owned(),
                definition: metric.definition().to_owned(),
                side: if several { side.name.clone() } else { String::new() },
                series: super::color(input, index),
                numbers,
            });
        }
    }
    rows
}

/// The latencies of one request, ms, from its own clock start (due, else sent).
#[derive(Debug, Clone, Copy, Default)]
pub struct Latencies {
    /// Time to first token.
    pub ttft_ms: Option<f64>,
    /// End-to-end latency.
    pub e2el_ms: Option<f64>,
    /// Time per output token.
    pub tpot_ms: Option<f64>,
}

/// Reads the latencies of a record.
#[must_use]
pub fn latencies(record: &RequestRecord) -> Latencies {
    let start = record.due_ns.or(record.sent_ns);
    let since = |at: Option<u64>| Some(units::ns_to_ms(at?.checked_sub(start?)?));
    let (ttft_ms, e2el_ms) = (since(record.first_token_ns), since(record.last_token_ns));
    let after = record.output_tokens.and_then(|n| n.checked_sub(record.first_event_tokens));
    let after = after.filter(|n| *n > 0);
    let tpot_ms = e2el_ms.zip(ttft_ms).zip(after).map(|((e, t), n)| (e - t) / f64::from(n));
    Latencies { ttft_ms, e2el_ms, tpot_ms }
}

/// The best number of a measure over all load points of a side, with its load point's id.
#[must_use]
pub fn peak(input: &ReportInput, side: usize, measure: Measure) -> Option<(String, String)> {
    let (point, number) = best(input, side, measure, |_| true)?;
    Some((value_unit(measure, Some(number)), point.id.clone()))
}

/// The best number of a measure over the loads of one scenario (group, name), with its load.
#[must_use]
pub fn peak_in(
    input: &ReportInput,
    side: usize,
    measure: Measure,
    (group, scenario): (&str, &str),
) -> Option<(String, String)> {
    let here = |p: &PointInput| p.point.group == group && p.point.scenario == scenario;
    let (point, number) = best(input, side, measure, here)?;
    Some((value_unit(measure, Some(number)), point.point.load.id()))
}

/// Failing load points have no best number.
fn best(
    input: &ReportInput,
    side: usize,
    measure: Measure,
    here: impl Fn(&PointInput) -> bool,
) -> Option<(&PointInput, f64)> {
    let serves = |p: &PointInput| p.side(side).is_some_and(|side| !side.status.is_failing());
    let loads = input.points.iter().filter(|p| p.phase.is_judged() && serves(p) && here(p));
    let with = loads.filter_map(|p| Some((p, p.get(side, measure).filter(|v| *v > 0.0)?)));
    with.max_by(|a, b| a.1.total_cmp(&b.1))
}
