//! The open loop's gate: arrivals by absolute deadlines that never wait for answers, under a cap.

use super::pacer::Pacer;
use super::prefetch::PreparedRequest;
use crate::error::Result;

/// What bounds the requests in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cap {
    /// The user's own `--max-concurrency`.
    Asked(u32),
    /// Ours, against a server that falls behind without end.
    Guard(u32),
}

impl Cap {
    pub(super) fn requests(self) -> u32 {
        match self {
            Self::Asked(n) | Self::Guard(n) => n.max(1),
        }
    }
}

/// Requests that have fallen due, under a cap. Those above it wait here and in the pacer; they keep
/// their due times, so the wait is inside their latency.
#[derive(Debug)]
pub(super) struct OpenGate {
    pacer: Pacer,
    cap: Cap,
    /// Since when there has been room below the cap.
    room_since_ns: u64,
}

impl OpenGate {
    pub(super) fn new(pacer: Pacer, cap: Cap) -> Self {
        Self { pacer, cap, room_since_ns: 0 }
    }

    pub(super) fn cap(&self) -> Cap {
        self.cap
    }

    /// A request ended while `in_flight` were, itself among them.
    pub(super) fn freed(&mut self, at_ns: u64, in_flight: u32) {
        if in_flight >= self.cap.requests() {
            self.room_since_ns = at_ns;
        }
    }

    /// The next request that is due, once there is room. Safe to drop.
    pub(super) async fn next(&mut self, in_flight: u32) -> Result<PreparedRequest> {
        if in_flight >= self.cap.requests() {
            return std::future::pending().await;
        }
        self.pacer.next().await
    }

    /// The next request, where one is due already and there is room.
    pub(super) fn try_next(&mut self, in_flight: u32) -> Option<Result<PreparedRequest>> {
        if in_flight >= self.cap.requests() { None } else { self.pacer.try_next() }
    }

    /// When a request due at `due_ns` could have been sent at the earliest.
    pub(super) fn eligible_ns(&self, due_ns: Option<u64>) -> u64 {
        due_ns.unwrap_or(0).max(self.room_since_ns)
    }
}
