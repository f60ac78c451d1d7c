//! Admission: when the next request may be sent. Closed and open loop differ in nothing else.

use std::collections::VecDeque;

use super::pacer::Pacer;
use super::prefetch::{Prefetch, PreparedRequest};
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

/// Slots that begin over time and refill at once.
#[derive(Debug)]
pub(super) struct ClosedGate {
    ramp: Option<Prefetch>,
    main: Prefetch,
    slots: u32,
    begun: u32,
    begin_ns: u64,
    /// The first slots begin this far apart; 0: together.
    step_ns: u64,
    /// When each free slot became free, oldest first; at most `slots`.
    free: VecDeque<u64>,
}

/// The lists a closed loop sends from.
#[derive(Debug)]
pub(super) struct Feeds {
    /// Until the window opens; none: from the main list at once.
    pub(super) ramp: Option<Prefetch>,
    pub(super) main: Prefetch,
}

impl ClosedGate {
    /// `spread_ns`: the slots' first requests are spread evenly over this time; 0: together.
    pub(super) fn new(feeds: Feeds, slots: u32, begin_ns: u64, spread_ns: u64) -> Self {
        let slots = slots.max(1);
        Self {
            ramp: feeds.ramp,
            main: feeds.main,
            slots,
            begun: 0,
            begin_ns,
            step_ns: spread_ns / u64::from(slots),
            free: VecDeque::new(),
        }
    }

    /// From now on the measured list is sent.
    pub(super) fn window_opens(&mut self) {
        self.ramp = None;
    }

    /// A slot's request ended.
    pub(super) fn freed(&mut self, at_ns: u64) {
        self.free.push_back(at_ns);
    }

    /// Whether every slot has sent its first request.
    pub(super) fn all_begun(&self) -> bool {
        self.begun == self.slots
    }

    /// The next request, once a slot is free or begins. Safe to drop.
    pub(super) async fn next(&mut self, clock: Clock) -> Result<PreparedRequest> {
        if self.free.is_empty() {
            if self.begun == self.slots {
                return std::future::pending().await;
            }
            let start_ns = self.slot_start_ns();
            // A timer in the past still costs a turn of the event loop.
            if start_ns > clock.now_ns() {
                clock.sleep_until(start_ns).await;
            }
        }
        self.feed().next().await
    }

    /// The next request, where a slot is free now and a request is ready.
    pub(super) fn try_next(&mut self) -> Option<Result<PreparedRequest>> {
        if self.free.is_empty() { None } else { self.feed().try_next() }
    }

    /// Takes a slot for a request that is sent now: when it could have been sent at the earliest.
    pub(super) fn take(&mut self) -> u64 {
        self.free.pop_front().unwrap_or_else(|| {
            let start_ns = self.slot_start_ns();
            self.begun += 1;
            start_ns
        })
    }

    fn slot_start_ns(&self) -> u64 {
        self.begin_ns.saturating_add(self.step_ns.saturating_mul(u64::from(self.begun)))
    }

    fn feed(&mut self) -> &mut Prefetch {
        self.ramp.as_mut().unwrap_or(&mut self.main)
    }
}

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

/// Requests in flight that an open loop of this rate may reach before more have to wait: ten times
/// what the rate and the E2EL need, since beyond that a server is saturated and more in flight only
/// use up descriptors. At least 64; at most 16384, half of the ports that Linux gives to one peer.
pub(super) fn guard_for(per_s: f64, expected_s: Option<f64>) -> u32 {
    /// Without a warm-up, an answer of some hundred tokens at some ten milliseconds each.
    const E2EL_S: f64 = 10.0;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
    let guard = (10.0 * per_s * expected_s.unwrap_or(E2EL_S)) as u32;
    guard.clamp(64, 16_384)
}
