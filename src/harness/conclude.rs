//! After the last round: summaries, comparison, verdict, report. All of it can be redone from disk.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::client;
use super::faction::{ComparisonContext, RunSet, contender_point};
use super::measure::{self, PointData};
use crate::clock::Clock;
use crate::compare::design::{self, Pairing};
use crate::compare::gate::{self, Requirement};
use crate::compare::judge::{Judging, judge};
use crate::compare::knee::{self, Knee, LoadCurve};
use crate::compare::side::{ComparedPoint, ComparedSide};
use crate::compare::{Comparison, GateCause, GateResult, Note, gate_reason};
use crate::error::{Error, ErrorKind, Result};
use crate::metric::Measure;
use crate::plan::{Phase, Side};
use crate::record::stored::{DEFINITIONS, StoredPoint};
use crate::record::{Finding, FindingCode, Severity, StoredRun};
use crate::report::{
    PointInput, PointSide, Report, ReportInput, SideInput, StartSummary, csv, html, json, junit,
    markdown,
};
use crate::settings::{JudgeSettings, Settings};
use crate::store::{Store, files};
use crate::summary::measured::MeasuredSide;
use crate::units;

/// Side, group and scenario → its load points with what was measured there.
type Curves = BTreeMap<(usize, String, String), Vec<(StoredPoint, MeasuredSide)>>;

/// What came of a run or a comparison.
#[derive(Debug, Clone)]
pub struct Conclusion {
    /// The report.
    pub report: Report,
    /// What the gate says.
    pub gate: GateResult,
    /// The page to open.
    pub page: PathBuf,
}

/// Compares stored runs or baselines, the first being the base, and writes the report.
///
/// # Errors
/// Where a name is neither a run nor a baseline, or a file cannot be read or written.
pub fn compare_stored(
    store: &Store,
    names: &[String],
    judge: &JudgeSettings,
) -> Result<Conclusion> {
    let factions: Vec<RunSet> =
        names.iter().map(|name| RunSet::named(store, name)).collect::<Result<_>>()?;
    let grounds = match factions.last() {
        Some(new) if factions.len() > 1 => Some(ComparisonContext::apart(store, new)?),
        _ => None,
    };
    conclude(store, &factions, judge, grounds.as_ref(), ConclusionInput::default())
}

/// Rebuilds the report of a stored run (the newest where none is named).
///
/// # Errors
/// Where there is no such run, or a file cannot be read or written.
pub fn rebuild_report(
    store: &Store,
    run_id: Option<&str>,
    judge: &JudgeSettings,
) -> Result<Conclusion> {
    let run = match run_id {
        Some(id) => store.load_run(id)?,
        None => newest(store)?,
    };
    let comparison: Option<Comparison> = store.load_comparison(&run.id)?;
    let mut factions = RunSet::sides_of(&run);
    if let ([_], Some(known)) = (&factions[..], &comparison) {
        // The base was of other runs: those that are still there are shown beside it.
        let runs: Vec<StoredRun> =
            known.base_runs.iter().filter_map(|id| store.load_run(id).ok()).collect();
        if !runs.is_empty() {
            let name = known.base_label.clone();
            factions.insert(0, RunSet { name, side: Side::New, runs });
        }
    }
    // A run with two sides that was killed before its verdict gets one now.
    let grounds = match &factions[..] {
        [_, new] if comparison.is_none() => {
            Some(ComparisonContext::together(store, new, run.design)?)
        }
        _ => None,
    };
    let told = ConclusionInput { comparison, ..ConclusionInput::default() };
    conclude(store, &factions, judge, grounds.as_ref(), told)
}

pub(super) fn newest(store: &Store) -> Result<StoredRun> {
    store.runs()?.runs.into_iter().next().ok_or_else(|| {
        Error::new(ErrorKind::NotFound, "no run is stored yet")
            .with_hint("measure one: `inferometer run`")
    })
}

/// Judges a stored baseline in place of a fresh run: no server is needed.
pub(super) fn conclude_loaded(
    store: &Store,
    settings: &Settings,
    name: &str,
) -> Result<Conclusion> {
    let new = RunSet::named(store, name)?;
    let base = named_base(store, settings, &new.runs)?;
    let grounds = match &base {
        Some(_) => Some(ComparisonContext::apart(store, &new)?),
        None => None,
    };
    let factions: Vec<RunSet> = base.into_iter().chain([new]).collect();
    conclude(store, &factions, &settings.judge, grounds.as_ref(), ConclusionInput::default())
}

/// What a report is told beside what it finds on disk.
#[derive(Debug, Default)]
pub(super) struct ConclusionInput {
    /// A comparison that was made before.
    pub(super) comparison: Option<Comparison>,
    /// How many looks shared the error.
    pub(super) looks: Option<u32>,
    /// Why the run ended before its plan did.
    pub(super) ended_early: Option<String>,
}

/// The report of a run that has just ended, against its other side, its baseline or its last twin.
pub(super) fn conclude_run(
    store: &Store,
    settings: &Settings,
    run: &StoredRun,
    clock: Clock,
    told: ConclusionInput,
) -> Result<Conclusion> {
    let at = clock.wall(clock.now_ns());
    let sides = opponents(store, settings, run)?;
    let mut grounds = sides.grounds;
    if let (Some(grounds), Some(looks)) = (&mut grounds, told.looks) {
        grounds.looks = looks;
    }
    let factions = sides.factions;
    let conclusion = conclude(store, &factions, &settings.judge, grounds.as_ref(), told)?;
    if let Some(comparison) = conclusion.report.input().comparisons.first() {
        store.save_comparison(&run.id, comparison)?;
    }
    let baselines = store.baselines();
    if let Some(name) = &settings.baseline.save {
        baselines.save(name, &run.id, at)?;
    }
    if let Some(name) = &settings.baseline.append {
        baselines.append(name, &run.id, at)?;
    }
    Ok(conclusion)
}

/// What a run has found so far, by the judge that has the last word; none where there is nothing
/// to compare it with.
pub(super) fn so_far(
    store: &Store,
    settings: &Settings,
    run: &StoredRun,
    looks: u32,
) -> Result<Option<Comparison>> {
    let Opponents { factions, grounds } = opponents(store, settings, run)?;
    let Some(grounds) = grounds.filter(|g| g.meeting != Pairing::LastTwin) else { return Ok(None) };
    let contenders: Vec<ComparedSide> =
        factions.iter().map(|faction| faction.measured(store)).collect::<Result<_>>()?;
    let grounds = ComparisonContext { looks, ..grounds };
    Ok(compare_all(&factions, &contenders, &settings.judge, &grounds).into_iter().next())
}

/// The sides of a run, and how they met; no grounds where there is one side alone.
struct Opponents {
    factions: Vec<RunSet>,
    grounds: Option<ComparisonContext>,
}

fn opponents(store: &Store, settings: &Settings, run: &StoredRun) -> Result<Opponents> {
    let mut factions = RunSet::sides_of(run);
    if let [_, new] = &factions[..] {
        let grounds = ComparisonContext::together(store, new, run.design)?;
        return Ok(Opponents { factions, grounds: Some(grounds) });
    }
    let Some(new) = factions.first() else { return Ok(Opponents { factions, grounds: None }) };
    let mut grounds = ComparisonContext::apart(store, new)?;
    let mut base = named_base(store, settings, std::slice::from_ref(run))?;
    if base.is_none() && settings.baseline.compare.is_none() && settings.against.is_none() {
        base = store.latest_but(&run.workload_hash, &run.id)?.map(|twin| {
            let name = format!("last run ({})", twin.id);
            RunSet { name, side: Side::New, runs: vec![twin] }
        });
        grounds.meeting = Pairing::LastTwin;
    }
    let grounds = base.is_some().then_some(grounds);
    if let Some(base) = base {
        factions.insert(0, base);
    }
    Ok(Opponents { factions, grounds })
}

/// The baseline that was asked for, without the runs that are judged themselves.
fn named_base(store: &Store, settings: &Settings, judged: &[StoredRun]) -> Result<Option<RunSet>> {
    let Some(name) = &settings.baseline.compare else { return Ok(None) };
    if settings.baseline.lenient && store.baselines().find(name)?.is_none() {
        return Ok(None);
    }
    let mut base = RunSet::named(store, name)?;
    base.runs.retain(|stored| judged.iter().all(|run| run.id != stored.id));
    Ok((!base.runs.is_empty()).then_some(base))
}

fn conclude(
    store: &Store,
    factions: &[RunSet],
    judge_settings: &JudgeSettings,
    grounds: Option<&ComparisonContext>,
    told: ConclusionInput,
) -> Result<Conclusion> {
    let gathered = gather(store, factions)?;
    let contenders = gathered.contenders;
    let mut comparisons: Vec<Comparison> = match (told.comparison, grounds) {
        (Some(comparison), _) => vec![comparison],
        (None, Some(grounds)) => compare_all(factions, &contenders, judge_settings, grounds),
        (None, None) => Vec::new(),
    };
    let mut gate = comparisons.first().map(|c| c.gate.clone()).unwrap_or_default();
    require(&contenders, judge_settings, &mut gate)?;
    nothing_measured(&contenders, judge_settings, &mut gate);
    client_failed(factions, judge_settings, &mut gate);
    if let Some(reason) = told.ended_early.filter(|_| !judge_settings.no_fail) {
        gate.fail(gate::INVALID, GateCause::EndedEarly, gate_reason::ended_early(&reason));
    }
    if let Some(first) = comparisons.first_mut() {
        first.gate = gate.clone();
    }
    for other in comparisons.iter().skip(1) {
        gate.join(&other.new_label, &other.gate);
    }
    let input = ReportInput {
        sides: factions.iter().map(side_input).collect(),
        points: gathered.points,
        findings: comparisons.iter().flat_map(findings).collect(),
        comparisons,
        gate: gate.clone(),
        knees: knees(&gathered.curves),
    };
    let report = Report::new(input);
    let page = write(store, &report)?;
    Ok(Conclusion { report, gate, page })
}

/// What stands on disk of all sides.
pub(super) struct Gathered {
    pub(super) points: Vec<PointInput>,
    contenders: Vec<ComparedSide>,
    curves: Curves,
}

pub(super) fn gather(store: &Store, factions: &[RunSet]) -> Result<Gathered> {
    let mut points: Vec<PointInput> = Vec::new();
    let mut contenders: Vec<ComparedSide> = factions.iter().map(RunSet::contender).collect();
    let mut curves: Curves = BTreeMap::new();
    for listed in listed_points(factions) {
        let mut sides = Vec::new();
        for (place, faction) in factions.iter().enumerate() {
            let data = faction.pooled(store, &listed.id)?;
            if let Some(data) = &data {
                // Each side by its own word for the load point: the lengths may differ.
                let own = faction.points().into_iter().find(|point| point.id == listed.id);
                let own = own.unwrap_or_else(|| listed.clone());
                contenders[place].points.push(contender_point(&own, data));
                let key = (place, listed.point.group.clone(), listed.point.scenario.clone());
                curves.entry(key).or_default().push((listed.clone(), data.side.clone()));
            }
            sides.push(data.map(point_side));
        }
        points.push(PointInput {
            id: listed.id.clone(),
            phase: listed.phase,
            point: listed.point.clone(),
            sides,
        });
    }
    Ok(Gathered { points, contenders, curves })
}

/// What a comparison left out or only observes.
fn findings(comparison: &Comparison) -> Vec<Finding> {
    let note = |code, text| Finding::new(code, Severity::Note, text);
    let looks = (comparison.looks > 1).then(|| {
        let text = format!(
            "the data were to be looked at {} times; each look has its share of the error",
            comparison.looks
        );
        note(FindingCode::Looks, text)
    });
    let judged = |judged: &Note| match &judged.point {
        Some(point) => note(FindingCode::LeftOut, judged.text.clone()).at(point),
        None => note(FindingCode::Judged, judged.text.clone()),
    };
    comparison.notes.iter().map(judged).chain(looks).collect()
}

pub(super) fn side_input(faction: &RunSet) -> SideInput {
    SideInput { name: faction.name.clone(), side: faction.side, runs: faction.runs.clone() }
}

/// The load points of all sides, each once, those of the last side first in order.
fn listed_points(factions: &[RunSet]) -> Vec<StoredPoint> {
    let mut listed: Vec<StoredPoint> = Vec::new();
    for point in factions.iter().rev().flat_map(RunSet::points) {
        if !listed.iter().any(|known| known.id == point.id) {
            listed.push(point);
        }
    }
    listed
}

fn compare_all(
    factions: &[RunSet],
    contenders: &[ComparedSide],
    settings: &JudgeSettings,
    grounds: &ComparisonContext,
) -> Vec<Comparison> {
    let Some((base, others)) = contenders.split_first() else { return Vec::new() };
    let decide_by = decide_by(factions.last());
    others
        .iter()
        .map(|new| {
            let standing = design::standing(base, new, grounds.meeting, grounds.day, &decide_by);
            let judging = Judging {
                standing: &standing,
                settings,
                looks: grounds.looks,
                idle_lag_ms: grounds.idle_lag_ms,
                calibration: grounds.calibration.as_ref(),
            };
            judge(base, new, &judging)
        })
        .collect()
}

/// The pairs of restarts that find 3 % of TPOT on most servers, and so are worth proposing.
const PROPOSED_PAIRS: u32 = 8;

/// The command that would decide, and how long it takes by what a start of this run took.
fn decide_by(new: Option<&RunSet>) -> String {
    let run = new.and_then(|faction| faction.runs.last());
    let took = run.and_then(|run| {
        let seconds = (run.ended_at?.as_second() - run.started_at.as_second()).max(1);
        let starts = u32::try_from(run.starts.len()).ok().filter(|starts| *starts > 0)?;
        #[allow(clippy::cast_precision_loss)]
        let pairs_s = seconds as f64 * f64::from(2 * PROPOSED_PAIRS) / f64::from(starts);
        Some(format!(", about {} and the restarts", units::duration(pairs_s)))
    });
    let took = took.unwrap_or_default();
    let imported = run.is_some_and(|run| run.definitions != DEFINITIONS);
    let gather = match imported {
        true => "import the files of 5 restarts, each with `--append`",
        false => "gather 5 restarts with `--append-baseline NAME`",
    };
    format!(
        "`inferometer run --server-cmd … --against-cmd … --starts {PROPOSED_PAIRS}` ({PROPOSED_PAIRS} pairs of restarts{took}), or {gather}"
    )
}

/// Absolute limits hold at every load point of the last side.
fn require(
    contenders: &[ComparedSide],
    settings: &JudgeSettings,
    gate: &mut GateResult,
) -> Result<()> {
    let Some(subject) = contenders.last() else { return Ok(()) };
    for text in &settings.require {
        let requirement: Requirement = text.parse()?;
        for point in subject.points.iter().filter(|p| p.phase == Phase::Load) {
            let value = point.typical(requirement.measure);
            if let Some(missed) = requirement.missed(&point.id, value)
                && !settings.no_fail
            {
                gate.fail(gate::REGRESSION, requirement.cause(&point.id), missed);
            }
        }
    }
    Ok(())
}

/// A run that measured nothing is not a pass.
fn nothing_measured(contenders: &[ComparedSide], settings: &JudgeSettings, gate: &mut GateResult) {
    let Some(subject) = contenders.last() else { return };
    let measured = |p: &&ComparedPoint| p.starts.iter().any(|s| s.summary.completed > 0);
    let loads = subject.points.iter().filter(|p| p.phase == Phase::Load);
    if loads.filter(measured).count() == 0 && !settings.no_fail {
        let text = gate_reason::NOTHING_MEASURED.to_owned();
        gate.fail(gate::INVALID, GateCause::NothingMeasured, text);
    }
}

/// A client that ran out of descriptors or ports did not measure the server.
fn client_failed(factions: &[RunSet], settings: &JudgeSettings, gate: &mut GateResult) {
    let Some(subject) = factions.last().filter(|_| !settings.no_fail) else { return };
    let findings = subject.runs.iter().flat_map(|run| &run.findings);
    for finding in findings.filter(|finding| client::ran_out(finding)) {
        let point = finding.point.as_deref().unwrap_or("the run");
        gate.fail(gate::INVALID, GateCause::Client, format!("{point}: {}", finding.text));
    }
}

fn knees(curves: &Curves) -> Vec<Knee> {
    let mut found = Vec::new();
    for ((side, _, _), members) in curves {
        let loads: Vec<_> = members.iter().filter(|(p, _)| p.phase == Phase::Load).collect();
        let Some((first, _)) = loads.first() else { continue };
        let reference =
            curves.iter().filter(|((s, _, _), _)| s == side).flat_map(|(_, members)| members).find(
                |(p, _)| {
                    p.phase == Phase::Reference
                        && p.point.input == first.point.input
                        && p.point.output == first.point.output
                        && p.point.prompt == first.point.prompt
                },
            );
        let curve = LoadCurve {
            reference: reference.map(|(_, measured)| measured),
            points: loads.iter().map(|(p, measured)| (&p.point, measured)).collect(),
            side: *side,
        };
        found.extend(knee::knee(&curve, Measure::E2EL_MEAN));
    }
    found
}

fn point_side(data: PointData) -> PointSide {
    let rounds = || data.side.starts.iter().flat_map(|s| &s.health);
    let lag = |h: &&crate::record::stored::Health| h.schedule_lag_p99_ms.unwrap_or(0.0);
    let health = rounds().max_by(|a, b| lag(a).total_cmp(&lag(b))).cloned().unwrap_or_default();
    PointSide {
        summary: data.side.pooled.clone(),
        starts: data
            .side
            .starts
            .iter()
            .map(|s| StartSummary { block: s.block, start: s.start, summary: s.summary.clone() })
            .collect(),
        status: measure::worst(data.side.starts.iter().map(|s| s.status)),
        health,
        warm_up: data.side.starts.last().and_then(|s| s.warm_up),
        intervals: measure::intervals(&data.side.starts),
        samples: data.samples,
        series: data.series,
        slowest: data.slowest,
        failed: data.failed,
        lengths: data.lengths,
    }
}

/// Writes every form of the report; returns the page to open.
fn write(store: &Store, report: &Report) -> Result<PathBuf> {
    let folder = store.layout().report();
    files::replace_folder(&folder, |folder| {
        let put = |path: &str, text: &str| files::write_plain(&folder.join(path), text);
        html::render(report, &mut |path, text| put(path, text))?;
        put("report.json", &json::render(report)?)?;
        put("verdict.md", &markdown::render(report, None))?;
        put("report.csv", &csv::render(report))?;
        put("junit.xml", &junit::render(report))
    })?;
    Ok(folder.join("index.html"))
}
