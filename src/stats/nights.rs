//! Nights: new nights against those of a history.
//!
//! The starts of one night share the night, so the night is the replicate: its value is the mean
//! of its starts. The pooled two-sample t (Student, Biometrika 6, 1908) on these means; not
//! Welch's, whose interval covers 90 % instead of 95 % with two new nights. Assumes: nights
//! independent, normal, of one variance.

use super::moments::{mean, variance};
use super::t_test::Estimate;

/// Fewer nights than this are no history.
pub const LEAST_NIGHTS: usize = 3;
/// A single night that alarms is confirmed by its median of at least this many starts.
pub const STARTS_TO_CONFIRM: usize = 5;

/// The difference of the means of two groups with one variance. A group of one value takes the
/// variance of the other. `None` where both have one, or one has none.
#[must_use]
pub fn pooled_t(base: &[f64], new: &[f64]) -> Option<Estimate> {
    let squares = |group: &[f64]| variance(group).map_or(0.0, |v| v * (group.len() - 1) as f64);
    let difference = mean(new)? - mean(base)?;
    let df = (base.len() + new.len()).checked_sub(2).filter(|df| *df > 0)? as f64;
    let pooled = (squares(base) + squares(new)) / df;
    let share = 1.0 / base.len() as f64 + 1.0 / new.len() as f64;
    Some(Estimate { mean: difference, se: (pooled * share).sqrt(), df })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_new_night_takes_the_spread_of_the_base() {
        let alone = pooled_t(&[1.0, 2.0, 3.0], &[9.0]).unwrap();
        assert_eq!((alone.mean, alone.df), (7.0, 2.0));
        assert!((alone.se - (4.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(pooled_t(&[1.0], &[2.0]), None);
        assert_eq!(pooled_t(&[1.0, 2.0], &[]), None);
    }
}
