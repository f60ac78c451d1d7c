//! The trend of a stored baseline.

use super::runs::RunSet;
use crate::compare::trend::Trend;
use crate::error::Result;
use crate::store::Store;

/// How the figures of a baseline (or of a run) went over its nights.
///
/// # Errors
/// If there is no such baseline, or a file cannot be read.
pub fn trend(store: &Store, name: &str) -> Result<Trend> {
    let side = RunSet::named(store, name)?.measured(store)?;
    Ok(Trend::of(&side, store.idle_lag_ms()))
}
