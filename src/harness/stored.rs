//! A stored run as a report, without a verdict and without writing it.

use super::conclude::{gather, newest, side_input};
use super::faction::RunSet;
use crate::error::Result;
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
