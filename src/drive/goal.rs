//! The aim of a loop: to measure a window, or to settle a warm-up.

use super::admission::Admission;
use super::prefetch::{Branch, PreparedRequest};
use super::settle::Settle;
use super::stop_rule::StopTracker;

use crate::record::request::Part;
use crate::record::{RequestRecord, Window};
use crate::units::ns_to_s;

/// What the loop sends for, and when it has got it.
#[derive(Debug)]
pub(super) enum Goal {
    Measure(Measure),
    Settle(Settle),
}

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

    fn part(&mut self, branch: Branch, now_ns: u64) -> Part {
        match branch {
            Branch::Ramp | Branch::WarmUp => Part::Ramp,
            Branch::Main => self.roll.enter(self.elapsed_s(now_ns)),
        }
    }

    fn elapsed_s(&self, now_ns: u64) -> f64 {
        ns_to_s(now_ns.saturating_sub(self.window.open_ns))
    }
}

impl Goal {
    /// Takes note of the time.
    pub(super) fn tick(&mut self, now_ns: u64, gate: &mut Admission) -> Control {
        match self {
            Self::Measure(measure) => measure.tick(now_ns, gate),
            Self::Settle(settle) if settle.is_over(now_ns) => Control::Over,
            Self::Settle(_) => Control::Go,
        }
    }

    /// When `tick` has something to do, at the latest.
    pub(super) fn wake_ns(&self) -> u64 {
        match self {
            // Later bounds of the window are kept by the loop's regular wake-ups.
            Self::Measure(measure) => measure.opens_ns.unwrap_or(u64::MAX),
            Self::Settle(settle) => settle.until_ns(),
        }
    }

    /// The part of the round that a request sent now belongs to.
    pub(super) fn part(&mut self, ready: &PreparedRequest, now_ns: u64) -> Part {
        match self {
            Self::Measure(measure) => measure.part(ready.branch, now_ns),
            Self::Settle(_) => Part::Ramp,
        }
    }

    /// A request has ended; its record is not written yet, since the window may close with it.
    pub(super) fn ended(&mut self, part: Part, now_ns: u64) -> Control {
        match self {
            Self::Measure(measure) if part == Part::Measured => {
                let elapsed_s = measure.elapsed_s(now_ns);
                if measure.roll.ended(elapsed_s) { Control::Over } else { Control::Go }
            }
            Self::Measure(_) | Self::Settle(_) => Control::Go,
        }
    }

    /// A look at a record.
    pub(super) fn look(&mut self, record: &RequestRecord) {
        match self {
            Self::Measure(_) => {}
            Self::Settle(settle) => settle.look(record),
        }
    }

    /// Sending stops at `at_ns`: the window closes, empty where it never opened.
    pub(super) fn close(&mut self, at_ns: u64) {
        if let Self::Measure(measure) = self {
            if measure.opens_ns.is_some() {
                measure.window = Window { open_ns: at_ns, close_ns: at_ns };
            } else if !measure.window.is_closed() {
                measure.window.close_ns = at_ns.max(measure.window.open_ns);
            }
        }
    }

    /// The window as it stands.
    pub(super) fn window(&self) -> Window {
        match self {
            Self::Measure(measure) => measure.window,
            Self::Settle(_) => Window::pending(),
        }
    }
}
