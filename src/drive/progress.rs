//! Progress: how far a round or its warm-up is.

use std::sync::Arc;

use crate::clock::Clock;
use crate::plan::Phase;
use crate::units::ns_to_s;

/// Counts for whoever shows progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counts {
    pub(super) sent: u64,
    pub(super) completed: u64,
    pub(super) failed: u64,
    pub(super) in_flight: u32,
}

/// How far a round or its warm-up is, at most ten times a second.
#[derive(Debug, Clone)]
pub struct Progress {
    /// What it is for.
    pub phase: Phase,
    /// The load point's id.
    pub point: Arc<str>,
    /// Requests sent, ramp and tail included.
    pub sent: u64,
    /// Requests completed.
    pub completed: u64,
    /// Requests failed.
    pub failed: u64,
    /// Requests in flight.
    pub in_flight: u32,
    /// Seconds since it began.
    pub elapsed_s: f64,
    /// Measured requests planned, at least; none of a warm-up, which ends when it is stable.
    pub planned: Option<u32>,
}

/// What progress is of.
pub(super) struct Lap {
    pub(super) phase: Phase,
    pub(super) point: Arc<str>,
    pub(super) clock: Clock,
    pub(super) begin_ns: u64,
    pub(super) planned: Option<u32>,
}

impl Lap {
    pub(super) fn progress(&self, counts: Counts) -> Progress {
        Progress {
            phase: self.phase,
            point: Arc::clone(&self.point),
            sent: counts.sent,
            completed: counts.completed,
            failed: counts.failed,
            in_flight: counts.in_flight,
            elapsed_s: ns_to_s(self.clock.now_ns().saturating_sub(self.begin_ns)),
            planned: self.planned,
        }
    }
}
