//! Closed loop: N in flight means N.

use inferometer::diagnose::validity;
use inferometer::summary::{RoundInput, summarise};

use super::*;

/// Long enough that the turn of a slot, a few milliseconds on a busy machine, is little beside it.
fn slow() -> Script {
    Script {
        first_token: Duration::from_millis(200),
        between_tokens: Duration::from_millis(200),
        ..Script::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n_in_flight_means_n_and_the_first_n_sent_are_measured() {
    let bench = Bench::start(slow()).await;
    let mut job = job(Load::Concurrency(4), 12);
    job.expected_e2el_s = Some(0.4);
    let outcome = bench.round(&job).await;

    let measured = of(&outcome, Part::Measured);
    assert_eq!(measured.len(), 12);
    assert_eq!(completed(&outcome), outcome.records.len());
    let window = outcome.window_open_ns..=outcome.window_close_ns;
    assert!(measured.iter().all(|r| window.contains(&r.sent_ns.unwrap())));
    assert!(measured.iter().all(|r| window.contains(&r.end_ns.unwrap())));
    // The window closes with the last of them, and the load was kept up until then.
    let last_ns = measured.iter().map(|r| r.end_ns.unwrap()).max().unwrap();
    let close_ns = outcome.window_close_ns;
    assert!(close_ns >= last_ns);
    let ends_later = |part| of(&outcome, part).iter().any(|r| r.end_ns.unwrap() > close_ns);
    assert!(ends_later(Part::Tail) && !ends_later(Part::Measured) && !ends_later(Part::Ramp));
    assert!(of(&outcome, Part::Ramp).iter().all(|r| r.sent_ns.unwrap() <= outcome.window_open_ns));
    // The measured are the first of their list.
    let mut indices: Vec<u64> = measured.iter().map(|r| r.index).collect();
    indices.sort_unstable();
    assert_eq!(indices, (0..12).collect::<Vec<_>>());

    let seen = bench.server.seen.lock().unwrap();
    assert_eq!(seen.most(), 4);
    let mean = seen.mean(outcome.window_open_ns, close_ns);
    assert!(mean >= 0.98 * 4.0, "server saw {mean} in flight");
    let health = &outcome.health;
    let ours = health.in_flight_mean.unwrap();
    assert!((0.98 * 4.0..=4.0 + 1e-9).contains(&ours), "{health:?}");
    assert!(health.at_cap_share.unwrap() > 0.9, "{health:?}");
    assert!(health.client_cpu.is_some() && health.loop_lag_p99_ms.is_some(), "{health:?}");
    assert!(health.schedule_lag_p99_ms.is_some() && health.completion_ratio.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_is_refilled_at_done_and_not_at_the_end_of_the_body() {
    let ends = [Some(Duration::from_millis(20)), Some(Duration::from_millis(60)), None];
    let mut rounds = tokio::task::JoinSet::new();
    for (end, slots) in ends.into_iter().flat_map(|end| [(end, 4), (end, 64)]) {
        rounds.spawn(async move {
            let bench = Bench::start(Script { body_ends_after: end, ..slow() }).await;
            let mut job = job(Load::Concurrency(slots), 3 * slots);
            job.expected_e2el_s = Some(0.4);
            (end, slots, bench.round(&job).await, job.plan.point)
        });
    }
    while let Some(ended) = rounds.join_next().await {
        let (end, slots, outcome, point) = ended.unwrap();
        assert_eq!(completed(&outcome), outcome.records.len(), "{end:?} at c{slots}");
        let in_flight = outcome.health.in_flight_mean.unwrap();
        assert!(in_flight >= 0.98 * f64::from(slots), "{end:?} at c{slots}: {in_flight}");
        let shut = validity::health_faults(&outcome.health, 200.0, point.load, 100.0);
        assert!(shut.is_empty(), "{end:?} at c{slots}: {shut:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn qps_of_waves_is_that_of_the_server() {
    const PERIOD_S: f64 = 0.4;
    let mut rounds = tokio::task::JoinSet::new();
    for slots in [16, 64] {
        rounds.spawn(async move {
            let wave = Some(Duration::from_secs_f64(PERIOD_S));
            let first_token = Duration::from_millis(50);
            let bench = Bench::start(Script { wave, first_token, ..Script::default() }).await;
            let mut job = job(Load::Concurrency(slots), 8 * slots);
            job.expected_e2el_s = Some(PERIOD_S);
            (slots, bench.round(&job).await)
        });
    }
    while let Some(ended) = rounds.join_next().await {
        let (slots, outcome) = ended.unwrap();
        let records = &outcome.records;
        let mut round = crate::inside::kept::round(0);
        (round.window_open_ns, round.window_close_ns) =
            (outcome.window_open_ns, outcome.window_close_ns);
        let (itl, icl) = (&outcome.itl, &outcome.icl);
        let input = RoundInput { round: &round, records, itl, icl };
        let qps = summarise(&[input], None).request_throughput.unwrap();
        let right = f64::from(slots) / PERIOD_S;
        assert!((qps / right - 1.0).abs() < 0.01, "c{slots}: {qps} req/s for {right}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_count_inside_the_window_only() {
    let bench = Bench::start(slow()).await;
    let outcome = bench.round(&job(Load::Concurrency(3), 6)).await;
    for record in &outcome.records {
        let inside = |ns: Option<u64>| {
            let ns = ns.unwrap();
            u32::from(outcome.window_open_ns < ns && ns <= outcome.window_close_ns)
        };
        // Two tokens an answer: the first and the last.
        assert_eq!(
            record.window_tokens,
            inside(record.first_token_ns) + inside(record.last_token_ns)
        );
    }
    assert_eq!(outcome.itl.count(), 6);
    assert_eq!(outcome.icl.count(), 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_requests_are_measured_however_long_the_ramp() {
    let bench = Bench::start(Script::default()).await;
    let mut seeds = Vec::new();
    for ramp_s in [0.0, 0.3] {
        let mut job = job(Load::Concurrency(4), 20);
        job.expected_e2el_s = Some(ramp_s);
        let outcome = bench.round(&job).await;
        let measured = of(&outcome, Part::Measured);
        let of_round: HashSet<u64> = measured.iter().map(|r| r.seed).collect();
        assert_eq!(of_round.len(), 20);
        assert!(of(&outcome, Part::Ramp).iter().all(|r| !of_round.contains(&r.seed)));
        seeds.push(of_round);
    }
    assert_eq!(seeds[0], seeds[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_by_time_measures_what_is_sent_in_that_time() {
    let bench = Bench::start(Script::default()).await;
    let mut job = job(Load::Concurrency(2), 1);
    job.plan.stop.min_time_s = 0.5;
    let outcome = bench.round(&job).await;
    let since_open_s = |ns: u64| ns.saturating_sub(outcome.window_open_ns) as f64 / 1e9;
    assert!(since_open_s(outcome.window_close_ns) >= 0.5);
    assert!(of(&outcome, Part::Measured).len() > 1);
    // A request handed over just before the bound may be stamped just after it.
    let sent_s = |r: &RequestRecord| since_open_s(r.sent_ns.unwrap());
    assert!(of(&outcome, Part::Tail).iter().all(|r| sent_s(r) >= 0.5));
    let mut bounded = job.clone();
    bounded.plan.stop = StopRule { requests: 100_000, min_time_s: 0.0, max_time_s: 0.3 };
    let outcome = bench.round(&bounded).await;
    let measured = of(&outcome, Part::Measured).len();
    assert!(measured > 0 && measured < 100, "{measured}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spread_slots_do_not_march_in_waves() {
    let bench = Bench::start(slow()).await;
    let mut lockstep = Vec::new();
    for slot_start in [SlotStart::Spread, SlotStart::Together] {
        let mut job = job(Load::Concurrency(6), 18);
        job.expected_e2el_s = Some(0.4);
        job.slot_start = slot_start;
        lockstep.push(bench.round(&job).await.health.lockstep.unwrap());
    }
    assert!(lockstep[0] < 0.5 * lockstep[1], "{lockstep:?}");
    assert!(lockstep[1] > 0.5, "{lockstep:?}");
}
