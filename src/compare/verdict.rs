//! What may be said of one cell.

use serde::{Deserialize, Serialize};

/// The verdict of a load point × measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Better, for sure, and by more than the floor.
    Improved,
    /// Worse, for sure, and by more than the floor.
    Regressed,
    /// Shown to lie within the floor.
    Unchanged,
    /// A change, for sure, but smaller than the floor.
    WithinNoise,
    /// Not enough data to say.
    Inconclusive,
    /// Beyond what the server can take: only its capacity is judged.
    Saturated,
    /// Other lengths, definitions, dataset or model.
    Incomparable,
    /// The client or the load could have moved it.
    Invalid,
    /// Not in the baseline.
    New,
    /// Only in the baseline.
    Removed,
}
