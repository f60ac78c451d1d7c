//! The table of a terminal's report: a row a load point and side, a column a figure.

use super::cell_text::{Color, Tone, fit, left, plain, right};
use super::view::{self, figures, slo};
use super::{PointInput, PointSide, ReportInput};
use crate::metric::{Measure, Metric, Statistic};
use crate::plan::Phase;
use crate::units;

/// From here on there is room for more columns.
const WIDE: usize = 104;
/// Load points in the table; of more, those that changed most.
const TABLE_POINTS: usize = 40;
/// Width of a column of numbers, and of the last.
const COLUMN: usize = 7;
/// See [`COLUMN`].
const LAST: usize = 7;
/// Width of the column of the SLO.
const SLO: usize = 7;

struct Column {
    measure: Measure,
    head: &'static str,
    width: usize,
}

fn columns(input: &ReportInput, width: usize) -> Vec<Column> {
    let column = |measure: Measure, head| {
        // `mean ms` needs a space before it.
        let width = COLUMN + usize::from(measure.statistic == Some(Statistic::Mean));
        Column { measure, head, width }
    };
    let mut columns = vec![
        column(Measure::QPS, "QPS"),
        column(Measure::TTFT_P50, "TTFT"),
        column(Measure::TTFT_P99, "TTFT"),
        column(Measure::TPOT_MEAN, "TPOT"),
        column(Measure::ITL_P99, "ITL"),
        column(Measure::E2EL_MEAN, "E2EL"),
        Column { measure: Measure::ERROR_RATE, head: "errors", width: LAST },
    ];
    let has_short_ids = shared_scenario(input).is_some();
    if has_short_ids || width >= WIDE {
        columns.insert(1, column(Measure::THROUGHPUT, "tok/s"));
    }
    if width >= WIDE {
        columns.insert(5, column(Measure::ITL_P50, "ITL"));
        if input.has_slo() {
            columns.insert(columns.len() - 1, column(Measure::GOODPUT, "goodput"));
        }
    }
    columns
}

/// `group/scenario` where all load points share it, so that a row needs only its load.
fn shared_scenario(input: &ReportInput) -> Option<String> {
    let mut judged = input.points.iter().filter(|p| p.phase.is_judged());
    let first = &judged.next()?.point;
    let is_shared =
        |p: &PointInput| p.point.group == first.group && p.point.scenario == first.scenario;
    judged.all(is_shared).then(|| format!("{}/{}", first.group, first.scenario))
}

/// The name of a row: the load alone where the head names the scenario.
fn row_name(point: &PointInput, has_short_ids: bool) -> String {
    match (has_short_ids, point.phase) {
        (false, _) => plain(&point.id),
        (true, Phase::Reference) => format!("reference {}", point.point.load.id()),
        (true, _) => point.point.load.id(),
    }
}

/// Whether a load point meets its SLO, in a word.
fn slo_word(point: &PointInput, side: &PointSide) -> &'static str {
    let slo = point.point.slo.filter(|_| point.phase.is_judged());
    match slo.and_then(|slo| slo::meets(&slo, side)) {
        Some(true) => "ok",
        Some(false) => "missed",
        None => "",
    }
}

/// The second line of a head: `p50 ms`.
fn unit(measure: Measure) -> String {
    let unit = measure.metric.unit();
    measure.statistic.map_or_else(|| unit.to_owned(), |s| format!("{} {unit}", s.name()))
}

pub(super) fn table(input: &ReportInput, width: usize, color: Color) -> String {
    let columns = columns(input, width);
    let slo_width = if input.has_slo() { SLO } else { 0 };
    let first = width - columns.iter().map(|c| c.width).sum::<usize>() - slo_width;
    let scenario = shared_scenario(input);
    let has_short_ids = scenario.is_some();
    let heads: String = columns.iter().map(|c| right(c.head, c.width)).collect();
    let units: String = columns.iter().map(|c| right(&unit(c.measure), c.width)).collect();
    let head = scenario.map_or_else(|| "load point".to_owned(), |id| fit(&plain(&id), first - 1));
    let slo_head = if input.has_slo() { right("SLO", SLO) } else { String::new() };
    let mut text = format!("{}{heads}{slo_head}\n", left(&head, first));
    text.push_str(&color.paint(Tone::Dim, format!("{}{units}", left("", first)).trim_end()));
    text.push('\n');
    let several = input.sides.len() > 1;
    let points = shown_points(input);
    for point in &points {
        if several {
            text.push_str(&format!("{}\n", fit(&row_name(point, has_short_ids), width)));
        }
        for (index, side) in input.sides.iter().enumerate() {
            let Some(figures) = point.side(index) else { continue };
            let name = if several {
                format!("  {}", plain(&side.name))
            } else {
                row_name(point, has_short_ids)
            };
            let status = figures::status_words(point.phase, figures);
            let told = name.starts_with(&status);
            let name = match status.as_str() {
                "" => fit(&name, first - 1),
                _ if told => fit(&name, first - 1), // `reference/…` says it itself
                status => {
                    let room = first.saturating_sub(status.len() + 2);
                    format!("{} {status}", fit(&name, room))
                }
            };
            text.push_str(&left(&name, first));
            for column in &columns {
                text.push_str(&number(point.get(index, column.measure), column, color));
            }
            if input.has_slo() {
                let word = slo_word(point, figures);
                let cell = right(word, SLO);
                text.push_str(&if word == "missed" { color.paint(Tone::Bad, &cell) } else { cell });
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
    }
    if points.len() < input.points.len() {
        let more = units::plural(input.points.len() - points.len(), "more load point");
        text.push_str(&format!("{more} in the report\n"));
    }
    text
}

/// All load points, or of very many those where something happened, in the order of the plan.
fn shown_points(input: &ReportInput) -> Vec<&PointInput> {
    if input.points.len() <= TABLE_POINTS {
        return input.points.iter().collect();
    }
    let ranked = figures::ranked_cells(input, None);
    let mut ids: Vec<&str> = Vec::new();
    for (_, cell) in &ranked {
        if ids.len() < TABLE_POINTS && !ids.contains(&cell.point.as_str()) {
            ids.push(&cell.point);
        }
    }
    if ids.is_empty() {
        return input.points.iter().take(TABLE_POINTS).collect();
    }
    input.points.iter().filter(|p| ids.contains(&p.id.as_str())).collect()
}

fn number(value: Option<f64>, column: &Column, color: Color) -> String {
    let text = right(&view::value(column.measure, value), column.width);
    let failed = column.measure.metric == Metric::ErrorRate && value.is_some_and(|v| v > 0.0);
    if failed { color.paint(Tone::Bad, &text) } else { text }
}
