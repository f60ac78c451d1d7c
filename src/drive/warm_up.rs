//! The warm-up: the same load as measured, until the medians settle or the time is over.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::closed_loop::{ClosedGate, Feeds};
use super::gate::Admission;
use super::goal::{Control, Goal};
use super::interrupt::Interrupt;
use super::open_loop::{Cap, OpenGate};
use super::pacer::{Pacer, Stretch};
use super::prefetch::{Branch, Prefetch, PreparedRequest};
use super::recorder::{Keep, RoundRecorder};
use super::send_loop::{Counts, SendLoop, Setup};
use super::{ErrorLimit, Lap, Progress, Wire, guard_for};
use crate::clock::{Clock, duration_ns};
use crate::error::Result;
use crate::plan::{Phase, RoundPlan, Side};
use crate::record::request::Part;
use crate::record::stored::WarmUp;
use crate::record::{Outcome, RequestIdent, RequestRecord, Window};
use crate::scenario::Load;
use crate::units::ns_to_s;

/// Completions in a window at least: a median of fewer moves by more than the 5 % it is judged by.
const WINDOW_LEAST: u32 = 16;
/// The fewest at a rate so low that three full windows would not fit half of the limit.
const WINDOW_FEWEST: u32 = 4;
/// So many windows must agree.
const WINDOWS: usize = 3;
/// How closely: (highest − lowest) / lowest.
const AGREEMENT: f64 = 0.05;

/// Warms the server up for a round: the same lengths and load, other prompts (a branch of the seed of
/// its own), until the medians of TTFT and TPOT of the last three windows of max(C, 16) completions
/// agree within 5 %, or `limit` is over. Ends early where the user interrupts or nearly all fails.
/// `show` is called at most ten times a second, and once at the end.
///
/// # Errors
/// Where a request could not be built, or the system refuses a thread.
pub async fn warm_up(
    wire: &Arc<Wire>,
    clock: Clock,
    plan: &RoundPlan,
    limit: Duration,
    interrupt: &Interrupt,
    show: &mut (dyn FnMut(Progress) + Send),
) -> Result<WarmUp> {
    let begin_ns = clock.now_ns();
    let until_ns = begin_ns.saturating_add(duration_ns(limit));
    let settle = Settle::new(window_size(plan.point.load, limit), until_ns);
    let setup = Setup {
        wire,
        clock,
        gate: gate(wire, clock, plan, begin_ns)?,
        aim: settle,
        tally: RoundRecorder::new(Keep::Nothing, 0),
        lag: None,
        ident: RequestIdent {
            side: Side::New,
            block: 0,
            start: 0,
            round: plan.round,
            phase: Phase::WarmUp,
            part: Part::Ramp,
        },
        limit: ErrorLimit::default(),
        expected_s: 0.0,
    };
    let lap =
        Lap { phase: Phase::WarmUp, point: plan.point.id().into(), clock, begin_ns, planned: None };
    let mut show_counts = |counts: Counts| show(lap.progress(counts));
    let landed = Box::pin(SendLoop::new(setup).run(interrupt, &mut show_counts)).await;
    if let Some(error) = landed.error {
        return Err(error);
    }
    Ok(WarmUp {
        requests: u32::try_from(landed.tally.completed).unwrap_or(u32::MAX),
        seconds: ns_to_s(clock.now_ns().saturating_sub(begin_ns)),
        stable: landed.aim.stable,
        e2el_s: landed.aim.e2el_s(),
    })
}

fn gate(wire: &Arc<Wire>, clock: Clock, plan: &RoundPlan, begin_ns: u64) -> Result<Admission> {
    Ok(match plan.point.load {
        Load::Concurrency(slots) => {
            let main = Prefetch::start(wire, plan, Branch::WarmUp, slots)?;
            // All at once: nothing is measured, and a full batch compiles the server's kernels.
            Admission::Closed(ClosedGate::new(Feeds { ramp: None, main }, slots, begin_ns, 0))
        }
        Load::RequestRate(rate) => {
            let feed = Prefetch::start(wire, plan, Branch::WarmUp, WINDOW_LEAST)?;
            let stretch = Stretch { feed, from_ns: begin_ns, until_ns: u64::MAX };
            let cap = match rate.max_concurrency {
                Some(cap) => Cap::Asked(cap),
                None => Cap::Guard(guard_for(rate.per_s, None)),
            };
            Admission::Open(OpenGate::new(Pacer::start(clock, vec![stretch])?, cap))
        }
    })
}

/// Completions in a window: max(C, 16); at low rates as many as let three windows fit half of the
/// limit, at least 4.
fn window_size(load: Load, limit: Duration) -> usize {
    let size = match load {
        Load::Concurrency(slots) => slots.max(WINDOW_LEAST),
        Load::RequestRate(rate) => {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
            let fits = (rate.per_s * limit.as_secs_f64() / (2.0 * WINDOWS as f64)) as u32;
            fits.clamp(WINDOW_FEWEST, WINDOW_LEAST)
        }
    };
    size as usize
}

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

    fn is_over(&self, now_ns: u64) -> bool {
        self.stable || now_ns >= self.until_ns
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
    fn e2el_s(&self) -> Option<f64> {
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
    let of = |pick: fn(&Medians) -> Option<f64>| median(figures.iter().filter_map(pick).collect());
    Medians { ttft_ms: of(|m| m.ttft_ms), tpot_ms: of(|m| m.tpot_ms), e2el_ms: of(|m| m.e2el_ms) }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let n = values.len();
    let upper = *values.get(n / 2)?;
    Some(if n % 2 == 1 { upper } else { f64::midpoint(values[n / 2 - 1], upper) })
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
    use crate::scenario::load::RequestRate;

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
    fn windows_shrink_at_low_rates() {
        let rate = |per_s| {
            Load::RequestRate(RequestRate { per_s, burstiness: 1.0, max_concurrency: None })
        };
        let limit = Duration::from_secs(60);
        assert_eq!(window_size(Load::Concurrency(64), limit), 64);
        assert_eq!(window_size(Load::Concurrency(1), limit), 16);
        assert_eq!(window_size(rate(1.0), limit), 10);
        assert_eq!(window_size(rate(0.01), limit), 4);
        assert_eq!(window_size(rate(100.0), limit), 16);
    }

    #[test]
    fn an_absent_figure_agrees_only_where_it_is_absent_everywhere() {
        assert!(agree([None, None].into_iter()));
        assert!(!agree([Some(1.0), None].into_iter()));
        assert!(agree([Some(100.0), Some(105.0)].into_iter()));
        assert!(!agree([Some(100.0), Some(105.1)].into_iter()));
    }
}
