//! Tests of a mean: paired (trimmed) t, Welch's t, prediction of a new value, equivalence.

use super::Interval;
use super::distribution::{t_two_sided, t_upper};
use super::moments::{mean, sd, variance};
use super::quantile::sorted;

/// Below this a standard error is rounding, not spread (docs/statistics.md, section 3).
pub const NO_VARIATION: f64 = 1e-12;

/// An estimated mean (or difference of means) with its error, in the unit of the values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The estimate.
    pub mean: f64,
    /// Its standard error.
    pub se: f64,
    /// Degrees of freedom of the error.
    pub df: f64,
}

impl Estimate {
    /// The two-sided p-value of "the mean is zero". `None` where there is no variation at all
    /// and the mean is not zero: such data cannot be tested.
    #[must_use]
    pub fn p(&self) -> Option<f64> {
        if self.se < NO_VARIATION {
            return (self.mean.abs() < NO_VARIATION).then_some(1.0);
        }
        Some(t_two_sided(self.mean / self.se, self.df))
    }

    /// The interval of this confidence (0.95), by Student's t.
    #[must_use]
    #[allow(dead_code)] // of the verdicts to come
    pub fn interval(&self, confidence: f64) -> Interval {
        Interval::around(self.mean, t_upper(0.5 * (1.0 - confidence), self.df) * self.se)
    }

    /// With an error that the data cannot show (a spread between days, say) added.
    #[must_use]
    pub fn with_added_variance(self, variance: f64) -> Self {
        Self { se: (self.se * self.se + variance).sqrt(), ..self }
    }

    /// With an error not smaller than the resolution of the values.
    #[must_use]
    pub fn with_resolution(self, resolution: f64) -> Self {
        Self { se: self.se.max(resolution), ..self }
    }
}

/// How many values to cut at each end: floor(n / 15). Disturbed starts cost the plain t its power
/// from about 15 starts on, where one cut per side costs clean data little (docs/statistics.md, section 9).
#[must_use]
pub fn default_trim(n: usize) -> usize {
    n / 15
}

/// The mean of paired differences, `trim` values cut at each end, its error from the Winsorised
/// variance (Tukey and McLaughlin, Sankhyā A 25, 1963; Yuen, Biometrika 61, 1974). With `trim` 0
/// it is the plain paired t. `None` where fewer than two values stay.
#[must_use]
pub fn trimmed(differences: &[f64], trim: usize) -> Option<Estimate> {
    let mut sorted = sorted(differences);
    let n = sorted.len();
    let kept = n.checked_sub(2 * trim).filter(|kept| *kept >= 2)?;
    let centre = mean(&sorted[trim..n - trim])?;
    let (lowest, highest) = (sorted[trim], sorted[n - 1 - trim]);
    for value in &mut sorted {
        *value = value.clamp(lowest, highest);
    }
    let (h, n) = (kept as f64, n as f64);
    let se = (variance(&sorted)? * (n - 1.0) / (h * (h - 1.0))).sqrt();
    Some(Estimate { mean: centre, se, df: h - 1.0 })
}

/// The difference of means `new − base` of unpaired values (Welch, Biometrika 34, 1947).
/// `None` where a side has fewer than two values.
#[must_use]
pub fn welch(base: &[f64], new: &[f64]) -> Option<Estimate> {
    let of_base = variance(base)? / base.len() as f64;
    let of_new = variance(new)? / new.len() as f64;
    let total = of_base + of_new;
    let degrees = total * total
        / (of_base * of_base / (base.len() - 1) as f64 + of_new * of_new / (new.len() - 1) as f64);
    // Without any variation the weights do not matter.
    let df = if degrees.is_finite() { degrees } else { (base.len() + new.len() - 2) as f64 };
    Some(Estimate { mean: mean(new)? - mean(base)?, se: total.sqrt(), df })
}

/// `new − base` where the new side may be a single value, whose spread is taken to be that of the
/// base: the prediction interval s·√(1/n + 1/M). `None` where the base has fewer than two values
/// or the new side has none.
#[must_use]
pub fn prediction(base: &[f64], new: &[f64]) -> Option<Estimate> {
    let difference = mean(new)? - mean(base)?;
    let share = 1.0 / new.len() as f64 + 1.0 / base.len() as f64;
    Some(Estimate { mean: difference, se: sd(base)? * share.sqrt(), df: (base.len() - 1) as f64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_variation_only_equality_can_be_tested() {
        assert_eq!(trimmed(&[0.0; 5], 0).unwrap().p(), Some(1.0));
        assert_eq!(trimmed(&[0.1; 5], 0).unwrap().p(), None);
        let resolved = trimmed(&[0.1; 5], 0).unwrap().with_resolution(1e-4);
        assert!(resolved.p().unwrap() < 1e-6);
        assert_eq!(trimmed(&[0.1, 0.2, 0.3], 1), None);
    }

    #[test]
    fn one_new_value_is_held_against_the_spread_of_the_base() {
        let estimate = prediction(&[1.0, 2.0, 3.0, 4.0, 5.0], &[4.0]).unwrap();
        assert_eq!((estimate.mean, estimate.df), (1.0, 4.0));
        assert!((estimate.se - (2.5_f64 * 1.2).sqrt()).abs() < 1e-12);
        assert_eq!(prediction(&[1.0], &[4.0]), None);
    }
}
