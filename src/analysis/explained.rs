//! The working of one verdict of a stored run.

use std::collections::BTreeSet;

use super::stored::newest;
use crate::compare::Comparison;
use crate::error::{Error, ErrorKind, Result};
use crate::metric::Measure;
use crate::report::explain;
use crate::store::Store;

/// How the verdict on one number of one load point came about, in the comparison of a run (the
/// newest one if none is named).
///
/// # Errors
/// If the run has no comparison, or it lacks such a load point or number.
pub fn explained(
    store: &Store,
    run: Option<&str>,
    point: &str,
    measure: Measure,
) -> Result<String> {
    let run = match run {
        Some(id) => store.load_run(id)?,
        None => newest(store)?,
    };
    let comparison: Comparison = store.load_comparison(&run.id)?.ok_or_else(|| {
        let message = format!("run {} was compared with nothing", run.id);
        Error::new(ErrorKind::NotFound, message)
            .with_hint("measure it against something: `--baseline NAME` or `--against-cmd`")
    })?;
    let point = the_point(&comparison, point)?;
    let of_point = || comparison.cells.iter().filter(|cell| cell.point == point);
    let cell = of_point().find(|cell| cell.measure == measure).ok_or_else(|| {
        let known: Vec<String> = of_point().map(|cell| cell.measure.name()).collect();
        let message = format!("{} was not compared at {point}", measure.name());
        Error::new(ErrorKind::NotFound, message).with_hint(format!("known: {}", known.join(", ")))
    })?;
    Ok(explain::explain(&comparison, cell))
}

/// The load point of this name, or the only one whose name has it as a part.
fn the_point(comparison: &Comparison, wanted: &str) -> Result<String> {
    let points: BTreeSet<&str> = comparison.cells.iter().map(|cell| cell.point.as_str()).collect();
    if points.contains(wanted) {
        return Ok(wanted.to_owned());
    }
    let partly: Vec<&str> = points.iter().copied().filter(|point| point.contains(wanted)).collect();
    if let [only] = partly[..] {
        return Ok(only.to_owned());
    }
    let (message, known) = match partly.is_empty() {
        true => (format!("no load point {wanted:?} was compared"), points.into_iter().collect()),
        false => (format!("several load points have {wanted:?} in their names"), partly),
    };
    Err(Error::new(ErrorKind::NotFound, message).with_hint(format!("known: {}", known.join(", "))))
}
