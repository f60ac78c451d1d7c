//! The plan: every start, round and request before a byte is sent. Pure.

pub mod phase;
pub mod schedule;

pub use phase::{Phase, RoundPlan, Side, StartPlan, StopRule};
pub use schedule::{PlannedRequest, Schedule};

use serde::{Deserialize, Serialize};

use crate::rng::Seed;
use crate::scenario::LoadPoint;

/// How the sides of a run are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Design {
    /// One side only.
    OneSided,
    /// Blocks of one start of each side, order alternating.
    Interleaved,
    /// Rounds of two URLs alternating within one start.
    Routes,
}

/// Everything a run will do.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// One side or two.
    pub design: Design,
    /// The load points, in the order they run up.
    pub points: Vec<LoadPoint>,
    /// The rate-1 references, one per pair of lengths.
    pub references: Vec<LoadPoint>,
    /// The starts, in the order they happen.
    pub starts: Vec<StartPlan>,
    /// The root of lengths and arrivals.
    pub seed: Seed,
    /// A hash of lengths, arrivals, loads and dataset, without the per-run salt of the prompts:
    /// runs with the same hash did the same work.
    pub workload_hash: String,
}
