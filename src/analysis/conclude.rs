//! After the last round: summaries, comparison, verdict, report. All of it can be redone from disk.

use std::path::PathBuf;

use super::failed_starts;
use super::gather::{gather, knees, side_input};
use super::opponents::{ComparisonContext, Opponents, named_base, opponents};
use super::runs::RunSet;
use super::stored::newest;
use super::write::write;
use crate::clock::Clock;
use crate::compare::design::{self, Judging, Pairing};
use crate::compare::gate::{self, Requirement};
use crate::compare::judge::judge;
use crate::compare::knee::Knee;
use crate::compare::side::{ComparedPoint, ComparedSide};
use crate::compare::{Comparison, GateCause, GateReason, GateResult, Note, gate_reason};
use crate::diagnose::client;
use crate::diagnose::validity::{self, Fault};
use crate::error::Result;
use crate::metric::{Measure, Metric};
use crate::plan::{Phase, Side};
use crate::record::stored::{DEFINITIONS, RunStatus};
use crate::record::{Finding, FindingCode, ServerState, Severity, StoredRun};
use crate::report::{Report, ReportInput};
use crate::settings::{BaselineChoice, JudgeSettings, Settings};
use crate::store::Store;
use crate::summary::measured::MeasuredStart;
use crate::units;

/// What came of a run or a comparison.
#[derive(Debug, Clone)]
pub struct Conclusion {
    /// The report.
    pub report: Report,
    /// What the gate reports.
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

/// Judges a stored baseline in place of a fresh run: no server is needed.
pub(crate) fn conclude_loaded(
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

/// What a report is given in addition to what it finds on disk.
#[derive(Debug, Default)]
pub(crate) struct ConclusionInput {
    /// A comparison that was made before.
    pub(crate) comparison: Option<Comparison>,
    /// How many looks shared the error.
    pub(crate) looks: Option<u32>,
    /// Why the run ended before its plan did.
    pub(crate) ended_early: Option<String>,
    /// Whether the user ended it.
    pub(crate) is_interrupted: bool,
    /// The baselines that the run is to become part of.
    pub(crate) into: IntoBaseline,
}

/// The report of a run that has just ended, against its other side, its baseline or its last twin.
pub(crate) fn conclude_run(
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
    let unfit = unfit_run(store, run, &told)?;
    let told = ConclusionInput { into: IntoBaseline::of(settings, unfit), ..told };
    let into = told.into.clone();
    let conclusion = conclude(store, &factions, &settings.judge, grounds.as_ref(), told)?;
    if let Some(comparison) = conclusion.report.input().comparisons.first() {
        store.save_comparison(&run.id, comparison)?;
    }
    let baselines = store.baselines();
    let comparisons = &conclusion.report.input().comparisons;
    if let Some(name) = settings.baseline.save.as_ref().filter(|_| into.unfit.is_none()) {
        baselines.save(name, &run.id, at)?;
    }
    let append = settings.baseline.append.as_ref();
    if let Some(name) = append.filter(|_| into.refusals(comparisons).is_empty()) {
        baselines.append(name, &run.id, at)?;
    }
    Ok(conclusion)
}

/// Why a run cannot be part of any baseline: it did not end its plan, or it measured nothing.
fn unfit_run(store: &Store, run: &StoredRun, told: &ConclusionInput) -> Result<Option<String>> {
    if told.ended_early.is_some() || run.status == RunStatus::Failed {
        return Ok(Some("the run failed before its plan ended".to_owned()));
    }
    if run.status != RunStatus::Complete {
        return Ok(Some("the run was interrupted".to_owned()));
    }
    let sides = RunSet::sides_of(run);
    let Some(new) = sides.last() else { return Ok(None) };
    let measured = new.measured(store)?;
    let has_figures = |p: &ComparedPoint| p.starts.iter().any(|s| s.summary.completed > 0);
    let is_empty = !measured.points.iter().any(has_figures);
    Ok(is_empty.then(|| "no request of the run was answered".to_owned()))
}

/// The baselines that a run is to become part of.
#[derive(Debug, Clone, Default)]
pub(crate) struct IntoBaseline {
    save: Option<String>,
    append: Option<String>,
    /// The run is appended to what it is compared with, which must not take in a regression.
    is_guarded: bool,
    /// Why the run cannot be part of any.
    unfit: Option<String>,
}

impl IntoBaseline {
    fn of(settings: &Settings, unfit: Option<String>) -> Self {
        let BaselineChoice { save, append, compare, .. } = settings.baseline.clone();
        Self { is_guarded: append.is_some() && append == compare, save, append, unfit }
    }

    /// Which baselines stay as they are, and why.
    fn refusals(&self, comparisons: &[Comparison]) -> Vec<Finding> {
        if let Some(why) = &self.unfit {
            let kept = |name: &String| {
                let text = format!("baseline `{name}` was not changed: {why}");
                Finding::new(FindingCode::NotAppended, Severity::Warning, text)
                    .with_hint("run again with the same options".to_owned())
            };
            return self.save.iter().chain(&self.append).map(kept).collect();
        }
        let guarded = self.append.as_ref().filter(|_| self.is_guarded);
        guarded.and_then(|name| not_appended(comparisons, name)).into_iter().collect()
    }
}

/// That a run is not added to a baseline, and why.
fn not_appended(comparisons: &[Comparison], name: &str) -> Option<Finding> {
    let why = comparisons.iter().find_map(Comparison::unfit_for_baseline)?;
    let text = format!("the run was not added to baseline `{name}`: {why}");
    let remedy =
        format!("if this is the new level: `inferometer baselines accept {name} --reason …`");
    Some(Finding::new(FindingCode::NotAppended, Severity::Warning, text).with_hint(remedy))
}

/// What a run has found so far, by the judge that has the last word; `None` if there is nothing
/// to compare it with.
pub(crate) fn so_far(
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
    require(&contenders, judge_settings, &mut gate, store.idle_lag_ms())?;
    nothing_measured(&contenders, judge_settings, &mut gate);
    client_failed(factions, judge_settings, &mut gate);
    failed_starts::gate(factions, &contenders, judge_settings, &mut gate);
    if let Some(reason) = told.ended_early.filter(|_| !judge_settings.no_fail) {
        gate.fail(gate::INVALID, GateCause::EndedEarly, gate_reason::ended_early(&reason));
    }
    missing_points(factions, &contenders, judge_settings, &mut gate);
    if let Some(first) = comparisons.first_mut() {
        first.gate = gate.clone();
    }
    for other in comparisons.iter().skip(1) {
        gate.join(&other.new_label, &other.gate);
    }
    if told.is_interrupted {
        let text = gate_reason::INTERRUPTED.to_owned();
        gate.fail(gate::INTERRUPTED, GateCause::Interrupted, text);
    }
    let knees = knees(&gathered.curves);
    let input = ReportInput {
        sides: factions.iter().map(side_input).collect(),
        points: gathered.points,
        findings: comparisons
            .iter()
            .flat_map(findings)
            .chain(told.into.refusals(&comparisons))
            .chain(knees.iter().filter_map(Knee::slow_reference))
            .collect(),
        comparisons,
        gate: gate.clone(),
        knees,
        capacities: gathered.capacities,
    };
    let report = Report::new(input);
    let page = write(store, &report)?;
    Ok(Conclusion { report, gate, page })
}

/// What a comparison left out or only observes.
fn findings(comparison: &Comparison) -> Vec<Finding> {
    let looks = (comparison.looks > 1).then(|| {
        let text = format!(
            "the data were to be looked at {} times; each look has its share of the error",
            comparison.looks
        );
        Finding::new(FindingCode::Looks, Severity::Note, text)
    });
    // What was left out of a verdict, or stands against it, limits trust in it.
    let warning = |code, text: &str| Finding::new(code, Severity::Warning, text);
    let judged = |judged: &Note| match &judged.point {
        Some(point) => warning(FindingCode::LeftOut, &judged.text).at(point),
        None => warning(FindingCode::Judged, &judged.text),
    };
    comparison.notes.iter().map(judged).chain(looks).collect()
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
    idle_lag_ms: f64,
) -> Result<()> {
    let Some(subject) = contenders.last() else { return Ok(()) };
    for text in &settings.require {
        let requirement: Requirement = text.parse()?;
        let measure = requirement.measure;
        let of_searches = measure == Measure::SLO_CAPACITY;
        let is_of_it = |p: &&ComparedPoint| match p.phase {
            Phase::Search => of_searches,
            phase => phase.is_judged() && !of_searches,
        };
        for point in subject.points.iter().filter(is_of_it) {
            // Figures of survivors meet no limit; how many failed can still be judged.
            let fails = point.starts.iter().any(|start| start.status.is_failing());
            let counts = !fails || measure.metric == Metric::ErrorRate;
            let value = point.typical(measure).filter(|_| counts);
            let missed = match not_valid(point, measure, idle_lag_ms) {
                Some(why) => Some(requirement.unfounded(&point.id, &why)),
                None => requirement.missed(&point.id, value),
            };
            if let Some(missed) = missed.filter(|_| !settings.no_fail) {
                gate.fail(gate::REGRESSION, requirement.cause(&point.id), missed);
            }
        }
    }
    Ok(())
}

/// Why a number says nothing of the server: the client or the load could have moved it in too many of the
/// starts.
fn not_valid(point: &ComparedPoint, measure: Measure, idle_lag_ms: f64) -> Option<String> {
    // How many failed is so however late the client was.
    if measure.metric == Metric::ErrorRate {
        return None;
    }
    let fault = |start: &MeasuredStart| {
        let faults = validity::faults(start, &point.point, idle_lag_ms);
        let of_client = |f: &Fault| {
            f.finding.severity == Severity::Invalid && validity::touches(f.reach, measure)
        };
        faults.into_iter().find(of_client).map(|fault| fault.finding.text)
    };
    let found: Vec<String> = point.starts.iter().filter_map(fault).collect();
    #[allow(clippy::cast_precision_loss)] // counts of starts
    let share = found.len() as f64 / point.starts.len().max(1) as f64;
    found.into_iter().next().filter(|_| share >= validity::INVALID_SHARE)
}

/// A run that measured nothing is not a pass.
fn nothing_measured(contenders: &[ComparedSide], settings: &JudgeSettings, gate: &mut GateResult) {
    let Some(subject) = contenders.last() else { return };
    let measured = |p: &&ComparedPoint| p.starts.iter().any(|s| s.summary.completed > 0);
    let loads = subject.points.iter().filter(|p| p.phase.is_judged());
    if loads.filter(measured).count() == 0 && !settings.no_fail {
        let text = gate_reason::NOTHING_MEASURED.to_owned();
        gate.fail(gate::INVALID, GateCause::NothingMeasured, text);
    }
}

/// A lost server is no pass, and neither is a load point of the plan without figures. What the user
/// ended, or asked to leave out, is neither.
fn missing_points(
    factions: &[RunSet],
    contenders: &[ComparedSide],
    settings: &JudgeSettings,
    gate: &mut GateResult,
) {
    let (Some(subject), Some(measured)) = (factions.last(), contenders.last()) else { return };
    if settings.no_fail || subject.runs.iter().any(|run| run.status == RunStatus::Interrupted) {
        return;
    }
    let failed = subject.runs.iter().filter(|run| run.status == RunStatus::Failed);
    for round in failed.flat_map(|run| &run.rounds).filter(|round| round.server.is_lost()) {
        let text = gate_reason::server_lost(&round.server.words(), &round.point);
        gate.fail(gate::SERVER, GateCause::ServerLost, text);
    }
    let nothing = |reason: &GateReason| reason.cause == GateCause::NothingMeasured;
    if gate.reasons.iter().any(nothing) {
        return; // that is said once, not point by point
    }
    let figures = |id: &str| measured.points.iter().find(|point| point.id == id);
    for point in subject.points().iter().filter(|point| point.phase == Phase::Load) {
        let starts = figures(&point.id).map_or(&[][..], |figures| &figures.starts);
        let was_left_out = starts.is_empty() && !subject.has_lost_points();
        if was_left_out || starts.iter().any(|start| start.summary.completed > 0) {
            continue;
        }
        let state = starts.iter().fold(ServerState::Ran, |w, s| w.worse(s.server.clone()));
        let why = if state.is_ran() { String::new() } else { state.words() };
        let text = gate_reason::not_measured(&point.id, &why);
        gate.fail(gate::INVALID, GateCause::PointMissing, text);
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
