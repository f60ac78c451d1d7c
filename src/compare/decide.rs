//! The decision: from values of starts to verdicts. Numbers in, numbers out, no randomness.
//!
//! Holm-adjusted t tests of every gated cell, a test of the mean over the load points of each
//! measure, and a test of each load point against the median of the others (docs/statistics.md,
//! section 3).

use crate::metric::Measure;
use crate::stats::Interval;
use crate::stats::day_variance::DayVariance;
use crate::stats::distribution::t_upper;
use crate::stats::moderated_variance::{Variance, moderate, prior, with_calibration};
use crate::stats::moments::mean;
use crate::stats::multiple::{benjamini_hochberg, bonferroni, holm};
use crate::stats::planning::Freedom;
use crate::stats::quantile::median;
use crate::stats::t_test::Estimate;

use super::cell::{Cell, KnownNoise, Role};
use super::decision::{CellResult, Decision, Deviation, Flag, Percent, Reason, SuiteResult, Test};
use super::options::{DeviationTest, ErrorTerm, Levels, Moderation, Options};
use super::sample::{Fit, Known, Sample, day_variance};
use super::verdict::Verdict;
use super::working::{Correction, Model, Rank, VarianceSteps};

/// Sides that do not meet in blocks have their deviations tested from this many load points on.
const LEAST_POINTS_APART: usize = 8;
/// And nights from this many nights of the base on.
const LEAST_NIGHTS_OF_DEVIATIONS: usize = 5;

/// Decides. Cells may come in any order and number; every cell gets a result in its place.
#[must_use]
pub fn decide(cells: &[Cell], options: &Options) -> Decision {
    let decision = decide_once(cells, options);
    if options.error_term != ErrorTerm::Nights || !decision.changed() {
        return decision;
    }
    super::suspicion::confirmed(cells, options, decision, decide_once)
}

/// The decision by the values as they are.
fn decide_once(cells: &[Cell], options: &Options) -> Decision {
    let mut judge = Judge::new(options, cells);
    let samples: Vec<Sample> = cells.iter().map(|cell| Sample::of(cell, options)).collect();
    let measure = |index: usize| (cells[index].measure, Known::of(&cells[index]));
    let estimates = estimates(&samples, options, measure);
    let p_values: Vec<Option<f64>> =
        estimates.iter().map(|fitted| fitted.as_ref().ok().and_then(|(it, _)| it.p())).collect();
    let of_role = |role| -> Vec<usize> {
        (0..cells.len()).filter(|i| cells[*i].role == role && p_values[*i].is_some()).collect()
    };
    let (gated, observed) = (of_role(Role::Gated), of_role(Role::Observed));
    let mut adjusted = vec![f64::NAN; cells.len()];
    adjust(&gated, &p_values, judge.correction(), &mut adjusted);
    adjust(&observed, &p_values, benjamini_hochberg, &mut adjusted);
    let results = (0..cells.len())
        .map(|i| {
            let tested = estimates[i].and_then(|(estimate, steps)| {
                let p = p_values[i].ok_or(Reason::NoVariation)?;
                let rank = match cells[i].role {
                    Role::Gated => (judge.correction_name(), &gated),
                    Role::Observed => (Correction::BenjaminiHochberg, &observed),
                };
                let smaller = |other: &&usize| p_values[**other].is_some_and(|known| known < p);
                let (correction, family) = rank;
                let rank = Rank {
                    correction,
                    place: 1 + family.iter().filter(smaller).count(),
                    of: family.len(),
                    level: judge.levels.cells,
                };
                Ok(Tested { estimate, steps, rank, p, p_adjusted: adjusted[i], cells: gated.len() })
            });
            judge.cell(&cells[i], &samples[i], tested)
        })
        .collect();
    let mut decision = Decision { cells: results, suite: Vec::new(), tested: gated.len() };
    if judge.is_assumed() {
        return decision;
    }
    let metrics = by_measure(cells, &gated);
    decision.suite = judge.suite(cells, &samples, &metrics);
    judge.deviations(cells, &samples, &metrics, &mut decision.cells);
    decision
}

/// The estimates of several samples. In blocks the load points of a measure lend each other what
/// they know of their noise.
fn estimates(
    samples: &[Sample],
    options: &Options,
    about: impl Fn(usize) -> (Measure, Known),
) -> Vec<Result<(Estimate, VarianceSteps), Reason>> {
    let mut fits: Vec<Result<Fit, Reason>> = samples
        .iter()
        .enumerate()
        .map(|(index, sample)| sample.fit(options, about(index).1))
        .collect();
    if options.moderation == Moderation::ByMeasure && options.error_term.is_paired() {
        moderate_fits(&mut fits, &about);
    }
    let estimate = |(index, fit): (usize, Result<Fit, Reason>)| {
        fit.map(|fit| (fit.estimate(options.error_term, about(index).1), fit.steps))
    };
    fits.into_iter().enumerate().map(estimate).collect()
}

fn moderate_fits(fits: &mut [Result<Fit, Reason>], about: &impl Fn(usize) -> (Measure, Known)) {
    let mut groups: Vec<(Measure, Vec<usize>)> = Vec::new();
    for (index, fit) in fits.iter_mut().enumerate() {
        let Ok(fit) = fit else { continue };
        let (measure, known) = about(index);
        if let Some(calibration) = known.noise.calibration {
            fit.steps.joined = with_calibration(fit.steps.own, calibration);
            fit.steps.used = fit.steps.joined;
        }
        match groups.iter_mut().find(|(known, _)| *known == measure) {
            Some((_, group)) => group.push(index),
            None => groups.push((measure, vec![index])),
        }
    }
    for (_, group) in groups {
        let own: Vec<Variance> =
            group.iter().filter_map(|index| fits[*index].ok()).map(|fit| fit.steps.used).collect();
        let prior = prior(&own);
        for (index, moderated) in group.iter().zip(moderate(&own)) {
            if let Ok(fit) = &mut fits[*index] {
                fit.steps = VarianceSteps { prior, used: moderated, ..fit.steps };
            }
        }
    }
}

/// Of several cells the days that differ most; nothing else of them is common.
fn noisiest_days(known: impl Iterator<Item = KnownNoise>) -> KnownNoise {
    let used = |days: &DayVariance| days.used();
    let days = known.filter_map(|known| known.days).max_by(|a, b| used(a).total_cmp(&used(b)));
    KnownNoise { days, ..KnownNoise::default() }
}

fn adjust(
    which: &[usize],
    p_values: &[Option<f64>],
    correction: fn(&[f64]) -> Vec<f64>,
    adjusted: &mut [f64],
) {
    let p: Vec<f64> = which.iter().filter_map(|i| p_values[*i]).collect();
    for (index, value) in which.iter().zip(correction(&p)) {
        adjusted[*index] = value;
    }
}

/// The cells of each measure, in the order of first appearance.
fn by_measure(cells: &[Cell], which: &[usize]) -> Vec<(Measure, Vec<usize>)> {
    let mut groups: Vec<(Measure, Vec<usize>)> = Vec::new();
    for index in which {
        let measure = cells[*index].measure;
        match groups.iter_mut().find(|(known, _)| *known == measure) {
            Some((_, group)) => group.push(*index),
            None => groups.push((measure, vec![*index])),
        }
    }
    groups
}

struct Tested {
    estimate: Estimate,
    steps: VarianceSteps,
    rank: Rank,
    p: f64,
    p_adjusted: f64,
    cells: usize,
}

/// Options with the quantiles that many cells share.
struct Judge<'a> {
    options: &'a Options,
    levels: Levels,
    /// How well more blocks would know the variance.
    freedom: Freedom,
    quantiles: Vec<(f64, f64, f64)>,
}

impl<'a> Judge<'a> {
    fn new(options: &'a Options, cells: &[Cell]) -> Self {
        let levels = options.levels.shared_by(options.looks);
        let all: Vec<usize> = (0..cells.len()).collect();
        let points = by_measure(cells, &all).iter().map(|(_, group)| group.len()).max();
        let freedom = match options.error_term {
            ErrorTerm::Paired => Freedom::of_points(points.unwrap_or(0)),
            _ => Freedom::Paired,
        };
        Self { options, levels, freedom, quantiles: Vec::new() }
    }

    fn is_assumed(&self) -> bool {
        matches!(self.options.error_term, ErrorTerm::Assumed { .. })
    }

    fn correction(&self) -> fn(&[f64]) -> Vec<f64> {
        if self.is_assumed() { bonferroni } else { holm }
    }

    fn correction_name(&self) -> Correction {
        if self.is_assumed() { Correction::Bonferroni } else { Correction::Holm }
    }

    fn t(&mut self, tail: f64, df: f64) -> f64 {
        let known = self.quantiles.iter().find(|known| known.0 == tail && known.1 == df);
        if let Some((_, _, t)) = known {
            return *t;
        }
        let t = t_upper(tail, df);
        // With unpaired starts every cell has degrees of freedom of its own: keep the newest.
        if self.quantiles.len() >= 16 {
            self.quantiles.clear();
        }
        self.quantiles.push((tail, df, t));
        t
    }

    fn cell(&mut self, cell: &Cell, sample: &Sample, tested: Result<Tested, Reason>) -> CellResult {
        let blocks = sample.blocks(self.options);
        let mut own = Flag::None;
        let (verdict, reason, test) = match tested {
            Ok(tested) => {
                let of_days = day_variance(self.options.error_term, Known::of(cell));
                let test = self.test(tested, blocks, of_days, sample.model(self.options));
                let significant = test.p_adjusted <= self.levels.cells;
                own = flag(significant, test.estimate.mean, cell.floor.ln_1p());
                let verdict = match (own, self.is_assumed()) {
                    // What a bound cannot call changed it cannot call unchanged either.
                    (Flag::None, true) => Verdict::Inconclusive,
                    _ => verdict(own, significant, &test, cell.margin.ln_1p()),
                };
                let undecided = verdict == Verdict::Inconclusive;
                (verdict, undecided.then(|| self.undecided(&test)), Some(test))
            }
            // Where nothing is judged, a number that was not kept is no fault of client or load.
            Err(Reason::NoValues)
                if self.is_assumed() || self.options.error_term == ErrorTerm::Advice =>
            {
                (Verdict::Inconclusive, Some(Reason::NoValues), None)
            }
            Err(reason @ (Reason::NoValues | Reason::NoVariation | Reason::OneOrder)) => {
                (Verdict::Invalid, Some(reason), None)
            }
            Err(reason) => (Verdict::Inconclusive, Some(reason), None),
        };
        CellResult {
            scenario: cell.scenario,
            measure: cell.measure,
            role: cell.role,
            floor: cell.floor,
            verdict,
            own,
            reason,
            blocks,
            mean: test.map(|test| test.estimate.mean).or_else(|| sample.plain_mean()),
            test,
            deviation: None,
        }
    }

    /// Why a tested cell is not decided.
    fn undecided(&self, test: &Test) -> Reason {
        if !self.is_assumed() {
            return Reason::Undecided;
        }
        Reason::WithinAssumed { called_from: Percent::of(test.called_from.exp_m1()) }
    }

    fn test(
        &mut self,
        tested: Tested,
        blocks: usize,
        day_variance: f64,
        model: (Model, usize),
    ) -> Test {
        let Tested { estimate, steps, rank, p, p_adjusted, cells } = tested;
        let (mean, se, df) = (estimate.mean, estimate.se, estimate.df);
        let each_side = self.levels.cells / (2.0 * cells.max(1) as f64);
        let called_from = self.t(each_side, df) * se;
        Test {
            estimate,
            ci95: Interval::around(mean, self.t(0.025, df) * se),
            ci90: Interval::around(mean, self.t(0.05, df) * se),
            p,
            p_adjusted,
            detectable: (called_from + self.t(0.05, df) * se).exp_m1(),
            called_from,
            block_sd: match self.options.error_term {
                ErrorTerm::Assumed { .. } | ErrorTerm::Nights => f64::NAN,
                _ => ((se * se - day_variance).max(0.0) * blocks as f64).sqrt(),
            },
            day_variance,
            alpha: self.levels.cells,
            cells,
            freedom: self.freedom,
            steps,
            rank,
            model,
        }
    }

    /// L1: the mean over the load points of each metric. A metric with one load point has none:
    /// its mean is the cell, which the cell's own floor already judges.
    fn suite(
        &mut self,
        cells: &[Cell],
        samples: &[Sample],
        metrics: &[(Measure, Vec<usize>)],
    ) -> Vec<SuiteResult> {
        let mut found = Vec::new();
        for (measure, group) in metrics.iter().filter(|(_, group)| group.len() > 1) {
            let of_group: Vec<&Sample> = group.iter().map(|i| &samples[*i]).collect();
            // A block in which a load point is missing would shift the mean: it is left out.
            let sample = Sample::across(&of_group, group.len(), mean);
            let known = Known {
                resolution: largest(group.iter().map(|i| cells[*i].resolution)),
                noise: noisiest_days(group.iter().map(|i| cells[*i].known)),
            };
            let floor = largest(group.iter().map(|i| cells[*i].floor));
            let Ok(fit) = sample.fit(self.options, known) else { continue };
            let estimate = fit.estimate(self.options.error_term, known);
            let Some(p) = estimate.p() else { continue };
            found.push((*measure, group.len(), estimate, p, floor));
        }
        let p_holm = holm(&found.iter().map(|found| found.3).collect::<Vec<_>>());
        found
            .into_iter()
            .zip(p_holm)
            .map(|((measure, scenarios, estimate, _, floor), p_holm)| {
                let significant = p_holm <= self.levels.suite;
                // Half of the floor as a log, so that it is half of what a cell must show.
                let flag = flag(significant, estimate.mean, 0.5 * floor.ln_1p());
                let half_width = self.t(0.025, estimate.df) * estimate.se;
                let ci95 = Interval::around(estimate.mean, half_width);
                SuiteResult { measure, scenarios, estimate, ci95, p_holm, flag }
            })
            .collect()
    }

    /// From how many load points on they are held against each other; `None` for never.
    fn least_points(&self, samples: &[Sample]) -> Option<usize> {
        let DeviationTest::FromScenarios(least) = self.options.deviation else { return None };
        let nights = || samples.iter().map(|s| s.blocks(self.options)).max().unwrap_or(0);
        match self.options.error_term {
            ErrorTerm::Nights if nights() < LEAST_NIGHTS_OF_DEVIATIONS => None,
            term if term.is_paired() => Some(least),
            _ => Some(least.max(LEAST_POINTS_APART)),
        }
    }

    /// L3: each load point against the median of all of its metric. What all of them share, such
    /// as the day, cancels, so the spread between days is not added.
    fn deviations(
        &self,
        cells: &[Cell],
        samples: &[Sample],
        metrics: &[(Measure, Vec<usize>)],
        results: &mut [CellResult],
    ) {
        let Some(least) = self.least_points(samples) else { return };
        let error_term = self.options.error_term.within_starts();
        let options = Options { error_term, ..*self.options };
        let mut found = Vec::new();
        for (measure, group) in metrics.iter().filter(|(_, group)| group.len() >= least.max(2)) {
            let of_group: Vec<&Sample> = group.iter().map(|i| &samples[*i]).collect();
            let centre = Sample::across(&of_group, least, median);
            let apart: Vec<Sample> = group.iter().map(|i| samples[*i].less(&centre)).collect();
            let about = |place: usize| {
                let resolution = cells[group[place]].resolution;
                (*measure, Known { resolution, noise: KnownNoise::default() })
            };
            for (index, estimate) in group.iter().zip(estimates(&apart, &options, about)) {
                let Ok((estimate, _)) = estimate else { continue };
                let Some(p) = estimate.p() else { continue };
                found.push((*index, estimate.mean, p));
            }
        }
        let p_holm = holm(&found.iter().map(|found| found.2).collect::<Vec<_>>());
        for ((index, mean, _), p_holm) in found.into_iter().zip(p_holm) {
            let own = results[index].mean.unwrap_or(0.0);
            let significant = p_holm <= self.levels.deviation && own.signum() == mean.signum();
            let flag = flag(significant, mean, cells[index].floor.ln_1p());
            let level = self.levels.deviation;
            results[index].deviation = Some(Deviation { mean, p_holm, level, flag });
            if results[index].own == Flag::None && flag != Flag::None {
                let known = results[index].verdict;
                results[index].verdict = deviating(flag, known, own, cells[index].floor.ln_1p());
                results[index].reason = None;
            }
        }
    }
}

/// The verdict of a cell's own test.
fn verdict(own: Flag, significant: bool, test: &Test, margin: f64) -> Verdict {
    match own {
        Flag::Regressed => Verdict::Regressed,
        Flag::Improved => Verdict::Improved,
        Flag::None if test.ci90.strictly_inside(Interval::around(0.0, margin)) => {
            Verdict::Unchanged
        }
        Flag::None if significant => Verdict::WithinNoise,
        Flag::None => Verdict::Inconclusive,
    }
}

/// The verdict of a cell whose own test found nothing, but which differs from the others. A worse
/// one fails the gate, so it must read so. A better one may just be the one that did not get worse:
/// that is an improvement only where its own change reaches the floor, and takes nothing from what is
/// shown to be as before.
fn deviating(deviation: Flag, known: Verdict, own_mean: f64, floor: f64) -> Verdict {
    match deviation {
        Flag::Regressed => Verdict::Regressed,
        _ if known == Verdict::Unchanged => Verdict::Unchanged,
        _ if own_mean <= -floor => Verdict::Improved,
        _ => Verdict::WithinNoise,
    }
}

fn flag(significant: bool, mean: f64, floor: f64) -> Flag {
    if significant && mean >= floor {
        Flag::Regressed
    } else if significant && mean <= -floor {
        Flag::Improved
    } else {
        Flag::None
    }
}

fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max)
}
