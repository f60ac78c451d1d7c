//! Quantiles of values, and what is known of them from independent values alone.

use super::distribution::{beta_inc, binomial_cdf};
use super::jackknife;

/// The values in ascending order, those that are not numbers left out.
#[must_use]
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The `q`-quantile (0 ≤ q ≤ 1) of values in ascending order, linear between order statistics:
/// type 7 of Hyndman and Fan (The American Statistician 50, 1996), the default of numpy and
/// criterion.rs. `None` of nothing.
#[must_use]
pub fn of_sorted(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = q.clamp(0.0, 1.0) * last as f64;
    let below = (place.floor() as usize).min(last);
    let above = (below + 1).min(last);
    Some(sorted[below] + (place - below as f64) * (sorted[above] - sorted[below]))
}

/// The `q`-quantile of values in any order ([`of_sorted`]).
#[must_use]
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    of_sorted(&sorted(values), q)
}

/// The median.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The Harrell–Davis estimate of the `q`-quantile (0 < q < 1): a weighted mean of all order
/// statistics, smoother than [`of_sorted`] with few values (Biometrika 69, 1982).
#[must_use]
pub fn harrell_davis(sorted: &[f64], q: f64) -> Option<f64> {
    if sorted.is_empty() || !(q > 0.0 && q < 1.0) {
        return None;
    }
    let n = sorted.len() as f64;
    let (a, b) = ((n + 1.0) * q, (n + 1.0) * (1.0 - q));
    let mut below = 0.0;
    let mut estimate = 0.0;
    for (place, value) in sorted.iter().enumerate() {
        let up_to = beta_inc(a, b, (place + 1) as f64 / n);
        estimate += (up_to - below) * value;
        below = up_to;
    }
    Some(estimate)
}

/// The standard error of [`harrell_davis`], by leaving out one value at a time.
#[must_use]
pub fn harrell_davis_se(sorted: &[f64], q: f64) -> Option<f64> {
    jackknife::standard_error(sorted.len(), |left_out| {
        let mut rest = sorted.to_vec();
        rest.remove(left_out);
        harrell_davis(&rest, q)
    })
}

/// Ranks (from 1) of the order statistics that enclose a quantile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OrderRanks {
    /// The lower rank; `None` where there are too few values for a bound below.
    pub lower: Option<usize>,
    /// The upper rank; `None` where there are too few values for a bound above.
    pub upper: Option<usize>,
    /// The probability that the quantile lies between them, for independent values.
    pub coverage: f64,
}

/// The distribution-free interval of the `q`-quantile of `n` independent values (David and
/// Nagaraja, Order Statistics, 7.1). Requests of one server are *not* independent: alone it covers
/// too little, see [`super::starts`].
#[must_use]
pub fn order_ranks(n: usize, q: f64, confidence: f64) -> OrderRanks {
    let each_side = 0.5 * (1.0 - confidence);
    let count = n as u64;
    // P(X ≤ j − 1) grows with j: the ranks j = 0..n split into those within `each_side` and the rest.
    let at_most = |rank: usize| match rank {
        0 => 0.0,
        _ => binomial_cdf(rank as u64 - 1, count, q),
    };
    let ranks: usize = n + 1;
    let within = partition(ranks, |rank| at_most(rank) <= each_side);
    let lower = within.checked_sub(1).filter(|rank| *rank > 0);
    let upper = partition(ranks, |rank| 1.0 - at_most(rank) > each_side);
    let upper = (upper <= n).then_some(upper);
    let coverage = upper.map_or(1.0, at_most) - lower.map_or(0.0, at_most);
    OrderRanks { lower, upper, coverage }
}

/// The first index in 0..len at which `holds`, true up to some index, is false; len if none.
fn partition(len: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_quantile() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[f64::NAN], 0.5), None);
        assert_eq!(median(&[3.0, 1.0]), Some(2.0));
        assert_eq!(order_ranks(0, 0.5, 0.95).upper, None);
    }
}
