//! A stored run as a report, without a verdict and without writing it.

use super::gather::{gather, side_input};
use super::runs::RunSet;
use crate::error::{Error, ErrorKind, Result};
use crate::record::StoredRun;
use crate::report::{Report, ReportInput};
use crate::store::Store;

/// What was measured in a run (the newest one if none is named) or in the runs of a baseline.
///
/// # Errors
/// If there is no such run, or a file cannot be read.
pub fn stored_report(store: &Store, name: Option<&str>) -> Result<Report> {
    let sides = match name {
        None => RunSet::sides_of(&newest(store)?),
        Some(name) if store.baselines().find(name)?.is_some() => vec![RunSet::named(store, name)?],
        Some(name) => RunSet::sides_of(&store.load_run(name)?),
    };
    let gathered = gather(store, &sides)?;
    Ok(Report::new(ReportInput {
        sides: sides.iter().map(side_input).collect(),
        points: gathered.points,
        ..ReportInput::default()
    }))
}

/// The run that began last.
pub(super) fn newest(store: &Store) -> Result<StoredRun> {
    store.newest_run()?.ok_or_else(|| {
        Error::new(ErrorKind::NotFound, "no run is stored yet")
            .with_hint("measure one: `inferometer run`")
    })
}
