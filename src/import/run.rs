//! The run that results make: one side, one start, a round each.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;

use super::details::{Details, Measured};
use super::findings;
use super::imported::{Imported, ImportedRound, Order, Sends};
use super::lengths::Lengths;
use super::result::ToolResult;
use super::source::PassedOver;
use crate::error::{Error, Result};
use crate::plan::{Design, Phase, Side};
use crate::record::stored::{Health, RoundStatus, RunStatus, SCHEMA, StoredPoint, StoredSide};
use crate::record::{
    Finding, FindingCode, ServerState, Severity, StoredRound, StoredRun, StoredStart,
};
use crate::rng::Seed;
use crate::scenario::content_hash::fnv1a_128;
use crate::scenario::{LoadPoint, PromptSpec};
use crate::units::s_to_ns;

/// The group of imported load points.
pub const GROUP: &str = "import";

/// Above this share of failures latencies are of survivors (STATISTICS, D.8).
const OVERLOADED_SHARE: f64 = 0.05;

/// One result on its way: with its load point.
struct Placed {
    point: LoadPoint,
    result: ToolResult,
}

/// Makes the run. Results of one load point are rounds of one start.
pub(super) fn assemble(
    order: &Order<'_>,
    results: Vec<ToolResult>,
    passed_over: &[PassedOver],
) -> Result<Imported> {
    let mut placed: Vec<Placed> =
        results.into_iter().map(|result| Placed { point: point(order, &result), result }).collect();
    placed.sort_by(|a, b| {
        let lengths =
            |p: &Placed| (p.point.input.mean(), p.point.output.mean(), p.point.load.rank().1);
        let (a, b) = (lengths(a), lengths(b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2))
    });
    one_configuration(&placed)?;
    let mut run = blank(order, &placed);
    run.findings.extend(findings::of_passed_over(passed_over));
    let mut passes: BTreeMap<String, u32> = BTreeMap::new();
    let mut rounds = Vec::new();
    for Placed { point, result } in &placed {
        let id = point.id();
        let pass = passes.entry(id.clone()).or_default();
        if *pass == 0 {
            run.points.push(StoredPoint {
                id: id.clone(),
                phase: Phase::Load,
                point: point.clone(),
            });
        }
        let mut round = round(order, &id, *pass, result);
        *pass += 1;
        run.findings.extend(findings::of_result(&id, result));
        let Measured { records, itl, icl } =
            result.details.as_ref().map(|d| d.measured(round.round)).unwrap_or_default();
        round.server = ServerState::of(&records);
        run.rounds.push(round.clone());
        let sends = result.details.as_ref().map_or(Sends::Unknown, Details::sends);
        rounds.push(ImportedRound { round, records, itl, icl, sends });
    }
    let ids: Vec<&str> = run.points.iter().map(|p| p.id.as_str()).collect();
    run.workload_hash = fnv1a_128(ids.join("\n").as_bytes());
    Ok(Imported { run, rounds })
}

fn point(order: &Order<'_>, result: &ToolResult) -> LoadPoint {
    let lengths = Lengths::of(result);
    LoadPoint {
        group: GROUP.to_owned(),
        scenario: order.scenario.map_or_else(|| lengths.name(), str::to_owned),
        input: lengths.input,
        output: lengths.output,
        load: result.load,
        prompt: PromptSpec::Synthetic,
        slo: None,
        num_prompts: result.num_prompts,
        measurement_time_s: None,
    }
}

/// One name is one configuration, measured by one client: one model, one API.
fn one_configuration(placed: &[Placed]) -> Result<()> {
    for pair in placed.windows(2) {
        let (a, b) = (&pair[0].result, &pair[1].result);
        let pairs = [
            ("client", a.tool.name, b.tool.name),
            ("model", &a.model, &b.model),
            ("API", &a.api, &b.api),
        ];
        for (what, of_a, of_b) in pairs {
            if of_a != of_b {
                return Err(Error::usage(format!(
                    "`{}` and `{}` differ in their {what}: `{of_a}` and `{of_b}`",
                    a.source, b.source
                ))
                .with_hint("one name is one configuration: import them under two names"));
            }
        }
    }
    Ok(())
}

/// The run without its rounds.
fn blank(order: &Order<'_>, placed: &[Placed]) -> StoredRun {
    let results = || placed.iter().map(|p| &p.result);
    let ends = || results().filter_map(|r| r.written_at);
    let began = results().filter_map(began_at).min().unwrap_or(order.at);
    let first = results().next();
    let mut findings = findings::of_run(&results().collect::<Vec<_>>());
    let (mut metadata, mixed) = agreed(results().map(|r| &r.metadata));
    metadata.extend(order.metadata.clone());
    for name in mixed.iter().filter(|name| !order.metadata.contains_key(*name)) {
        let text = format!("the files differ in `{name}`: it is left out of the run's facts");
        findings.push(Finding::new(FindingCode::MixedMetadata, Severity::Note, text));
    }
    StoredRun {
        schema: SCHEMA,
        id: crate::store::run_id(order.at, Some(order.name), ""),
        name: Some(order.name.to_owned()),
        started_at: began,
        ended_at: ends().max(),
        status: RunStatus::Complete,
        tool: first.map(|r| r.tool.name.to_owned()).unwrap_or_default(),
        definitions: first.map(|r| r.tool.definitions.to_owned()).unwrap_or_default(),
        command_line: order.command_line.clone(),
        design: Design::OneSided,
        seed: Seed(0),
        salt: Seed(0),
        workload_hash: String::new(),
        sides: BTreeMap::from([(
            Side::New,
            StoredSide {
                label: order.name.to_owned(),
                model: first.map(|r| r.model.clone()).unwrap_or_default(),
                api: first.map(|r| r.api.clone()).unwrap_or_default(),
                ..StoredSide::default()
            },
        )]),
        environment: BTreeMap::new(),
        metadata,
        settings: agreed(results().map(|r| &r.settings)).0,
        points: Vec::new(),
        starts: vec![StoredStart {
            side: Side::New,
            block: 0,
            start: 0,
            at: began,
            identity: None,
            ready_s: None,
            failure: None,
        }],
        rounds: Vec::new(),
        findings,
    }
}

/// The facts that all agree on, and the names of those that differ.
fn agreed<'a>(
    all: impl Iterator<Item = &'a BTreeMap<String, String>>,
) -> (BTreeMap<String, String>, BTreeSet<String>) {
    let all: Vec<_> = all.collect();
    let names: BTreeSet<&String> = all.iter().flat_map(|facts| facts.keys()).collect();
    let mut same = BTreeMap::new();
    let mut mixed = BTreeSet::new();
    for name in names {
        let values: BTreeSet<Option<&String>> = all.iter().map(|facts| facts.get(name)).collect();
        match values.first() {
            Some(Some(value)) if values.len() == 1 => {
                same.insert(name.clone(), (*value).clone());
            }
            _ => {
                mixed.insert(name.clone());
            }
        }
    }
    (same, mixed)
}

/// The file is written at the end, so the round began its duration earlier.
fn began_at(result: &ToolResult) -> Option<jiff::Timestamp> {
    let duration = SignedDuration::try_from_secs_f64(result.duration_s).ok()?;
    result.written_at?.checked_sub(duration).ok()
}

fn round(order: &Order<'_>, id: &str, pass: u32, result: &ToolResult) -> StoredRound {
    #[allow(clippy::cast_precision_loss)] // counts of requests
    let share = result.failed.unwrap_or(0) as f64 / result.attempted().max(1) as f64;
    let overloaded = share > OVERLOADED_SHARE;
    StoredRound {
        point: id.to_owned(),
        phase: Phase::Load,
        side: Side::New,
        block: 0,
        start: 0,
        round: pass,
        // The seed is not in the file: no two imports may pass for the same work.
        seed: Seed(0).named(order.name).named(&order.at.to_string()).named(id).nth(pass.into()),
        at: began_at(result).unwrap_or(order.at),
        window_open_ns: 0,
        window_close_ns: s_to_ns(result.duration_s),
        status: match (result.completed, overloaded) {
            (0, _) => RoundStatus::Stopped,
            (_, true) => RoundStatus::Overloaded,
            (_, false) => RoundStatus::Complete,
        },
        warm_up: None,
        health: Health::default(),
        telemetry: BTreeMap::new(),
        series: BTreeMap::new(),
        reported: result.reported.clone(),
        server: ServerState::Ran,
        itl_by_position_ms: Vec::new(),
    }
}
