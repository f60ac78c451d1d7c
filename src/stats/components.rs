//! Variance components: how much of the spread lies within a start, and how much between starts.

use super::moments::{mean, variance};

/// The split of the variance of values that were taken in `rounds` rounds of several starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VarianceComponents {
    /// T1: the mean variance of the rounds within a start.
    pub within: f64,
    /// S2: the variance of the means of the starts (it holds a share of `within`).
    pub of_start_means: f64,
    /// T2: the variance of the starts themselves, never below zero.
    pub between: f64,
    /// The standard error of the grand mean.
    pub se: f64,
}

/// Splits the variance (rows are starts, of equal length): Kalibera and Jones, "Rigorous
/// benchmarking in reasonable time", ISMM 2013, for two levels. `None` of fewer than two starts or
/// two rounds, or of rows of unequal length.
#[must_use]
pub fn variance_components(starts: &[Vec<f64>]) -> Option<VarianceComponents> {
    let rounds = starts.first()?.len();
    if starts.iter().any(|row| row.len() != rounds) {
        return None;
    }
    let within: Vec<f64> = starts.iter().map(|row| variance(row)).collect::<Option<_>>()?;
    let means: Vec<f64> = starts.iter().map(|row| mean(row)).collect::<Option<_>>()?;
    let within = mean(&within)?;
    let of_start_means = variance(&means)?;
    Some(VarianceComponents {
        within,
        of_start_means,
        between: (of_start_means - within / rounds as f64).max(0.0),
        se: (of_start_means / starts.len() as f64).sqrt(),
    })
}

impl VarianceComponents {
    /// Rounds per start that give the smallest error for the time (same source). Costs are in
    /// seconds. `None` where the starts show no spread of their own: then one start with many
    /// rounds would do, and no finite number is best.
    #[must_use]
    pub fn best_rounds(&self, start_cost_s: f64, round_cost_s: f64) -> Option<u32> {
        let rounds = (start_cost_s / round_cost_s * self.within / self.between).sqrt().ceil();
        (rounds.is_finite() && rounds <= f64::from(u32::MAX)).then_some((rounds as u32).max(1))
    }
}
