//! Inputs for reports, made of real load points.

use super::real::{LOADS, failed, load_point, point, rate, side, summary};
use inferometer::compare::{Cell, Comparison, GateResult, Mode, SuiteResult, Verdict, gate};
use inferometer::metric::{Measure, Metric};
use inferometer::plan::{Design, Phase, Side};
use inferometer::record::stored::{
    DEFINITIONS, Health, RoundStatus, RunStatus, SCHEMA, StoredPoint, StoredSide, StoredStart,
};
use inferometer::record::{Finding, FindingCode, Severity, StoredRun};
use inferometer::report::{
    Knee, Lengths, Multiple, PointInput, ReportInput, Samples, SideInput, Turning,
};
use inferometer::rng::Seed;
use inferometer::scenario::Load;
use inferometer::settings::JudgeSettings;
use inferometer::summary::{Distribution, Summary};
use inferometer::transport::FailureKind;
use std::collections::BTreeMap;

/// A run of `starts` starts, with the server's command and the facts given.
pub(crate) fn run(id: &str, command: &str, facts: &[(&str, &str)], starts: u32) -> StoredRun {
    let at: jiff::Timestamp = "2026-11-29T19:07:12Z".parse().unwrap();
    let server = StoredSide {
        label: id.into(),
        url: "http://127.0.0.1:8000".into(),
        model: "Qwen2.5-7B-Instruct".into(),
        api: "completions".into(),
        engine: Some("vllm".into()),
        engine_version: Some("0.22.0".into()),
        command: Some(command.into()),
        engine_settings: BTreeMap::from([("max_num_seqs".into(), "256".into())]),
        ..StoredSide::default()
    };
    let map = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    };
    StoredRun {
        schema: SCHEMA,
        id: format!("20261129T190712Z-{id}"),
        name: Some(id.into()),
        started_at: at,
        ended_at: Some("2026-11-29T19:32:40Z".parse().unwrap()),
        status: RunStatus::Complete,
        tool: "inferometer 0.1.0".into(),
        definitions: DEFINITIONS.into(),
        command_line: ["inferometer", "run", "serving.toml", "--baseline", "main"]
            .map(String::from)
            .to_vec(),
        design: Design::Interleaved,
        seed: Seed(42),
        salt: Seed(7),
        workload_hash: "5f2c9a10".into(),
        sides: BTreeMap::from([(Side::Base, server.clone()), (Side::New, server)]),
        environment: map(&[
            ("git_revision", "272f488"),
            ("gpu", "NVIDIA H200 (driver 570.86)"),
            ("host", "bench-1"),
        ]),
        metadata: map(facts),
        settings: map(&[("warm_up_time", "60 s"), ("rounds", "1")]),
        points: Vec::<StoredPoint>::new(),
        starts: (0..starts)
            .map(|start| StoredStart {
                side: Side::New,
                block: start,
                start,
                at,
                identity: Some(format!("17644{start}")),
                ready_s: Some(48.2),
                failure: None,
            })
            .collect(),
        rounds: Vec::new(),
        findings: Vec::new(),
    }
}

fn side_input(name: &str, side: Side, run: StoredRun) -> SideInput {
    SideInput { name: name.into(), side, runs: vec![run] }
}

/// Multiples of a real sweep, relative to concurrency 1.
fn knee(config: &str, group: &str, side: usize, factor: f64) -> Knee {
    let reference = summary(&format!("{config}/512x128-c1"), 1.0);
    let multiple = |load: u32| {
        let own = summary(&format!("{config}/512x128-c{load}"), factor);
        let ratio = |m: Measure| own.get(m).unwrap() / reference.get(m).unwrap();
        Multiple {
            load: format!("c{load}"),
            in_flight: f64::from(load),
            latency: ratio(Measure::E2EL_MEAN),
            qps: ratio(Measure::QPS),
        }
    };
    Knee {
        group: group.into(),
        scenario: "short".into(),
        side,
        measure: Measure::E2EL_MEAN,
        relative_to: "concurrency 1".into(),
        multiples: LOADS.map(multiple).to_vec(),
        crossover: Turning {
            state: "not reached (QPS × 31, E2EL mean × 4.1 at the highest load)".into(),
            ..Turning::default()
        },
        knee: Turning {
            state: "at 31 in flight [26, 38]".into(),
            in_flight: Some(31.0),
            interval: Some((26.0, 38.0)),
        },
        best_value: Some("c16 to c64".into()),
        reference_error: None,
    }
}

/// One side: a reference and five loads, one start, no baseline.
pub(crate) fn one_sided() -> ReportInput {
    let mut points = vec![point(
        load_point("chat", "short", (512, 128), rate(1.0)),
        Phase::Reference,
        vec![Some(side("B/512x128-c1", 1.0, 1))],
    )];
    for load in LOADS {
        points.push(point(
            load_point("chat", "short", (512, 128), Load::Concurrency(load)),
            Phase::Load,
            vec![Some(side(&format!("B/512x128-c{load}"), 1.0, 1))],
        ));
    }
    ReportInput {
        sides: vec![side_input("now", Side::New, run("nightly", "vllm serve Qwen2.5-7B", &[], 1))],
        points,
        comparisons: Vec::new(),
        gate: GateResult::default(),
        knees: vec![knee("B", "chat", 0, 1.0)],
        capacities: Vec::new(),
        findings: vec![
            Finding::new(
                FindingCode::Lockstep,
                Severity::Warning,
                "requests run in lockstep (index 0.71)",
            )
            .with_hint("keep `--slot-start spread`")
            .at("chat/short/c64"),
        ],
    }
}

fn judge(measure: Measure, factor: f64, point_index: u64) -> (Verdict, f64) {
    let turned = match measure.metric {
        Metric::OutputThroughput | Metric::RequestThroughput => 1.0 / factor,
        Metric::ErrorRate => return (Verdict::Unchanged, 0.0),
        _ => factor,
    };
    let noise = (Seed(point_index).named(&measure.name()).unit() - 0.5) * 0.012;
    let change = turned * (1.0 + noise) - 1.0;
    let better = inferometer::report::view::is_better(measure, change) == Some(true);
    let verdict = match change.abs() {
        size if size > measure.floor() && better => Verdict::Improved,
        size if size > measure.floor() => Verdict::Regressed,
        _ if measure.metric == Metric::Ttft && point_index.is_multiple_of(3) => {
            Verdict::Inconclusive
        }
        _ => Verdict::Unchanged,
    };
    (verdict, change)
}

fn cells(point: &PointInput, factor: f64, index: u64) -> Vec<Cell> {
    let measures = [
        (Measure::ITL_P50, true),
        (Measure::THROUGHPUT, true),
        (Measure::TPOT_MEAN, true),
        (Measure::TTFT_P50, true),
        (Measure::TTFT_P99, true),
        (Measure::ITL_P99, false),
        (Measure::ERROR_RATE, true),
    ];
    let cell = |(measure, gated): (Measure, bool)| {
        let (verdict, change) = judge(measure, factor, index);
        let base = point.get(0, measure)?;
        let half = measure.floor() * if verdict == Verdict::Inconclusive { 1.6 } else { 0.5 };
        let pair = |block: u64| {
            let wobble =
                |salt| 1.0 + (Seed(block).nth(index).nth(salt).unit() - 0.5) * measure.floor();
            (Some(base * wobble(0)), Some(base * (1.0 + change) * wobble(1)))
        };
        Some(Cell {
            point: point.id.clone(),
            measure,
            gated,
            verdict,
            base: Some(base),
            new: Some(base * (1.0 + change)),
            change: Some(change),
            interval: Some((change - half, change + half)),
            p_holm: Some(0.01),
            minimum_detectable: Some(measure.floor() * 1.2),
            blocks_needed: (verdict == Verdict::Inconclusive).then_some(14),
            floor: measure.floor(),
            pairs: (0..8).map(pair).collect(),
            reason: None,
            working: None,
        })
    };
    measures.into_iter().filter_map(cell).collect()
}

fn comparison(base: &str, new: &str, cells: Vec<Cell>) -> Comparison {
    let mut comparison = Comparison {
        mode: Mode::Interleaved,
        base_label: base.into(),
        new_label: new.into(),
        base_runs: vec!["a".into()],
        new_runs: vec!["b".into()],
        blocks: 8,
        advice: None,
        looks: 1,
        notes: Vec::new(),
        suite: vec![SuiteResult {
            measure: Measure::TPOT_MEAN,
            verdict: Verdict::Unchanged,
            change: Some(0.004),
            interval: Some((-0.003, 0.011)),
        }],
        gate: GateResult::default(),
        cells,
    };
    comparison.gate = gate::gate(&comparison, &JudgeSettings::default());
    comparison
}

/// Base against new over `scenarios` scenarios of five loads; the second one got 4 % slower.
pub(crate) fn two_sided(scenarios: u64) -> ReportInput {
    let mut points = Vec::new();
    let mut all = Vec::new();
    for scenario in 0..scenarios {
        let group = if scenario % 3 == 2 { "rag" } else { "chat" };
        let name = if scenario == 0 { "short".to_owned() } else { format!("s{scenario}") };
        let factor = if scenario == 1 { 1.04 } else { 1.0 };
        for load in LOADS {
            let key = format!("B/512x128-c{load}");
            let sides = vec![Some(side(&key, 1.0, 8)), Some(side(&key, factor, 8))];
            let load = Load::Concurrency(load);
            let point = point(load_point(group, &name, (512, 128), load), Phase::Load, sides);
            all.extend(cells(&point, factor, scenario * 7 + points.len() as u64));
            points.push(point);
        }
    }
    let judged = comparison("main", "this", all);
    let command = "vllm serve Qwen2.5-7B --max-num-batched-tokens 2048";
    let base = run("nightly", command, &[("commit", "272f488")], 8);
    let new = run("nightly", command, &[("commit", "9b01c2e")], 8);
    ReportInput {
        sides: vec![side_input("main", Side::Base, base), side_input("this", Side::New, new)],
        points,
        gate: judged.gate.clone(),
        comparisons: vec![judged],
        knees: vec![knee("B", "chat", 0, 1.0), knee("B", "chat", 1, 1.04)],
        capacities: Vec::new(),
        findings: vec![
            Finding::new(
                FindingCode::Other("p99_few".into()),
                Severity::Note,
                "TTFT p99 rests on 128 requests a start",
            )
            .at("chat/short/c1"),
        ],
    }
}

/// Three configurations of vLLM side by side, one start each: advice only.
pub(crate) fn configurations() -> ReportInput {
    let tokens =
        [("A", "8192", "--no-enable-chunked-prefill"), ("B", "2048", ""), ("C", "8192", "")];
    let sides = tokens.map(|(name, tokens, flag)| {
        let command = format!("vllm serve Qwen2.5-7B --max-num-batched-tokens {tokens} {flag}");
        let run = run(name, command.trim(), &[("max_num_batched_tokens", tokens)], 1);
        side_input(name, Side::New, run)
    });
    let mut points = Vec::new();
    for (scenario, lengths, loads) in
        [("512x128", (512, 128), &LOADS[..]), ("4096x128", (4096, 128), &[16, 64][..])]
    {
        for load in loads {
            let of = |name: &str| Some(side(&format!("{name}/{scenario}-c{load}"), 1.0, 1));
            let at = load_point("vllm", scenario, lengths, Load::Concurrency(*load));
            points.push(point(at, Phase::Load, ["A", "B", "C"].map(of).to_vec()));
        }
    }
    let comparisons = ["B", "C"].into_iter().zip(1..).map(|(name, index)| {
        let advice = |p: &PointInput| {
            [Measure::THROUGHPUT, Measure::TPOT_MEAN, Measure::TTFT_P50].map(|measure| {
                let (base, new) = (p.get(0, measure), p.get(index, measure));
                Cell {
                    point: p.id.clone(),
                    measure,
                    gated: false,
                    verdict: Verdict::Inconclusive,
                    base,
                    new,
                    change: base.zip(new).map(|(b, n)| n / b - 1.0),
                    interval: None,
                    p_holm: None,
                    minimum_detectable: None,
                    blocks_needed: None,
                    floor: measure.floor(),
                    pairs: vec![(base, new)],
                    reason: None,
                    working: None,
                }
            })
        };
        let mut comparison = comparison("A", name, points.iter().flat_map(advice).collect());
        comparison.mode = Mode::SingleStart;
        comparison.blocks = 1;
        comparison.advice = Some("to decide, restart each side at least 5 times".into());
        comparison.gate = gate::gate(&comparison, &JudgeSettings::default());
        comparison
    });
    let comparisons = comparisons.collect();
    ReportInput {
        sides: sides.to_vec(),
        points,
        comparisons,
        gate: GateResult::default(),
        knees: Vec::new(),
        capacities: Vec::new(),
        findings: Vec::new(),
    }
}

/// A rate sweep that ends beyond capacity.
pub(crate) fn rates() -> ReportInput {
    let mut points: Vec<PointInput> = [1, 5, 10, 20, 30, 40, 50]
        .into_iter()
        .map(|per_s| {
            let at = load_point("stream", "512x256", (512, 256), rate(f64::from(per_s)));
            point(at, Phase::Load, vec![Some(side(&format!("B/512x256-r{per_s}"), 1.0, 3))])
        })
        .collect();
    if let Some(last) = points.last_mut().and_then(|p| p.sides[0].as_mut()) {
        last.status = RoundStatus::Saturated;
    }
    ReportInput {
        sides: vec![side_input("now", Side::New, run("rates", "vllm serve", &[], 3))],
        points,
        ..ReportInput::default()
    }
}

/// One load point where nothing succeeded, and a server that answers with `message`.
pub(crate) fn all_failed(message: &str) -> ReportInput {
    let mut input = one_sided();
    input.points.truncate(2);
    input.knees.clear();
    for figures in input.points.iter_mut().flat_map(|p| p.sides.iter_mut().flatten()) {
        figures.summary = Summary {
            failed: 64,
            failures: BTreeMap::from([
                (FailureKind::ServerError, 60),
                (FailureKind::IdleTimeout, 4),
            ]),
            request_throughput: Some(0.0),
            output_throughput: Some(0.0),
            duration_s: 3.2,
            ..Summary::default()
        };
        figures.status = RoundStatus::Stopped;
        figures.starts.clear();
        figures.samples = Samples::default();
        figures.series.clear();
        figures.slowest.clear();
        figures.intervals.clear();
        figures.failed = (0..3).map(|i| failed(i, message)).collect();
    }
    input
}

/// One load point with one request, and everything else unknown.
pub(crate) fn one_sample() -> ReportInput {
    let mut input = one_sided();
    input.points = vec![input.points.remove(1)];
    input.knees.clear();
    let figures = input.points[0].sides[0].as_mut().unwrap();
    let one = Distribution {
        count: 1,
        mean: Some(22.5),
        min: Some(22.5),
        p50: Some(22.5),
        p90: Some(22.5),
        p95: Some(22.5),
        p99: Some(22.5),
        max: Some(22.5),
        std: None,
    };
    figures.summary = Summary {
        distributions: BTreeMap::from([
            (Metric::Ttft, one),
            (Metric::Tpot, Distribution::default()),
        ]),
        completed: 1,
        tpot_undefined: 1,
        request_throughput: Some(f64::NAN),
        duration_s: 0.0,
        ..Summary::default()
    };
    figures.samples = Samples { ttft_ms: vec![22.5], ..Samples::default() };
    figures.series = BTreeMap::from([("in_flight".to_owned(), vec![(0.0, 0.0)])]);
    figures.slowest.clear();
    figures.health = Health::default();
    figures.lengths = Lengths::default();
    input
}

/// Every name hostile or long: markup, 200 characters, CJK, a mention, control characters.
pub(crate) fn hostile() -> ReportInput {
    let mut input = two_sided(2);
    let bad = "<script>alert('x')</script> & \"@team\" | `rm` \u{1b}[31m";
    let long = "长名字模型".repeat(40);
    for (index, point) in input.points.iter_mut().enumerate() {
        point.point.group = bad.into();
        point.point.scenario = if index < 5 { long.clone() } else { "n".repeat(200) };
        let old = std::mem::replace(&mut point.id, point.point.id());
        for cell in input.comparisons.iter_mut().flat_map(|c| &mut c.cells) {
            if cell.point == old {
                cell.point.clone_from(&point.id);
                cell.reason = Some(bad.to_owned().into());
            }
        }
        for figures in point.sides.iter_mut().flatten() {
            figures.failed = vec![failed(1, bad)];
            figures.summary.failed = 1;
            figures.summary.failures = BTreeMap::from([(FailureKind::ServerError, 1)]);
        }
    }
    for side in &mut input.sides {
        side.name = format!("{bad}{}", side.name);
        for run in &mut side.runs {
            run.name = Some(bad.into());
            run.metadata.insert(bad.into(), format!("{bad}{}", side.name));
            run.findings.push(
                Finding::new(FindingCode::Other("x".into()), Severity::Warning, bad).with_hint(bad),
            );
        }
    }
    for knee in &mut input.knees {
        knee.group = bad.into();
        knee.scenario.clone_from(&long);
        knee.knee.state = bad.into();
    }
    input.comparisons[0].advice = Some(bad.into());
    input
}
