//! The warm-up: the same load as measured, until the medians settle or the time is over.

use std::sync::Arc;
use std::time::Duration;

use super::admission::{Admission, Cap, ClosedGate, Feeds, OpenGate, guard_for};
use super::interrupt::Interrupt;
use super::pacer::{Pacer, Stretch};
use super::prefetch::{Branch, Prefetch};
use super::progress::{Counts, Lap, Progress};
use super::recorder::{Keep, RoundRecorder};
use super::send_loop::{SendLoop, Setup};
use super::settle::{Settle, WINDOWS};
use super::{ErrorLimit, Wire};
use crate::clock::{Clock, duration_ns};
use crate::error::Result;
use crate::plan::{Phase, RoundPlan, Side};
use crate::record::RequestIdent;
use crate::record::request::Part;
use crate::record::stored::WarmUp;
use crate::scenario::Load;
use crate::units::ns_to_s;

/// Completions in a window at least: a median of fewer moves by more than the 5 % it is judged by.
const WINDOW_LEAST: u32 = 16;
/// The fewest at a rate so low that three full windows would not fit half of the limit.
const WINDOW_FEWEST: u32 = 4;

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
        stable: landed.aim.is_stable(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::load::RequestRate;

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
}
