//! Load is driven as planned, against a server that keeps its own count.

#![allow(clippy::unwrap_used)] // the helpers of tests

mod closed;
mod ends;
mod open;
mod server;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use inferometer::Result;
use inferometer::api::Offers;
use inferometer::api::completions::Completions;
use inferometer::clock::Clock;
use inferometer::drive::{Interrupt, Progress, RoundJob, RoundOutcome, Wire, run_round, warm_up};
use inferometer::plan::{Phase, RoundPlan, Side, StopRule};
use inferometer::record::{Outcome, Part, RequestRecord};
use inferometer::rng::Seed;
use inferometer::scenario::load::RequestRate;
use inferometer::scenario::{Length, Load, LoadPoint, Prompt, PromptSource, PromptSpec};
use inferometer::settings::SlotStart;
use inferometer::transport::ClientSettings;
use inferometer::transport::{BaseUrl, Client};

use server::{Script, Server};

/// A prompt that names its seed, so that two are equal only where the seeds are.
struct Named;

impl PromptSource for Named {
    fn prompt(&self, index: u64, _tokens: u32, seed: Seed) -> Result<Prompt> {
        Ok(Prompt::Text(format!("{index}:{:x}", seed.0)))
    }
}

/// A server, a wire to it and the clock both go by.
struct Bench {
    clock: Clock,
    server: Server,
    wire: Arc<Wire>,
}

impl Bench {
    async fn start(script: Script) -> Self {
        let clock = Clock::start();
        let server = Server::start(clock, script).await;
        let wire = Arc::new(Wire {
            client: client(&server),
            dialect: Arc::new(Completions),
            model: "scripted".to_owned(),
            offers: Offers::default(),
            extra_body: serde_json::Map::new(),
            prompts: Arc::new(Named),
        });
        Self { clock, server, wire }
    }

    async fn round(&self, job: &RoundJob) -> RoundOutcome {
        self.round_with(job, &Interrupt::new(), &mut |_| {}).await
    }

    async fn round_with(
        &self,
        job: &RoundJob,
        interrupt: &Interrupt,
        show: &mut (dyn FnMut(Progress) + Send),
    ) -> RoundOutcome {
        let round = run_round(&self.wire, self.clock, job, interrupt, show);
        // No test takes a tenth of this; a hang is a failure, not a wait.
        tokio::time::timeout(Duration::from_secs(60), round).await.unwrap().unwrap()
    }
}

fn client(server: &Server) -> Client {
    let url = BaseUrl::parse(&format!("http://{}", server.addr)).unwrap();
    Client::new(ClientSettings::new(url)).unwrap()
}

fn job(load: Load, requests: u32) -> RoundJob {
    let plan = RoundPlan {
        phase: Phase::Load,
        point: LoadPoint {
            group: "drive".to_owned(),
            scenario: "test".to_owned(),
            input: Length::Fixed(8),
            output: Length::Fixed(2),
            load,
            prompt: PromptSpec::Synthetic,
            slo: None,
            num_prompts: None,
            measurement_time_s: None,
        },
        round: 0,
        seed: Seed(7),
        stop: StopRule { requests, min_time_s: 0.0, max_time_s: 60.0 },
        first_prompt: 0,
    };
    let mut job = RoundJob::new(plan, Side::New, 0, 0);
    job.expected_e2el_s = Some(0.1);
    job
}

/// Arrivals as regular as the schedule draws them.
fn rate(per_s: f64, max_concurrency: Option<u32>) -> Load {
    Load::RequestRate(RequestRate { per_s, burstiness: 1e6, max_concurrency })
}

fn of(outcome: &RoundOutcome, part: Part) -> Vec<&RequestRecord> {
    outcome.records.iter().filter(|record| record.part == part).collect()
}

fn completed(outcome: &RoundOutcome) -> usize {
    outcome.records.iter().filter(|record| record.outcome == Outcome::Completed).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warm_up_settles_and_shares_no_prompt_with_the_round() {
    let bench = Bench::start(Script {
        first_token: Duration::from_millis(40),
        between_tokens: Duration::from_millis(40),
        ..Script::default()
    })
    .await;
    let job = job(Load::Concurrency(8), 16);
    let limit = Duration::from_secs(20);
    let interrupt = Interrupt::new();
    let warm =
        warm_up(&bench.wire, bench.clock, &job.plan, limit, &interrupt, &mut |_| {}).await.unwrap();
    assert!(warm.requests >= 48, "three windows of 16: {warm:?}");
    assert!(warm.e2el_s.unwrap() >= 0.08, "{warm:?}");
    let before: HashSet<String> = bench.server.seen.lock().unwrap().prompts.drain(..).collect();
    bench.round(&job).await;
    let after: HashSet<String> = bench.server.seen.lock().unwrap().prompts.drain(..).collect();
    assert!(!before.is_empty() && before.is_disjoint(&after));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warm_up_ends_at_its_limit() {
    let bench = Bench::start(Script::default()).await;
    let plan = job(rate(5.0, None), 1).plan;
    let limit = Duration::from_millis(500);
    let interrupt = Interrupt::new();
    let warm =
        warm_up(&bench.wire, bench.clock, &plan, limit, &interrupt, &mut |_| {}).await.unwrap();
    // Three windows of at least four arrivals at five a second do not fit half a second.
    assert!(!warm.stable && warm.requests < 12 && warm.e2el_s.is_some(), "{warm:?}");
}
