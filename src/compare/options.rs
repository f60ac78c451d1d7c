//! How to decide: where the error comes from, which tests there are, and at which levels.

use crate::settings::REPORT_BUDGET;
use crate::stats::planning::Freedom;

/// Where the error of a difference comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ErrorTerm {
    /// Blocks of both sides next to each other.
    Paired,
    /// Paired by seed, but measured on different days: the spread between days is added, for the
    /// data cannot show it. Each cell brings its own; this one is of all of them.
    PairedAcrossDays {
        /// A standard deviation of ln between days that is known for certain; 0 without one.
        day_sd: f64,
    },
    /// Independent starts of each side: Welch's test where neither side has more than twice the
    /// starts of the other, else the spread of the base's starts, because Welch's test is then too
    /// eager.
    Unpaired {
        /// As in [`Self::PairedAcrossDays`].
        day_sd: f64,
    },
    /// New nights against the nights of the base: one value a night.
    Nights,
    /// No spread is known: starts are assumed to differ by no more than each cell's bound.
    Assumed {
        /// On how many days the base was measured.
        base_days: usize,
        /// On how many days the new side was.
        new_days: usize,
    },
    /// Nothing that could carry a verdict: the change is shown as advice.
    Advice,
}

impl ErrorTerm {
    /// Whether the starts of the two sides meet in blocks.
    #[must_use]
    pub const fn is_paired(self) -> bool {
        matches!(self, Self::Paired | Self::PairedAcrossDays { .. })
    }

    /// The same for a difference within one start, in which its day cancels.
    pub(super) const fn within_starts(self) -> Self {
        match self {
            Self::PairedAcrossDays { .. } => Self::Paired,
            Self::Unpaired { .. } => Self::Unpaired { day_sd: 0.0 },
            other => other,
        }
    }
}

/// Whether load points are tested against the median of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviationTest {
    /// Where a start has at least this many load points.
    FromScenarios(usize),
    /// Never.
    #[cfg_attr(not(test), allow(dead_code))] // the acceptance table compares with it
    Off,
}

/// How many values the trimmed mean cuts at each end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trim {
    /// floor(blocks / 15).
    ByBlocks,
    /// This many.
    #[cfg_attr(not(test), allow(dead_code))] // the acceptance table compares with it
    Fixed(usize),
}

/// Whether the load points of a measure lend each other what they know of their noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moderation {
    /// From four load points on; a calibration joins in.
    ByMeasure,
    /// Every cell stands alone.
    #[cfg_attr(not(test), allow(dead_code))] // the acceptance table compares with it
    Off,
}

/// The family-wise error of each family of tests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Levels {
    /// Over the gated cells.
    pub cells: f64,
    /// Over the means of the measures.
    pub suite: f64,
    /// Over the deviations of load points from the others.
    pub deviation: f64,
}

impl Levels {
    /// The shares of a report's budget; a tenth of it is left for failures. Tests that few load
    /// points cannot have leave their share to the cells.
    #[must_use]
    pub fn of_report(budget: f64, load_points: usize) -> Self {
        let (cells, suite, deviation) = match load_points {
            0 | 1 => (0.8, 0.0, 0.0),
            2 | 3 => (0.7, 0.2, 0.0),
            _ => (0.5, 0.2, 0.2),
        };
        Self { cells: cells * budget, suite: suite * budget, deviation: deviation * budget }
    }

    /// Where starts are assumed to differ by no more than a bound: one family, at the level that its
    /// false alarms were counted at.
    #[must_use]
    pub fn of_bound(budget: f64) -> Self {
        Self { cells: 2.0 * budget, suite: 0.0, deviation: 0.0 }
    }

    /// The errors of all families together.
    #[must_use]
    pub fn total(self) -> f64 {
        self.cells + self.suite + self.deviation
    }

    /// An equal share of each for one of several looks.
    #[must_use]
    pub fn shared_by(self, looks: u32) -> Self {
        let looks = f64::from(looks.max(1));
        Self {
            cells: self.cells / looks,
            suite: self.suite / looks,
            deviation: self.deviation / looks,
        }
    }
}

/// How the cells of a report share its error and know their noise: what a plan needs to know.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sharing {
    /// The error of all cells together.
    pub alpha: f64,
    /// How many cells share it.
    pub cells: usize,
    /// How well their variances are known.
    pub freedom: Freedom,
}

impl Sharing {
    /// That of a report with this budget.
    #[must_use]
    pub fn of_report(budget: f64, load_points: usize, cells: usize) -> Self {
        let alpha = Levels::of_report(budget, load_points).cells;
        Self { alpha, cells, freedom: Freedom::of_points(load_points) }
    }
}

/// How to decide. The defaults are those whose false alarms were counted (docs/statistics.md, section 9).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// The errors of the tests, before looks share them.
    pub levels: Levels,
    /// How many looks at the growing data share the errors; at least 1.
    pub looks: u32,
    /// Where the error comes from.
    pub error_term: ErrorTerm,
    /// The deviation test.
    pub deviation: DeviationTest,
    /// The cut of the trimmed mean.
    pub trim: Trim,
    /// Whether variances are moderated.
    pub moderation: Moderation,
    /// Fewer valid blocks (or starts of the base) than this carry no verdict of change.
    pub min_blocks: usize,
}

impl Options {
    /// The defaults for a report of this many load points.
    #[must_use]
    pub fn for_points(load_points: usize) -> Self {
        Self {
            levels: Levels::of_report(REPORT_BUDGET, load_points),
            looks: 1,
            error_term: ErrorTerm::Paired,
            deviation: DeviationTest::FromScenarios(4),
            trim: Trim::ByBlocks,
            moderation: Moderation::ByMeasure,
            min_blocks: 5,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::for_points(4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_report_spends_more_than_its_budget() {
        for points in [1, 3, 4, 20] {
            let levels = Levels::of_report(REPORT_BUDGET, points);
            let spent = levels.total();
            // A tenth is left for failures.
            assert!(spent <= 0.9 * REPORT_BUDGET + 1e-12, "{points}: {spent}");
        }
        assert_eq!(Levels::of_report(0.01, 1).shared_by(2).cells, 0.004);
    }
}
