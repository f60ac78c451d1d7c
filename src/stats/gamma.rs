//! Functions of the gamma family: trigamma and its inverse, quantiles of chi-squared.

pub use statrs::function::gamma::digamma;
use statrs::function::gamma::gamma_lr;

/// Above this the asymptotic series of the trigamma function has all digits of an f64.
const ASYMPTOTIC_FROM: f64 = 20.0;
/// Newton steps of the inverse; it converges from below in fewer than ten.
const MAX_NEWTON_STEPS: u32 = 50;
/// Halvings of an interval of f64 until nothing is left of it.
const MAX_HALVINGS: u32 = 200;

/// The trigamma function ψ′(x), x > 0; NaN else. Recurrence up to 20, then the asymptotic series
/// (Abramowitz and Stegun, 6.4.6 and 6.4.12).
#[must_use]
pub fn trigamma(x: f64) -> f64 {
    if x.is_nan() || x <= 0.0 {
        return f64::NAN;
    }
    let (mut x, mut below) = (x, 0.0);
    while x < ASYMPTOTIC_FROM {
        below += 1.0 / (x * x);
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = 1.0 / 6.0
        - square
            * (1.0 / 30.0 - square * (1.0 / 42.0 - square * (1.0 / 30.0 - square * 5.0 / 66.0)));
    below + inverse + 0.5 * square + inverse * square * series
}

/// The tetragamma function ψ″(x), x > 0, in the same way.
fn tetragamma(x: f64) -> f64 {
    let (mut x, mut below) = (x, 0.0);
    while x < ASYMPTOTIC_FROM {
        below -= 2.0 / (x * x * x);
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = 0.5 - square * (1.0 / 6.0 - square * (1.0 / 6.0 - square * 0.3));
    below - square - inverse * square - square * square * series
}

/// The x with ψ′(x) = `y`, y > 0; NaN else. Newton's method on 1/ψ′, which is convex and nearly
/// linear (Smyth, Statistical Applications in Genetics and Molecular Biology 3, 2004, appendix).
#[must_use]
pub fn trigamma_inverse(y: f64) -> f64 {
    if y.is_nan() || y <= 0.0 {
        return f64::NAN;
    }
    let mut x = 0.5 + 1.0 / y;
    for _ in 0..MAX_NEWTON_STEPS {
        let value = trigamma(x);
        let step = value * (1.0 - value / y) / tetragamma(x);
        x += step;
        if step.abs() <= 1e-14 * x {
            break;
        }
    }
    x
}

/// The x with P(X ≤ x) = `p` of chi-squared with `df` > 0 degrees of freedom, by halving; NaN
/// outside 0 < p < 1, df > 0.
#[must_use]
pub fn chi_squared_quantile(p: f64, df: f64) -> f64 {
    if !(p > 0.0 && p < 1.0 && df > 0.0 && df.is_finite()) {
        return f64::NAN;
    }
    let below = |x: f64| gamma_lr(0.5 * df, 0.5 * x);
    let (mut low, mut high) = (0.0, df.max(1.0));
    while below(high) < p && high < 1e300 {
        low = high;
        high *= 2.0;
    }
    for _ in 0..MAX_HALVINGS {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if below(middle) < p { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inverse_inverts_near_zero_and_far_out() {
        for x in [1e-4, 0.03, 0.7, 3.0, 25.0, 1e5] {
            let back = trigamma_inverse(trigamma(x));
            assert!((back / x - 1.0).abs() < 1e-9, "{x} {back}");
        }
    }

    #[test]
    fn chi_squared_by_its_closed_forms() {
        // Two degrees of freedom are an exponential of mean 2; one is a squared normal number.
        let exponential = chi_squared_quantile(0.05, 2.0);
        assert!((exponential + 2.0 * 0.95_f64.ln()).abs() < 1e-12, "{exponential}");
        let normal = chi_squared_quantile(0.95, 1.0);
        assert!((normal - 1.959_963_984_540_054_f64.powi(2)).abs() < 1e-9, "{normal}");
    }

    #[test]
    fn bad_arguments_give_nan_and_do_not_panic() {
        assert!(trigamma(0.0).is_nan() && trigamma(f64::NAN).is_nan());
        assert!(trigamma_inverse(-1.0).is_nan());
        assert!(chi_squared_quantile(1.0, 3.0).is_nan() && chi_squared_quantile(0.5, 0.0).is_nan());
    }
}
