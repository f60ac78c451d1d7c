//! Load points made of the figures of real runs (vLLM on one H200).

use inferometer::metric::{Measure, Metric};
use inferometer::plan::{Phase, Side};
use inferometer::record::request::Part;
use inferometer::record::stored::{Health, RoundStatus, WarmUp};
use inferometer::record::{Outcome, RequestRecord};
use inferometer::report::{Lengths, PointInput, PointSide, Samples, StartSummary};
use inferometer::rng::Seed;
use inferometer::scenario::load::RequestRate;
use inferometer::scenario::{Length, Load, LoadPoint, PromptSpec};
use inferometer::summary::{Distribution, Summary};
use inferometer::transport::{Failure, FailureKind};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

static REAL: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("h200.json")).unwrap());

pub(super) const LOADS: [u32; 5] = [1, 4, 16, 64, 128];

/// The figures of a real run, all latencies times `factor`.
pub(super) fn summary(key: &str, factor: f64) -> Summary {
    let real = &REAL[key];
    let number = |name: &str| real[name].as_f64().unwrap();
    #[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation)]
    let count = |name: &str| number(name) as u64;
    let mut distributions = BTreeMap::new();
    let metrics = [
        (Metric::Ttft, "ttft"),
        (Metric::Tpot, "tpot"),
        (Metric::Itl, "itl"),
        (Metric::E2el, "e2el"),
    ];
    for (metric, name) in metrics {
        let get = |s: &str| Some(real[name][s].as_f64()? * factor);
        let count =
            if metric == Metric::Itl { count("total_output_tokens") } else { count("completed") };
        distributions.insert(
            metric,
            Distribution {
                count,
                mean: get("mean"),
                std: get("std"),
                min: get("p50").map(|v| v * 0.4),
                p50: get("p50"),
                p90: get("p90"),
                p95: get("p95"),
                p99: get("p99"),
                max: get("p99").map(|v| v * 1.15),
            },
        );
    }
    Summary {
        failure_statuses: std::collections::BTreeMap::new(),
        ramp_completed: 0,
        distributions,
        request_throughput: Some(number("request_throughput") / factor),
        output_throughput: Some(number("output_throughput") / factor),
        total_token_throughput: Some(number("total_token_throughput") / factor),
        goodput: None,
        good: None,
        slo_capacity: None,
        slo_excess: None,
        completed: count("completed"),
        failed: count("failed"),
        failures: BTreeMap::new(),
        input_tokens: count("total_input_tokens"),
        output_tokens: count("total_output_tokens"),
        concurrency_mean: Some(
            number("request_throughput") * real["e2el"]["mean"].as_f64().unwrap() / 1e3,
        ),
        duration_s: number("duration"),
        tpot_undefined: 0,
        token_sources: BTreeMap::new(),
    }
}

/// A few hundred values whose percentiles are about those of a real run.
fn spread(key: &str, name: &str, factor: f64) -> Vec<f64> {
    let get = |s: &str| REAL[key][name][s].as_f64().unwrap() * factor;
    let knots = [
        (0.0, get("p50") * 0.75),
        (0.5, get("p50")),
        (0.9, get("p90")),
        (0.95, get("p95")),
        (0.99, get("p99")),
        (1.0, get("p99") * 1.05),
    ];
    (0..200_u32)
        .map(|i| {
            let q = (f64::from(i) + 0.5) / 200.0;
            let after = knots.iter().position(|k| k.0 >= q).unwrap().max(1);
            let ((q0, v0), (q1, v1)) = (knots[after - 1], knots[after]);
            v0 + (v1 - v0) * (q - q0) / (q1 - q0)
        })
        .collect()
}

fn over_time(key: &str, factor: f64) -> BTreeMap<String, Vec<(f64, f64)>> {
    let pairs = REAL[key]["ttft_over_time"].as_array().unwrap();
    let ttft: Vec<(f64, f64)> =
        pairs.iter().map(|p| (p[0].as_f64().unwrap(), p[1].as_f64().unwrap() * factor)).collect();
    let level = |scale: f64, salt: u64| {
        ttft.iter()
            .enumerate()
            .map(|(i, (t, _))| (*t, scale * (0.85 + 0.3 * Seed(salt).nth(i as u64).unit())))
            .collect::<Vec<_>>()
    };
    let concurrency = summary(key, 1.0).concurrency_mean.unwrap();
    BTreeMap::from([
        ("in_flight".to_owned(), level(concurrency, 1)),
        ("request_rate".to_owned(), level(summary(key, factor).request_throughput.unwrap(), 2)),
        ("kv_cache_usage".to_owned(), level(0.31, 3)),
        ("requests_waiting".to_owned(), level(4.0, 4)),
        ("ttft_ms".to_owned(), ttft),
    ])
}

fn record(index: u64, ttft_ms: f64, e2el_ms: f64) -> RequestRecord {
    let ns = |ms: f64| inferometer::units::s_to_ns(ms / 1e3);
    let sent = 1_000_000_000 + index * 1_000_000;
    RequestRecord {
        side: Side::New,
        block: 0,
        start: 2,
        round: 0,
        phase: Phase::Load,
        part: Part::Measured,
        index,
        seed: index,
        outcome: Outcome::Completed,
        failure: None,
        evidence: None,
        status: Some(200),
        due_ns: None,
        sent_ns: Some(sent),
        headers_ns: Some(sent + ns(ttft_ms * 0.9)),
        first_byte_ns: Some(sent + ns(ttft_ms * 0.95)),
        first_token_ns: Some(sent + ns(ttft_ms)),
        first_output_ns: Some(sent + ns(ttft_ms)),
        last_token_ns: Some(sent + ns(e2el_ms)),
        end_ns: Some(sent + ns(e2el_ms)),
        input_tokens_asked: 512,
        output_tokens_asked: 128,
        input_tokens: Some(512),
        cached_tokens: None,
        output_tokens: Some(128),
        first_event_tokens: 1,
        window_tokens: 128,
        token_source: None,
        events: 128,
        coalesced_events: 0,
        worst_gap_ns: Some(ns(110.0 + ttft_ms / 10.0)),
        finish: None,
        connection_reused: Some(true),
        resent: false,
    }
}

/// A failed request whose server said `message`.
pub(super) fn failed(index: u64, message: &str) -> RequestRecord {
    let mut record = record(index, 1.0, 1.0);
    record.outcome = Outcome::Failed;
    record.failure = Some(FailureKind::ServerError);
    record.status = Some(500);
    record.first_token_ns = None;
    record.last_token_ns = None;
    record.evidence = Some(Box::new(Failure {
        kind: FailureKind::ServerError,
        message: message.to_owned(),
        retry_after: None,
        first_bytes: format!("{{\"error\": \"{message}\"}}"),
        last_bytes: String::new(),
    }));
    record
}

/// The figures of a real run as one side of a load point, `starts` restarts with a spread of 1 %.
pub(super) fn side(key: &str, factor: f64, starts: u32) -> PointSide {
    let pooled = summary(key, factor);
    let own = |start: u32| {
        let noise = (Seed(u64::from(start)).named(key).unit() - 0.5) * 0.03;
        summary(key, factor * (1.0 + noise))
    };
    let mut intervals = BTreeMap::new();
    if starts > 2 {
        for measure in
            [Measure::TTFT_P50, Measure::TPOT_MEAN, Measure::THROUGHPUT, Measure::ITL_P50]
        {
            if let Some(value) = pooled.get(measure) {
                intervals.insert(measure.name(), (value * 0.985, value * 1.015));
            }
        }
    }
    let e2el = pooled.distributions[&Metric::E2el];
    let ttft: Vec<f64> = REAL[key]["ttft_ms_sample"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_f64().unwrap() * factor)
        .collect();
    let slow = |i: u64| {
        #[allow(clippy::cast_precision_loss)]
        let step = i as f64 / 40.0;
        record(
            40 + i * 7,
            ttft.last().unwrap() * (1.0 - step * 2.0),
            e2el.max.unwrap() * (1.0 - step),
        )
    };
    PointSide {
        server: inferometer::record::ServerState::Ran,
        starts: (0..starts)
            .map(|start| StartSummary { block: start, start, summary: own(start) })
            .collect(),
        summary: pooled,
        status: RoundStatus::Complete,
        health: Health {
            schedule_lag_p50_ms: Some(0.06),
            schedule_lag_p99_ms: Some(0.41),
            loop_lag_p99_ms: Some(0.9),
            client_cpu: Some(0.11),
            in_flight_mean: Some(63.1),
            little: Some(63.3),
            at_cap_share: Some(0.98),
            lockstep: Some(0.22),
            coalesced_share: Some(0.004),
            ..Health::default()
        },
        warm_up: Some(WarmUp { requests: 192, seconds: 4.6, stable: true, e2el_s: Some(1.44) }),
        intervals,
        samples: Samples {
            ttft_ms: ttft.clone(),
            tpot_ms: spread(key, "tpot", factor),
            e2el_ms: spread(key, "e2el", factor),
        },
        series: over_time(key, factor),
        slowest: (0..10).map(slow).collect(),
        failed: Vec::new(),
        lengths: Lengths {
            input_asked: Some(512.0),
            input_got: Some(512.0),
            output_asked: Some(128.0),
            output_got: Some(128.0),
        },
    }
}

pub(super) fn load_point(
    group: &str,
    scenario: &str,
    lengths: (u32, u32),
    load: Load,
) -> LoadPoint {
    LoadPoint {
        group: group.into(),
        scenario: scenario.into(),
        input: Length::Fixed(lengths.0),
        output: Length::Fixed(lengths.1),
        load,
        prompt: PromptSpec::Synthetic,
        slo: None,
        num_prompts: None,
        measurement_time_s: None,
    }
}

pub(super) fn point(
    load_point: LoadPoint,
    phase: Phase,
    sides: Vec<Option<PointSide>>,
) -> PointInput {
    PointInput { id: load_point.id(), phase, point: load_point, sides }
}

pub(super) fn rate(per_s: f64) -> Load {
    Load::RequestRate(RequestRate { per_s, burstiness: 1.0, max_concurrency: None })
}
