//! The run that results make: one side, one start, a round each.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;

use super::details::{Details, Measured};
use super::lengths::Lengths;
use super::vllm::{Offered, VllmResult};
use super::{GROUP, Imported, ImportedRound, Order, Sends};
use crate::error::{Error, Result};
use crate::plan::{Design, Phase, Side};
use crate::record::stored::{Health, RoundStatus, RunStatus, SCHEMA, StoredPoint, StoredSide};
use crate::record::{Finding, FindingCode, Severity, StoredRound, StoredRun, StoredStart};
use crate::rng::Seed;
use crate::scenario::digest::fnv1a_128;
use crate::scenario::{Load, LoadPoint, PromptSpec};
use crate::units::s_to_ns;

/// The tool whose files are read.
const TOOL: &str = "vllm bench serve";

/// Its definitions: TTFT is any first chunk with `choices`, from the send; ITL the gap between two
/// chunks; rates divide by the whole run with ramp and drain.
const DEFINITIONS: &str = "vllm-client-1";

/// Above this share of failures latencies are of survivors (STATISTICS, D.8).
const OVERLOADED_SHARE: f64 = 0.05;

/// One result on its way: with its load point.
struct Placed {
    point: LoadPoint,
    result: VllmResult,
}

/// Makes the run. Results of one load point are rounds of one start.
pub(super) fn assemble(order: &Order<'_>, results: Vec<VllmResult>) -> Result<Imported> {
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
        let round = round(order, &id, *pass, result);
        *pass += 1;
        run.findings.extend(point_findings(&id, result));
        let Measured { records, itl, icl } =
            result.details.as_ref().map(|d| d.measured(round.round)).unwrap_or_default();
        run.rounds.push(round.clone());
        let sends = result.details.as_ref().map_or(Sends::Unknown, Details::sends);
        rounds.push(ImportedRound { round, records, itl, icl, sends });
    }
    let ids: Vec<&str> = run.points.iter().map(|p| p.id.as_str()).collect();
    run.workload_hash = fnv1a_128(ids.join("\n").as_bytes());
    Ok(Imported { run, rounds })
}

fn point(order: &Order<'_>, result: &VllmResult) -> LoadPoint {
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

/// One name is one configuration: one model, one API.
fn one_configuration(placed: &[Placed]) -> Result<()> {
    for pair in placed.windows(2) {
        let (a, b) = (&pair[0].result, &pair[1].result);
        for (what, of_a, of_b) in [("model", &a.model, &b.model), ("API", &a.api, &b.api)] {
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
    let mut findings = run_findings(placed);
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
        tool: TOOL.to_owned(),
        definitions: DEFINITIONS.to_owned(),
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
fn began_at(result: &VllmResult) -> Option<jiff::Timestamp> {
    let duration = SignedDuration::try_from_secs_f64(result.duration_s).ok()?;
    result.written_at?.checked_sub(duration).ok()
}

fn round(order: &Order<'_>, id: &str, pass: u32, result: &VllmResult) -> StoredRound {
    #[allow(clippy::cast_precision_loss)] // counts of requests
    let share = result.failed as f64 / (result.completed + result.failed).max(1) as f64;
    let overloaded = share > OVERLOADED_SHARE || result.completed == 0;
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
        status: if overloaded { RoundStatus::Overloaded } else { RoundStatus::Complete },
        warm_up: None,
        health: Health::default(),
        telemetry: BTreeMap::new(),
        series: BTreeMap::new(),
        reported: result.reported.clone(),
        itl_by_position_ms: Vec::new(),
    }
}

/// What is true of all files, or how many of them lack something.
fn run_findings(placed: &[Placed]) -> Vec<Finding> {
    let note = |code: FindingCode, text: String| Finding::new(code, Severity::Note, text);
    let mut findings = vec![
        Finding::new(
            FindingCode::NoStarts,
            Severity::Warning,
            "the files do not say when the server was restarted: those of one import are taken as one start, and one start carries no verdict",
        )
        .with_mend("import the files of each further start with `--append`; or `inferometer run --server-cmd … --against-cmd …` restarts both sides"),
        note(
            FindingCode::Imported,
            format!("measured by `{TOOL}`, by its definitions: TTFT ends at the first chunk of any kind and counts from the send, throughput counts ramp and drain"),
        ),
    ];
    let all = placed.len();
    let mut lacking =
        |code: FindingCode, lacks: &dyn Fn(&VllmResult) -> bool, what: &str, mend: &str| {
            let place = match placed.iter().filter(|p| lacks(&p.result)).count() {
                0 => return,
                n if n == all => String::new(),
                n => format!(" in {n} of {all} results"),
            };
            findings.push(note(code, what.replace("{where}", &place)).with_mend(mend));
        };
    let detailed = "`--save-detailed` keeps them";
    lacking(
        FindingCode::NoRequests,
        &|r| r.details.is_none(),
        "no times of single requests are kept{where}: means and percentiles are those that the tool reports",
        detailed,
    );
    let some = |r: &VllmResult, lacks: fn(&Details) -> bool| r.details.as_ref().is_some_and(lacks);
    lacking(
        FindingCode::NoEnds,
        &|r| some(r, |d| !d.has_ends()),
        "no ends of single requests are kept{where}: TPOT and E2EL are those that the tool reports",
        detailed,
    );
    lacking(
        FindingCode::NoGaps,
        &|r| some(r, |d| d.itls.is_none()),
        "no gaps between tokens are kept{where}: ITL is that which the tool reports, and stalls do not show",
        detailed,
    );
    lacking(
        FindingCode::NoSends,
        &|r| some(r, |d| d.sends() == Sends::Unknown),
        "no send times are kept{where}: nothing is shown over time, and waves do not show",
        "a later vLLM keeps `start_times`",
    );
    lacking(
        FindingCode::NoDate,
        &|r| r.written_at.is_none(),
        "no date is kept{where}: the time is that of the import",
        "none is needed to compare",
    );
    lacking(
        FindingCode::Drain,
        &|r| matches!(r.load, Load::RequestRate(_)),
        "QPS at an offered rate divides by the run with its drain{where}: it reads below the rate though nothing need be saturated",
        "`inferometer run --request-rate …` measures inside a window",
    );
    findings
}

/// What is true of one result.
fn point_findings(id: &str, result: &VllmResult) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |code: FindingCode, severity, text: String| {
        findings.push(Finding::new(code, severity, text).at(id));
    };
    if result.failed > 0 {
        let attempted = result.completed + result.failed;
        let text = format!("{} of {attempted} requests failed", result.failed);
        find(FindingCode::Failures, Severity::Warning, text);
    }
    match result.offered {
        Offered::AsSaid => {}
        Offered::AtOnce => {
            let text =
                "no rate and no limit of concurrency was set: all requests were sent at once";
            find(FindingCode::AtOnce, Severity::Warning, text.to_owned());
        }
        Offered::Ramp => {
            let text = "the rate rose while it was measured: the load is its last, the figures are of all of it";
            find(FindingCode::RampUp, Severity::Warning, text.to_owned());
        }
    }
    let told = result.details.as_ref().filter(|d| d.errors.is_some()).map(Details::completed);
    if let Some(told) = told.filter(|told| *told != result.completed) {
        let text =
            format!("the file counts {} completed requests, its details {told}", result.completed);
        find(FindingCode::CountsDiffer, Severity::Warning, text);
    }
    findings
}
