//! github-action-benchmark: `customSmallerIsBetter` and `customBiggerIsBetter`, a file each.
//!
//! Schema: <https://github.com/benchmark-action/github-action-benchmark>, README, "custom" tools.

use serde_json::{Value, json};

use super::file::ExportFile;
use super::measured::{Measured, Point, tracked};
use crate::error::Result;
use crate::metric::{Better, Measure};
use crate::units::significant;

/// Both files.
pub(super) fn render(measured: &Measured<'_>) -> Result<Vec<ExportFile>> {
    let of = |name: &str, better: Better| -> Result<ExportFile> {
        let entries: Vec<Value> =
            measured.loads().flat_map(|point| entries(point, better)).collect();
        Ok(ExportFile { path: name.into(), text: super::file::json(&entries)? })
    };
    Ok(vec![of("smaller.json", Better::Lower)?, of("bigger.json", Better::Higher)?])
}

fn entries(point: &Point<'_>, better: Better) -> Vec<Value> {
    let starts = point.figures.starts.len();
    let entry = |measure: Measure| {
        let value = point.get(measure)?;
        let mut entry = json!({
            "name": format!("{} {}", point.id(), measure.label()),
            "unit": unit(measure),
            "value": value,
            "extra": format!("server starts: {starts}, requests: {}", point.summary().completed),
        });
        if let Some((low, high)) = point.interval(measure) {
            entry["range"] = format!("± {}", significant((high - low) / 2.0)).into();
        }
        Some(entry)
    };
    let wanted = tracked().into_iter().filter(|measure| measure.metric.better() == better);
    wanted.filter_map(entry).collect()
}

/// The error rate is written as a share, as everywhere in files.
fn unit(measure: Measure) -> &'static str {
    if measure.metric.is_share() { "share" } else { measure.metric.unit() }
}
