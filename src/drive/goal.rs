//! The goal of a send loop: what it sends for, and when it has got it. Measuring a window is one; a
//! warm-up has another.

use super::admission::Admission;
use super::prefetch::{Branch, PreparedRequest};
use super::stop_rule::StopTracker;
use crate::record::request::Part;
use crate::record::{RequestRecord, Window};
use crate::units::ns_to_s;

/// What the loop does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Control {
    /// Goes on.
    Go,
    /// Goes on; the window has just opened.
    Opened,
    /// Stops sending.
    Over,
}

/// What the loop sends for, and when it has got it.
pub(super) trait Goal {
    /// Takes note of the time.
    fn tick(&mut self, now_ns: u64, gate: &mut Admission) -> Control;

    /// When `tick` has something to do, at the latest.
    fn wake_ns(&self) -> u64;

    /// The part of the round that a request sent now belongs to.
    fn part(&mut self, ready: &PreparedRequest, now_ns: u64) -> Part;

    /// A request has ended; its record is not written yet, since the window may close with it.
    fn ended(&mut self, part: Part, now_ns: u64) -> Control;

    /// A look at a record.
    fn look(&mut self, record: &RequestRecord);

    /// Sending stops at `at_ns`: the window closes, empty if it never opened.
    fn close(&mut self, at_ns: u64);

    /// The window as it is.
    fn window(&self) -> Window;
}

/// A window to be opened, filled and closed.
#[derive(Debug)]
pub(super) struct Measure {
    pub(super) window: Window,
    roll: StopTracker,
    /// When it opens, while it has not.
    opens_ns: Option<u64>,
}

impl Measure {
    /// A window that opens at `opens_ns` or, in a closed loop, when all slots have begun after that.
    pub(super) fn new(window: Window, roll: StopTracker, opens_ns: u64) -> Self {
        Self { window, roll, opens_ns: Some(opens_ns) }
    }

    fn elapsed_s(&self, now_ns: u64) -> f64 {
        ns_to_s(now_ns.saturating_sub(self.window.open_ns))
    }
}

impl Goal for Measure {
    fn tick(&mut self, now_ns: u64, gate: &mut Admission) -> Control {
        match self.opens_ns {
            Some(at_ns) if now_ns < at_ns || !gate.is_ramped() => Control::Go,
            Some(_) => {
                self.opens_ns = None;
                self.window.open_ns = self.window.open_ns.min(now_ns);
                gate.window_opens();
                Control::Opened
            }
            None => {
                self.roll.at(self.elapsed_s(now_ns));
                if self.roll.is_over() { Control::Over } else { Control::Go }
            }
        }
    }

    /// Later bounds of the window are kept by the loop's regular wake-ups.
    fn wake_ns(&self) -> u64 {
        self.opens_ns.unwrap_or(u64::MAX)
    }

    fn part(&mut self, ready: &PreparedRequest, now_ns: u64) -> Part {
        match ready.branch {
            Branch::Ramp | Branch::WarmUp => Part::Ramp,
            Branch::Main => self.roll.enter(self.elapsed_s(now_ns)),
        }
    }

    fn ended(&mut self, part: Part, now_ns: u64) -> Control {
        let elapsed_s = self.elapsed_s(now_ns);
        if part == Part::Measured && self.roll.ended(elapsed_s) {
            Control::Over
        } else {
            Control::Go
        }
    }

    fn look(&mut self, _: &RequestRecord) {}

    fn close(&mut self, at_ns: u64) {
        if self.opens_ns.is_some() {
            self.window = Window { open_ns: at_ns, close_ns: at_ns };
        } else if !self.window.is_closed() {
            self.window.close_ns = at_ns.max(self.window.open_ns);
        }
    }

    fn window(&self) -> Window {
        self.window
    }
}
