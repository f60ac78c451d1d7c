//! Two contenders to a comparison: validity and comparability first, then errors, then speed.

use std::collections::BTreeMap;

use super::cell::{Cell as CellInput, HISTOGRAM_RESOLUTION, Role};
use super::contender::{Contender, ContenderPoint, incomparable, incomparable_point};
use super::decide::{ErrorTerm, Options, decide};
use super::decision::{CellResult, Decision, Flag};
use super::failures::{self, FailureCounts, FailureFlag, FailureOptions, FailureResult, Survivors};
use super::mode::Standing;
use super::validity::{self, INVALID_SHARE, Reach};
use super::{Cell, Comparison, GateResult, SuiteResult, Verdict};
use crate::metric::{Measure, Metric};
use crate::plan::Phase;
use crate::record::stored::RoundStatus;
use crate::scenario::Load;
use crate::settings::JudgeSettings;
use crate::stats::proportion::Count;
use crate::summary::measured::MeasuredStart;

/// Everything a judgement needs besides the two sides.
#[derive(Debug, Clone)]
pub struct Judging<'a> {
    /// Mode and error term.
    pub standing: &'a Standing,
    /// Levels, floors, gates.
    pub settings: &'a JudgeSettings,
    /// How many looks share the level.
    pub looks: u32,
    /// This machine's own lag, ms.
    pub idle_lag_ms: f64,
}

/// Compares two sides. Deterministic: no resampling enters it.
#[must_use]
pub fn judge(base: &Contender, new: &Contender, judging: &Judging<'_>) -> Comparison {
    let mut cells = unmatched(base, new);
    let matched: Vec<(&ContenderPoint, &ContenderPoint)> = new
        .points
        .iter()
        .filter(|point| point.phase == Phase::Load)
        .filter_map(|point| Some((base.point(&point.id)?, point)))
        .collect();
    let whole = incomparable(&base.facts, &new.facts);
    let mut drafts = Vec::new();
    for (index, (base_point, new_point)) in matched.iter().enumerate() {
        let barrier = whole.clone().or_else(|| incomparable_point(base_point, new_point));
        drafts.extend(draft_point(index, base_point, new_point, barrier.as_ref(), judging));
    }
    let failures = judge_failures(&matched, judging);
    let decided = decide_drafts(&mut drafts, &matched, &failures, judging);
    cells.extend(decided.cells);
    if judging.standing.advice.is_none() {
        cells.extend(failures.iter().map(|result| failure_cell(result, &matched)));
    }
    let blocks = drafts.iter().map(|d| d.input.new.iter().flatten().count()).max().unwrap_or(0);
    let mut comparison = Comparison {
        mode: judging.standing.mode,
        base_label: base.label.clone(),
        new_label: new.label.clone(),
        base_runs: base.runs.clone(),
        new_runs: new.runs.clone(),
        blocks: u32::try_from(blocks).unwrap_or(u32::MAX),
        advice: judging.standing.advice.clone(),
        cells,
        suite: decided.suite,
        gate: GateResult::default(),
    };
    comparison.gate = super::gate::gate(&comparison, judging.settings);
    comparison
}

/// A cell on its way: the numbers, and what stands against judging them.
struct Draft {
    point: usize,
    input: CellInput,
    barrier: Option<(Verdict, String)>,
}

/// The measures of a load point, with their roles.
fn measures(
    base: &ContenderPoint,
    new: &ContenderPoint,
    settings: &JudgeSettings,
) -> Vec<(Measure, Role)> {
    let closed = matches!(new.point.load, Load::Concurrency(_));
    let starts = || base.starts.iter().chain(&new.starts);
    let enough =
        |measure| starts().all(|s| s.summary.completed >= validity::least_requests(measure));
    let by_default = |measure: Measure| match measure {
        Measure::ITL_P50 | Measure::TPOT_MEAN | Measure::TTFT_P50 => true,
        Measure::THROUGHPUT => closed,
        Measure::TTFT_P99 => enough(measure),
        _ => false,
    };
    let shown = [
        Measure::ITL_P50,
        Measure::THROUGHPUT,
        Measure::TPOT_MEAN,
        Measure::TTFT_P50,
        Measure::TTFT_P99,
        Measure::ITL_P99,
        Measure::of(Metric::WorstGap, crate::metric::Statistic::P99),
        Measure::of(Metric::Tpot, crate::metric::Statistic::P99),
        Measure::E2EL_MEAN,
    ];
    let extra = settings.gate.iter().flatten().copied().filter(|m| !shown.contains(m));
    shown
        .into_iter()
        .chain(extra)
        .filter(|m| m.metric != Metric::ErrorRate) // errors have a test of their own
        .map(|measure| {
            let gated = match &settings.gate {
                Some(gate) => gate.contains(&measure),
                None => by_default(measure),
            };
            (measure, if gated { Role::Gated } else { Role::Observed })
        })
        .collect()
}

fn draft_point(
    index: usize,
    base: &ContenderPoint,
    new: &ContenderPoint,
    barrier: Option<&String>,
    judging: &Judging<'_>,
) -> Vec<Draft> {
    let saturated =
        base.starts.iter().chain(&new.starts).any(|start| start.status == RoundStatus::Saturated);
    measures(base, new, judging.settings)
        .into_iter()
        .map(|(measure, role)| {
            let (values, faulty) = paired_values(base, new, measure, judging);
            let standing_barrier = barrier
                .map(|reason| (Verdict::Incomparable, reason.clone()))
                .or_else(|| {
                    (saturated && validity::touches(Reach::Latencies, measure)).then(|| {
                        (
                            Verdict::Saturated,
                            "only its capacity is judged: the queue grows".to_owned(),
                        )
                    })
                })
                .or(faulty);
            let floor = floor(measure, judging.settings);
            // A saturated open loop delivers its capacity, so there its throughput counts.
            let role = match (role, measure, saturated) {
                (_, Measure::THROUGHPUT, true) => Role::Gated,
                (role, ..) => role,
            };
            let resolution = match measure.metric {
                Metric::Itl | Metric::Icl => HISTOGRAM_RESOLUTION,
                _ => 0.0,
            };
            let (base, new) = values;
            Draft {
                point: index,
                input: CellInput {
                    scenario: index,
                    measure,
                    role,
                    floor,
                    margin: floor,
                    resolution,
                    base,
                    new,
                },
                barrier: standing_barrier,
            }
        })
        .collect()
}

fn floor(measure: Measure, settings: &JudgeSettings) -> f64 {
    match (measure.metric, settings.noise_threshold) {
        (Metric::OutputThroughput | Metric::RequestThroughput | Metric::Tpot, Some(floor)) => floor,
        _ => measure.floor(),
    }
}

type Sides = (Vec<Option<f64>>, Vec<Option<f64>>);

/// The values of both sides, in the same places where they are paired, without those of invalid
/// starts; and why the cell is invalid, where too many are.
fn paired_values(
    base: &ContenderPoint,
    new: &ContenderPoint,
    measure: Measure,
    judging: &Judging<'_>,
) -> (Sides, Option<(Verdict, String)>) {
    let mut reasons = Vec::new();
    let mut worst_share = 0.0_f64;
    let mut value_of = |point: &ContenderPoint| -> Vec<(u32, Option<f64>)> {
        let mut bad = 0_usize;
        let values = point.starts.iter().enumerate().map(|(place, start)| {
            let reason = reason_against(start, point, measure, judging);
            bad += usize::from(reason.is_some());
            let value = if reason.is_some() { None } else { start.summary.get(measure) };
            reasons.extend(reason);
            let key = match judging.standing.error_term {
                ErrorTerm::Paired | ErrorTerm::PairedAcrossDays { .. } => start.block,
                _ => u32::try_from(place).unwrap_or(u32::MAX),
            };
            (key, value)
        });
        let values: Vec<_> = values.collect();
        #[allow(clippy::cast_precision_loss)]
        let share = bad as f64 / values.len().max(1) as f64;
        worst_share = worst_share.max(share);
        values
    };
    let (base, new) = (value_of(base), value_of(new));
    let values = align(&base, &new);
    // Below five starts nothing is judged, so a single bad one is only a finding.
    let invalid = worst_share >= INVALID_SHARE && !reasons.is_empty();
    (values, invalid.then(|| (Verdict::Invalid, reasons.swap_remove(0))))
}

/// Values by key, in the same place on both sides.
fn align(base: &[(u32, Option<f64>)], new: &[(u32, Option<f64>)]) -> Sides {
    let keys = |side: &[(u32, Option<f64>)]| -> BTreeMap<u32, Option<f64>> {
        // Two starts of one block (a run repeated after an interruption): the first counts.
        let mut map = BTreeMap::new();
        for (key, value) in side {
            map.entry(*key).or_insert(*value);
        }
        map
    };
    let (base, new) = (keys(base), keys(new));
    let all: std::collections::BTreeSet<u32> = base.keys().chain(new.keys()).copied().collect();
    all.into_iter()
        .map(|key| (base.get(&key).copied().flatten(), new.get(&key).copied().flatten()))
        .unzip()
}

fn reason_against(
    start: &MeasuredStart,
    point: &ContenderPoint,
    measure: Measure,
    judging: &Judging<'_>,
) -> Option<String> {
    let needed = validity::least_requests(measure);
    if start.summary.completed < needed {
        let have = start.summary.completed;
        return Some(format!("{have} completed requests in a start, {needed} are needed"));
    }
    validity::faults(start, &point.point, judging.idle_lag_ms)
        .into_iter()
        .find(|fault| {
            validity::touches(fault.reach, measure) && start.status != RoundStatus::Saturated
        })
        .map(|fault| fault.finding.text)
}

struct Decided {
    cells: Vec<Cell>,
    suite: Vec<SuiteResult>,
}

/// Decides all drafts that nothing stands against, and gives every draft its cell.
fn decide_drafts(
    drafts: &mut [Draft],
    matched: &[(&ContenderPoint, &ContenderPoint)],
    failures: &[FailureResult],
    judging: &Judging<'_>,
) -> Decided {
    for draft in drafts.iter_mut() {
        let selected = failures
            .iter()
            .any(|f| f.scenario == draft.point && f.survivors == Survivors::Selected);
        if selected && draft.barrier.is_none() {
            let reason = "more than 5 % of the requests failed: figures are of survivors";
            draft.barrier = Some((Verdict::Invalid, reason.to_owned()));
        }
    }
    let inputs: Vec<CellInput> =
        drafts.iter().filter(|d| d.barrier.is_none()).map(|d| d.input.clone()).collect();
    let options = Options {
        alpha: judging.settings.significance_level,
        looks: judging.looks,
        error_term: judging.standing.error_term,
        ..Options::default()
    };
    let decision: Decision = decide(&inputs, &options);
    let mut results = decision.cells.iter();
    let cells = drafts
        .iter()
        .map(|draft| {
            let result = if draft.barrier.is_none() { results.next() } else { None };
            show(draft, result, matched)
        })
        .collect();
    let suite = decision.suite.iter().map(show_suite).collect();
    Decided { cells, suite }
}

fn show(
    draft: &Draft,
    result: Option<&CellResult>,
    matched: &[(&ContenderPoint, &ContenderPoint)],
) -> Cell {
    let (base, new) = matched[draft.point];
    let measure = draft.input.measure;
    let (base_value, new_value) = (base.typical(measure), new.typical(measure));
    let plain = match (base_value, new_value) {
        (Some(b), Some(n)) if b > 0.0 => Some(n / b - 1.0),
        _ => None,
    };
    let (verdict, reason) = match (&draft.barrier, result) {
        (Some((verdict, reason)), _) => (*verdict, Some(reason.clone())),
        (None, Some(result)) => {
            let text = result.reason.map(super::decision::Reason::text);
            (result.verdict, text.filter(|text| !text.is_empty()))
        }
        (None, None) => (Verdict::Inconclusive, None),
    };
    let test = result.and_then(|r| r.test.as_ref());
    Cell {
        point: new.id.clone(),
        measure,
        gated: draft.input.role == Role::Gated,
        verdict,
        base: base_value,
        new: new_value,
        change: result.and_then(CellResult::change).or(plain),
        interval: result.and_then(CellResult::change_ci95).map(|ci| (ci.low, ci.high)),
        p_holm: test.map(|t| t.p_adjusted),
        minimum_detectable: test.map(|t| t.detectable),
        blocks_needed: result.and_then(CellResult::blocks_needed),
        floor: draft.input.floor,
        pairs: draft.input.base.iter().copied().zip(draft.input.new.iter().copied()).collect(),
        reason,
    }
}

fn show_suite(result: &super::decision::SuiteResult) -> SuiteResult {
    let higher = result.measure.metric.better() == crate::metric::Better::Higher;
    let turn = |log: f64| if higher { (-log).exp_m1() } else { log.exp_m1() };
    let (a, b) = (turn(result.ci95.low), turn(result.ci95.high));
    SuiteResult {
        measure: result.measure,
        verdict: match result.flag {
            Flag::Regressed => Verdict::Regressed,
            Flag::Improved => Verdict::Improved,
            Flag::None => Verdict::Inconclusive,
        },
        change: Some(turn(result.estimate.mean)),
        interval: Some((a.min(b), a.max(b))),
    }
}

fn judge_failures(
    matched: &[(&ContenderPoint, &ContenderPoint)],
    judging: &Judging<'_>,
) -> Vec<FailureResult> {
    let counts = |point: &ContenderPoint| -> Vec<Count> {
        let count = |s: &MeasuredStart| Count {
            hits: s.summary.failed,
            trials: s.summary.completed + s.summary.failed,
        };
        point.starts.iter().map(count).filter(|c| c.trials > 0).collect()
    };
    let points: Vec<FailureCounts> = matched
        .iter()
        .enumerate()
        .map(|(scenario, (base, new))| FailureCounts {
            scenario,
            base: counts(base),
            new: counts(new),
        })
        .collect();
    let options = FailureOptions { looks: judging.looks, ..FailureOptions::default() };
    failures::judge(&points, &options)
}

fn failure_cell(result: &FailureResult, matched: &[(&ContenderPoint, &ContenderPoint)]) -> Cell {
    let clean = result.base.count.hits == 0 && result.new.count.hits == 0;
    let verdict = match result.flag {
        FailureFlag::Regressed => Verdict::Regressed,
        FailureFlag::None if clean => Verdict::Unchanged,
        FailureFlag::None => Verdict::Inconclusive,
    };
    let interval = result.difference95;
    Cell {
        point: matched[result.scenario].1.id.clone(),
        measure: Measure::ERROR_RATE,
        gated: true,
        verdict,
        base: result.base.count.share(),
        new: result.new.count.share(),
        change: Some(result.difference),
        interval: Some((interval.low, interval.high)),
        p_holm: Some(result.p_holm),
        minimum_detectable: None,
        blocks_needed: None,
        floor: Measure::ERROR_RATE.floor(),
        pairs: Vec::new(),
        reason: None,
    }
}

/// Load points that only one side has.
fn unmatched(base: &Contender, new: &Contender) -> Vec<Cell> {
    let one_sided = |point: &ContenderPoint, verdict| {
        let value = point.typical(Measure::TPOT_MEAN);
        let (base, new) = if verdict == Verdict::New { (None, value) } else { (value, None) };
        Cell {
            point: point.id.clone(),
            measure: Measure::TPOT_MEAN,
            gated: false,
            verdict,
            base,
            new,
            change: None,
            interval: None,
            p_holm: None,
            minimum_detectable: None,
            blocks_needed: None,
            floor: Measure::TPOT_MEAN.floor(),
            pairs: Vec::new(),
            reason: None,
        }
    };
    let load = |point: &&ContenderPoint| point.phase == Phase::Load;
    let added = new.points.iter().filter(load).filter(|p| base.point(&p.id).is_none());
    let removed = base.points.iter().filter(load).filter(|p| new.point(&p.id).is_none());
    added
        .map(|p| one_sided(p, Verdict::New))
        .chain(removed.map(|p| one_sided(p, Verdict::Removed)))
        .collect()
}
