//! Change points: nights after which the level of a series is another one.
//!
//! After each night the open level is scanned by the largest two-sample t over all splits
//! (maximally selected t; Worsley, Journal of the American Statistical Association 74, 1979; the
//! sequence with restarts after Hawkins, Qiu and Kang, Journal of Quality Technology 35, 2003).
//! Assumes: nights independent, normal within a level. The critical values come from a simulation
//! of 20 consecutive nights: at most 1 % false points in a family of series tested together.

use super::Interval;
use super::nights::pooled_t;
use super::t_test::{Estimate, NO_VARIATION};

/// Below this many nights nothing is split.
pub const LEAST_NIGHTS: usize = 6;
/// A level is scanned over this many of its last nights at most.
pub const MOST_NIGHTS: usize = 60;
/// Least nights on either side of a split.
pub const LEAST_SEGMENT: usize = 2;
/// The same where nights have fewer than three starts: two bad ones are then no level.
pub const LEAST_SEGMENT_OF_FEW_STARTS: usize = 4;

/// Critical values of the largest |t| of a family of series, for 6 to 60 nights.
struct Family {
    /// How many series are tested together.
    series: usize,
    critical: [f64; MOST_NIGHTS - LEAST_NIGHTS + 1],
}

const FAMILIES: [Family; 4] = [
    Family {
        series: 1,
        critical: [
            11.438, 9.235, 8.025, 7.272, 6.762, 6.393, 6.111, 5.892, 5.717, 5.572, 5.454, 5.35,
            5.263, 5.193, 5.125, 5.066, 5.017, 4.972, 4.932, 4.9, 4.866, 4.835, 4.807, 4.781,
            4.761, 4.74, 4.72, 4.703, 4.683, 4.671, 4.655, 4.644, 4.63, 4.619, 4.606, 4.595, 4.586,
            4.577, 4.567, 4.559, 4.553, 4.546, 4.536, 4.532, 4.525, 4.519, 4.509, 4.507, 4.499,
            4.496, 4.493, 4.485, 4.483, 4.476, 4.472,
        ],
    },
    Family {
        series: 5,
        critical: [
            17.644, 13.147, 10.847, 9.484, 8.595, 7.973, 7.515, 7.163, 6.884, 6.659, 6.473, 6.315,
            6.181, 6.071, 5.971, 5.883, 5.807, 5.739, 5.68, 5.626, 5.577, 5.531, 5.49, 5.451,
            5.418, 5.386, 5.358, 5.331, 5.305, 5.283, 5.26, 5.242, 5.223, 5.205, 5.186, 5.17,
            5.155, 5.142, 5.128, 5.114, 5.105, 5.094, 5.081, 5.072, 5.062, 5.054, 5.041, 5.035,
            5.024, 5.02, 5.013, 5.004, 4.999, 4.99, 4.984,
        ],
    },
    Family {
        series: 20,
        critical: [
            25.572, 17.749, 13.985, 11.843, 10.485, 9.557, 8.888, 8.384, 7.989, 7.674, 7.416,
            7.199, 7.016, 6.863, 6.728, 6.61, 6.507, 6.415, 6.334, 6.261, 6.196, 6.135, 6.08, 6.03,
            5.984, 5.942, 5.904, 5.869, 5.834, 5.805, 5.774, 5.749, 5.723, 5.7, 5.676, 5.654,
            5.635, 5.618, 5.599, 5.581, 5.567, 5.553, 5.537, 5.524, 5.511, 5.499, 5.484, 5.475,
            5.462, 5.453, 5.446, 5.434, 5.425, 5.415, 5.407,
        ],
    },
    Family {
        series: 100,
        critical: [
            39.069, 24.967, 18.64, 15.203, 13.095, 11.691, 10.696, 9.96, 9.395, 8.948, 8.586,
            8.286, 8.035, 7.823, 7.639, 7.479, 7.339, 7.215, 7.106, 7.009, 6.921, 6.84, 6.767, 6.7,
            6.638, 6.583, 6.533, 6.485, 6.441, 6.401, 6.361, 6.326, 6.294, 6.262, 6.231, 6.204,
            6.178, 6.153, 6.129, 6.106, 6.088, 6.069, 6.049, 6.03, 6.014, 5.998, 5.98, 5.967,
            5.951, 5.938, 5.927, 5.913, 5.901, 5.889, 5.878,
        ],
    },
];

/// The critical value of the largest |t| over the splits of `nights` nights where `series` series
/// are tested together (the next larger family counts); `None` below six nights.
#[must_use]
pub fn critical(nights: usize, series: usize) -> Option<f64> {
    let family = FAMILIES.iter().find(|family| family.series >= series);
    let family = family.or(FAMILIES.last())?;
    let place = nights.min(MOST_NIGHTS).checked_sub(LEAST_NIGHTS)?;
    family.critical.get(place).copied()
}

/// The split of a series whose two parts differ most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Split {
    /// Index of the first night of the second part.
    pub at: usize,
    /// The absolute t of the difference.
    pub t: f64,
}

/// The split with the largest |t|, both parts of at least `least` values; the first of equals.
#[must_use]
pub fn largest_split(values: &[f64], least: usize) -> Option<Split> {
    let least = least.max(1);
    let last = values.len().checked_sub(least)?;
    let mut largest: Option<Split> = None;
    for at in least..=last {
        let t = absolute_t(pooled_t(&values[..at], &values[at..])?);
        if largest.is_none_or(|known| t > known.t) {
            largest = Some(Split { at, t });
        }
    }
    largest
}

/// |t|; parts without any spread differ infinitely or not at all.
fn absolute_t(estimate: Estimate) -> f64 {
    let distance = estimate.mean.abs();
    match (estimate.se < NO_VARIATION, distance < NO_VARIATION) {
        (true, true) => 0.0,
        (true, false) => f64::INFINITY,
        (false, _) => distance / estimate.se,
    }
}

/// A level that ended, and how the next one differs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// Index of the first night of the new level.
    pub at: usize,
    /// How many nights had been seen when it was found.
    pub found_after: usize,
    /// The difference of the two neighbouring levels.
    pub shift: f64,
    /// Its interval of 95 %.
    pub ci95: Interval,
}

/// The change points of nights in order. `least` is the least length of a level in nights, and
/// `series` the number of series that are tested together. A point once found stays.
#[must_use]
pub fn change_points(values: &[f64], least: usize, series: usize) -> Vec<ChangePoint> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    let mut opened = 0;
    for seen in LEAST_NIGHTS.max(2 * least)..=values.len() {
        let from = opened.max(seen.saturating_sub(MOST_NIGHTS));
        let open = &values[from..seen];
        if open.len() < 2 * least {
            continue;
        }
        let Some(limit) = critical(open.len(), series) else { continue };
        let split = largest_split(open, least).filter(|split| split.t > limit);
        if let Some(split) = split {
            opened = from + split.at;
            found.push((opened, seen));
        }
    }
    let level = |index: usize| {
        let from = index.checked_sub(1).map_or(0, |before| found[before].0);
        let to = found.get(index).map_or(values.len(), |next| next.0);
        &values[from..to]
    };
    let change = |(index, (at, found_after)): (usize, &(usize, usize))| {
        let estimate = pooled_t(level(index), level(index + 1))?;
        let ci95 = estimate.interval(0.95);
        Some(ChangePoint { at: *at, found_after: *found_after, shift: estimate.mean, ci95 })
    };
    found.iter().enumerate().filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_larger_family_counts_and_the_largest_is_the_end() {
        assert_eq!(critical(5, 1), None);
        assert_eq!(critical(6, 1), Some(11.438));
        assert_eq!(critical(6, 2), critical(6, 5));
        assert_eq!(critical(60, 1_000), Some(5.878));
        assert_eq!(critical(90, 20), critical(60, 20));
    }

    #[test]
    fn a_level_without_any_spread_is_still_split() {
        let mut values = vec![1.0; 6];
        values.extend([2.0; 6]);
        let points = change_points(&values, LEAST_SEGMENT, 1);
        assert_eq!(points.iter().map(|point| point.at).collect::<Vec<_>>(), [6]);
        assert!(change_points(&values[..6], LEAST_SEGMENT, 1).is_empty());
    }
}
