//! The window: the measured time of a round, and what lies inside it.

use super::{RequestRecord, StoredRound};
use crate::units::ns_to_s;

/// The bounds of the measured time, nanoseconds on the run's clock; `u64::MAX` while unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// When it opened, or will; what happened then is outside.
    pub open_ns: u64,
    /// When it closed; what happened then is inside.
    pub close_ns: u64,
}

impl Window {
    /// A window whose bounds are not known yet: nothing lies inside.
    #[must_use]
    pub fn pending() -> Self {
        Self { open_ns: u64::MAX, close_ns: u64::MAX }
    }

    /// That of a stored round.
    #[must_use]
    pub fn of(round: &StoredRound) -> Self {
        Self { open_ns: round.window_open_ns, close_ns: round.window_close_ns }
    }

    /// Whether it has closed.
    #[must_use]
    pub fn is_closed(self) -> bool {
        self.close_ns != u64::MAX
    }

    /// How long it was open, ns; 0 where it never was, or still is.
    #[must_use]
    pub fn length_ns(self) -> u64 {
        if self.is_closed() { self.close_ns.saturating_sub(self.open_ns) } else { 0 }
    }

    /// The same in seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        ns_to_s(self.length_ns())
    }

    /// Whether a moment lies inside: after the opening, and at the close or before, so that
    /// neighbouring windows share none.
    #[must_use]
    pub fn contains(self, at_ns: u64) -> bool {
        self.open_ns < at_ns && at_ns <= self.close_ns
    }

    /// Nanoseconds of `[from_ns, to_ns]` that lie inside.
    #[must_use]
    pub fn overlap_ns(self, from_ns: u64, to_ns: u64) -> u64 {
        to_ns.min(self.close_ns).saturating_sub(from_ns.max(self.open_ns))
    }

    /// Whether a request ended inside.
    #[must_use]
    pub fn ended_inside(self, record: &RequestRecord) -> bool {
        record.ended_ns().is_some_and(|at_ns| self.contains(at_ns))
    }

    /// How long a request was in flight inside, ns: from its send to its end, or to the close where
    /// no end is known.
    #[must_use]
    pub fn in_flight_ns(self, record: &RequestRecord) -> u64 {
        let Some(sent_ns) = record.sent_ns else { return 0 };
        self.overlap_ns(sent_ns, record.ended_ns().unwrap_or(self.close_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_is_cut_on_both_sides() {
        let window = Window { open_ns: 10, close_ns: 20 };
        assert_eq!(window.overlap_ns(0, 15), 5);
        assert_eq!(window.overlap_ns(12, 40), 8);
        assert_eq!(window.overlap_ns(30, 40), 0);
        assert_eq!(Window::pending().overlap_ns(0, 5), 0);
    }

    #[test]
    fn what_happens_at_an_edge_is_inside_one_window_alone() {
        let (first, next) =
            (Window { open_ns: 10, close_ns: 20 }, Window { open_ns: 20, close_ns: 30 });
        assert_eq!(
            (first.contains(10), first.contains(20), next.contains(20)),
            (false, true, false)
        );
        assert_eq!((first.length_ns(), first.seconds()), (10, 1e-8));
        let open = Window { open_ns: 10, close_ns: u64::MAX };
        assert_eq!(
            (open.is_closed(), open.length_ns(), Window::pending().length_ns()),
            (false, 0, 0)
        );
        assert!(!Window::pending().contains(u64::MAX));
    }
}
