//! Runs, rounds and requests as tests of the store and the summary make them.
#![allow(clippy::unwrap_used)] // a test may

use std::collections::BTreeMap;

use inferometer::plan::{Design, Phase, Side};
use inferometer::record::request::Part;
use inferometer::record::stored::{
    Health, RoundStatus, RunStatus, StoredPoint, StoredSide, WarmUp,
};
use inferometer::record::{
    Finding, FindingCode, GapHistogram, Outcome, RequestRecord, Severity, StoredRound, StoredRun,
    StoredStart,
};
use inferometer::rng::Seed;
use inferometer::scenario::{Length, Load, LoadPoint, PromptSpec, Slo};
use inferometer::transport::FailureKind;
use inferometer::transport::client::TokenSource;

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const S: u64 = 1_000 * MS;

/// A run of one load point, `chat/short/c16`, without rounds.
pub(crate) fn run(id: &str) -> StoredRun {
    let at = "2026-01-02T03:04:05Z".parse().unwrap();
    let point = LoadPoint {
        group: "chat".into(),
        scenario: "short".into(),
        input: Length::Fixed(512),
        output: Length::LogNormal { median: 128.0, sigma: 0.5 },
        load: Load::Concurrency(16),
        prompt: PromptSpec::Synthetic,
        slo: Some(Slo { ttft_ms: Some(200.0), tpot_ms: Some(30.0), e2el_ms: None, share: None }),
        num_prompts: None,
        measurement_time_s: Some(10.0),
    };
    let side = StoredSide {
        label: "main".into(),
        url: "http://127.0.0.1:8000".into(),
        model: "m".into(),
        api: "completions".into(),
        engine: Some("vllm".into()),
        engine_version: Some("0.11.0".into()),
        engine_settings: BTreeMap::from([("max_num_seqs".into(), "256".into())]),
        template_tokens: None,
        ..StoredSide::default()
    };
    StoredRun {
        schema: 1,
        id: id.into(),
        name: Some("main".into()),
        started_at: at,
        ended_at: None,
        status: RunStatus::Running,
        tool: "inferometer 0.1.0".into(),
        definitions: "inferometer-1".into(),
        command_line: vec!["inferometer".into(), "run".into()],
        design: Design::OneSided,
        seed: Seed(7),
        salt: Seed(8),
        workload_hash: "0123456789abcdef".into(),
        sides: BTreeMap::from([(Side::New, side)]),
        environment: BTreeMap::from([("host".into(), "bench".into())]),
        metadata: BTreeMap::new(),
        settings: BTreeMap::new(),
        points: vec![StoredPoint { id: point.id(), phase: Phase::Load, point }],
        starts: vec![StoredStart {
            side: Side::New,
            block: 0,
            start: 0,
            at,
            identity: Some("1767323000.25".into()),
            ready_s: Some(41.5),
            failure: None,
        }],
        rounds: Vec::new(),
        findings: vec![
            Finding::new(FindingCode::Lockstep, Severity::Warning, "requests run in lockstep")
                .with_hint("use `--slot-start spread`")
                .at("chat/short/c16"),
        ],
    }
}

/// A round of that load point; its window is 10 s to 20 s.
pub(crate) fn round(start: u32) -> StoredRound {
    StoredRound {
        point: "chat/short/c16".into(),
        phase: Phase::Load,
        side: Side::New,
        block: start,
        start,
        round: 0,
        seed: Seed(99),
        at: "2026-01-02T03:05:00Z".parse().unwrap(),
        window_open_ns: 10 * S,
        window_close_ns: 20 * S,
        status: RoundStatus::Complete,
        warm_up: Some(WarmUp { requests: 48, seconds: 6.5, stable: true, e2el_s: Some(1.02) }),
        health: Health { in_flight_mean: Some(15.9), little: Some(15.8), ..Health::default() },
        telemetry: BTreeMap::from([("preemptions".into(), 0.0)]),
        series: BTreeMap::from([("running".into(), vec![(10 * S, 16.0), (11 * S, 15.0)])]),
        reported: BTreeMap::new(),
        server: inferometer::record::ServerState::Ran,
        itl_by_position_ms: vec![(2, 5.5), (3, 5.25)],
    }
}

/// A completed, measured request of the closed loop: sent, first token, last token (ns), tokens.
pub(crate) fn request(sent_ns: u64, first_ns: u64, last_ns: u64, tokens: u32) -> RequestRecord {
    RequestRecord {
        side: Side::New,
        block: 0,
        start: 0,
        round: 0,
        phase: Phase::Load,
        part: Part::Measured,
        index: 0,
        seed: 1,
        outcome: Outcome::Completed,
        failure: None,
        evidence: None,
        status: Some(200),
        due_ns: None,
        sent_ns: Some(sent_ns),
        headers_ns: Some(first_ns),
        first_byte_ns: Some(first_ns),
        first_token_ns: Some(first_ns),
        first_output_ns: Some(first_ns),
        last_token_ns: Some(last_ns),
        end_ns: Some(last_ns),
        input_tokens_asked: 512,
        output_tokens_asked: tokens,
        input_tokens: Some(512),
        cached_tokens: None,
        output_tokens: Some(tokens),
        first_event_tokens: 1,
        window_tokens: tokens,
        token_source: Some(TokenSource::EventUsage),
        events: tokens,
        coalesced_events: 0,
        worst_gap_ns: (tokens > 1).then(|| (last_ns - first_ns) / u64::from(tokens - 1)),
        finish: None,
        connection_reused: Some(true),
        resent: false,
    }
}

/// A measured request that failed after `took_ns`.
pub(crate) fn failed(sent_ns: u64, took_ns: u64, kind: FailureKind) -> RequestRecord {
    RequestRecord {
        outcome: Outcome::Failed,
        failure: Some(kind),
        status: None,
        headers_ns: None,
        first_byte_ns: None,
        first_token_ns: None,
        first_output_ns: None,
        last_token_ns: None,
        end_ns: Some(sent_ns + took_ns),
        input_tokens: None,
        output_tokens: None,
        first_event_tokens: 0,
        window_tokens: 0,
        token_source: None,
        events: 0,
        worst_gap_ns: None,
        ..request(sent_ns, sent_ns, sent_ns, 1)
    }
}

/// These gaps, in ms, once each.
pub(crate) fn gaps(gaps_ms: &[u64]) -> GapHistogram {
    let mut histogram = GapHistogram::new();
    gaps_ms.iter().for_each(|gap| histogram.record(gap * MS, 1));
    histogram
}
