//! One round: ramp, window, tail, drain.

use std::sync::Arc;
use std::time::Duration;

use super::admission::{Admission, Cap, ClosedGate, Feeds, OpenGate, guard_for};
use super::backlog::Backlog;
use super::goal::{Goal, Measure};
use super::health::{Circumstances, health};
use super::interrupt::{Interrupt, Urgency};
use super::pacer::{Pacer, Stretch};
use super::prefetch::{Branch, Prefetch};
use super::progress::{Counts, Lap, Progress};
use super::recorder::{Keep, RoundRecorder};
use super::send_loop::{Ending, LoopResult, SendLoop, Setup};
use super::stop_rule::{StopTracker, measured_arrivals};
use super::{RoundJob, RoundOutcome, Wire};
use crate::clock::Clock;
use crate::error::Result;
use crate::plan::Schedule;
use crate::record::health::OfferedLoad;
use crate::record::request::Part;
use crate::record::stored::RoundStatus;
use crate::record::{Finding, FindingCode, Outcome, RequestIdent, RequestRecord, Severity, Window};
use crate::scenario::Load;
use crate::scenario::load::RequestRate;
use crate::settings::SlotStart;
use crate::telemetry::host::LagSampler;
use crate::units::s_to_ns;

/// Ramp of a closed loop whose E2EL nobody knows.
const CLOSED_RAMP_S: f64 = 1.0;
/// Least ramp of an open loop: a rate of 1 then has had two arrivals.
const OPEN_RAMP_LEAST_S: f64 = 2.0;
/// The longest ramp: longer answers than five minutes have not reached their height by then, which
/// the steady-state check of the summary sees.
const RAMP_MOST_S: f64 = 300.0;
/// Connections are opened ahead for so long: the rest are opened by their requests.
const CONNECT_AHEAD_LIMIT: Duration = Duration::from_secs(5);
/// Above this share of failures, latencies are of survivors (docs/statistics.md, section 4).
const OVERLOADED: f64 = 0.05;

/// Drives one round: the load ramps up, the window opens, the first N requests sent after that are
/// measured, the load is kept up until the last of them has ended; then the window closes, sending
/// stops, and what is in flight is drained within a deadline. Failed requests are records, not
/// errors; one that hangs is ended by the client's own timeouts. `show` is called at most ten times a
/// second, and once at the end.
///
/// # Errors
/// If the system refuses a thread. A request that could not be built ends the round early, see
/// [`RoundOutcome::error`].
pub async fn run_round(
    wire: &Arc<Wire>,
    clock: Clock,
    job: &RoundJob,
    interrupt: &Interrupt,
    show: &mut (dyn FnMut(Progress) + Send),
) -> Result<RoundOutcome> {
    connect_ahead(wire, job, interrupt).await;
    // Room is made before the clock of the load starts.
    let tally = RoundRecorder::new(Keep::Records, job.plan.stop.requests);
    let lag = LagSampler::new(clock);
    let begin_ns = clock.now_ns();
    let (gate, measure) = match job.plan.point.load {
        Load::Concurrency(slots) => closed(wire, job, slots, begin_ns)?,
        Load::RequestRate(rate) => open(wire, clock, job, rate, begin_ns)?,
    };
    let setup = Setup {
        wire,
        clock,
        gate,
        aim: measure,
        tally,
        lag: Some(lag),
        ident: RequestIdent {
            side: job.side,
            block: job.block,
            start: job.start,
            round: job.plan.round,
            phase: job.plan.phase,
            part: Part::Ramp,
        },
        limit: job.error_limit,
        expected_s: job.expected_e2el_s.unwrap_or(0.0),
    };
    let lap = Lap {
        phase: job.plan.phase,
        point: job.plan.point.id().into(),
        clock,
        begin_ns,
        planned: Some(job.plan.stop.requests),
    };
    let mut show_counts = |counts: Counts| show(lap.progress(counts));
    // Boxed: its state is large, and callers hold it in theirs.
    let landed = Box::pin(SendLoop::new(setup).run(interrupt, &mut show_counts)).await;
    Ok(outcome(job, landed))
}

/// Opens the connections that the load will need. A burst of them would weigh on the first answers,
/// and in an open loop the wait for one lies inside the latency, which no server's log knows of.
async fn connect_ahead(wire: &Arc<Wire>, job: &RoundJob, interrupt: &Interrupt) {
    let wanted = match job.plan.point.load {
        Load::Concurrency(slots) => slots,
        Load::RequestRate(rate) => {
            // Twice what is in flight on average; without a warm-up, of answers of one second.
            let in_flight = rate.per_s * job.expected_e2el_s.unwrap_or(1.0);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
            let twice = (2.0 * in_flight).ceil() as u32;
            twice.min(cap(job, rate).requests())
        }
    };
    tokio::select! {
        _ = Box::pin(wire.client.open(wanted as usize)) => {}
        _ = interrupt.beyond(Urgency::None) => {}
        () = tokio::time::sleep(CONNECT_AHEAD_LIMIT) => {}
    }
}

fn closed(
    wire: &Arc<Wire>,
    job: &RoundJob,
    slots: u32,
    begin_ns: u64,
) -> Result<(Admission, Measure)> {
    let ramp_ns = s_to_ns(job.expected_e2el_s.unwrap_or(CLOSED_RAMP_S).min(RAMP_MOST_S));
    let spread_ns = match job.slot_start {
        SlotStart::Spread => ramp_ns,
        SlotStart::Together => 0,
    };
    let feeds = Feeds {
        ramp: Some(Prefetch::start(wire, &job.plan, Branch::Ramp, slots)?),
        main: Prefetch::start(wire, &job.plan, Branch::Main, slots)?,
    };
    let gate = Admission::Closed(ClosedGate::new(feeds, slots, begin_ns, spread_ns));
    let opens_ns = begin_ns.saturating_add(ramp_ns);
    Ok((gate, Measure::new(Window::pending(), StopTracker::new(job.plan.stop), opens_ns)))
}

fn open(
    wire: &Arc<Wire>,
    clock: Clock,
    job: &RoundJob,
    rate: RequestRate,
    begin_ns: u64,
) -> Result<(Admission, Measure)> {
    /// What a burst may need at once; the pacer holds more.
    const AT_ONCE: u32 = 64;
    let ramp_s = job.expected_e2el_s.unwrap_or(0.0).clamp(OPEN_RAMP_LEAST_S, RAMP_MOST_S);
    let opens_ns = begin_ns.saturating_add(s_to_ns(ramp_s));
    let stretch = |branch, from_ns, until_ns| -> Result<Stretch> {
        let feed = Prefetch::start(wire, &job.plan, branch, AT_ONCE)?;
        Ok::<Stretch, crate::error::Error>(Stretch { feed, from_ns, until_ns })
    };
    let stretches = vec![
        stretch(Branch::Ramp, begin_ns, opens_ns)?,
        stretch(Branch::Main, opens_ns, u64::MAX)?,
    ];
    let cap = cap(job, rate);
    let gate = Admission::Open(OpenGate::new(Pacer::start(clock, stretches)?, cap));
    let measured = measured_arrivals(job.plan.stop, due_times(job));
    let window = Window { open_ns: opens_ns, close_ns: u64::MAX };
    Ok((gate, Measure::new(window, StopTracker::of(measured), opens_ns)))
}

fn cap(job: &RoundJob, rate: RequestRate) -> Cap {
    match (rate.max_concurrency, job.in_flight_limit) {
        (Some(cap), _) => Cap::Asked(cap),
        (None, Some(guard)) => Cap::Guard(guard),
        (None, None) => Cap::Guard(guard_for(rate.per_s, job.expected_e2el_s)),
    }
}

/// Due times of the measured list, ns after the window opened. Endless.
fn due_times(job: &RoundJob) -> impl Iterator<Item = u64> {
    Schedule::new(&job.plan).map(|planned| planned.due_ns.unwrap_or(0))
}

fn outcome(job: &RoundJob, landed: LoopResult<Measure>) -> RoundOutcome {
    let window = landed.aim.window();
    let tally = landed.tally;
    let records = tally.records;
    let (cap, arrivals) = match job.plan.point.load {
        Load::Concurrency(slots) => (slots, None),
        Load::RequestRate(rate) => {
            let length_ns = window.close_ns.saturating_sub(window.open_ns);
            let due_inside = due_times(job).take_while(|due_ns| *due_ns <= length_ns).count();
            (cap(job, rate).requests(), Some(due_inside as u64))
        }
    };
    let health = health(
        &records,
        &Circumstances {
            window,
            load: OfferedLoad { cap, arrivals },
            lags: &tally.lags,
            loop_lag_p50_ms: landed.loop_lag_p50_ms,
            loop_lag_p99_ms: landed.loop_lag_p99_ms,
            longest_stall_ms: landed.longest_stall_ms,
            client_cpu: landed.client_cpu,
        },
    );
    let status = match landed.ending {
        _ if landed.error.is_some() => RoundStatus::Interrupted,
        Ending::Interrupted => RoundStatus::Interrupted,
        Ending::Failing => RoundStatus::Stopped,
        Ending::Done if failed_share(&records) > OVERLOADED => RoundStatus::Overloaded,
        Ending::Done if landed.guard_reached.is_some() || falls_behind(job, &records, window) => {
            RoundStatus::Saturated
        }
        Ending::Done => RoundStatus::Complete,
    };
    let due_sent = records.iter().filter(|record| is_due_inside(record, window)).count() as u64;
    let unsent = arrivals.map_or(0, |due| due.saturating_sub(due_sent));
    RoundOutcome {
        itl: tally.itl,
        icl: tally.icl,
        positions: tally.positions,
        window_open_ns: window.open_ns,
        window_close_ns: window.close_ns,
        status,
        findings: findings(&job.plan.point.id(), landed.guard_reached, unsent),
        health,
        unsent,
        records,
        error: landed.error,
    }
}

/// Whether an open loop's server falls behind the arrivals.
fn falls_behind(job: &RoundJob, records: &[RequestRecord], window: Window) -> bool {
    if matches!(job.plan.point.load, Load::Concurrency(_)) {
        return false;
    }
    let sent = records.iter().filter_map(|record| Some((record.due_ns?, record.end_ns)));
    // Due in the window, but never sent: it waited for a place until the end.
    let last_sent = sent.clone().map(|(due_ns, _)| due_ns).max().unwrap_or(window.open_ns);
    let unsent = due_times(job)
        .map(|due_ns| window.open_ns.saturating_add(due_ns))
        .skip_while(|due_ns| *due_ns <= last_sent)
        .take_while(|due_ns| *due_ns <= window.close_ns)
        .map(|due_ns| (due_ns, None));
    Backlog::of(window, sent.chain(unsent)).grows()
}

/// Of the measured, the share that failed.
#[allow(clippy::cast_precision_loss)]
fn failed_share(records: &[RequestRecord]) -> f64 {
    let count = |outcome| {
        records.iter().filter(|r| r.part == Part::Measured && r.outcome == outcome).count() as f64
    };
    let (failed, completed) = (count(Outcome::Failed), count(Outcome::Completed));
    if failed > 0.0 { failed / (failed + completed) } else { 0.0 }
}

fn is_due_inside(record: &RequestRecord, window: Window) -> bool {
    record.part != Part::Ramp
        && record.due_ns.is_some_and(|ns| (window.open_ns..=window.close_ns).contains(&ns))
}

fn findings(point: &str, guard_reached: Option<u32>, unsent: u64) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(guard) = guard_reached {
        let text = format!(
            "the server fell behind until {guard} requests were in flight; later ones waited in the \
             client, and the wait is inside their latency"
        );
        let finding = Finding::new(FindingCode::InFlightGuard, Severity::Warning, text)
            .with_hint("lower the rate, or bound it with `--max-concurrency`");
        findings.push(finding.at(point));
    }
    if unsent > 0 {
        let text = format!(
            "{unsent} requests due in the window still waited for a free place when the round ended"
        );
        findings.push(Finding::new(FindingCode::Unsent, Severity::Note, text).at(point));
    }
    findings
}
