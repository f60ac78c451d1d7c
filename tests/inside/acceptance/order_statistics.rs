//! Quantiles of requests that come from several starts: the interval that order statistics allow, and its
//! hull with the spread between starts.

use crate::stats::Interval;
use crate::stats::distribution::{beta_inc, t_upper};
use crate::stats::moments::sd;
use crate::stats::quantile::{of_sorted, sorted};

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

/// P(X ≤ k) of a binomial count of `n` trials with success probability `p`.
#[must_use]
pub fn binomial_cdf(k: u64, n: u64, p: f64) -> f64 {
    if k >= n {
        return 1.0;
    }
    beta_inc((n - k) as f64, k as f64 + 1.0, 1.0 - p)
}

/// A quantile over all requests of several starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PooledQuantile {
    /// The quantile of all requests together.
    pub value: f64,
    /// The interval from the spread between the quantiles of the starts.
    pub between_starts: Interval,
    /// The hull of `between_starts` and the order-statistic interval: the one to show.
    pub hull: Interval,
}

/// The `q`-quantile of positive values by start, with its interval.
///
/// The requests of one start are correlated, so the order-statistic interval alone covers too
/// little; with few requests the spread between starts alone misses the tail. Their hull covers about
/// 95 %; 90 % where the tail is made of rare bursts, as for the p99 of an open loop
/// (docs/statistics.md, section 9). `None` of fewer than two starts, an empty one, or values not
/// above zero.
#[must_use]
pub fn pooled_quantile(starts: &[&[f64]], q: f64, confidence: f64) -> Option<PooledQuantile> {
    let logs: Vec<f64> = starts
        .iter()
        .map(|start| of_sorted(&sorted(start), q).filter(|v| *v > 0.0).map(f64::ln))
        .collect::<Option<_>>()?;
    let count = logs.len() as f64;
    let se = sd(&logs)? / count.sqrt();
    let pooled = sorted(&starts.concat());
    let value = of_sorted(&pooled, q)?;
    let half_width = t_upper(0.5 * (1.0 - confidence), count - 1.0) * se;
    let between_starts = Interval::around(value.ln(), half_width).map(f64::exp);
    let ranks = order_ranks(pooled.len(), q, confidence);
    let by_order = Interval {
        low: ranks.lower.map_or(value, |rank| pooled[rank - 1]),
        high: ranks.upper.map_or(value, |rank| pooled[rank - 1]),
    };
    Some(PooledQuantile { value, between_starts, hull: hull(between_starts, by_order) })
}

fn hull(a: Interval, b: Interval) -> Interval {
    Interval { low: a.low.min(b.low), high: a.high.max(b.high) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_start_gives_no_interval() {
        assert_eq!(pooled_quantile(&[&[1.0, 2.0]], 0.5, 0.95), None);
        assert_eq!(pooled_quantile(&[&[1.0, 2.0], &[]], 0.5, 0.95), None);
        let two = pooled_quantile(&[&[1.0, 2.0], &[1.5, 2.5]], 0.5, 0.95).unwrap();
        assert_eq!(two.value, 1.75);
        assert!(two.hull.low <= two.between_starts.low && two.hull.high >= two.value);
    }
}
