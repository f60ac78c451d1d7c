//! Isotonic fit: the non-decreasing series nearest to a series.

/// The non-decreasing fit by least squares, by pooling adjacent violators (Ayer et al., Annals of
/// Mathematical Statistics 26, 1955). As long as `values`.
#[must_use]
pub fn non_decreasing(values: &[f64]) -> Vec<f64> {
    struct Pool {
        mean: f64,
        count: usize,
    }
    let mut pools: Vec<Pool> = Vec::with_capacity(values.len());
    for value in values {
        let mut pool = Pool { mean: *value, count: 1 };
        while let Some(last) = pools.pop_if(|last| last.mean > pool.mean) {
            let count = last.count + pool.count;
            let sum = last.mean * last.count as f64 + pool.mean * pool.count as f64;
            pool = Pool { mean: sum / count as f64, count };
        }
        pools.push(pool);
    }
    pools.iter().flat_map(|pool| std::iter::repeat_n(pool.mean, pool.count)).collect()
}

/// Where a capacity is reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Saturation {
    /// The highest isotonic throughput.
    pub throughput: f64,
    /// The load at which 95 % of it is reached, linear between load points.
    pub load: f64,
}

/// The saturation of a curve of throughput over ascending loads: the highest isotonic throughput,
/// and the load at which 95 % of it is reached. `None` of nothing or of unequal lengths.
#[must_use]
pub fn saturation(loads: &[f64], throughput: &[f64]) -> Option<Saturation> {
    if loads.len() != throughput.len() {
        return None;
    }
    let fit = non_decreasing(throughput);
    let highest = *fit.last()?;
    let target = 0.95 * highest;
    let reached = fit.iter().position(|value| *value >= target)?;
    let load = match reached.checked_sub(1) {
        None => loads[0],
        Some(before) => {
            let share = (target - fit[before]) / (fit[reached] - fit[before]);
            loads[before] + share * (loads[reached] - loads[before])
        }
    };
    Some(Saturation { throughput: highest, load })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violators_are_pooled() {
        assert_eq!(non_decreasing(&[1.0, 3.0, 2.0, 4.0]), vec![1.0, 2.5, 2.5, 4.0]);
        assert_eq!(non_decreasing(&[3.0, 2.0, 1.0]), vec![2.0; 3]);
        assert!(non_decreasing(&[]).is_empty());
    }

    #[test]
    fn saturation_is_where_95_percent_are_reached() {
        let found = saturation(&[1.0, 2.0, 4.0, 8.0], &[10.0, 20.0, 41.0, 39.0]).unwrap();
        assert_eq!(found.throughput, 40.0);
        // 38 lies 18/20 of the way from 20 at load 2 to 40 at load 4.
        assert!((found.load - 3.8).abs() < 1e-12);
    }
}
