//! The whole job against a server that misbehaves: records, counts, status, findings, exit code.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers outside `#[test]` functions

mod ends;
mod preflight;
mod table;
mod tokens;

use std::path::Path;
use std::time::Duration;

use inferometer::analysis::Conclusion;
use inferometer::drive::Interrupt;
use inferometer::record::{Finding, Outcome, Part, RequestRecord, StoredRound, StoredRun};
use inferometer::report::progress::Silent;
use inferometer::settings::{ApiChoice, Settings};
use inferometer::sim::fault::FaultSpec;
use inferometer::sim::truth::TruthRecord;
use inferometer::sim::{SimConfig, SimServer};
use inferometer::store::{RoundData, Store};
use inferometer::{Error, Harness, Load, Scenario};

/// Tokens asked of each answer.
const OUTPUT: u32 = 16;
/// Tokens asked of each prompt.
const INPUT: u32 = 32;

/// One whole run to be made.
#[derive(Clone)]
struct Job {
    /// As `--fault` takes them; each strikes only after the preflight, unlike those of `config`.
    faults: Vec<String>,
    api: ApiChoice,
    load: Load,
    requests: u32,
    slowdown: f64,
    config: SimConfig,
}

impl Job {
    fn new(fault: &str) -> Self {
        Self {
            faults: vec![fault.to_owned()],
            api: ApiChoice::Completions,
            load: Load::concurrency(4),
            requests: 24,
            slowdown: 2.0,
            config: SimConfig::default(),
        }
    }

    fn chat(mut self) -> Self {
        self.api = ApiChoice::Chat;
        self
    }

    /// One request at a time, slow enough that a token's time stands out of the machine's noise.
    fn one_by_one(mut self, requests: u32) -> Self {
        (self.load, self.requests, self.slowdown) = (Load::concurrency(1), requests, 15.0);
        self
    }

    fn requests(mut self, requests: u32) -> Self {
        self.requests = requests;
        self
    }

    fn and(mut self, fault: &str) -> Self {
        self.faults.push(fault.to_owned());
        self
    }

    /// The run, in a thread with a runtime of its own.
    fn run(self) -> Ran {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.unwrap().block_on(self.ran())
    }

    async fn ran(self) -> Ran {
        let folder = tempfile::tempdir().unwrap();
        let skip = preflight_requests(&self, folder.path()).await;
        let mut config = self.server();
        let with_skip =
            |fault: &String| format!("skip={skip},{fault}").parse::<FaultSpec>().unwrap();
        config.faults.extend(self.faults.iter().map(with_skip));
        let server = SimServer::start(config).unwrap();
        let harness = self.harness(self.settings(&server.url(), folder.path()));
        let (mut silent, interrupt) = (Silent, Interrupt::new());
        let run = harness.run(&mut silent, &interrupt);
        // No run takes a quarter of this; a hang is a failure, not a wait.
        let result = tokio::time::timeout(Duration::from_secs(60), run).await.unwrap();
        let mut truth = server.take_truth();
        truth.drain(..(skip as usize).min(truth.len()));
        Ran::of(result, truth, folder.path())
    }

    fn server(&self) -> SimConfig {
        let mut config = self.config.clone();
        config.profile.slowdown *= self.slowdown;
        config
    }

    fn settings(&self, url: &str, folder: &Path) -> Settings {
        let mut settings = Settings::for_url(url);
        settings.api = self.api;
        settings.cool_down = Duration::ZERO;
        (settings.skip.reference, settings.skip.warm_up) = (true, true);
        settings.output_dir = folder.join("reports");
        settings
    }

    fn harness(&self, settings: Settings) -> Harness {
        let mut harness = Harness::new(settings);
        let scenario = Scenario::new("s").input(INPUT).output(OUTPUT).load(self.load);
        harness.group("faults").scenario(scenario.num_prompts(self.requests));
        harness
    }
}

/// How many generation requests a preflight makes: those that the faults spare.
async fn preflight_requests(job: &Job, folder: &Path) -> u64 {
    let server = SimServer::start(job.server()).unwrap();
    let harness = job.harness(job.settings(&server.url(), &folder.join("preflight")));
    harness.preflight(&mut Silent).await.unwrap();
    server.take_truth().len() as u64
}

/// What came of a run.
struct Ran {
    result: Result<Conclusion, Error>,
    run: StoredRun,
    round: Option<(StoredRound, RoundData)>,
    /// The server's own log of the requests after the preflight, in the order they ended.
    truth: Vec<TruthRecord>,
}

impl Ran {
    fn of(result: Result<Conclusion, Error>, truth: Vec<TruthRecord>, folder: &Path) -> Self {
        let store = Store::open(folder.join("reports")).unwrap();
        let run = store.runs().unwrap().runs.remove(0);
        let round = run
            .rounds
            .first()
            .map(|round| (round.clone(), store.load_round(&run.id, round).unwrap()));
        Self { result, run, round, truth }
    }

    fn stored(&self) -> &(StoredRound, RoundData) {
        let why = self.result.as_ref().err().map(Error::render);
        self.round.as_ref().unwrap_or_else(|| panic!("{why:?}"))
    }

    fn round(&self) -> &StoredRound {
        &self.stored().0
    }

    fn data(&self) -> &RoundData {
        &self.stored().1
    }

    fn measured(&self) -> Vec<&RequestRecord> {
        self.data().records.iter().filter(|record| record.part == Part::Measured).collect()
    }

    fn of_outcome(&self, outcome: Outcome) -> Vec<&RequestRecord> {
        self.measured().into_iter().filter(|record| record.outcome == outcome).collect()
    }

    fn finding(&self, code: &str) -> Option<&Finding> {
        self.run.findings.iter().find(|finding| finding.code.name() == code)
    }

    fn codes(&self) -> Vec<&str> {
        self.run.findings.iter().map(|finding| finding.code.name()).collect()
    }

    fn exit_code(&self) -> u8 {
        match &self.result {
            Ok(conclusion) => conclusion.gate.exit_code,
            Err(error) => inferometer::compare::gate::exit_code(error.kind()),
        }
    }
}

/// Runs jobs, four at a time: most of each is waiting.
fn run_all(jobs: Vec<(&'static str, Job)>, check: impl Fn(&'static str, &Ran)) {
    for batch in jobs.chunks(4) {
        let ran: Vec<(&'static str, Ran)> = std::thread::scope(|scope| {
            let start = |(name, job): &(&'static str, Job)| {
                let (name, job) = (*name, job.clone());
                (name, scope.spawn(move || job.run()))
            };
            let threads: Vec<_> = batch.iter().map(start).collect();
            threads.into_iter().map(|(name, thread)| (name, thread.join().unwrap())).collect()
        });
        for (name, ran) in &ran {
            check(name, ran);
        }
    }
}
