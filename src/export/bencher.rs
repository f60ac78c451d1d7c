//! Bencher Metric Format: benchmark → measure → value with its bounds.
//!
//! Schema: <https://bencher.dev/docs/reference/bencher-metric-format/>.

use serde_json::{Map, Value, json};

use super::measured::{Measured, key, tracked};
use crate::error::Result;

/// The document. Bounds are the 95 % interval over server starts.
pub(super) fn render(measured: &Measured<'_>) -> Result<String> {
    let mut benchmarks = Map::new();
    for point in measured.loads() {
        let mut measures = Map::new();
        for measure in tracked() {
            let Some(value) = point.get(measure) else { continue };
            let mut metric = json!({ "value": value });
            if let Some((low, high)) = point.interval(measure) {
                metric["lower_value"] = low.into();
                metric["upper_value"] = high.into();
            }
            measures.insert(key(measure), metric);
        }
        benchmarks.insert(point.id().to_owned(), Value::Object(measures));
    }
    super::file::json(&benchmarks)
}
