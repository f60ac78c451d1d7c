//! The report's cost: 200 load points on two sides, a million requests, from disk to pages.
//!
//! The aim: under 10 s and 1 GB of memory on two cores, the index page under 2 MB. Seen on one core
//! of a busy machine: 6.7 s of processor time, 133 MB, 1.7 MB.

use std::collections::BTreeMap;
use std::time::Duration;

use inferometer::Result;
use inferometer::Seed;
use inferometer::internals::analysis::rebuild_report;
use inferometer::internals::clock::Clock;
use inferometer::internals::plan::{Design, Phase, Side};
use inferometer::internals::record::request::Part;
use inferometer::internals::record::stored::{
    DEFINITIONS, Health, RoundStatus, RunStatus, SCHEMA, StoredPoint, StoredSide, StoredStart,
};
use inferometer::internals::record::{
    GapHistogram, Outcome, RequestRecord, StoredRound, StoredRun,
};
use inferometer::internals::scenario::{Length, Load, LoadPoint, PromptSpec};
use inferometer::internals::settings::JudgeSettings;
use inferometer::internals::store::{Store, files};
use inferometer::internals::transport::client::TokenSource;
use nix::sys::resource::{UsageWho, getrusage};

const GROUPS: usize = 10;
const SCENARIOS: usize = 5;
const LOADS: [u32; 4] = [1, 4, 16, 64];
const BLOCKS: u32 = 5;
const REQUESTS: u64 = 500;
const OUTPUT_TOKENS: u32 = 128;
const MS: u64 = 1_000_000;
const WINDOW_OPEN_NS: u64 = 1_000 * MS;

fn main() -> Result<()> {
    let folder = tempfile::tempdir().map_err(|e| inferometer::Error::store(e.to_string()))?;
    let store = Store::open(folder.path())?;
    let clock = Clock::start();
    let requests = write_run(&store)?;
    say(&format!("written: {requests} requests in {:.1} s", seconds(clock)));
    let (clock, begun) = (Clock::start(), processor_time());
    let conclusion = rebuild_report(&store, None, &JudgeSettings::default())?;
    let took = seconds(clock);
    let index = files::read_text(&conclusion.page)?.len();
    let points = conclusion.report.input().points.len();
    let cells: usize = conclusion.report.input().comparisons.iter().map(|c| c.cells.len()).sum();
    say(&format!(
        "report: {points} load points, {cells} cells, {took:.1} s ({:.1} s of processor time)",
        processor_time().saturating_sub(begun).as_secs_f64()
    ));
    say(&format!("peak memory: {} MB; index page: {} kB", peak_mb(), index / 1000));
    Ok(())
}

#[allow(clippy::print_stdout)] // what a benchmark is for
fn say(line: &str) {
    println!("{line}");
}

#[allow(clippy::cast_precision_loss)]
fn seconds(clock: Clock) -> f64 {
    clock.now_ns() as f64 / 1e9
}

/// Processor time of all threads.
fn processor_time() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Duration::ZERO };
    let times = [usage.user_time(), usage.system_time()];
    let microseconds = |t: nix::sys::time::TimeVal| t.tv_sec() * 1_000_000 + t.tv_usec();
    Duration::from_micros(times.into_iter().map(microseconds).sum::<i64>().unsigned_abs())
}

/// The most memory that was resident, MB (Linux counts it in KiB).
fn peak_mb() -> i64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| usage.max_rss() * 1024 / 1_000_000)
}

/// Writes a run of two sides; returns how many requests it holds.
fn write_run(store: &Store) -> Result<u64> {
    let points = points();
    let mut run = run(&points)?;
    let writer = store.begin_run(&run)?;
    let empty = run.clone();
    let mut rounds = Vec::new();
    for point in &points {
        for block in 0..BLOCKS {
            for side in [Side::Base, Side::New] {
                let round = round(&run, point, side, block);
                let (records, gaps) = requests(&round, point.point.load);
                // The rounds are listed once at the end: a run file of 2,000 rounds, written as often.
                writer.write_round(&empty, &round, &records, &gaps, &gaps)?;
                rounds.push(round);
            }
        }
    }
    run.rounds = rounds;
    writer.update(&run)?;
    Ok(run.rounds.len() as u64 * REQUESTS)
}

fn points() -> Vec<StoredPoint> {
    let places = (0..GROUPS).flat_map(|g| (0..SCENARIOS).map(move |s| (g, s)));
    let each = places.flat_map(|(group, scenario)| LOADS.map(|load| (group, scenario, load)));
    let point = |(group, scenario, load): (usize, usize, u32)| LoadPoint {
        group: format!("group-{group}"),
        scenario: format!("scenario-{scenario}"),
        input: Length::Fixed(512),
        output: Length::Fixed(OUTPUT_TOKENS),
        load: Load::Concurrency(load),
        prompt: PromptSpec::Synthetic,
        slo: None,
        num_prompts: None,
        measurement_time_s: None,
    };
    each.map(point).map(|point| StoredPoint { id: point.id(), phase: Phase::Load, point }).collect()
}

fn run(points: &[StoredPoint]) -> Result<StoredRun> {
    let at: jiff::Timestamp = "2026-01-02T03:04:05Z"
        .parse()
        .map_err(|e: jiff::Error| inferometer::Error::store(e.to_string()))?;
    let side = |label: &str| StoredSide {
        label: label.into(),
        url: "http://127.0.0.1:8000".into(),
        model: "model".into(),
        api: "completions".into(),
        ..StoredSide::default()
    };
    let start = |(block, side): (u32, Side)| StoredStart {
        side,
        block,
        start: block,
        at,
        identity: Some(format!("{side:?} {block}")),
        ready_s: None,
        failure: None,
    };
    let starts = (0..BLOCKS).flat_map(|b| [(b, Side::Base), (b, Side::New)]).map(start);
    Ok(StoredRun {
        schema: SCHEMA,
        id: "20260102T030405Z-bench".into(),
        name: Some("bench".into()),
        started_at: at,
        ended_at: Some(at),
        status: RunStatus::Complete,
        tool: "inferometer".into(),
        definitions: DEFINITIONS.into(),
        command_line: vec!["inferometer".into(), "run".into()],
        design: Design::Interleaved,
        seed: Seed(7),
        salt: Seed(8),
        workload_hash: "0123456789abcdef".into(),
        sides: BTreeMap::from([(Side::Base, side("main")), (Side::New, side("branch"))]),
        environment: BTreeMap::new(),
        metadata: BTreeMap::new(),
        settings: BTreeMap::new(),
        points: points.to_vec(),
        starts: starts.collect(),
        rounds: Vec::new(),
        findings: Vec::new(),
    })
}

fn round(run: &StoredRun, point: &StoredPoint, side: Side, block: u32) -> StoredRound {
    let in_flight = concurrency(point.point.load);
    StoredRound {
        point: point.id.clone(),
        phase: Phase::Load,
        side,
        block,
        start: block,
        round: 0,
        seed: Seed(u64::from(block)).named(&point.id),
        at: run.started_at,
        window_open_ns: WINDOW_OPEN_NS,
        window_close_ns: WINDOW_OPEN_NS + REQUESTS * 700 * MS / in_flight,
        status: RoundStatus::Complete,
        warm_up: None,
        health: Health::default(),
        telemetry: BTreeMap::new(),
        series: BTreeMap::new(),
        reported: BTreeMap::new(),
        server: inferometer::internals::record::ServerState::Ran,
        itl_by_position_ms: Vec::new(),
    }
}

fn concurrency(load: Load) -> u64 {
    match load {
        Load::Concurrency(n) => u64::from(n),
        Load::RequestRate(_) => 1,
    }
}

/// Requests as a closed loop sends them, a little slower on the new side, each start with its own
/// shift.
fn requests(round: &StoredRound, load: Load) -> (Vec<RequestRecord>, GapHistogram) {
    let in_flight = concurrency(load);
    let slow = if round.side == Side::New { 1_030 } else { 1_000 };
    let side = if round.side == Side::New { "new" } else { "base" };
    let shift = 990 + round.seed.named(side).0 % 20;
    let mut gaps = GapHistogram::new();
    let record = |index: u64| {
        let noise =
            round.seed.named(side).0.wrapping_add(index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let scaled = |ns: u64| ns * slow / 1_000 * shift / 1_000;
        let ttft_ns = scaled(30 * MS + in_flight * MS + (noise >> 40) % (20 * MS));
        let gap_ns = scaled(5 * MS + in_flight * MS / 40 + (noise >> 20) % MS);
        gaps.record(gap_ns, u64::from(OUTPUT_TOKENS - 1));
        let sent_ns = WINDOW_OPEN_NS + index * 700 * MS / in_flight;
        let last_ns = sent_ns + ttft_ns + gap_ns * u64::from(OUTPUT_TOKENS - 1);
        RequestRecord {
            side: round.side,
            block: round.block,
            start: round.start,
            round: round.round,
            phase: round.phase,
            part: Part::Measured,
            index,
            seed: noise,
            outcome: Outcome::Completed,
            failure: None,
            evidence: None,
            status: Some(200),
            due_ns: None,
            sent_ns: Some(sent_ns),
            headers_ns: Some(sent_ns + ttft_ns / 4),
            first_byte_ns: Some(sent_ns + ttft_ns),
            first_token_ns: Some(sent_ns + ttft_ns),
            first_output_ns: Some(sent_ns + ttft_ns),
            last_token_ns: Some(last_ns),
            end_ns: Some(last_ns + MS / 10),
            input_tokens_asked: 512,
            output_tokens_asked: OUTPUT_TOKENS,
            input_tokens: Some(512),
            cached_tokens: None,
            output_tokens: Some(OUTPUT_TOKENS),
            first_event_tokens: 1,
            window_tokens: OUTPUT_TOKENS,
            token_source: Some(TokenSource::TokenIds),
            events: OUTPUT_TOKENS,
            coalesced_events: 0,
            worst_gap_ns: Some(gap_ns),
            finish: None,
            connection_reused: Some(true),
            resent: false,
        }
    };
    let records = (0..REQUESTS).map(record).collect();
    (records, gaps)
}
