//! Criterion's folders, which critcmp reads: `criterion/<group>/<measure>/<baseline>/…`.
//!
//! Schema: `benchmark.json` and `estimates.json` as criterion 0.5 and later write them and critcmp
//! 0.1.8 reads them. Every figure is a time in ns there, so a throughput is the time of one request
//! or token, with one element for throughput: critcmp then shows requests or tokens a second.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::file::ExportFile;
use super::measured::{Measured, Point, file_name, tracked};
use crate::error::Result;
use crate::metric::{Better, Measure, Statistic};
use crate::stats::distribution::t_upper;

/// The confidence of the intervals.
const CONFIDENCE: f64 = 0.95;

/// Milliseconds and seconds in ns.
const NS_PER_MS: f64 = 1e6;
const NS_PER_S: f64 = 1e9;

/// The files of all load points.
pub(super) fn render(measured: &Measured<'_>) -> Result<Vec<ExportFile>> {
    let baseline = baseline(measured);
    let mut files = Vec::new();
    for point in measured.loads() {
        for measure in tracked() {
            let Some(estimates) = estimates(point, measure) else { continue };
            let group = file_name(point.id());
            let folder: PathBuf =
                ["criterion", &group, &measure.name(), &baseline].iter().collect();
            let higher = measure.metric.better() == Better::Higher;
            let benchmark = json!({
                "group_id": point.id(),
                "function_id": measure.name(),
                "value_str": Value::Null,
                "throughput": higher.then(|| json!({ "Elements": 1 })),
                "full_id": format!("{}/{}", point.id(), measure.name()),
                "directory_name": format!("{group}/{}", measure.name()),
                "title": format!("{}/{}", point.id(), measure.name()),
            });
            files.push(ExportFile {
                path: folder.join("benchmark.json"),
                text: super::file::json(&benchmark)?,
            });
            files.push(ExportFile {
                path: folder.join("estimates.json"),
                text: super::file::json(&estimates)?,
            });
        }
    }
    Ok(files)
}

/// critcmp's name for these figures: the run's own, else its side. `change` has another meaning there.
fn baseline(measured: &Measured<'_>) -> String {
    let run = measured.run;
    let name = match measured.side.runs.len() {
        1 => run.name.as_deref().unwrap_or(&run.id),
        _ => &measured.side.name,
    };
    let name = file_name(name);
    if name == "change" { "change_".to_owned() } else { name }
}

/// Estimates over server starts, ns.
fn estimates(point: &Point<'_>, measure: Measure) -> Option<Value> {
    let values: Vec<f64> =
        point.by_start(measure).into_iter().filter_map(|value| ns(measure, value)).collect();
    if values.is_empty() {
        return None;
    }
    let spread = spread(point, measure, &values);
    let middle = median(&values);
    let deviations: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    Some(json!({
        "mean": statistic(spread.mean, spread.se, spread.half_width),
        "median": statistic(middle, spread.se, spread.half_width),
        // Criterion scales it to the standard deviation of a normal distribution.
        "median_abs_dev": statistic(median(&deviations) * 1.4826, 0.0, 0.0),
        "slope": Value::Null,
        "std_dev": statistic(spread.sd, 0.0, 0.0),
    }))
}

struct Spread {
    mean: f64,
    sd: f64,
    se: f64,
    half_width: f64,
}

/// The spread between starts; of a single start that of its requests, for a mean over them.
#[allow(clippy::cast_precision_loss)] // counts of starts and requests
fn spread(point: &Point<'_>, measure: Measure, values: &[f64]) -> Spread {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let (sd, n) = if values.len() > 1 {
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        ((squares / (count - 1.0)).sqrt(), count)
    } else {
        let requests = point.summary().distributions.get(&measure.metric);
        let requests = requests.filter(|_| measure.statistic == Some(Statistic::Mean));
        let sd = requests.and_then(|requests| requests.std).unwrap_or(0.0) * NS_PER_MS;
        (sd, requests.map_or(1.0, |requests| requests.count.max(1) as f64))
    };
    let se = sd / n.sqrt();
    let half_width = if n > 1.0 { t_upper((1.0 - CONFIDENCE) / 2.0, n - 1.0) * se } else { 0.0 };
    Spread { mean, sd, se, half_width }
}

/// A figure as a time in ns; `None` if it cannot be one.
fn ns(measure: Measure, value: f64) -> Option<f64> {
    match measure.metric.unit() {
        "ms" => Some(value * NS_PER_MS),
        "%" => None,
        _ => (value > 0.0).then(|| NS_PER_S / value),
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    crate::stats::quantile::of_sorted(&sorted, 0.5).unwrap_or(0.0)
}

fn statistic(point_estimate: f64, se: f64, half_width: f64) -> Value {
    json!({
        "confidence_interval": {
            "confidence_level": CONFIDENCE,
            "lower_bound": point_estimate - half_width,
            "upper_bound": point_estimate + half_width,
        },
        "point_estimate": point_estimate,
        "standard_error": se,
    })
}
