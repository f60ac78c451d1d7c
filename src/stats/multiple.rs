//! Corrections for many tests at once. Values come back in the order of the input.

/// Holm's adjusted p-values: the family-wise error is held whatever the dependence
/// (Scandinavian Journal of Statistics 6, 1979). These decide.
#[must_use]
pub fn holm(p: &[f64]) -> Vec<f64> {
    let order = ascending(p);
    let mut adjusted = vec![f64::NAN; p.len()];
    let mut running: f64 = 0.0;
    for (rank, index) in order.iter().enumerate() {
        running = running.max(p[*index] * (p.len() - rank) as f64).min(1.0);
        adjusted[*index] = running;
    }
    adjusted
}

/// Bonferroni's adjusted p-values: p × tests, at most 1.
#[must_use]
pub fn bonferroni(p: &[f64]) -> Vec<f64> {
    let tests = p.len() as f64;
    p.iter().map(|p| (p * tests).min(1.0)).collect()
}

/// Benjamini and Hochberg's adjusted p-values: the false discovery rate (Journal of the Royal
/// Statistical Society B 57, 1995). For cells that are shown and do not gate.
#[must_use]
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let order = ascending(p);
    let mut adjusted = vec![f64::NAN; p.len()];
    let mut running: f64 = 1.0;
    for (rank, index) in order.iter().enumerate().rev() {
        running = running.min(p[*index] * p.len() as f64 / (rank + 1) as f64);
        adjusted[*index] = running;
    }
    adjusted
}

fn ascending(p: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_test_needs_no_correction() {
        assert_eq!(holm(&[0.03]), vec![0.03]);
        assert_eq!(benjamini_hochberg(&[0.03]), vec![0.03]);
        assert!(holm(&[]).is_empty());
    }
}
