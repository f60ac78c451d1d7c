//! The closed loop's gate: so many slots, each refilled as soon as its request ends.

use std::collections::VecDeque;

use super::prefetch::{Prefetch, PreparedRequest};
use crate::clock::Clock;
use crate::error::Result;

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
