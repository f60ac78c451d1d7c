//! Quantiles of values, and what is known of them from independent values alone.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_quantile() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[f64::NAN], 0.5), None);
        assert_eq!(median(&[3.0, 1.0]), Some(2.0));
    }
}
