//! The figures as tidy CSV: one row per load point, side, start and number.

use super::{PointInput, Report, SideInput};
use crate::metric::{Measure, Metric, Statistic};
use crate::plan::Phase;
use crate::summary::Summary;

/// The columns, fixed: tools read them by name.
pub const COLUMNS: &str =
    "side,group,scenario,load,phase,block,start,metric,statistic,unit,value,count";

/// The whole file. `block` and `start` are empty on the rows of all starts pooled.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut text = format!("{COLUMNS}\n");
    for point in &report.input().points {
        for (index, side) in report.input().sides.iter().enumerate() {
            let Some(figures) = point.side(index) else { continue };
            rows(&mut text, point, side, ("", ""), &figures.summary);
            let state = figures.server.name();
            let place = place(point, side, ("", ""));
            text.push_str(&format!("{place},server_state,{state},state,1,\n"));
            for start in &figures.starts {
                let (block, ordinal) = (start.block.to_string(), start.start.to_string());
                rows(&mut text, point, side, (&block, &ordinal), &start.summary);
            }
        }
    }
    text
}

fn rows(
    text: &mut String,
    point: &PointInput,
    side: &SideInput,
    at: (&str, &str),
    summary: &Summary,
) {
    let place = place(point, side, at);
    number_rows(text, &place, summary);
    for (kind, n) in &summary.failures {
        text.push_str(&format!("{place},failed_requests,{},requests,{n},\n", kind.name()));
        for (status, n) in summary.failure_statuses.get(kind).into_iter().flatten() {
            let name = format!("{}_{status}", kind.name());
            text.push_str(&format!("{place},failed_requests_by_status,{name},requests,{n},\n"));
        }
    }
}

/// The columns of a row before its number.
fn place(point: &PointInput, side: &SideInput, (block, start): (&str, &str)) -> String {
    let phase = match point.phase {
        Phase::WarmUp => "warm_up",
        Phase::Reference => "reference",
        Phase::Load => "load",
        Phase::Search => "search",
    };
    [
        field(&side.name),
        field(&point.point.group),
        field(&point.point.scenario),
        field(&point.point.load.id()),
        phase.to_owned(),
        block.to_owned(),
        start.to_owned(),
    ]
    .join(",")
}

fn number_rows(text: &mut String, place: &str, summary: &Summary) {
    for metric in Metric::ALL {
        let statistics = Statistic::ALL.map(Some);
        let statistics = if metric.is_distribution() { &statistics[..] } else { &[None] };
        for &statistic in statistics {
            let measure = Measure { metric, statistic };
            let Some(value) = summary.get(measure).filter(|v| v.is_finite()) else { continue };
            let count = summary.distributions.get(&metric).map(|d| d.count);
            let count = count.unwrap_or(summary.completed + summary.failed);
            let name = statistic.map_or("", Statistic::name);
            // Kept as a share, as in JSON.
            let unit = if metric.is_share() { "share" } else { metric.unit() };
            text.push_str(&format!("{place},{},{name},{unit},{value},{count}\n", metric.name()));
        }
    }
}

/// A field, quoted where RFC 4180 asks for it. A leading sign of a formula is quoted away too, since
/// spreadsheets would run it.
fn field(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t']);
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn fields_are_quoted_and_harmless() {
        assert_eq!(field("plain"), "plain");
        assert_eq!(field("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(field("=1+1"), "'=1+1");
    }
}
