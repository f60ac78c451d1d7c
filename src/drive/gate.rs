//! The gate: when the next request may be sent. Closed and open loop differ in nothing else.

use super::closed_loop::ClosedGate;
use super::open_loop::{Cap, OpenGate};
use super::prefetch::PreparedRequest;
use crate::clock::Clock;
use crate::error::Result;

/// What lets requests through to the one loop that sends them.
#[derive(Debug)]
pub(super) enum Admission {
    Closed(ClosedGate),
    Open(OpenGate),
}

impl Admission {
    /// The next request, once it may be sent while `in_flight` are. Safe to drop.
    pub(super) async fn next(&mut self, clock: Clock, in_flight: u32) -> Result<PreparedRequest> {
        match self {
            Self::Closed(gate) => gate.next(clock).await,
            Self::Open(gate) => gate.next(in_flight).await,
        }
    }

    /// The next request, where one may be sent at this moment.
    pub(super) fn try_next(&mut self, in_flight: u32) -> Option<Result<PreparedRequest>> {
        match self {
            Self::Closed(gate) => gate.try_next(),
            Self::Open(gate) => gate.try_next(in_flight),
        }
    }

    /// Takes the place of a request that is sent now: when it could have been sent at the earliest.
    pub(super) fn take(&mut self, ready: &PreparedRequest) -> u64 {
        match self {
            Self::Closed(gate) => gate.take(),
            Self::Open(gate) => gate.eligible_ns(ready.due_ns),
        }
    }

    /// A request ended at `at_ns` while `in_flight` were, itself among them.
    pub(super) fn freed(&mut self, at_ns: u64, in_flight: u32) {
        match self {
            Self::Closed(gate) => gate.freed(at_ns),
            Self::Open(gate) => gate.freed(at_ns, in_flight),
        }
    }

    /// Whether the load has reached its full height.
    pub(super) fn is_ramped(&self) -> bool {
        match self {
            Self::Closed(gate) => gate.all_begun(),
            Self::Open(_) => true,
        }
    }

    /// The window opens: from now on the measured list is sent.
    pub(super) fn window_opens(&mut self) {
        match self {
            Self::Closed(gate) => gate.window_opens(),
            // The pacer changes lists by the clock.
            Self::Open(_) => {}
        }
    }

    /// Our own bound on requests in flight, where there is one.
    pub(super) fn guard(&self) -> Option<u32> {
        match self {
            Self::Open(gate) => match gate.cap() {
                Cap::Guard(requests) => Some(requests),
                Cap::Asked(_) => None,
            },
            Self::Closed(_) => None,
        }
    }
}
