//! Nights: new nights against those of a history.
//!
//! The starts of one night share the night, so the night is the replicate: its value is the mean
//! of its starts. The pooled two-sample t (Student, Biometrika 6, 1908) on these means; not
//! Welch's, whose interval covers 90 % instead of 95 % with two new nights. Assumes: nights
//! independent, normal, of one variance.

use super::moments::{mean, variance};
use super::quantile::median;
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

/// New nights against base nights, each the logs of its starts; `None` with fewer than three base
/// nights or no new one.
#[must_use]
pub fn compare(base: &[Vec<f64>], new: &[Vec<f64>]) -> Option<Estimate> {
    let (base, new) = (night_means(base), night_means(new));
    if base.len() < LEAST_NIGHTS {
        return None;
    }
    pooled_t(&base, &new)
}

/// The same test of the median of one new night's starts: a night with a bad start or two is not
/// confirmed by it. `None` where the night has fewer than five starts.
#[must_use]
pub fn confirm(base: &[Vec<f64>], night: &[f64]) -> Option<Estimate> {
    if night.len() < STARTS_TO_CONFIRM {
        return None;
    }
    let alarm = compare(base, &[night.to_vec()])?;
    Some(Estimate { mean: median(night)? - mean(&night_means(base))?, ..alarm })
}

fn night_means(nights: &[Vec<f64>]) -> Vec<f64> {
    nights.iter().filter_map(|starts| mean(starts)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_starts_a_night_are_no_more_nights() {
        let base = vec![vec![1.0, 1.2], vec![1.1], vec![1.3, 1.3, 1.3]];
        let estimate = compare(&base, &[vec![1.5; 50]]).unwrap();
        assert_eq!(estimate.df, 2.0);
        assert_eq!(compare(&base[..2], &[vec![1.5; 50]]), None);
        assert_eq!(compare(&base, &[]), None);
    }
}
