//! Rounds that end early keep what was measured.

use inferometer::record::ServerState;
use inferometer::record::stored::RoundStatus;
use inferometer::transport::FailureKind;

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_requests_stop_the_point_and_are_all_kept() {
    let bench = Bench::start(Script { status: 500, ..Script::default() }).await;
    let outcome = bench.round(&job(Load::Concurrency(4), 1_000)).await;
    assert_eq!(outcome.status, RoundStatus::Stopped);
    let sent = bench.server.seen.lock().unwrap().prompts.len();
    assert_eq!(outcome.records.len(), sent, "every request is a record");
    assert!((20..=24).contains(&sent), "{sent}");
    assert!(outcome.records.iter().all(|r| r.failure == Some(FailureKind::ServerError)));
    assert!(outcome.window_close_ns >= outcome.window_open_ns);
    let state = ServerState::of(&outcome.records);
    assert_eq!(state, ServerState::Degraded { failure: FailureKind::ServerError });
    assert!(!state.is_lost());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusing_server_is_named_by_its_status() {
    let bench = Bench::start(Script { status: 429, ..Script::default() }).await;
    let outcome = bench.round(&job(Load::Concurrency(4), 1_000)).await;
    assert_eq!(ServerState::of(&outcome.records), ServerState::Refused { status: 429 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_ends_the_point_within_two_limits() {
    for slots in [1, 4] {
        let script = Script { hangs_after: 6, ..Script::default() };
        let mut bench = Bench::start(script).await;
        let url = BaseUrl::parse(&format!("http://{}", bench.server.addr)).unwrap();
        let mut settings = ClientSettings::new(url);
        settings.timeouts.first_byte = Duration::from_millis(700);
        Arc::get_mut(&mut bench.wire).unwrap().client = Client::new(settings).unwrap();
        let outcome = bench.round(&job(Load::Concurrency(slots), 1_000)).await;
        assert_eq!(outcome.status, RoundStatus::Stopped);
        assert_eq!(
            (completed(&outcome), ServerState::of(&outcome.records)),
            (6, ServerState::Hung)
        );
        let failed = outcome.records.iter().filter(|r| r.outcome == Outcome::Failed).count();
        // Those that were sent in place of the first to time out may end in the drain.
        assert!((2..=2 * slots as usize + 1).contains(&failed), "{failed} at c{slots}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_gone_ends_the_point_and_is_lost() {
    let mut bench = Bench::start(Script::default()).await;
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    bench.server.addr = gone.local_addr().unwrap();
    drop(gone);
    Arc::get_mut(&mut bench.wire).unwrap().client = client(&bench.server);
    let outcome = bench.round(&job(Load::Concurrency(4), 1_000)).await;
    assert_eq!(outcome.status, RoundStatus::Stopped);
    let state = ServerState::of(&outcome.records);
    assert_eq!(state, ServerState::StoppedAnswering { failure: FailureKind::ConnectRefused });
    assert!(state.is_lost());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_key_stops_at_once() {
    let bench = Bench::start(Script { status: 401, ..Script::default() }).await;
    let outcome = bench.round(&job(Load::Concurrency(2), 1_000)).await;
    assert_eq!(outcome.status, RoundStatus::Stopped);
    assert!(outcome.records.len() <= 3, "{}", outcome.records.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_interrupt_drains_and_keeps_what_was_measured() {
    let bench = Bench::start(Script::default()).await;
    let interrupt = Interrupt::new();
    let raise = interrupt.clone();
    let mut raised = false;
    let mut last = None;
    let mut show = |progress: Progress| {
        if progress.completed >= 10 && !raised {
            raised = true;
            raise.raise();
        }
        last = Some(progress);
    };
    let outcome =
        bench.round_with(&job(Load::Concurrency(4), 100_000), &interrupt, &mut show).await;
    assert_eq!(outcome.status, RoundStatus::Interrupted);
    assert!(completed(&outcome) >= 10);
    assert_eq!(completed(&outcome), outcome.records.len(), "what was in flight has ended");
    let last = last.unwrap();
    assert_eq!((last.sent, last.in_flight), (outcome.records.len() as u64, 0));
    assert_eq!((last.planned, &*last.point), (Some(100_000), "drive/test/c4"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_interrupt_leaves_at_once_and_counts_the_cancelled() {
    let bench = Bench::start(Script { hangs_after: 6, ..Script::default() }).await;
    let interrupt = Interrupt::new();
    let raise = interrupt.clone();
    let mut show = |progress: Progress| {
        // Once before the round ends, and once while it drains.
        if progress.completed == 6 {
            raise.raise();
        }
    };
    let outcome = bench.round_with(&job(Load::Concurrency(3), 1_000), &interrupt, &mut show).await;
    assert_eq!(outcome.status, RoundStatus::Interrupted);
    assert_eq!(completed(&outcome), 6);
    let cancelled: Vec<_> =
        outcome.records.iter().filter(|r| r.outcome == Outcome::Cancelled).collect();
    assert_eq!(cancelled.len(), 3);
    assert!(cancelled.iter().all(|r| r.sent_ns.is_some() && r.end_ns.is_some()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_cancelled_request_had_received_is_kept_and_no_latency() {
    let script = Script { tokens: 9, hangs_after: 6, tokens_before_hang: 3, ..Script::default() };
    let bench = Bench::start(script).await;
    let interrupt = Interrupt::new();
    let raise = interrupt.clone();
    let mut show = |progress: Progress| {
        // Once before the round ends, and once while it drains; all that will come has come.
        if progress.completed == 6 && progress.elapsed_s > 1.0 {
            raise.raise();
        }
    };
    let outcome = bench.round_with(&job(Load::Concurrency(3), 1_000), &interrupt, &mut show).await;
    let cancelled: Vec<_> =
        outcome.records.iter().filter(|r| r.outcome == Outcome::Cancelled).collect();
    assert_eq!(cancelled.len(), 3);
    for record in &cancelled {
        assert_eq!((record.events, record.output_tokens, record.status), (3, Some(3), Some(200)));
        let (first, last) = (record.first_token_ns.unwrap(), record.last_token_ns.unwrap());
        assert!(record.sent_ns.unwrap() < first && first < last && last < record.end_ns.unwrap());
        assert!(record.worst_gap_ns.unwrap() >= 15_000_000, "{record:?}");
        assert!(record.worst_gap_ns.unwrap() <= last - first);
        let said = &record.evidence.as_ref().unwrap().message;
        assert_eq!(said, "stopped by the client before its end");
    }
    let gaps: u64 =
        outcome.records.iter().filter(|r| r.is_sample()).map(|r| u64::from(r.events) - 1).sum();
    assert_eq!(outcome.icl.count(), gaps, "gaps are those of the completed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupt_before_the_window_leaves_it_empty() {
    let bench = Bench::start(Script::default()).await;
    let interrupt = Interrupt::new();
    interrupt.raise();
    let mut job = job(Load::Concurrency(2), 10);
    job.expected_e2el_s = Some(30.0);
    let outcome = bench.round_with(&job, &interrupt, &mut |_| {}).await;
    assert_eq!(outcome.status, RoundStatus::Interrupted);
    assert_eq!(outcome.window_open_ns, outcome.window_close_ns);
    assert!(of(&outcome, Part::Measured).is_empty());
    assert_eq!(outcome.health.in_flight_mean, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_that_cannot_be_made_is_an_error_for_the_operator() {
    struct Empty;
    impl PromptSource for Empty {
        fn prompt(&self, _: u64, _: u32, _: Seed) -> Result<Prompt> {
            Err(inferometer::Error::scenario("the file holds no prompt"))
        }
    }
    let bench = Bench::start(Script::default()).await;
    let wire = Arc::new(Wire {
        client: client(&bench.server),
        dialect: Arc::new(Completions),
        model: String::new(),
        offers: Offers::default(),
        extra_body: serde_json::Map::new(),
        prompts: Arc::new(Empty),
    });
    for load in [Load::Concurrency(2), rate(5.0, None)] {
        let job = job(load, 4);
        let round = run_round(&wire, bench.clock, &job, &Interrupt::new(), &mut |_| {}).await;
        let error = round.and_then(RoundOutcome::whole).unwrap_err();
        assert_eq!(error.to_string(), "the file holds no prompt");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_that_cannot_be_made_costs_no_request_that_was_sent() {
    /// Has prompts for the ramp and for three measured requests of twelve.
    struct Short;
    impl PromptSource for Short {
        fn prompt(&self, index: u64, _: u32, _: Seed) -> Result<Prompt> {
            match index {
                3..12 => Err(inferometer::Error::scenario("the file ends here")),
                _ => Ok(Prompt::Text(format!("{index}"))),
            }
        }
    }
    let bench = Bench::start(Script::default()).await;
    let wire = Arc::new(Wire {
        client: client(&bench.server),
        dialect: Arc::new(Completions),
        model: String::new(),
        offers: Offers::default(),
        extra_body: serde_json::Map::new(),
        prompts: Arc::new(Short),
    });
    let job = job(Load::Concurrency(2), 12);
    let round = run_round(&wire, bench.clock, &job, &Interrupt::new(), &mut |_| {}).await.unwrap();
    assert_eq!(round.error.as_ref().unwrap().to_string(), "the file ends here");
    assert_eq!(round.status, RoundStatus::Interrupted);
    let completed = |r: &&RequestRecord| r.outcome == Outcome::Completed;
    assert_eq!(of(&round, Part::Measured).into_iter().filter(completed).count(), 3);
}
