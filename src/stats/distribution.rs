//! Distributions: Student's t, normal, beta, binomial.
//!
//! The incomplete beta function is our own: the one of `statrs` stops after 140 steps of its
//! continued fraction, too few for the counts of a long run; it also panics outside its range.

use statrs::function::erf::erfc;
use statrs::function::gamma::ln_gamma;

/// Steps of the continued fraction: it needs O(√max(a, b)), so this is enough up to 10⁷ counts.
const MAX_STEPS: u32 = 10_000;
/// Halvings of an interval of f64 until nothing is left of it.
const MAX_HALVINGS: u32 = 200;

/// The regularised incomplete beta function I_x(a, b); NaN outside a, b > 0, 0 ≤ x ≤ 1.
///
/// Lentz's evaluation of the continued fraction (Press et al., Numerical Recipes, 3rd ed., 6.4).
#[must_use]
pub fn beta_inc(a: f64, b: f64, x: f64) -> f64 {
    if !(a > 0.0 && b > 0.0 && (0.0..=1.0).contains(&x)) {
        return f64::NAN;
    }
    if x == 0.0 || x == 1.0 {
        return x;
    }
    beta_inc_between(a, b, x, 1.0 - x)
}

/// [`beta_inc`] inside its range, from x and 1 − x, each with all its digits.
fn beta_inc_between(a: f64, b: f64, x: f64, rest: f64) -> f64 {
    let ln_x = if x < 0.5 { x.ln() } else { (-rest).ln_1p() };
    let ln_rest = if rest < 0.5 { rest.ln() } else { (-x).ln_1p() };
    let ln_front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * ln_x + b * ln_rest;
    let front = ln_front.exp();
    // The fraction converges fast on this side of the mean; the other side is its complement.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(a, b, x) / a
    } else {
        1.0 - front * beta_fraction(b, a, rest) / b
    }
}

fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    let away_from_zero = |v: f64| if v.abs() < 1e-300 { 1e-300 } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for step in 1..=MAX_STEPS {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / away_from_zero(1.0 + even * d);
        c = away_from_zero(1.0 + even / c);
        value *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away_from_zero(1.0 + odd * d);
        c = away_from_zero(1.0 + odd / c);
        let change = d * c;
        value *= change;
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}

/// The p-quantile of the beta distribution, by halving; NaN where `p` is no probability.
#[must_use]
pub fn beta_quantile(p: f64, a: f64, b: f64) -> f64 {
    if !((0.0..=1.0).contains(&p) && a > 0.0 && b > 0.0) {
        return f64::NAN;
    }
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    for _ in 0..MAX_HALVINGS {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high || high - low < 1e-15 * high {
            break;
        }
        if beta_inc(a, b, middle) < p { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// P(T ≥ t) of Student's t with `df` > 0 degrees of freedom, exact in the far tail; NaN else. With
/// infinitely many it is the normal distribution.
#[must_use]
pub fn t_sf(t: f64, df: f64) -> f64 {
    if t.is_nan() || df.is_nan() || df <= 0.0 {
        return f64::NAN;
    }
    if t.is_infinite() {
        return if t > 0.0 { 0.0 } else { 1.0 };
    }
    if df.is_infinite() {
        return normal_cdf(-t);
    }
    let square = t * t;
    // 1 − x is taken from t itself: from x it would lose the digits of a small t or a large df.
    let (x, rest) = (df / (df + square), square / (df + square));
    let half_tail = match (x > 0.0, rest > 0.0) {
        (true, true) => 0.5 * beta_inc_between(0.5 * df, 0.5, x, rest),
        (true, false) => 0.5,
        (false, _) => 0.0,
    };
    if t >= 0.0 { half_tail } else { 1.0 - half_tail }
}

/// P(T ≤ t).
#[must_use]
pub fn t_cdf(t: f64, df: f64) -> f64 {
    t_sf(-t, df)
}

/// P(|T| ≥ |t|): the two-sided p-value.
#[must_use]
pub fn t_two_sided(t: f64, df: f64) -> f64 {
    (2.0 * t_sf(t.abs(), df)).min(1.0)
}

/// The t with P(T ≥ t) = `tail`: the quantile at 1 − `tail`, without the loss of digits that
/// 1 − `tail` would bring. NaN outside 0 < tail < 1, df > 0.
#[must_use]
pub fn t_upper(tail: f64, df: f64) -> f64 {
    if !(tail > 0.0 && tail < 1.0 && df > 0.0) {
        return f64::NAN;
    }
    if df.is_infinite() {
        return -normal_quantile(tail);
    }
    if tail > 0.5 {
        return -t_upper(1.0 - tail, df);
    }
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    // 2¹⁰²³ is the largest f64: this ends.
    while t_sf(high, df) > tail && high < 1e300 {
        low = high;
        high *= 2.0;
    }
    let ln_density_at_zero =
        ln_gamma(0.5 * (df + 1.0)) - ln_gamma(0.5 * df) - 0.5 * (df * std::f64::consts::PI).ln();
    let mut t = 0.5 * (low + high);
    // Newton steps, halving wherever a step would leave the bracket.
    for _ in 0..MAX_HALVINGS {
        let excess = t_sf(t, df) - tail;
        if excess > 0.0 {
            low = t
        } else {
            high = t
        }
        let density = (ln_density_at_zero - 0.5 * (df + 1.0) * (t * t / df).ln_1p()).exp();
        let newton = t + excess / density;
        let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
        if (next - t).abs() <= 1e-14 * t.abs().max(1e-300) {
            return next;
        }
        t = next;
    }
    t
}

/// P(F ≥ f) of Fisher's F with these degrees of freedom; NaN outside f ≥ 0, df > 0.
#[must_use]
pub fn f_sf(f: f64, df_above: f64, df_below: f64) -> f64 {
    if f == f64::INFINITY {
        return 0.0;
    }
    beta_inc(0.5 * df_below, 0.5 * df_above, df_below / (df_below + df_above * f))
}

/// P(Z ≤ z) of the standard normal distribution.
#[must_use]
pub fn normal_cdf(z: f64) -> f64 {
    0.5 * erfc(-z / std::f64::consts::SQRT_2)
}

/// The z with P(Z ≤ z) = `p`; NaN outside 0 < p < 1.
#[must_use]
pub fn normal_quantile(p: f64) -> f64 {
    if !(p > 0.0 && p < 1.0) {
        return f64::NAN;
    }
    -std::f64::consts::SQRT_2 * statrs::function::erf::erfc_inv(2.0 * p)
}

/// P(X ≤ k) of a binomial count of `n` trials with success probability `p`.
#[must_use]
pub fn binomial_cdf(k: u64, n: u64, p: f64) -> f64 {
    if k >= n {
        return 1.0;
    }
    beta_inc((n - k) as f64, k as f64 + 1.0, 1.0 - p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_inverts_the_tail() {
        for df in [1.0, 4.0, 7.3, 11.0, 200.0] {
            for tail in [0.4, 0.05, 1e-4, 1e-9] {
                let back = t_sf(t_upper(tail, df), df);
                assert!((back / tail - 1.0).abs() < 1e-10, "{df} {tail} {back}");
            }
        }
    }

    #[test]
    fn infinite_degrees_of_freedom_are_the_normal_distribution() {
        assert!((t_sf(1.96, f64::INFINITY) - t_sf(1.96, 1e7)).abs() < 1e-6);
        assert!((t_upper(0.025, f64::INFINITY) - 1.959_963_984_540_054).abs() < 1e-9);
    }

    #[test]
    fn bad_arguments_give_nan_and_do_not_panic() {
        assert!(t_sf(1.0, 0.0).is_nan());
        assert!(t_upper(0.0, 5.0).is_nan());
        assert!(normal_quantile(1.0).is_nan());
        assert!(beta_inc(1.0, 1.0, 1.5).is_nan());
    }

    #[test]
    fn large_counts_still_converge() {
        // Median of a symmetric beta, where the fraction needs most steps.
        assert!((beta_inc(5e6, 5e6, 0.5) - 0.5).abs() < 1e-6);
    }
}
