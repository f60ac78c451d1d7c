//! The working of a verdict: every number between the values of a cell and what was decided, so that
//! the decision can be redone by hand.

use serde::{Deserialize, Serialize};

use crate::stats::moderated_variance::{Prior, Variance};

/// How the difference of the sides and its error were estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// Least squares of the differences of pairs on side and position.
    PairsAndPosition,
    /// The mean of the differences of pairs.
    Pairs,
    /// Means of independent starts; each side has its own variance (Welch).
    Apart,
    /// New starts against the spread of the base's starts.
    Prediction,
    /// Means of nights, one variance of both sides.
    Nights,
    /// Means of starts whose spread is bounded by assumption.
    Assumed,
}

/// A variance as a file holds it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StoredVariance {
    /// The variance of logs.
    pub variance: f64,
    /// Its degrees of freedom; `None` where it is taken as known.
    pub df: Option<f64>,
}

impl From<Variance> for StoredVariance {
    fn from(Variance { value, df }: Variance) -> Self {
        Self { variance: value, df: df.is_finite().then_some(df) }
    }
}

/// How a variance came about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VarianceSteps {
    /// Of the cell's own values.
    pub own: Variance,
    /// Joined with that of a calibration; the same without one.
    pub joined: Variance,
    /// What the load points of the metric have in common, where they lend each other something.
    pub prior: Option<Prior>,
    /// As the test takes it.
    pub used: Variance,
    /// `se² = used × weight`, before resolution and days.
    pub weight: f64,
}

/// How the p-values of several cells share one error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Correction {
    /// Holm's, over the gated cells.
    Holm,
    /// Bonferroni's, over the gated cells.
    Bonferroni,
    /// Benjamini–Hochberg's, over the observed cells.
    BenjaminiHochberg,
}

/// The place of a p-value among those that share the error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rank {
    /// How the error is shared.
    pub correction: Correction,
    /// 1 for the smallest p-value.
    pub place: usize,
    /// How many share it.
    pub of: usize,
    /// The error of all together.
    pub level: f64,
}

/// A load point against the median of the others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WorkedDeviation {
    /// The mean difference of logs; + is worse.
    pub estimate: f64,
    /// Holm's p-value over all deviations.
    pub p_holm: f64,
    /// Their level.
    pub level: f64,
}

/// Every number between values and verdict. Differences are logs with + as worse.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Working {
    /// How the estimate came about.
    pub model: Model,
    /// The values of the base by block, start or night, in the measure's unit.
    pub base: Vec<Option<f64>>,
    /// Those of the new side.
    pub new: Vec<Option<f64>>,
    /// Of each block, whether the base ran first; empty where the order means nothing.
    pub base_first: Vec<bool>,
    /// How many values were trimmed at each end.
    pub trim: usize,
    /// The estimated difference.
    pub estimate: f64,
    /// The variance of the cell's own values.
    pub own: StoredVariance,
    /// The same joined with a calibration.
    pub joined: StoredVariance,
    /// What the load points of the metric have in common.
    pub prior: Option<StoredVariance>,
    /// The variance that the test took.
    pub used: StoredVariance,
    /// `se² = used × weight`, before resolution and days.
    pub weight: f64,
    /// The standard error is never taken as smaller than this.
    pub resolution: f64,
    /// What the days of both sides add to se².
    pub day_variance: f64,
    /// The standard error.
    pub se: f64,
    /// Its degrees of freedom; `None` for the normal distribution.
    pub df: Option<f64>,
    /// Two-sided.
    pub p: f64,
    /// After the correction.
    pub p_adjusted: f64,
    /// The place of the p-value.
    pub rank: Rank,
    /// The 90 % interval of the estimate, which decides "unchanged".
    pub interval90: (f64, f64),
    /// The test against the other load points, where there is one.
    pub deviation: Option<WorkedDeviation>,
}
