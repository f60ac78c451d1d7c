//! The spread between days as a part of the error of a saved baseline.
//!
//! Each side was measured on a day of its own, so twice the variance between days is added to the
//! variance of the mean. Assumes: day offsets normal, independent, and common to all starts of a
//! day.

use super::gamma::chi_squared_quantile;
use super::moderated_variance::Variance;
use super::moments::variance;
use super::t_test::Estimate;

/// From this many days on the spread is taken as measured, with its own degrees of freedom.
const DAYS_TAKEN_AS_MEASURED: usize = 5;

/// A spread between days, from the mean logs of several days.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DayVariance {
    days: usize,
    measured: f64,
}

impl DayVariance {
    /// From one level (a mean of logs) a day; `None` of fewer than two days.
    #[must_use]
    pub fn of_levels(ln_levels: &[f64]) -> Option<Self> {
        Some(Self { days: ln_levels.len(), measured: variance(ln_levels)? })
    }

    /// As the data show it.
    #[must_use]
    pub fn measured(self) -> f64 {
        self.measured
    }

    /// As a verdict takes it: from fewer than five days its upper confidence limit (99 % from two
    /// days, 95 % from three or four), because so few days say too little of how much they can
    /// differ.
    #[must_use]
    pub fn used(self) -> f64 {
        let df = self.days as f64 - 1.0;
        match self.days {
            0..=2 => self.measured * df / chi_squared_quantile(0.01, df),
            3 | 4 => self.measured * df / chi_squared_quantile(0.05, df),
            _ => self.measured,
        }
    }

    /// The error of a mean difference (`of_mean`: its variance within the days) with two days in
    /// it. From five days on the degrees of freedom are Satterthwaite's (Biometrics Bulletin 2,
    /// 1946); below, the limit in [`Self::used`] has already paid for the few days.
    #[must_use]
    pub fn add_to(self, mean: f64, of_mean: Variance) -> Estimate {
        let of_days = 2.0 * self.used();
        let total = of_mean.value + of_days;
        let days_df = self.days as f64 - 1.0;
        let degrees =
            total * total / (of_mean.value.powi(2) / of_mean.df + of_days * of_days / days_df);
        let as_measured = self.days >= DAYS_TAKEN_AS_MEASURED && degrees.is_finite();
        let df = if as_measured { degrees } else { of_mean.df };
        Estimate { mean, se: total.sqrt(), df }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_days_add_nothing() {
        let days = DayVariance::of_levels(&[1.0; 6]).unwrap();
        let estimate = days.add_to(0.1, Variance { value: 0.04, df: 7.0 });
        assert_eq!((estimate.mean, estimate.df), (0.1, 7.0));
        assert!((estimate.se - 0.2).abs() < 1e-12);
        assert_eq!(DayVariance::of_levels(&[1.0]), None);
    }
}
