//! Settling: whether the medians of a warm-up have become steady.

use std::collections::VecDeque;

use super::admission::Admission;
use super::goal::{Control, Goal};
use super::prefetch::PreparedRequest;
use crate::record::request::Part;
use crate::record::{Outcome, RequestRecord, Window};
use crate::stats::quantile::median;

/// This many windows must agree.
pub(super) const WINDOWS: usize = 3;
/// How closely: (highest − lowest) / lowest.
const AGREEMENT: f64 = 0.05;

/// Medians of one window of completions, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Medians {
    ttft_ms: Option<f64>,
    tpot_ms: Option<f64>,
    e2el_ms: Option<f64>,
}

/// Waits for the medians to settle.
#[derive(Debug)]
pub(super) struct Settle {
    window: usize,
    until_ns: u64,
    current: Vec<Medians>,
    last: VecDeque<Medians>,
    stable: bool,
}

impl Settle {
    pub(super) fn new(window: usize, until_ns: u64) -> Self {
        Self {
            window: window.max(1),
            until_ns,
            current: Vec::with_capacity(window),
            last: VecDeque::with_capacity(WINDOWS + 1),
            stable: false,
        }
    }

    /// Whether the medians agree or the time is over.
    fn is_over(&self, now_ns: u64) -> bool {
        self.stable || now_ns >= self.until_ns
    }

    pub(super) fn is_stable(&self) -> bool {
        self.stable
    }

    fn push(&mut self, figures: Medians) {
        self.current.push(figures);
        if self.current.len() < self.window {
            return;
        }
        self.last.push_back(medians(&self.current));
        self.current.clear();
        if self.last.len() > WINDOWS {
            self.last.pop_front();
        }
        self.stable = self.last.len() == WINDOWS
            && agree(self.last.iter().map(|m| m.ttft_ms))
            && agree(self.last.iter().map(|m| m.tpot_ms));
    }

    /// Median E2EL of the last window, seconds; of the one under way before the first is full.
    pub(super) fn e2el_s(&self) -> Option<f64> {
        let last = self.last.back().copied().unwrap_or_else(|| medians(&self.current));
        last.e2el_ms.map(|ms| ms / 1e3)
    }
}

impl Goal for Settle {
    fn tick(&mut self, now_ns: u64, _: &mut Admission) -> Control {
        if self.is_over(now_ns) { Control::Over } else { Control::Go }
    }

    fn wake_ns(&self) -> u64 {
        self.until_ns
    }

    fn part(&mut self, _: &PreparedRequest, _: u64) -> Part {
        Part::Ramp
    }

    fn ended(&mut self, _: Part, _: u64) -> Control {
        Control::Go
    }

    fn look(&mut self, record: &RequestRecord) {
        if record.outcome == Outcome::Completed && !self.stable {
            self.push(Medians {
                ttft_ms: record.ttft_ms(),
                tpot_ms: record.tpot_ms(),
                e2el_ms: record.e2el_ms(),
            });
        }
    }

    fn close(&mut self, _: u64) {}

    /// Nothing is measured.
    fn window(&self) -> Window {
        Window::pending()
    }
}

fn medians(figures: &[Medians]) -> Medians {
    let of = |pick: fn(&Medians) -> Option<f64>| {
        median(&figures.iter().filter_map(pick).collect::<Vec<_>>())
    };
    Medians { ttft_ms: of(|m| m.ttft_ms), tpot_ms: of(|m| m.tpot_ms), e2el_ms: of(|m| m.e2el_ms) }
}

/// Whether all lie within [`AGREEMENT`]. A figure that no window has (TPOT of one token) agrees.
fn agree(values: impl Iterator<Item = Option<f64>> + Clone) -> bool {
    if values.clone().all(|value| value.is_none()) {
        return true;
    }
    let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
    for value in values {
        let Some(value) = value else { return false };
        low = low.min(value);
        high = high.max(value);
    }
    high - low <= AGREEMENT * low
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(settle: &mut Settle, ttft_ms: f64, times: usize) {
        for _ in 0..times {
            settle.push(Medians { ttft_ms: Some(ttft_ms), tpot_ms: None, e2el_ms: Some(2e3) });
        }
    }

    #[test]
    fn settles_when_three_windows_agree() {
        let mut settle = Settle::new(4, 1_000);
        push(&mut settle, 200.0, 4);
        push(&mut settle, 104.0, 4);
        push(&mut settle, 100.0, 4);
        assert!(!settle.is_over(0));
        push(&mut settle, 105.0, 3);
        assert!(!settle.is_over(0));
        push(&mut settle, 105.0, 1);
        assert!(settle.is_over(0));
        assert_eq!(settle.e2el_s(), Some(2.0));
    }

    #[test]
    fn the_limit_ends_it_unsettled() {
        let mut settle = Settle::new(16, 1_000);
        push(&mut settle, 100.0, 5);
        assert!(!settle.is_over(999));
        assert!(settle.is_over(1_000));
        assert!(!settle.stable);
        assert_eq!(settle.e2el_s(), Some(2.0));
    }

    #[test]
    fn an_absent_figure_agrees_only_where_it_is_absent_everywhere() {
        assert!(agree([None, None].into_iter()));
        assert!(!agree([Some(1.0), None].into_iter()));
        assert!(agree([Some(100.0), Some(105.0)].into_iter()));
        assert!(!agree([Some(100.0), Some(105.1)].into_iter()));
    }
}
