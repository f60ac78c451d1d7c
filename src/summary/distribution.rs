//! A distribution: count, mean, spread and percentiles of many values.

use serde::{Deserialize, Serialize};

use crate::metric::Statistic;
use crate::record::GapHistogram;
pub use crate::stats::quantile::of_sorted;

/// A distribution, in ms; numbers that are undefined are none. Percentiles are type 7 (linear).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Distribution {
    pub count: u64,
    pub mean: Option<f64>,
    /// Sample standard deviation (n − 1).
    pub std: Option<f64>,
    pub min: Option<f64>,
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub max: Option<f64>,
}

impl Distribution {
    /// Of these values, ms, in any order; those that are not finite are left out.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // counts of values in memory
    pub fn of(values: &[f64]) -> Self {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let count = sorted.len() as f64;
        let mean = (count > 0.0).then(|| sorted.iter().sum::<f64>() / count);
        let std = mean.filter(|_| count > 1.0).map(|mean| {
            let squares: f64 = sorted.iter().map(|value| (value - mean).powi(2)).sum();
            (squares / (count - 1.0)).sqrt()
        });
        Self {
            count: sorted.len() as u64,
            mean,
            std,
            min: sorted.first().copied(),
            p50: of_sorted(&sorted, 0.50),
            p90: of_sorted(&sorted, 0.90),
            p95: of_sorted(&sorted, 0.95),
            p99: of_sorted(&sorted, 0.99),
            max: sorted.last().copied(),
        }
    }

    /// Of gaps, ns in the histogram, ms here.
    #[must_use]
    pub fn of_gaps(gaps: &GapHistogram) -> Self {
        let view = gaps.view();
        let ms = |ns: Option<f64>| ns.map(|ns| ns / 1e6);
        let quantile = |q| ms(view.quantile(q));
        Self {
            count: gaps.count(),
            mean: ms(view.mean()),
            std: ms(view.std()),
            min: quantile(0.0),
            p50: quantile(0.50),
            p90: quantile(0.90),
            p95: quantile(0.95),
            p99: quantile(0.99),
            max: quantile(1.0),
        }
    }

    /// One of its numbers.
    #[must_use]
    pub fn get(&self, statistic: Statistic) -> Option<f64> {
        match statistic {
            Statistic::Mean => self.mean,
            Statistic::P50 => self.p50,
            Statistic::P90 => self.p90,
            Statistic::P95 => self.p95,
            Statistic::P99 => self.p99,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_7_as_numpy_has_it() {
        let sorted = [1.0, 2.0, 3.0, 4.0, 5.0];
        for (q, right) in [(0.0, 1.0), (0.01, 1.04), (0.1, 1.4), (0.5, 3.0), (0.99, 4.96)] {
            assert!((of_sorted(&sorted, q).unwrap() - right).abs() < 1e-12, "{q}");
        }
        // numpy.percentile([15, 20, 35, 40, 50], 40) = 29
        assert_eq!(of_sorted(&[15.0, 20.0, 35.0, 40.0, 50.0], 0.4), Some(29.0));
    }

    #[test]
    fn nothing_and_one_value() {
        assert_eq!(Distribution::of(&[]), Distribution::default());
        let one = Distribution::of(&[4.5]);
        assert_eq!((one.count, one.mean, one.std), (1, Some(4.5), None));
        assert_eq!(
            (one.min, one.p50, one.p99, one.max),
            (Some(4.5), Some(4.5), Some(4.5), Some(4.5))
        );
        assert_eq!(Distribution::of(&[f64::NAN, f64::INFINITY]), Distribution::default());
    }

    #[test]
    fn order_does_not_matter() {
        let values = [9.0, 1.0, 5.0, 3.0];
        let all = Distribution::of(&values);
        assert_eq!((all.mean, all.p50), (Some(4.5), Some(4.0)));
        // Squares about 4.5: 20.25 + 12.25 + 0.25 + 2.25 = 35; 35 / 3.
        assert!((all.std.unwrap() - (35.0_f64 / 3.0).sqrt()).abs() < 1e-12);
    }
}
