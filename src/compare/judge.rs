//! Two contenders to a comparison: validity and comparability first, then errors, then speed.

use std::collections::BTreeSet;

use super::assumed_spread::assumed_sd;
use super::calibration::Noise;
use super::cell::{Cell as CellInput, HISTOGRAM_RESOLUTION, KnownNoise, Role};
use super::cells::{self, Pair};
use super::decide::decide;
use super::design::{DaySpread, Judging, VerdictBasis};
use super::failures::{self, FailureCounts, FailureOptions, FailureResult, Survivors};
use super::options::{ErrorTerm, Levels, Options};
use super::side::{ComparedPoint, ComparedSide, incomparable, incomparable_point, other_client};
use super::values::{self, Values};
use super::{Cell, Comparison, GateResult, Note, SuiteResult, Verdict};
use crate::diagnose::validity::{self, Reach};
use crate::metric::{Measure, Metric, Statistic};
use crate::plan::Phase;
use crate::record::stored::RoundStatus;
use crate::scenario::Load;
use crate::settings::JudgeSettings;
use crate::stats::proportion::Count;
use crate::summary::lockstep::marches;
use crate::summary::measured::MeasuredStart;
use crate::units;

/// Compares two sides. Deterministic: no resampling enters it.
#[must_use]
pub fn judge(base: &ComparedSide, new: &ComparedSide, judging: &Judging<'_>) -> Comparison {
    let mut cells = cells::one_sided(base, new);
    let matched: Vec<Pair<'_>> = new
        .points
        .iter()
        .filter(|point| point.phase.is_judged())
        .filter_map(|point| Some(Pair { base: base.point(&point.id)?, new: point }))
        .collect();
    let whole = incomparable(&base.facts, &new.facts);
    let mut drafts = Vec::new();
    for (index, pair) in matched.iter().enumerate() {
        let barrier = whole
            .clone()
            .or_else(|| incomparable_point((pair.base, &base.facts), (pair.new, &new.facts)));
        drafts.extend(draft_point(index, *pair, barrier.as_ref(), judging));
    }
    let failures = judge_failures(&matched, judging);
    let decided = decide_drafts(&mut drafts, &matched, &failures, judging);
    cells.extend(decided.cells);
    if judging.standing.advice.is_none() && whole.is_none() {
        cells.extend(
            failures.iter().map(|result| cells::failures(result, matched[result.scenario])),
        );
    }
    let mut comparison = Comparison {
        mode: judging.standing.mode,
        base_label: base.label.clone(),
        new_label: new.label.clone(),
        base_runs: base.runs.clone(),
        new_runs: new.runs.clone(),
        blocks: blocks(&drafts, judging.standing),
        looks: judging.looks,
        advice: judging.standing.advice.clone(),
        notes: notes(base, new, &drafts, judging),
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
    note: Option<Note>,
}

/// The most blocks that any cell has on both sides (in the unpaired modes: starts of the smaller
/// side).
fn blocks(drafts: &[Draft], standing: &VerdictBasis) -> u32 {
    let of_draft = |draft: &Draft| {
        let count = |side: &[Option<f64>]| side.iter().flatten().count();
        let (base, new) = (&draft.input.base, &draft.input.new);
        match standing.is_in_blocks() {
            true => base.iter().zip(new).filter(|(b, n)| b.is_some() && n.is_some()).count(),
            false => count(base).min(count(new)),
        }
    };
    u32::try_from(drafts.iter().map(of_draft).max().unwrap_or(0)).unwrap_or(u32::MAX)
}

/// What was left out or only observed, each once.
fn notes(
    base: &ComparedSide,
    new: &ComparedSide,
    drafts: &[Draft],
    judging: &Judging<'_>,
) -> Vec<Note> {
    let loads = |side: &ComparedSide| -> Vec<ComparedPoint> {
        side.points.iter().filter(|point| point.phase.is_judged()).cloned().collect()
    };
    let (base_points, new_points) = (loads(base), loads(new));
    let of_base = base_points.iter().flat_map(|p| values::left_out(&base.label, p, judging));
    let of_new = new_points.iter().flat_map(|p| values::left_out(&new.label, p, judging));
    let of_cells = drafts.iter().filter_map(|draft| draft.note.clone());
    let client = other_client(&base.facts, &new.facts).map(|text| Note { point: None, text });
    let mut seen = BTreeSet::new();
    client
        .into_iter()
        .chain(of_base)
        .chain(of_new)
        .chain(of_cells)
        .filter(|note| seen.insert(note.clone()))
        .collect()
}

/// The measures of a load point, with their roles.
fn measures(pair: Pair<'_>, settings: &JudgeSettings) -> Vec<(Measure, Role)> {
    if pair.new.phase == Phase::Search {
        return vec![(Measure::SLO_CAPACITY, Role::Gated)];
    }
    let closed = matches!(pair.new.point.load, Load::Concurrency(_));
    let starts = || pair.base.starts.iter().chain(&pair.new.starts);
    let enough =
        |measure| starts().all(|s| s.summary.completed >= validity::least_requests(measure));
    let by_default = |measure: Measure| match measure {
        Measure::ITL_P50 | Measure::TPOT_MEAN | Measure::TTFT_P50 => true,
        Measure::THROUGHPUT => closed,
        Measure::TTFT_P99 => enough(measure),
        _ => false,
    };
    let listed = [
        Measure::ITL_P50,
        Measure::THROUGHPUT,
        Measure::TPOT_MEAN,
        Measure::TTFT_P50,
        Measure::TTFT_P99,
        Measure::ITL_P99,
        Measure::of(Metric::WorstGap, Statistic::P99),
        Measure::of(Metric::Tpot, Statistic::P99),
        Measure::E2EL_MEAN,
    ];
    let extra = settings.gate.iter().flatten().copied().filter(|m| !listed.contains(m));
    listed
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
    pair: Pair<'_>,
    barrier: Option<&String>,
    judging: &Judging<'_>,
) -> Vec<Draft> {
    let starts = || pair.base.starts.iter().chain(&pair.new.starts);
    let saturated = starts().any(|start| start.status == RoundStatus::Saturated);
    let incomparable = barrier.map(|reason| (Verdict::Incomparable, reason.clone()));
    measures(pair, judging.settings)
        .into_iter()
        .map(|(measure, role)| {
            let noise = judging.calibration.and_then(|c| c.noise(&pair.new.point, measure));
            let floor = floor(measure, judging.settings);
            // A saturated open loop delivers its capacity, so there its throughput counts.
            let role = match (role, measure, saturated) {
                (_, Measure::THROUGHPUT, true) => Role::Gated,
                (role, ..) => role,
            };
            let (role, waves) = role_in_waves(role, measure, pair, judging);
            let (role, note) = settled_role(role, noise, floor, &pair.new.id, measure, judging);
            let note = waves.or(note);
            let Values { base, new, base_first, night_median, barrier: faulty } =
                values::values(pair.base, pair.new, measure, judging);
            let stuck = (saturated && validity::touches(Reach::Latencies, measure)).then(|| {
                (Verdict::Saturated, "only its capacity is judged: the queue grows".into())
            });
            let dayless = judging.standing.days == DaySpread::Calibrated
                && noise.and_then(|noise| noise.days).is_none();
            let dayless = dayless.then(|| {
                let reason = "how much this number differs from day to day was not calibrated";
                (Verdict::Inconclusive, reason.to_owned())
            });
            let known = KnownNoise {
                calibration: noise.map(|noise| noise.pair),
                days: noise
                    .filter(|_| judging.standing.days == DaySpread::Calibrated)
                    .and_then(|noise| noise.days),
                assumed_sd: Some(assumed_sd(measure)),
            };
            Draft {
                point: index,
                input: CellInput {
                    scenario: index,
                    measure,
                    role,
                    floor,
                    margin: floor,
                    resolution: resolution(measure),
                    known,
                    base,
                    new,
                    base_first,
                    night_median,
                },
                barrier: incomparable.clone().or(stuck).or(faulty).or(dayless),
                note,
            }
        })
        .collect()
}

/// TTFT of a load point whose requests run in lockstep depends on how they line up, which is chance: it is shown
/// and does not gate, unless the user named it.
fn role_in_waves(
    role: Role,
    measure: Measure,
    pair: Pair<'_>,
    judging: &Judging<'_>,
) -> (Role, Option<Note>) {
    let of_default = role == Role::Gated && judging.settings.gate.is_none();
    if !of_default || measure.metric != Metric::Ttft || !runs_in_waves(pair) {
        return (role, None);
    }
    let text = format!(
        "TTFT at {} is observed only, because its requests run in lockstep; `--random-range-ratio 0.2` spreads them",
        pair.new.id
    );
    (Role::Observed, Some(Note { point: None, text }))
}

/// Whether a fifth of a load point's rounds do, as with any fault of it.
#[allow(clippy::cast_precision_loss)] // a few rounds
fn runs_in_waves(pair: Pair<'_>) -> bool {
    let rounds = || pair.base.starts.iter().chain(&pair.new.starts).flat_map(|s| &s.health);
    let (waves, all) = (rounds().filter(|health| marches(health)).count(), rounds().count());
    waves > 0 && waves as f64 >= validity::INVALID_SHARE * all as f64
}

/// The role of a cell once its noise is known: where only gross changes could be found it is shown
/// and does not gate, unless the user named it.
fn settled_role(
    role: Role,
    noise: Option<Noise>,
    floor: f64,
    point: &str,
    measure: Measure,
    judging: &Judging<'_>,
) -> (Role, Option<Note>) {
    let Some(noise) = noise.filter(|_| role == Role::Gated && judging.settings.gate.is_none())
    else {
        return (role, None);
    };
    let settled = Role::by_detectable(noise.detectable, floor);
    let note = (settled == Role::Observed).then(|| {
        let text = format!(
            "{} at {point} is observed only: by its calibration a comparison finds no change below {}",
            measure.label(),
            units::change(noise.detectable)
        );
        Note { point: None, text }
    });
    (settled, note)
}

fn resolution(measure: Measure) -> f64 {
    match measure.metric {
        Metric::Itl | Metric::Icl => HISTOGRAM_RESOLUTION,
        _ => 0.0,
    }
}

fn floor(measure: Measure, settings: &JudgeSettings) -> f64 {
    match (measure.metric, settings.noise_threshold) {
        (Metric::OutputThroughput | Metric::RequestThroughput | Metric::Tpot, Some(floor)) => floor,
        _ => measure.floor(),
    }
}

struct Decided {
    cells: Vec<Cell>,
    suite: Vec<SuiteResult>,
}

/// Decides all drafts that nothing stands against, and gives every draft its cell.
fn decide_drafts(
    drafts: &mut [Draft],
    matched: &[Pair<'_>],
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
    let options = options(&inputs, judging);
    let decision = decide(&inputs, &options);
    let mut results = decision.cells.iter();
    let cells = drafts
        .iter()
        .map(|draft| {
            let result = if draft.barrier.is_none() { results.next() } else { None };
            let pair = matched[draft.point];
            cells::cell(&draft.input, draft.barrier.as_ref(), result, pair, &options)
        })
        .collect();
    Decided { cells, suite: decision.suite.iter().map(cells::suite).collect() }
}

/// The errors of a report of these cells, and where they come from.
fn options(inputs: &[CellInput], judging: &Judging<'_>) -> Options {
    let gated = inputs.iter().filter(|input| input.role == Role::Gated);
    let points = gated.map(|input| input.scenario).collect::<BTreeSet<_>>().len();
    let (budget, error_term) = (judging.settings.significance_level, judging.standing.error_term);
    let levels = match error_term {
        ErrorTerm::Assumed { .. } => Levels::of_bound(budget),
        _ => Levels::of_report(budget, points),
    };
    Options { levels, looks: judging.looks, error_term, ..Options::for_points(points) }
}

fn judge_failures(matched: &[Pair<'_>], judging: &Judging<'_>) -> Vec<FailureResult> {
    let counts = |point: &ComparedPoint| -> Vec<Count> {
        let count = |s: &MeasuredStart| Count {
            hits: s.summary.failed,
            trials: s.summary.completed + s.summary.failed,
        };
        point.starts.iter().map(count).filter(|c| c.trials > 0).collect()
    };
    let points: Vec<FailureCounts> = matched
        .iter()
        .enumerate()
        .map(|(scenario, pair)| FailureCounts {
            scenario,
            base: counts(pair.base),
            new: counts(pair.new),
        })
        .collect();
    let options = FailureOptions { looks: judging.looks, ..FailureOptions::default() };
    failures::judge(&points, &options)
}
