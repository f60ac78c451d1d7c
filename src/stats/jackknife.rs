//! The delete-one jackknife.

use super::moments::mean;

/// The standard error of an estimate from its `n` values with one unit left out each
/// (Efron and Tibshirani, An Introduction to the Bootstrap, 11). `None` where n < 2 or where an
/// estimate does not exist: then the error is unknown, not smaller.
#[must_use]
pub fn standard_error(n: usize, estimate_without: impl Fn(usize) -> Option<f64>) -> Option<f64> {
    if n < 2 {
        return None;
    }
    let estimates: Vec<f64> = (0..n).map(estimate_without).collect::<Option<_>>()?;
    let centre = mean(&estimates)?;
    let squares: f64 = estimates.iter().map(|e| (e - centre).powi(2)).sum();
    Some((squares * (n - 1) as f64 / n as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_mean_it_is_the_usual_error() {
        let values = [1.0, 4.0, 2.0, 7.0];
        let without = |i: usize| {
            let rest: Vec<f64> =
                values.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, v)| *v).collect();
            mean(&rest)
        };
        let usual = super::super::moments::sd(&values).unwrap() / 2.0;
        assert!((standard_error(4, without).unwrap() - usual).abs() < 1e-12);
        assert_eq!(standard_error(1, |_| Some(1.0)), None);
    }
}
