//! The results of a decision, by cell and by metric.

use crate::metric::{Better, Measure};
use crate::stats::Interval;
use crate::stats::nights::STARTS_TO_CONFIRM;
use crate::stats::planning::{Freedom, MAX_BLOCKS, Plan, detectable_effect};
use crate::stats::t_test::Estimate;

use super::cell::Role;
use super::verdict::Verdict;
use super::working::{Model, Rank, VarianceSteps};

/// Why a cell has no better verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// One side has no values.
    NoValues,
    /// All differences are the same and not zero.
    NoVariation,
    /// Too few valid blocks.
    TooFewBlocks {
        /// How many there are.
        have: usize,
        /// How many it takes.
        need: usize,
    },
    /// All blocks ran in one order, so that a side cannot be distinguished from its position.
    OneOrder,
    /// The mode carries no verdict.
    AdviceOnly,
    /// The change is one that restarts are assumed to make.
    WithinAssumed {
        /// The smallest change that is called one.
        called_from: Percent,
    },
    /// One night differs from those of the baseline, and nothing confirms it.
    Suspected,
    /// The data do not decide it.
    Undecided,
}

/// A ratio minus one in tenths of a percent, as it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percent(u32);

impl Percent {
    /// Rounded up: what is promised must hold.
    #[must_use]
    pub fn of(ratio: f64) -> Self {
        // Saturates: beyond every change that is shown.
        Self((ratio * 1e3).ceil().max(0.0) as u32)
    }
}

impl std::fmt::Display for Percent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.0 / 10, self.0 % 10) {
            (whole, 0) => write!(f, "{whole} %"),
            (whole, _) if whole >= 10 => write!(f, "{} %", whole + 1),
            (whole, tenth) => write!(f, "{whole}.{tenth} %"),
        }
    }
}

impl Reason {
    /// The words, for people.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Self::NoValues => "one side has no values".into(),
            Self::NoVariation => "no variation between restarts".into(),
            Self::TooFewBlocks { have, need } => {
                format!("{have} valid restarts, {need} are needed")
            }
            Self::OneOrder => {
                "all pairs ran in one order, so the effect of a side cannot be separated from the effect of its position".into()
            }
            Self::WithinAssumed { called_from } => {
                format!("restarts alone may differ by as much; from {called_from} on it is called")
            }
            Self::Suspected => {
                format!(
                    "suspected: one night differs, and no median of {STARTS_TO_CONFIRM} restarts confirms it"
                )
            }
            Self::AdviceOnly => "without restarts a change is advice, not a verdict".into(),
            Self::Undecided => String::new(),
        }
    }

    /// The reason behind a stored sentence, among those that say no number.
    pub(super) fn recalled(text: &str) -> Option<Self> {
        let known =
            [Self::NoValues, Self::NoVariation, Self::OneOrder, Self::AdviceOnly, Self::Suspected];
        known.into_iter().find(|reason| reason.text() == text)
    }
}

/// A change found by one of the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    /// None found.
    None,
    /// Better.
    Improved,
    /// Worse.
    Regressed,
}

/// A load point against the median of the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deviation {
    /// The mean difference of its log change from the median of all; + is worse.
    pub mean: f64,
    /// Holm's p-value over all deviations.
    pub p_holm: f64,
    /// Their level.
    pub level: f64,
    /// What it found.
    pub flag: Flag,
}

/// What is known of one cell. Changes are logs with + as worse; see [`CellResult::change`].
#[derive(Debug, Clone, PartialEq)]
pub struct CellResult {
    /// The cell's load point.
    pub scenario: usize,
    /// The cell's number.
    pub measure: Measure,
    /// Whether it can fail a gate.
    pub role: Role,
    /// The cell's floor.
    pub floor: f64,
    /// The verdict, of its own test or of its deviation.
    pub verdict: Verdict,
    /// What its own test found.
    pub own: Flag,
    /// Why it is no better one.
    pub reason: Option<Reason>,
    /// Valid blocks (paired), else starts of the base.
    pub blocks: usize,
    /// The mean log change; missing where one side has no values.
    pub mean: Option<f64>,
    /// The test, where there is one.
    pub test: Option<Test>,
    /// Against the median of the other load points.
    pub deviation: Option<Deviation>,
}

/// The figures of a test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Test {
    /// Mean, standard error and degrees of freedom.
    pub estimate: Estimate,
    /// 95 % interval of the mean, unadjusted.
    pub ci95: Interval,
    /// 90 % interval: the one of the equivalence test.
    pub ci90: Interval,
    /// Two-sided p-value.
    pub p: f64,
    /// Holm's over the gated cells; Benjamini–Hochberg's over the observed ones.
    pub p_adjusted: f64,
    /// The change that would have been found with 95 %, as a ratio minus one.
    pub detectable: f64,
    /// The smallest log change that would be called one.
    pub called_from: f64,
    /// The spread of one block: standard error × √blocks, without the spread between days; not a
    /// number where more blocks would not help.
    pub(super) block_sd: f64,
    pub(super) day_variance: f64,
    pub(super) alpha: f64,
    pub(super) cells: usize,
    pub(super) freedom: Freedom,
    /// How its variance came about.
    pub(super) steps: VarianceSteps,
    /// The place of its p-value.
    pub(super) rank: Rank,
    /// How it was estimated, and how many values were trimmed at each end.
    pub(super) model: (Model, usize),
}

/// The mean over the load points of one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SuiteResult {
    /// Which number.
    pub measure: Measure,
    /// How many load points.
    pub scenarios: usize,
    /// Mean, standard error, degrees of freedom; + is worse.
    pub estimate: Estimate,
    /// 95 % interval of the mean.
    pub ci95: Interval,
    /// Holm's p-value over the metrics.
    pub p_holm: f64,
    /// What it found.
    pub flag: Flag,
}

/// The whole decision.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Decision {
    /// In the order of the input.
    pub cells: Vec<CellResult>,
    /// By metric, in the order of their first gated cell.
    pub suite: Vec<SuiteResult>,
    /// G: how many gated cells could be tested.
    pub tested: usize,
}

impl Decision {
    /// Whether anything gated got worse.
    #[must_use]
    #[cfg(test)]
    pub fn regressed(&self) -> bool {
        self.flags().any(|flag| flag == Flag::Regressed)
    }

    /// Whether anything gated changed.
    #[must_use]
    pub fn changed(&self) -> bool {
        self.flags().any(|flag| flag != Flag::None)
    }

    fn flags(&self) -> impl Iterator<Item = Flag> {
        let of_cells = self
            .cells
            .iter()
            .filter(|cell| cell.role == Role::Gated)
            .flat_map(|cell| [cell.own, cell.deviation.map_or(Flag::None, |it| it.flag)]);
        of_cells.chain(self.suite.iter().map(|suite| suite.flag))
    }
}

impl CellResult {
    /// The change of the value itself, as a ratio minus one: + is more, better or worse.
    #[must_use]
    pub fn change(&self) -> Option<f64> {
        self.mean.map(|mean| (self.sign() * mean).exp_m1())
    }

    /// The 95 % interval of [`Self::change`].
    #[must_use]
    pub fn change_ci95(&self) -> Option<Interval> {
        let ci = self.test.as_ref()?.ci95;
        let ends = [ci.low, ci.high].map(|end| (self.sign() * end).exp_m1());
        Some(Interval { low: ends[0].min(ends[1]), high: ends[0].max(ends[1]) })
    }

    /// How many blocks, more than there are, find with 95 % the smallest change worth a search:
    /// one and a half times the floor (3 % at a floor of 2 %, the first column of the planning
    /// table; a change of just the floor is found by half of all runs, whatever their number), or
    /// the near end of the interval where that is further. `None` where no sensible number does.
    #[must_use]
    pub fn blocks_needed(&self) -> Option<u32> {
        let test = self.test.as_ref()?;
        let next = u32::try_from(self.blocks + 1).unwrap_or(u32::MAX);
        self.blocks_that_find(test, sought(self.floor, test.ci95)).map(|blocks| blocks.max(next))
    }

    fn blocks_that_find(&self, test: &Test, effect: f64) -> Option<u32> {
        if test.day_variance > 0.0 {
            // The spread between days does not shrink with more starts.
            return (2..=MAX_BLOCKS).find(|blocks| {
                let se = (test.block_sd.powi(2) / f64::from(*blocks) + test.day_variance).sqrt();
                let df = test.freedom.of(*blocks);
                detectable_effect(se, df, test.alpha, test.cells) <= effect
            });
        }
        let Test { block_sd: sd, alpha, cells, freedom, .. } = *test;
        Plan { sd, effect, floor: self.floor, alpha, cells, freedom }.blocks_needed()
    }

    fn sign(&self) -> f64 {
        match self.measure.metric.better() {
            Better::Lower => 1.0,
            Better::Higher => -1.0,
        }
    }
}

/// The change that plans look for where nothing more is known, as a ratio minus one: one of just the
/// floor is found by half of all runs.
pub(super) fn worth_finding(floor: f64) -> f64 {
    1.5 * floor
}

/// The smallest change worth a search, as a ratio minus one: `interval` is of the log change.
fn sought(floor: f64, interval: Interval) -> f64 {
    let near = interval.low.max(-interval.high).max(0.0);
    worth_finding(floor).max(near.exp_m1())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_the_interval_already_shows_is_what_more_blocks_look_for() {
        let near = |low: f64, high: f64| sought(0.10, Interval { low, high });
        let ln = f64::ln_1p;
        assert!((near(ln(0.5), ln(3.0)) - 0.5).abs() < 1e-12);
        assert!((near(-ln(3.0), -ln(0.5)) - 0.5).abs() < 1e-12, "either way");
        assert!((near(ln(0.02), ln(3.0)) - 0.15).abs() < 1e-12, "at least 1.5 floors");
        assert!((near(-ln(0.5), ln(3.0)) - 0.15).abs() < 1e-12, "nothing shown yet");
    }
}
