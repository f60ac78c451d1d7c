//! The report of a conclusion, written: every form of it, the page to open last.

use std::path::PathBuf;

use crate::error::Result;
use crate::report::{Report, csv, html, json, junit, markdown};
use crate::store::{Store, files};

/// Writes every form of the report; returns the page to open.
pub(super) fn write(store: &Store, report: &Report) -> Result<PathBuf> {
    let folder = store.layout().report();
    files::replace_folder(&folder, |folder| {
        let put = |path: &str, text: &str| files::write_plain(&folder.join(path), text);
        html::render(report, &mut |path, text| put(path, text))?;
        put("report.json", &json::render(report)?)?;
        put("verdict.md", &markdown::render(report, None))?;
        put("report.csv", &csv::render(report))?;
        put("junit.xml", &junit::render(report))
    })?;
    Ok(folder.join("index.html"))
}
