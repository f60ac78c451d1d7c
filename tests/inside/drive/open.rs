//! Open loop: arrivals never wait for answers, and latency counts from when they were due.

use inferometer::record::FindingCode;
use inferometer::record::stored::RoundStatus;

use super::*;

/// Serves one request at a time, 50 ms each: 20 a second at most.
fn narrow() -> Script {
    Script {
        first_token: Duration::from_millis(25),
        between_tokens: Duration::from_millis(25),
        lanes: 1,
        ..Script::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn due_times_are_the_schedules_and_a_fast_server_completes_them() {
    let bench = Bench::start(Script::default()).await;
    let outcome = bench.round(&job(rate(40.0, None), 40)).await;
    assert_eq!(outcome.status, RoundStatus::Complete, "{:?}", outcome.health);
    let measured = of(&outcome, Part::Measured);
    assert_eq!(measured.len(), 40);
    assert!(measured.iter().all(|r| r.due_ns.unwrap() >= outcome.window_open_ns));
    assert!(outcome.records.iter().all(|r| r.sent_ns >= r.due_ns), "nothing is sent early");
    assert!(of(&outcome, Part::Ramp).iter().all(|r| r.due_ns.unwrap() < outcome.window_open_ns));
    assert!(!of(&outcome, Part::Tail).is_empty(), "arrivals go on until the measured have ended");
    let health = &outcome.health;
    assert!((health.offered_per_s.unwrap() - 40.0).abs() < 4.0, "{health:?}");
    assert!(health.completion_ratio.unwrap() > 0.8 && health.little.is_some(), "{health:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_server_does_not_slow_the_arrivals_and_is_called_saturated() {
    let bench = Bench::start(narrow()).await;
    let mut job = job(rate(40.0, None), 20);
    job.in_flight_limit = Some(10_000);
    let outcome = bench.round(&job).await;
    assert_eq!(outcome.status, RoundStatus::Saturated, "{:?}", outcome.health);
    let most = bench.server.seen.lock().unwrap().most();
    assert!(most >= 20, "at most {most} in flight: sends waited for answers");
    let mut measured = of(&outcome, Part::Measured);
    measured.sort_by_key(|r| r.index);
    // 40 arrivals a second, 20 served: each waits 25 ms longer than the one before.
    let e2el_ms = |r: &&RequestRecord| r.e2el_ms().unwrap();
    let growth_ms = e2el_ms(measured.last().unwrap()) - e2el_ms(measured.first().unwrap());
    assert!(growth_ms > 0.8 * 19.0 * 25.0, "{growth_ms}");
    // The due times did not move: the whole list spans 19 gaps of 25 ms.
    let span_ns = measured[19].due_ns.unwrap() - measured[0].due_ns.unwrap();
    assert!((span_ns as f64 / 1e6 - 475.0).abs() < 50.0, "{span_ns}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_a_cap_the_wait_for_a_place_is_inside_the_latency() {
    let bench = Bench::start(narrow()).await;
    let outcome = bench.round(&job(rate(40.0, Some(1)), 20)).await;
    assert_eq!(bench.server.seen.lock().unwrap().most(), 1);
    let measured = of(&outcome, Part::Measured);
    assert_eq!(measured.len(), 20);
    let waited_ms: f64 = measured.iter().map(|r| r.schedule_delay_ms().unwrap()).sum();
    let from_due_ms: f64 = measured.iter().map(|r| r.e2el_ms().unwrap()).sum();
    let from_sent_ms: f64 = measured.iter().map(|r| r.e2el_from_sent_ms().unwrap()).sum();
    assert!((from_due_ms - from_sent_ms - waited_ms).abs() < 1e-3);
    assert!(waited_ms > from_sent_ms, "{waited_ms} {from_sent_ms}");
    assert!(outcome.health.at_cap_share.unwrap() > 0.8, "{:?}", outcome.health);
    assert!(outcome.unsent > 0 && outcome.findings.iter().any(|f| f.code == FindingCode::Unsent));
    // Waiting for a place is not the client's lateness.
    assert!(outcome.health.schedule_lag_p50_ms.unwrap() < waited_ms / 20.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_own_bound_is_said_and_nothing_is_dropped() {
    let bench = Bench::start(narrow()).await;
    let mut job = job(rate(60.0, None), 20);
    job.in_flight_limit = Some(3);
    let outcome = bench.round(&job).await;
    assert_eq!(bench.server.seen.lock().unwrap().most(), 3);
    assert_eq!(outcome.status, RoundStatus::Saturated);
    assert_eq!(of(&outcome, Part::Measured).len(), 20);
    assert!(outcome.findings.iter().any(|f| f.code == FindingCode::InFlightGuard));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reference_is_an_open_loop_round() {
    let bench = Bench::start(Script::default()).await;
    let mut job = job(rate(8.0, None), 4);
    job.plan.phase = Phase::Reference;
    let outcome = bench.round(&job).await;
    assert_eq!(outcome.status, RoundStatus::Complete, "{:?}", outcome.health);
    assert!(outcome.records.iter().all(|r| r.phase == Phase::Reference));
    assert_eq!(of(&outcome, Part::Measured).len(), 4);
}
