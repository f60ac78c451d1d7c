//! Quantiles of requests that come from several starts: the interval that the starts allow.

use super::Interval;
use super::distribution::t_upper;
use super::moments::sd;
use super::quantile::{of_sorted, order_ranks, sorted};

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
    Some(PooledQuantile { value, between_starts, hull: between_starts.hull(by_order) })
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
