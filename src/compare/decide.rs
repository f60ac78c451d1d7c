//! The decision: from values of starts to verdicts. Numbers in, numbers out, no randomness.
//!
//! The method is part D.4 of the statistics page: Holm-adjusted t tests of every gated cell, a test
//! of the mean over the load points of each metric, and a test of each load point against the
//! median of the others.

use crate::metric::Measure;
use crate::stats::Interval;
use crate::stats::distribution::t_upper;
use crate::stats::moments::mean;
use crate::stats::multiple::{benjamini_hochberg, holm};
use crate::stats::quantile::median;
use crate::stats::t_test::Estimate;

use super::cell::{Cell, Role};
use super::decision::{CellResult, Decision, Deviation, Flag, Reason, SuiteResult, Test};
use super::sample::{Known, Sample, day_variance};
use super::verdict::Verdict;

/// Where the error of a difference comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ErrorTerm {
    /// Blocks of both sides next to each other.
    Paired,
    /// Paired by seed, but measured on different days: the spread between days (as a standard
    /// deviation of ln) is added, for the data cannot show it.
    PairedAcrossDays {
        /// Standard deviation between days, from `calibrate`.
        day_sd: f64,
    },
    /// Independent starts of each side: Welch's test where neither side has more than twice the
    /// starts of the other, else as [`Self::Prediction`], because Welch's test is then too eager.
    Unpaired {
        /// Standard deviation between days; 0 where the starts already come from many days.
        day_sd: f64,
    },
    /// The new start or starts against the spread of the baseline's starts.
    Prediction,
    /// New starts of one day against baseline starts of several: the day's offset is common to all
    /// the new ones, so together they count as one more start of the base.
    PredictionOfDay,
    /// Nothing that could carry a verdict: the change is shown as advice.
    Advice,
}

impl ErrorTerm {
    /// Whether the starts of the two sides meet in blocks.
    #[must_use]
    pub const fn is_paired(self) -> bool {
        matches!(self, Self::Paired | Self::PairedAcrossDays { .. })
    }
}

/// Whether load points are tested against the median of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviationTest {
    /// Where a start has at least this many load points.
    FromScenarios(usize),
    /// Never.
    Off,
}

/// How many values the trimmed mean cuts at each end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trim {
    /// floor(blocks / 15).
    ByBlocks,
    /// This many.
    Fixed(usize),
}

/// How to decide. The defaults are those whose false alarms were counted (docs/statistics.md, section 9).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Family-wise error over the gated cells, and over the deviations.
    pub alpha: f64,
    /// Family-wise error over the means of the metrics.
    pub alpha_suite: f64,
    /// How many looks at the growing data share the errors; at least 1.
    pub looks: u32,
    /// Where the error comes from.
    pub error_term: ErrorTerm,
    /// The deviation test.
    pub deviation: DeviationTest,
    /// The cut of the trimmed mean.
    pub trim: Trim,
    /// Fewer valid blocks (or starts of the base) than this carry no verdict of change.
    pub min_blocks: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            alpha: 0.02,
            alpha_suite: 0.005,
            looks: 1,
            error_term: ErrorTerm::Paired,
            deviation: DeviationTest::FromScenarios(8),
            trim: Trim::ByBlocks,
            min_blocks: 5,
        }
    }
}

/// Decides. Cells may come in any order and number; every cell gets a result in its place.
#[must_use]
pub fn decide(cells: &[Cell], options: &Options) -> Decision {
    let mut judge = Judge::new(options);
    let samples: Vec<Sample> = cells.iter().map(|cell| Sample::of(cell, options)).collect();
    let estimates: Vec<Result<Estimate, Reason>> = cells
        .iter()
        .zip(&samples)
        .map(|(cell, sample)| sample.estimate(options, Known::of(cell)))
        .collect();
    let p_values: Vec<Option<f64>> =
        estimates.iter().map(|estimate| estimate.as_ref().ok().and_then(Estimate::p)).collect();
    let of_role = |role| -> Vec<usize> {
        (0..cells.len()).filter(|i| cells[*i].role == role && p_values[*i].is_some()).collect()
    };
    let (gated, observed) = (of_role(Role::Gated), of_role(Role::Observed));
    let mut adjusted = vec![f64::NAN; cells.len()];
    adjust(&gated, &p_values, holm, &mut adjusted);
    adjust(&observed, &p_values, benjamini_hochberg, &mut adjusted);
    let results = (0..cells.len())
        .map(|i| {
            let tested = estimates[i].and_then(|estimate| {
                let p = p_values[i].ok_or(Reason::NoVariation)?;
                Ok(Tested { estimate, p, p_adjusted: adjusted[i], cells: gated.len() })
            });
            judge.cell(&cells[i], &samples[i], tested)
        })
        .collect();
    let mut decision = Decision { cells: results, suite: Vec::new(), tested: gated.len() };
    let metrics = by_measure(cells, &gated);
    decision.suite = judge.suite(cells, &samples, &metrics);
    judge.deviations(cells, &samples, &metrics, &mut decision.cells);
    decision
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
    p: f64,
    p_adjusted: f64,
    cells: usize,
}

/// Options with the quantiles that many cells share.
struct Judge<'a> {
    options: &'a Options,
    alpha: f64,
    alpha_suite: f64,
    quantiles: Vec<(f64, f64, f64)>,
}

impl<'a> Judge<'a> {
    fn new(options: &'a Options) -> Self {
        let looks = f64::from(options.looks.max(1));
        let (alpha, alpha_suite) = (options.alpha / looks, options.alpha_suite / looks);
        Self { options, alpha, alpha_suite, quantiles: Vec::new() }
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
                let test = self.test(tested, blocks, day_variance(self.options, cell.day_sd));
                let significant = test.p_adjusted <= self.alpha;
                own = flag(significant, test.estimate.mean, cell.floor.ln_1p());
                let verdict = verdict(own, significant, &test, cell.margin.ln_1p());
                let undecided = verdict == Verdict::Inconclusive;
                (verdict, undecided.then_some(Reason::Undecided), Some(test))
            }
            // Where nothing is judged, a number that was not kept is no fault of client or load.
            Err(Reason::NoValues) if self.options.error_term == ErrorTerm::Advice => {
                (Verdict::Inconclusive, Some(Reason::NoValues), None)
            }
            Err(reason @ (Reason::NoValues | Reason::NoVariation)) => {
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

    fn test(&mut self, tested: Tested, blocks: usize, day_variance: f64) -> Test {
        let Tested { estimate, p, p_adjusted, cells } = tested;
        let (mean, se, df) = (estimate.mean, estimate.se, estimate.df);
        let each_side = self.alpha / (2.0 * cells.max(1) as f64);
        let critical = self.t(each_side, df) + self.t(0.05, df);
        Test {
            estimate,
            ci95: Interval::around(mean, self.t(0.025, df) * se),
            ci90: Interval::around(mean, self.t(0.05, df) * se),
            p,
            p_adjusted,
            detectable: (critical * se).exp_m1(),
            block_sd: ((se * se - day_variance).max(0.0) * blocks as f64).sqrt(),
            day_variance,
            alpha: self.alpha,
            cells,
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
                day_sd: largest(group.iter().map(|i| cells[*i].day_sd)),
            };
            let floor = largest(group.iter().map(|i| cells[*i].floor));
            let Ok(estimate) = sample.estimate(self.options, known) else { continue };
            let Some(p) = estimate.p() else { continue };
            found.push((*measure, group.len(), estimate, p, floor));
        }
        let p_holm = holm(&found.iter().map(|found| found.3).collect::<Vec<_>>());
        found
            .into_iter()
            .zip(p_holm)
            .map(|((measure, scenarios, estimate, _, floor), p_holm)| {
                let significant = p_holm <= self.alpha_suite;
                // Half of the floor as a log, so that it is half of what a cell must show.
                let flag = flag(significant, estimate.mean, 0.5 * floor.ln_1p());
                let half_width = self.t(0.025, estimate.df) * estimate.se;
                let ci95 = Interval::around(estimate.mean, half_width);
                SuiteResult { measure, scenarios, estimate, ci95, p_holm, flag }
            })
            .collect()
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
        let DeviationTest::FromScenarios(least) = self.options.deviation else { return };
        let options =
            Options { error_term: without_days(self.options.error_term), ..*self.options };
        let mut found = Vec::new();
        for (_, group) in metrics.iter().filter(|(_, group)| group.len() >= least.max(2)) {
            let of_group: Vec<&Sample> = group.iter().map(|i| &samples[*i]).collect();
            let centre = Sample::across(&of_group, least, median);
            for index in group {
                let sample = samples[*index].less(&centre);
                let known = Known { day_sd: 0.0, ..Known::of(&cells[*index]) };
                let Ok(estimate) = sample.estimate(&options, known) else { continue };
                let Some(p) = estimate.p() else { continue };
                found.push((*index, estimate.mean, p));
            }
        }
        let p_holm = holm(&found.iter().map(|found| found.2).collect::<Vec<_>>());
        for ((index, mean, _), p_holm) in found.into_iter().zip(p_holm) {
            let own = results[index].mean.unwrap_or(0.0);
            let significant = p_holm <= self.alpha && own.signum() == mean.signum();
            let flag = flag(significant, mean, cells[index].floor.ln_1p());
            results[index].deviation = Some(Deviation { mean, p_holm, flag });
            if results[index].own == Flag::None && flag != Flag::None {
                results[index].verdict = deviating(flag, own, cells[index].floor.ln_1p());
                results[index].reason = None;
            }
        }
    }
}

fn without_days(term: ErrorTerm) -> ErrorTerm {
    match term {
        ErrorTerm::PairedAcrossDays { .. } => ErrorTerm::Paired,
        ErrorTerm::Unpaired { .. } => ErrorTerm::Unpaired { day_sd: 0.0 },
        other => other,
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
/// that is an improvement only where its own change reaches the floor.
fn deviating(deviation: Flag, own_mean: f64, floor: f64) -> Verdict {
    match deviation {
        Flag::Regressed => Verdict::Regressed,
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
