//! Moderated variances: cells of one metric lend each other what they know of their noise.
//!
//! Empirical Bayes after Smyth (Statistical Applications in Genetics and Molecular Biology 3,
//! 2004; `limma`), with two bounds of our own that hold the error where few load points make the
//! prior too sure of itself: the prior never counts for more than the cell's own degrees of
//! freedom, and no variance becomes smaller than the cell's own. Assumes that variances of the
//! load points scatter around a common one; the bounds make their correlation harmless.

use super::distribution::f_sf;
use super::gamma::{digamma, trigamma, trigamma_inverse};
use super::moments::{mean, variance};
use super::quantile::median;

/// From this many load points on the variances are moderated.
pub const LEAST_POINTS: usize = 4;
/// A calibration whose variance is too small for the data at this level is left out.
const CALIBRATION_LEVEL: f64 = 0.01;
/// Variances below this share of their median are taken as that for the prior: ln 0 has no place.
const LEAST_SHARE_OF_MEDIAN: f64 = 1e-5;

/// A variance and its degrees of freedom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Variance {
    /// The variance.
    pub value: f64,
    /// Its degrees of freedom, above 0.
    pub df: f64,
}

/// What the load points of a metric have in common.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prior {
    /// The degrees of freedom of Smyth's estimate; infinite where the variances scatter no more
    /// than chance makes them.
    pub df_smyth: f64,
    /// The same, never above the cells' own.
    pub df: f64,
    /// The common variance, s0².
    pub variance: f64,
}

/// A variance joined with that of a calibration of the same cell, never made smaller by it. A
/// calibration that is too quiet for these data is left out; so is one without degrees of freedom.
#[must_use]
pub fn with_calibration(own: Variance, calibration: Variance) -> Variance {
    let ratio = own.value / calibration.value;
    let too_quiet = f_sf(ratio, own.df, calibration.df) <= CALIBRATION_LEVEL;
    if too_quiet || !ratio.is_finite() || calibration.df.is_nan() || calibration.df <= 0.0 {
        return own;
    }
    let df = own.df + calibration.df;
    let pooled = (own.df * own.value + calibration.df * calibration.value) / df;
    Variance { value: own.value.max(pooled), df }
}

/// The prior of the load points of one metric; `None` with fewer than four, or without any
/// variation at all.
#[must_use]
pub fn prior(points: &[Variance]) -> Option<Prior> {
    if points.len() < LEAST_POINTS {
        return None;
    }
    let values: Vec<f64> = points.iter().map(|point| point.value).collect();
    let least = LEAST_SHARE_OF_MEDIAN * median(&values)?;
    let floored: Vec<f64> = values.iter().map(|value| value.max(least)).collect();
    if floored.iter().any(|value| value.is_nan() || *value <= 0.0) {
        return None;
    }
    let own_df = mean(&points.iter().map(|point| point.df).collect::<Vec<_>>())?;
    let logs: Vec<f64> = points
        .iter()
        .zip(&floored)
        .map(|(point, value)| value.ln() - digamma(0.5 * point.df) + (0.5 * point.df).ln())
        .collect();
    let by_chance = mean(&points.iter().map(|p| trigamma(0.5 * p.df)).collect::<Vec<_>>())?;
    let excess = variance(&logs)? - by_chance;
    if excess <= 0.0 {
        let weights: f64 = points.iter().map(|point| point.df).sum();
        let sum: f64 = points.iter().zip(&floored).map(|(point, value)| point.df * value).sum();
        return Some(Prior { df_smyth: f64::INFINITY, df: own_df, variance: sum / weights });
    }
    let df_smyth = 2.0 * trigamma_inverse(excess);
    let common = (mean(&logs)? + digamma(0.5 * df_smyth) - (0.5 * df_smyth).ln()).exp();
    Some(Prior { df_smyth, df: df_smyth.min(own_df), variance: common })
}

/// The variances of one metric over its load points, moderated ([`prior`]); as they are with fewer
/// than four.
#[must_use]
pub fn moderate(points: &[Variance]) -> Vec<Variance> {
    let Some(prior) = prior(points) else { return points.to_vec() };
    let moderated = |point: &Variance| {
        let df = prior.df + point.df;
        let shrunk = (prior.df * prior.variance + point.df * point.value) / df;
        Variance { value: point.value.max(shrunk), df }
    };
    points.iter().map(moderated).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_variance_becomes_smaller() {
        let points: Vec<Variance> =
            [1.0, 2.0, 4.0, 1e-9, 0.5].map(|value| Variance { value, df: 4.0 }).to_vec();
        for (point, moderated) in points.iter().zip(moderate(&points)) {
            assert!(moderated.value >= point.value && moderated.df <= 2.0 * point.df);
        }
    }

    #[test]
    fn nothing_but_zeros_stays_as_it_is() {
        let points = [Variance { value: 0.0, df: 4.0 }; 5];
        assert_eq!(prior(&points), None);
        assert_eq!(moderate(&points), points);
    }
}
