//! Outliers by Tukey's fences: counted and shown, never removed.

use super::quantile::{of_sorted, sorted};

/// How many values lie beyond which fence (criterion.rs' classes).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TukeyCounts {
    /// q1 − 3 iqr, q1 − 1.5 iqr, q3 + 1.5 iqr, q3 + 3 iqr.
    pub fences: [f64; 4],
    /// Below the lowest fence.
    pub low_severe: usize,
    /// Between the two lower fences.
    pub low_mild: usize,
    /// Between the inner fences.
    pub normal: usize,
    /// Between the two upper fences.
    pub high_mild: usize,
    /// Above the highest fence.
    pub high_severe: usize,
}

/// Counts by Tukey's fences (Exploratory Data Analysis, 1977); a value on a fence is inside it.
#[must_use]
pub fn tukey(values: &[f64]) -> Option<TukeyCounts> {
    let sorted = sorted(values);
    let (q1, q3) = (of_sorted(&sorted, 0.25)?, of_sorted(&sorted, 0.75)?);
    let iqr = q3 - q1;
    let fences = [q1 - 3.0 * iqr, q1 - 1.5 * iqr, q3 + 1.5 * iqr, q3 + 3.0 * iqr];
    let mut counts = TukeyCounts { fences, ..TukeyCounts::default() };
    for value in sorted {
        let class = if value < fences[0] {
            &mut counts.low_severe
        } else if value < fences[1] {
            &mut counts.low_mild
        } else if value > fences[3] {
            &mut counts.high_severe
        } else if value > fences[2] {
            &mut counts.high_mild
        } else {
            &mut counts.normal
        };
        *class += 1;
    }
    Some(counts)
}
