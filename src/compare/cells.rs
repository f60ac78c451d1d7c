//! What is shown of a decision: cells and means as a report and a file hold them.

use super::cell::{Cell as CellInput, Role};
use super::decision::{self, CellResult, Flag, Reason};
use super::design::LEAST_STARTS;
use super::failures::{FailingStarts, FailureFlag, FailureResult};
use super::options::{ErrorTerm, Options};
use super::side::{ComparedPoint, ComparedSide};
use super::working::{Model, WorkedDeviation, Working};
use super::{Cell, CellReason, SuiteResult, Verdict};
use crate::metric::{Better, Measure, Statistic};
use crate::stats::moderated_variance::Variance;
use crate::stats::moments::sd;
use crate::stats::planning::{Freedom, Plan, detectable_effect};

/// The two load points of a cell.
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    pub(super) base: &'a ComparedPoint,
    pub(super) new: &'a ComparedPoint,
}

/// One cell, decided or not.
pub(super) fn cell(
    input: &CellInput,
    barrier: Option<&(Verdict, String)>,
    result: Option<&CellResult>,
    pair: Pair<'_>,
    options: &Options,
) -> Cell {
    let measure = input.measure;
    let (base, new) = (pair.base.typical(measure), pair.new.typical(measure));
    let plain = match (base, new) {
        (Some(b), Some(n)) if b > 0.0 => Some(n / b - 1.0),
        _ => None,
    };
    let (verdict, reason) = match (barrier, result) {
        (Some((verdict, text)), _) => {
            (*verdict, Some(CellReason { reason: None, text: text.clone() }))
        }
        (None, Some(result)) => {
            let text = match (result.reason, base, new) {
                (Some(Reason::NoValues), Some(_), None) => {
                    Some("the new side has no values".into())
                }
                (Some(Reason::NoValues), None, Some(_)) => Some("the base has no values".into()),
                (Some(Reason::NoValues), None, None) => Some("neither side has values".into()),
                (reason, ..) => reason.map(Reason::text),
            };
            let text = text.filter(|text| !text.is_empty());
            (result.verdict, text.map(|text| CellReason { reason: result.reason, text }))
        }
        (None, None) => (Verdict::Inconclusive, None),
    };
    let test = result.and_then(|r| r.test.as_ref());
    let interval = result.and_then(CellResult::change_ci95).map(|ci| (ci.low, ci.high));
    let assumed = matches!(options.error_term, ErrorTerm::Assumed { .. });
    let mut cell = Cell {
        point: pair.new.id.clone(),
        measure,
        gated: input.role == Role::Gated,
        verdict,
        base,
        new,
        change: result.and_then(CellResult::change).or(plain),
        interval: interval.or_else(|| within_starts(pair, measure)),
        p_holm: test.map(|t| t.p_adjusted),
        minimum_detectable: test
            .map(|t| if assumed { t.called_from.exp_m1() } else { t.detectable }),
        blocks_needed: result.and_then(CellResult::blocks_needed),
        floor: input.floor,
        pairs: input.base.iter().copied().zip(input.new.iter().copied()).collect(),
        reason,
        working: result.and_then(|result| working(input, result)).map(Box::new),
    };
    let undecided = verdict == Verdict::Inconclusive && (test.is_none() || assumed);
    if undecided && base.is_some() && new.is_some() {
        plan_ahead(&mut cell, options);
    }
    cell
}

/// The working of a cell that was tested.
fn working(input: &CellInput, result: &CellResult) -> Option<Working> {
    let test = result.test.as_ref()?;
    let (model, trim) = test.model;
    Some(Working {
        model,
        base: input.base.clone(),
        new: input.new.clone(),
        base_first: match model {
            Model::PairsAndPosition => input.base_first.clone(),
            _ => Vec::new(),
        },
        trim,
        estimate: test.estimate.mean,
        own: test.steps.own.into(),
        joined: test.steps.joined.into(),
        prior: test.steps.prior.map(|it| Variance { value: it.variance, df: it.df }.into()),
        used: test.steps.used.into(),
        weight: test.steps.weight,
        resolution: input.resolution,
        day_variance: test.day_variance,
        se: test.estimate.se,
        df: Some(test.estimate.df).filter(|df| df.is_finite()),
        p: test.p,
        p_adjusted: test.p_adjusted,
        rank: test.rank,
        interval90: (test.ci90.low, test.ci90.high),
        deviation: result.deviation.map(|it| WorkedDeviation {
            estimate: it.mean,
            p_holm: it.p_holm,
            level: it.level,
        }),
    })
}

/// What few blocks can already tell of the blocks still needed: the spread of their differences.
/// One block, or none, tells only the least number.
fn plan_ahead(cell: &mut Cell, options: &Options) {
    let least = u32::try_from(LEAST_STARTS).unwrap_or(u32::MAX);
    let logs: Vec<f64> = cell
        .pairs
        .iter()
        .filter_map(|(base, new)| Some(((*new)? / (*base)?).ln()))
        .filter(|log| log.is_finite())
        .collect();
    let (alpha, freedom) = (options.levels.cells, Freedom::Blocks);
    let needed = sd(&logs).and_then(|sd| {
        let effect = decision::worth_finding(cell.floor);
        Plan { sd: sd.max(1e-4), effect, floor: cell.floor, alpha, cells: 1, freedom }
            .blocks_needed()
    });
    cell.blocks_needed = Some(needed.unwrap_or(least).max(least));
    if cell.minimum_detectable.is_none() {
        #[allow(clippy::cast_precision_loss)]
        let blocks = logs.len() as f64;
        cell.minimum_detectable = sd(&logs)
            .map(|sd| detectable_effect(sd / blocks.sqrt(), blocks - 1.0, alpha, 1))
            .filter(|change| change.is_finite());
    }
}

/// The 95 % interval of a change from the spread of the requests within the starts alone: what is
/// shown beside advice. It leaves out what differs between restarts, so it is no ground for a
/// verdict. Means by their standard error; medians by that of a normal sample (1.2533 times it);
/// other numbers have none.
fn within_starts(pair: Pair<'_>, measure: Measure) -> Option<(f64, f64)> {
    let scale = match measure.statistic? {
        Statistic::Mean => 1.0,
        Statistic::P50 => 1.2533,
        _ => return None,
    };
    let variance = |point: &ComparedPoint| -> Option<f64> {
        let starts = point.starts.iter().map(|start| {
            let distribution = start.summary.distributions.get(&measure.metric)?;
            // A tool may tell a spread and not of how many values.
            let count = Some(distribution.count).filter(|count| *count > 0)?;
            let spread = distribution.std? / distribution.mean.filter(|mean| *mean > 0.0)?;
            #[allow(clippy::cast_precision_loss)]
            let count = count as f64;
            Some((scale * spread).powi(2) / count)
        });
        let starts: Vec<f64> = starts.collect::<Option<_>>()?;
        #[allow(clippy::cast_precision_loss)]
        let n = starts.len().max(1) as f64;
        Some(starts.iter().sum::<f64>() / (n * n))
    };
    let change = (pair.new.typical(measure)? / pair.base.typical(measure)?).ln();
    let half = 1.96 * (variance(pair.base)? + variance(pair.new)?).sqrt();
    let ends = ((change - half).exp_m1(), (change + half).exp_m1());
    (ends.0.is_finite() && ends.1.is_finite()).then_some(ends)
}

/// The mean over the load points of a metric.
pub(super) fn suite(result: &decision::SuiteResult) -> SuiteResult {
    let higher = result.measure.metric.better() == Better::Higher;
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

/// The failures of a load point.
pub(super) fn failures(result: &FailureResult, pair: Pair<'_>) -> Cell {
    let clean = result.base.count.hits == 0 && result.new.count.hits == 0;
    let verdict = match result.flag {
        FailureFlag::Regressed => Verdict::Regressed,
        FailureFlag::None if clean => Verdict::Unchanged,
        FailureFlag::None => Verdict::Inconclusive,
    };
    let undecided = verdict == Verdict::Inconclusive;
    let interval = result.difference95;
    Cell {
        gated: true,
        verdict,
        base: result.base.count.share(),
        new: result.new.count.share(),
        change: Some(result.difference),
        interval: Some((interval.low, interval.high)),
        p_holm: Some(result.p_holm),
        reason: undecided.then(|| CellReason { reason: None, text: unproven(result.starts) }),
        ..empty(pair.new, Measure::ERROR_RATE)
    }
}

/// Why failures are no verdict: in how many starts they were, and how many would be one.
fn unproven(starts: FailingStarts) -> String {
    let FailingStarts { base, new, needed, .. } = starts;
    let seen = format!(
        "failures in {} of {} new starts, {} of {} base starts",
        new.0, new.1, base.0, base.1
    );
    match needed {
        Some(needed) => {
            format!(
                "{seen}: not more than before for sure; {needed} of {} worse than every base start would be",
                new.1
            )
        }
        None => format!("{seen}: not more than before for sure"),
    }
}

/// Load points that only one side has.
pub(super) fn one_sided(base: &ComparedSide, new: &ComparedSide) -> Vec<Cell> {
    let load = |point: &&ComparedPoint| point.phase.is_judged();
    let added = new.points.iter().filter(load).filter(|p| base.point(&p.id).is_none());
    let removed = base.points.iter().filter(load).filter(|p| new.point(&p.id).is_none());
    let added = added.map(|point| Cell {
        verdict: Verdict::New,
        new: point.typical(point.shown_measure()),
        ..empty(point, point.shown_measure())
    });
    let removed = removed.map(|point| Cell {
        verdict: Verdict::Removed,
        base: point.typical(point.shown_measure()),
        ..empty(point, point.shown_measure())
    });
    added.chain(removed).collect()
}

fn empty(point: &ComparedPoint, measure: Measure) -> Cell {
    Cell {
        point: point.id.clone(),
        measure,
        gated: false,
        verdict: Verdict::Inconclusive,
        base: None,
        new: None,
        change: None,
        interval: None,
        p_holm: None,
        minimum_detectable: None,
        blocks_needed: None,
        floor: measure.floor(),
        pairs: Vec::new(),
        reason: None,
        working: None,
    }
}
