//! OpenMetrics text: gauges, for the textfile collector of Prometheus' node exporter.
//!
//! Schema: <https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md>.

use super::measured::{Measured, Point};
use crate::metric::{Measure, Metric, Statistic};
use crate::plan::Phase;
use crate::record::stored::DEFINITIONS;

/// What the metric is; in a run of another client, as that client defines it.
fn definition(measured: &Measured<'_>, metric: Metric) -> String {
    match measured.run.definitions == DEFINITIONS {
        true => metric.definition().to_owned(),
        false => format!("{} as {} defines it", metric.label(), measured.run.tool),
    }
}

/// The document. Latencies are in seconds, shares are ratios, as Prometheus has it.
pub(super) fn render(measured: &Measured<'_>) -> String {
    let mut text = String::new();
    for metric in Metric::ALL {
        let lines = samples(measured, metric);
        if lines.is_empty() {
            continue;
        }
        let (name, unit) = (name(metric), unit(metric));
        text.push_str(&format!("# TYPE {name} gauge\n"));
        if !unit.is_empty() {
            text.push_str(&format!("# UNIT {name} {unit}\n"));
        }
        text.push_str(&format!("# HELP {name} {}.\n", escaped(&definition(measured, metric))));
        text.push_str(&lines);
    }
    let ended = measured.run.ended_at.unwrap_or(measured.run.started_at);
    text.push_str(
        "# TYPE inferometer_run_timestamp_seconds gauge\n\
         # UNIT inferometer_run_timestamp_seconds seconds\n\
         # HELP inferometer_run_timestamp_seconds End of the run, Unix time.\n",
    );
    text.push_str(&format!(
        "inferometer_run_timestamp_seconds{{run=\"{}\"}} {}\n# EOF\n",
        escaped(&measured.run.id),
        ended.as_second()
    ));
    text
}

fn samples(measured: &Measured<'_>, metric: Metric) -> String {
    let mut lines = String::new();
    let statistics: Vec<Option<Statistic>> = match metric.is_distribution() {
        true => Statistic::ALL.into_iter().map(Some).collect(),
        false => vec![None],
    };
    for point in &measured.points {
        for statistic in &statistics {
            let Some(value) = point.get(Measure { metric, statistic: *statistic }) else {
                continue;
            };
            let value = if metric.is_distribution() { value / 1e3 } else { value };
            let labels = labels(measured, point, *statistic);
            lines.push_str(&format!("{}{{{labels}}} {value}\n", name(metric)));
        }
    }
    lines
}

fn labels(measured: &Measured<'_>, point: &Point<'_>, statistic: Option<Statistic>) -> String {
    let model = measured.server().map(|server| server.model.as_str()).unwrap_or_default();
    let phase = if point.input.phase == Phase::Reference { "reference" } else { "load" };
    let place = &point.input.point;
    let mut labels = vec![
        ("side", measured.side.name.clone()),
        ("model", model.to_owned()),
        ("group", place.group.clone()),
        ("scenario", place.scenario.clone()),
        ("load", place.load.id()),
        ("phase", phase.to_owned()),
    ];
    labels.extend(statistic.map(|statistic| ("statistic", statistic.name().to_owned())));
    let labels = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
    labels.collect::<Vec<_>>().join(",")
}

/// A name ends in its unit, as OpenMetrics asks.
fn name(metric: Metric) -> String {
    let unit = unit(metric);
    let unit = if unit.is_empty() { String::new() } else { format!("_{unit}") };
    format!("inferometer_{}{unit}", metric.name())
}

fn unit(metric: Metric) -> &'static str {
    match metric {
        Metric::ErrorRate | Metric::GoodShare => "ratio",
        Metric::RequestThroughput | Metric::Goodput => "requests_per_second",
        Metric::OutputThroughput | Metric::TotalTokenThroughput => "tokens_per_second",
        _ => "seconds",
    }
}

/// A label's value or a help text: backslash, quote and line end are escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
