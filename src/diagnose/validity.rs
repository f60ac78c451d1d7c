//! Validity: whether the client or the load could have moved a figure (docs/statistics.md, section 5).

use crate::metric::{Measure, Metric, Statistic};
use crate::record::stored::{Health, RoundStatus};
use crate::record::{Finding, FindingCode, Severity};
use crate::scenario::{Load, LoadPoint};
use crate::summary::measured::MeasuredStart;

/// What a fault can have moved, the widest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Every figure of the start.
    All,
    /// Latencies; the throughput stands (it is the capacity).
    Latencies,
    /// Means and tails of latencies. Medians stand, which what happens at p99 does not move; and so
    /// does mean TPOT, which it moves by lag / tokens at most.
    Tails,
}

/// One fault of one start.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// What it can have moved.
    pub reach: Reach,
    /// What it is, for people and machines.
    pub finding: Finding,
}

/// How late an idle loop's own timer runs, p99, ms: tokio's is 1 ms coarse, and seen at 2 ms on an idle
/// machine. Sends are paced by a finer one.
const TIMER_FLOOR_MS: f64 = 2.0;

/// A shorter stall is a lag, which the quantiles judge.
const STALL_LEAST_MS: f64 = 250.0;

/// The largest share of a side's starts that may be invalid before a cell is (docs/statistics.md, section 5).
pub const INVALID_SHARE: f64 = 0.20;

/// The faults of one start at one load point: those that could have moved a cell by more than half
/// its floor. `idle_lag_ms` is this machine's own floor, from `selftest`.
#[must_use]
pub fn faults(start: &MeasuredStart, point: &LoadPoint, idle_lag_ms: f64) -> Vec<Fault> {
    let mut found = Vec::new();
    let ttft_p50 = start.summary.get(Measure::TTFT_P50).unwrap_or(0.0);
    // Slots that wait on a failing server are not late by the client's fault.
    for health in start.health.iter().filter(|_| !start.status.is_failing()) {
        found.extend(health_faults(health, ttft_p50, point.load, idle_lag_ms));
    }
    found.extend(start.contradiction.iter().map(|text| Fault {
        reach: Reach::All,
        finding: Finding::new(FindingCode::Contradiction, Severity::Invalid, text.clone()),
    }));
    match start.status {
        RoundStatus::Saturated => found.push(Fault {
            reach: Reach::Latencies,
            finding: Finding::new(
                FindingCode::Saturated,
                Severity::Warning,
                "the server could not keep up with the offered rate: its queue grows, so latencies depend on how long one looks",
            ),
        }),
        RoundStatus::Overloaded | RoundStatus::Stopped => found.push(Fault {
            reach: Reach::All,
            finding: Finding::new(FindingCode::Overloaded, Severity::Warning, failing_words(start)),
        }),
        RoundStatus::Interrupted => found.push(Fault {
            reach: Reach::All,
            finding: Finding::new(FindingCode::Interrupted, Severity::Warning, "the round was interrupted"),
        }),
        RoundStatus::Complete => {}
    }
    found
}

/// What happened where too much failed.
fn failing_words(start: &MeasuredStart) -> String {
    const SURVIVORS: &str = "more than 5 % of the requests failed: latencies are of survivors";
    match &start.server {
        state if state.is_lost() => format!("the server {}", state.words()),
        state if !state.is_ran() => format!("{SURVIVORS}; the server {}", state.words()),
        _ => SURVIVORS.to_owned(),
    }
}

/// The faults that the health of one round shows. `ttft_p50_ms` is that round's; 0 where nothing came.
#[must_use]
pub fn health_faults(
    health: &Health,
    ttft_p50_ms: f64,
    load: Load,
    idle_lag_ms: f64,
) -> Vec<Fault> {
    let mut found = Vec::new();
    let is_open_loop = matches!(load, Load::RequestRate(_));
    client_faults(health, is_open_loop, ttft_p50_ms, idle_lag_ms, &mut found);
    if let Load::Concurrency(concurrency) = load {
        closed_loop_faults(health, f64::from(concurrency), &mut found);
    }
    found
}

/// A client that stood still: nothing was sent or stamped meanwhile, so throughput lacks that share of the
/// window, and every request in flight is longer by up to the stall.
fn stall(health: &Health) -> Option<Fault> {
    let (ms, share) = (health.longest_stall_ms?, health.stalled_share?);
    if ms < STALL_LEAST_MS || share < 0.5 * Measure::THROUGHPUT.floor() {
        return None;
    }
    let text = format!(
        "the client stalled for {:.1} s, {:.0} % of the window: its figures do not describe the server",
        ms / 1e3,
        share * 100.0
    );
    let hint = "was it suspended (Ctrl-Z, a paused container, a sleeping laptop) or starved of CPU? measure again";
    let finding = Finding::new(FindingCode::ClientStall, Severity::Invalid, text).with_hint(hint);
    Some(Fault { reach: Reach::All, finding })
}

/// Section 5: beyond the idle floor, more than 1 ms and more than half of TTFT's floor. What is late
/// in the median moves every latency; what is late at p99 moves means and tails, but no median.
fn client_faults(
    health: &Health,
    is_open_loop: bool,
    ttft_p50_ms: f64,
    idle_lag_ms: f64,
    found: &mut Vec<Fault>,
) {
    let limit_ms = f64::max(1.0, 0.5 * Measure::TTFT_P50.floor() * ttft_p50_ms) + idle_lag_ms;
    let timer_ms = limit_ms + TIMER_FLOOR_MS;
    let (sends, turns) = ("requests were sent late", "the client's event loop ran late");
    // In a closed loop a late refill moves no latency, whose clock starts with the send: it leaves
    // slots empty, which the mean in flight tells.
    let of_sends = |lag: Option<f64>| lag.filter(|_| is_open_loop);
    let lags = [
        (
            FindingCode::ScheduleLag,
            sends,
            Statistic::P50,
            of_sends(health.schedule_lag_p50_ms),
            limit_ms,
        ),
        (FindingCode::LoopLag, turns, Statistic::P50, health.loop_lag_p50_ms, timer_ms),
        (
            FindingCode::ScheduleLag,
            sends,
            Statistic::P99,
            of_sends(health.schedule_lag_p99_ms),
            limit_ms,
        ),
        (FindingCode::LoopLag, turns, Statistic::P99, health.loop_lag_p99_ms, timer_ms),
    ];
    for (code, what, quantile, lag_ms, limit_ms) in lags {
        let Some(lag_ms) = lag_ms.filter(|lag| *lag > limit_ms) else { continue };
        let name = quantile.name();
        let text = format!("{what}: {name} {lag_ms:.1} ms, limit {limit_ms:.1} ms");
        let reach = if quantile == Statistic::P50 { Reach::Latencies } else { Reach::Tails };
        found.push(Fault {
            reach,
            finding: Finding::new(code, Severity::Invalid, text).with_hint(
                "give the client its own cores, or lower the load; `inferometer selftest` measures what this machine can time accurately",
            ),
        });
    }
    found.extend(stall(health));
    if let Some(cpu) = health.client_cpu.filter(|cpu| *cpu > 0.80) {
        let text = format!("the client used {:.0} % of its cores", cpu * 100.0);
        found.push(Fault {
            reach: Reach::All,
            finding: Finding::new(FindingCode::ClientCpu, Severity::Invalid, text)
                .with_hint("run the client on another machine, or lower the load"),
        });
    }
}

fn closed_loop_faults(health: &Health, concurrency: f64, found: &mut Vec<Fault>) {
    if let Some(in_flight) = health.in_flight_mean.filter(|n| *n < 0.98 * concurrency) {
        let text = format!("{in_flight:.2} requests in flight on average, {concurrency} asked");
        found.push(Fault {
            reach: Reach::All,
            finding: Finding::new(FindingCode::InFlight, Severity::Invalid, text)
                .with_hint("the client could not refill its slots: lower the load"),
        });
    }
}

/// Little's law: what does no harm by itself, but is worth a sentence. Completions are whole
/// requests, so a window of a few E2E is off by more than 5 % of the concurrency by chance.
#[must_use]
pub fn little(health: &Health, concurrency: f64) -> Option<Finding> {
    let little = health.little.filter(|little| *little > 0.0)?; // nothing completed: no law to hold
    let in_flight = health.in_flight_mean?;
    let gap = (in_flight - little).abs();
    (gap > 0.05 * concurrency && gap > 1.0).then(|| {
        let text = format!(
            "QPS × mean E2EL gives {little:.1} requests in flight, {in_flight:.1} were counted (Little's law)"
        );
        Finding::new(FindingCode::Little, Severity::Note, text)
            .with_hint("the load was not steady: measure longer with `--num-prompts`")
    })
}

/// Successful requests a start needs before this number may be judged (docs/statistics.md, section 5).
#[must_use]
pub fn least_requests(measure: Measure) -> u64 {
    match measure.statistic {
        Some(Statistic::P90 | Statistic::P95 | Statistic::P99) => 100,
        _ => 30,
    }
}

fn is_latency(measure: Measure) -> bool {
    measure.metric.is_distribution()
        || matches!(measure.metric, Metric::Goodput | Metric::SloCapacity)
}

/// Whether a fault of this reach touches this number.
#[must_use]
pub fn touches(reach: Reach, measure: Measure) -> bool {
    match reach {
        Reach::All => true,
        Reach::Latencies => is_latency(measure),
        Reach::Tails => {
            let steady = measure.statistic == Some(Statistic::P50) || measure == Measure::TPOT_MEAN;
            is_latency(measure) && !steady
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lag_that_the_idle_machine_shows_too_is_no_fault() {
        let open = Load::from(Load::request_rate(1.0));
        let late = |lag_ms| Health { schedule_lag_p50_ms: Some(lag_ms), ..Health::default() };
        // TTFT of 20 ms: the limit is 1 ms, and what the idle machine lags on top.
        let faults = |lag_ms, idle_ms| health_faults(&late(lag_ms), 20.0, open, idle_ms).len();
        assert_eq!((faults(0.9, 0.0), faults(1.1, 0.0)), (0, 1));
        assert_eq!((faults(3.9, 3.0), faults(4.1, 3.0)), (0, 1));
    }
}
