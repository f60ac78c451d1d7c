//! What a run measured, start by start: the input of comparisons and reports.

use super::Summary;
use crate::record::ServerState;
use crate::record::stored::{Health, RoundStatus, WarmUp};
use crate::rng::Seed;

/// One load point within one start, its rounds pooled.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredStart {
    /// The run it belongs to.
    pub run: String,
    /// Which block.
    pub block: u32,
    /// Ordinal in its run.
    pub start: u32,
    /// The root of its lengths and arrivals (of its first round).
    pub seed: Seed,
    /// When, UTC.
    pub at: jiff::Timestamp,
    /// What distinguishes its start from others.
    pub identity: Option<String>,
    /// The worst status of its rounds.
    pub status: RoundStatus,
    /// What happened to the server, the gravest of its rounds.
    pub server: ServerState,
    /// Which of its figures, taken from another tool's file, contradict one another.
    pub contradiction: Option<String>,
    /// The health of each round.
    pub health: Vec<Health>,
    /// The warm-up of its last round.
    pub warm_up: Option<WarmUp>,
    /// Its metrics.
    pub summary: Summary,
    /// Median TTFT of the last third / the first third of its requests: 1 where it was steady.
    pub ttft_trend: Option<f64>,
    /// Failed / attempted, by round, for errors that come in bursts.
    pub attempted: u64,
}

/// One load point on one side.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredSide {
    /// All starts pooled.
    pub pooled: Summary,
    /// Each start.
    pub starts: Vec<MeasuredStart>,
}
