//! The report as one JSON document.

use super::Report;
use crate::error::{Error, Result};

/// The text of `report.json`, with a newline at its end.
///
/// # Errors
/// Where a value cannot be written as JSON, which would be a defect.
pub fn render(report: &Report) -> Result<String> {
    let mut text = serde_json::to_string_pretty(report.document())
        .map_err(|e| Error::store("could not write the report as JSON").with_cause(e))?;
    text.push('\n');
    Ok(text)
}
