//! A file to write, and JSON as its text.

use std::path::PathBuf;

use crate::error::{Error, Result};

/// One file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExportFile {
    /// Below the folder that the user names.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// One JSON document, indented, and a line end.
pub(super) fn json(value: &impl serde::Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value);
    let text = text
        .map_err(|error| Error::store("the figures cannot be written as JSON").with_cause(error))?;
    Ok(format!("{text}\n"))
}
