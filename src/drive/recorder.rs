//! The recorder of a round: records, gaps and counts, entered by one task only.

use super::ErrorLimit;
use crate::plan::PlannedRequest;
use crate::record::{
    GapHistogram, Outcome, PositionGaps, RequestIdent, RequestRecord, Window, record_gaps,
};
use crate::transport::{Exchange, FailureKind};

/// Failures whose evidence is kept; of later ones the kind and the status are. Evidence takes up to
/// 2 KiB, and a round may fail for hours below its error limit.
const EVIDENCE: u64 = 1_000;

/// Requests whose records find room ahead of time: 16 MB of records. Of more, copying is rare.
const MOST_ROOM: u32 = 65_536;

/// What is kept of a request besides its own counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// Its record, and its gaps where it was measured.
    Records,
    /// Nothing: a warm-up.
    Nothing,
}

/// A request in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flight {
    pub(super) planned: PlannedRequest,
    pub(super) ident: RequestIdent,
    pub(super) due_ns: Option<u64>,
    /// When it was handed to its task.
    pub(super) handed_ns: u64,
    /// When it could have been sent at the earliest: due, with room.
    pub(super) eligible_ns: u64,
}

/// What has been measured so far. Memory per request: its record alone.
#[derive(Debug)]
pub(super) struct RoundRecorder {
    keep: Keep,
    pub(super) records: Vec<RequestRecord>,
    pub(super) itl: GapHistogram,
    pub(super) icl: GapHistogram,
    pub(super) positions: PositionGaps,
    /// How late requests of the window were sent.
    pub(super) lags: GapHistogram,
    pub(super) completed: u64,
    pub(super) failed: u64,
    /// 401 and 403.
    unauthorized: u64,
    /// In a row, to the last that ended.
    unreached: u64,
    /// Timeouts for want of a first byte or of the next token, in a row, to the last that ended.
    silent: u64,
    /// The latest end of any request entered: no later than this may a window close before.
    pub(super) latest_end_ns: u64,
    e2el_sum_s: f64,
}

impl RoundRecorder {
    /// A tally of about `requests` requests. Room for them is made ahead, before any token can wait
    /// for it.
    pub(super) fn new(keep: Keep, requests: u32) -> Self {
        let (room, gaps): (usize, fn() -> GapHistogram) = match keep {
            Keep::Records => (requests.min(MOST_ROOM) as usize, GapHistogram::with_room),
            Keep::Nothing => (0, GapHistogram::new),
        };
        Self {
            keep,
            records: Vec::with_capacity(room),
            itl: gaps(),
            icl: gaps(),
            positions: PositionGaps::default(),
            lags: gaps(),
            completed: 0,
            failed: 0,
            unauthorized: 0,
            unreached: 0,
            silent: 0,
            latest_end_ns: 0,
            e2el_sum_s: 0.0,
        }
    }

    /// Enters a request that has ended, and hands its record to `look`.
    pub(super) fn enter(
        &mut self,
        flight: &Flight,
        exchange: &Exchange,
        window: Window,
        look: impl FnOnce(&RequestRecord),
    ) {
        let bounds = (window.open_ns, window.close_ns);
        let mut record =
            RequestRecord::from_exchange(flight.ident, &flight.planned, exchange, bounds);
        self.latest_end_ns = self.latest_end_ns.max(record.end_ns.unwrap_or(0));
        match record.outcome {
            Outcome::Completed => {
                self.completed += 1;
                self.e2el_sum_s += record.e2el_from_sent_ms().unwrap_or(0.0) / 1e3;
            }
            Outcome::Failed => {
                self.failed += 1;
                if record.failure == Some(FailureKind::Unauthorized) {
                    self.unauthorized += 1;
                }
            }
            Outcome::Cancelled => {}
        }
        let unreached = record.failure.is_some_and(FailureKind::is_unreached);
        self.unreached = if unreached { self.unreached + 1 } else { 0 };
        let silent = record.failure.is_some_and(FailureKind::is_silence);
        self.silent = if silent { self.silent + 1 } else { 0 };
        if self.failed > EVIDENCE {
            record.evidence = None;
        }
        look(&record);
        if self.keep == Keep::Records {
            if let Some(sent_ns) = record.sent_ns.filter(|ns| window.contains(*ns)) {
                self.lags.record(sent_ns.saturating_sub(flight.eligible_ns), 1);
            }
            if record.is_sample() {
                record_gaps(&exchange.timeline, &mut self.itl, &mut self.icl);
                self.positions.add(&exchange.timeline);
            }
            self.records.push(record);
        }
    }

    /// Mean E2EL from the send of the completed, seconds; 0 before the first.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn e2el_mean_s(&self) -> f64 {
        if self.completed == 0 { 0.0 } else { self.e2el_sum_s / self.completed as f64 }
    }

    /// Whether so much has failed that going on would add no information.
    pub(super) fn is_beyond(&self, limit: ErrorLimit) -> bool {
        let attempted = self.completed + self.failed;
        #[allow(clippy::cast_precision_loss)]
        let share = self.failed as f64 / attempted.max(1) as f64;
        // A refused key refuses every request: asking on only fills the server's log.
        // No server behind the address: every further request fails alike, and a long window that was
        // good until now would take as many failures as it had completions.
        self.unauthorized > 0
            || self.unreached >= limit.least
            || (attempted >= limit.least && share > limit.share)
    }

    /// Whether the server stands still: as many requests in a row as are in flight, and two at least,
    /// timed out with nothing coming. All that were in flight when it stopped have then ended, so this
    /// takes two time limits at most, whatever the load.
    pub(super) fn is_hung(&self, in_flight: u32) -> bool {
        self.silent >= u64::from(in_flight).max(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(completed: u64, failed: u64, unauthorized: u64) -> RoundRecorder {
        RoundRecorder { completed, failed, unauthorized, ..RoundRecorder::new(Keep::Nothing, 0) }
    }

    #[test]
    fn too_many_failures_are_seen_after_enough_attempts() {
        let limit = ErrorLimit { share: 0.5, least: 20 };
        assert!(!tally(0, 19, 0).is_beyond(limit));
        assert!(tally(0, 20, 0).is_beyond(limit));
        assert!(!tally(10, 10, 0).is_beyond(limit));
        assert!(tally(10, 11, 0).is_beyond(limit));
        assert!(tally(5, 1, 1).is_beyond(limit));
        assert!(!tally(0, 0, 0).is_beyond(limit));
    }
}
