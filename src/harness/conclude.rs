//! After the last round: summaries, comparison, verdict, report. All of it can be redone from disk.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::measure::{self, PointData};
use crate::clock::Clock;
use crate::compare::contender::{Contender, ContenderPoint, Facts};
use crate::compare::gate::{self, Requirement};
use crate::compare::judge::{Judging, judge};
use crate::compare::limits::{self, Knee, LoadCurve};
use crate::compare::mode::{self, DaySpread, Meeting};
use crate::compare::{Comparison, GateResult};
use crate::error::{Error, ErrorKind, Result};
use crate::metric::Measure;
use crate::plan::{Design, Phase, Side};
use crate::record::StoredRun;
use crate::record::stored::StoredPoint;
use crate::report::{
    PointInput, PointSide, Report, ReportInput, SideInput, StartSummary, csv, html, json, junit,
    markdown,
};
use crate::settings::{JudgeSettings, Launch, Settings};
use crate::store::{Store, files};
use crate::summary::measured::MeasuredSide;

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

/// One side of a report: a name, its runs, and which side of them it is.
#[derive(Debug, Clone)]
struct Faction {
    name: String,
    side: Side,
    runs: Vec<StoredRun>,
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
    let factions: Vec<Faction> =
        names.iter().map(|name| faction(store, name)).collect::<Result<_>>()?;
    let standing = Standings { meeting: Meeting::Restarted, day: DaySpread::Unknown };
    conclude(store, &factions, judge, &standing, None)
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
    let factions = sides_of(run);
    let standing = Standings { meeting: Meeting::Blocks, day: DaySpread::None };
    conclude(store, &factions, judge, &standing, comparison)
}

fn newest(store: &Store) -> Result<StoredRun> {
    store.runs()?.runs.into_iter().next().ok_or_else(|| {
        Error::new(ErrorKind::NotFound, "no run is stored yet")
            .with_hint("measure one: `inferometer run`")
    })
}

/// How the sides of a comparison met, and what is known of days.
struct Standings {
    meeting: Meeting,
    day: DaySpread,
}

/// The report of a run that has just ended, against its other side, its baseline or its last twin.
pub(super) fn conclude_run(
    store: &Store,
    settings: &Settings,
    run: StoredRun,
    clock: Clock,
) -> Result<Conclusion> {
    let at = clock.wall(clock.now_ns());
    let run_id = run.id.clone();
    let day = if settings.is_simulated() { DaySpread::None } else { DaySpread::Unknown };
    let mut factions = sides_of(run);
    let mut meeting = Meeting::Blocks;
    if factions.len() == 1 {
        if let Some(base) = base_of(store, settings, &factions[0].runs[0])? {
            factions.insert(0, base);
        }
        meeting = match settings.target.launch {
            Launch::External => Meeting::PlainUrl,
            _ => Meeting::Restarted,
        };
    } else if factions[1].runs[0].design == Design::Routes {
        meeting = Meeting::Routes;
    }
    let standing = Standings { meeting, day };
    let conclusion = conclude(store, &factions, &settings.judge, &standing, None)?;
    if let Some(comparison) = conclusion.report.input().comparisons.first() {
        store.save_comparison(&run_id, comparison)?;
    }
    let baselines = store.baselines();
    if let Some(name) = &settings.baseline.save {
        baselines.save(name, &run_id, at)?;
    }
    if let Some(name) = &settings.baseline.append {
        baselines.append(name, &run_id, at)?;
    }
    Ok(conclusion)
}

/// The baseline that was asked for, or the last run of the same work as advice.
fn base_of(store: &Store, settings: &Settings, run: &StoredRun) -> Result<Option<Faction>> {
    let Some(name) = &settings.baseline.compare else {
        return Ok(None);
    };
    if settings.baseline.lenient && store.baselines().find(name)?.is_none() {
        return Ok(None);
    }
    let mut base = faction(store, name)?;
    base.runs.retain(|stored| stored.id != run.id);
    Ok((!base.runs.is_empty()).then_some(base))
}

/// A baseline or a run by its name.
fn faction(store: &Store, name: &str) -> Result<Faction> {
    let ids = match store.baselines().find(name)? {
        Some(baseline) => baseline.runs.clone(),
        None if store.run_ids()?.iter().any(|id| id == name) => vec![name.to_owned()],
        None => {
            store.baselines().load(name)?;
            Vec::new()
        }
    };
    let runs = ids.iter().map(|id| store.load_run(id)).collect::<Result<Vec<_>>>()?;
    Ok(Faction { name: name.to_owned(), side: Side::New, runs })
}

/// The sides of one run: the base first, where it has one.
fn sides_of(run: StoredRun) -> Vec<Faction> {
    let mut factions = Vec::new();
    for side in [Side::Base, Side::New] {
        if run.rounds.iter().any(|r| r.side == side) || (side == Side::New && run.rounds.is_empty())
        {
            let label = run.sides.get(&side).map(|s| s.label.clone()).filter(|l| !l.is_empty());
            let plain = if side == Side::Base { "base" } else { "new" };
            factions.push(Faction {
                name: label.unwrap_or_else(|| plain.to_owned()),
                side,
                runs: vec![run.clone()],
            });
        }
    }
    if let [base, new] = &mut factions[..]
        && base.name == new.name
    {
        "base".clone_into(&mut base.name);
        "new".clone_into(&mut new.name);
    }
    factions
}

fn conclude(
    store: &Store,
    factions: &[Faction],
    judge_settings: &JudgeSettings,
    standing: &Standings,
    stored: Option<Comparison>,
) -> Result<Conclusion> {
    let mut points: Vec<PointInput> = Vec::new();
    let mut contenders: Vec<Contender> = factions.iter().map(contender).collect();
    let mut curves: Curves = BTreeMap::new();
    for listed in listed_points(factions) {
        let mut sides = Vec::new();
        for (place, faction) in factions.iter().enumerate() {
            let data = pooled(store, faction, &listed.id)?;
            if let Some(data) = &data {
                contenders[place].points.push(ContenderPoint {
                    id: listed.id.clone(),
                    phase: listed.phase,
                    point: listed.point.clone(),
                    starts: data.side.starts.clone(),
                });
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
    let comparisons = match stored {
        Some(comparison) => vec![comparison],
        None => compare_all(&contenders, judge_settings, standing),
    };
    let mut gate = comparisons.first().map(|c| c.gate.clone()).unwrap_or_default();
    require(&contenders, judge_settings, &mut gate)?;
    nothing_measured(&contenders, judge_settings, &mut gate);
    let input = ReportInput {
        sides: factions.iter().map(side_input).collect(),
        points,
        comparisons,
        knees: knees(&curves),
        findings: Vec::new(),
    };
    let report = Report::new(input);
    let page = write(store, &report)?;
    Ok(Conclusion { report, gate, page })
}

fn side_input(faction: &Faction) -> SideInput {
    SideInput { name: faction.name.clone(), side: faction.side, runs: faction.runs.clone() }
}

/// The load points of all sides, each once, those of the last side first in order.
fn listed_points(factions: &[Faction]) -> Vec<StoredPoint> {
    let mut listed: Vec<StoredPoint> = Vec::new();
    for run in factions.iter().rev().flat_map(|f| &f.runs) {
        for point in &run.points {
            if !listed.iter().any(|known| known.id == point.id) {
                listed.push(point.clone());
            }
        }
    }
    listed
}

fn contender(faction: &Faction) -> Contender {
    let mut facts = Facts::default();
    for run in &faction.runs {
        facts.definitions.insert(run.definitions.clone());
        if let Some(side) = run.sides.get(&faction.side) {
            facts.models.insert(side.model.clone());
            facts.apis.insert(side.api.clone());
        }
    }
    Contender {
        label: faction.name.clone(),
        runs: faction.runs.iter().map(|run| run.id.clone()).collect(),
        facts,
        points: Vec::new(),
    }
}

/// One load point over all runs of a side.
fn pooled(store: &Store, faction: &Faction, point_id: &str) -> Result<Option<PointData>> {
    let mut all: Vec<PointData> = Vec::new();
    for run in &faction.runs {
        all.extend(measure::point_data(store, run, point_id, faction.side)?);
    }
    measure::joined(all, || measure::pooled_summary(store, &faction.runs, point_id, faction.side))
}

fn compare_all(
    contenders: &[Contender],
    settings: &JudgeSettings,
    standings: &Standings,
) -> Vec<Comparison> {
    let Some((base, others)) = contenders.split_first() else { return Vec::new() };
    others
        .iter()
        .map(|new| {
            let decide_by = "`inferometer run --server-cmd … --against-cmd …` (8 pairs of restarts), or gather 5 restarts with `--append-baseline`";
            let standing = mode::standing(base, new, standings.meeting, standings.day, decide_by);
            judge(base, new, &Judging { standing: &standing, settings, looks: 1, idle_lag_ms: 0.0 })
        })
        .collect()
}

/// Absolute limits hold at every load point of the last side.
fn require(
    contenders: &[Contender],
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
                gate.fail(gate::REGRESSION, missed);
            }
        }
    }
    Ok(())
}

/// A run that measured nothing is not a pass.
fn nothing_measured(contenders: &[Contender], settings: &JudgeSettings, gate: &mut GateResult) {
    let Some(subject) = contenders.last() else { return };
    let measured = |p: &&ContenderPoint| p.starts.iter().any(|s| s.summary.completed > 0);
    let loads = subject.points.iter().filter(|p| p.phase == Phase::Load);
    if loads.filter(measured).count() == 0 && !settings.no_fail {
        gate.fail(gate::INVALID, "nothing was measured".into());
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
        found.extend(limits::knee(&curve, Measure::E2EL_MEAN));
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
    files::clear_folder(&folder)?;
    let put = |path: &str, text: &str| {
        let file = folder.join(path);
        if let Some(parent) = file.parent() {
            files::make_folder(parent)?;
        }
        files::write_atomic(&file, text)
    };
    html::render(report, &mut |path, text| put(path, text))?;
    put("report.json", &json::render(report)?)?;
    put("verdict.md", &markdown::render(report, None))?;
    put("report.csv", &csv::render(report))?;
    put("junit.xml", &junit::render(report))?;
    Ok(folder.join("index.html"))
}
