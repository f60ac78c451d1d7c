//! Proportions: intervals of one, of a difference, and the test of "more failures".

use super::Interval;
use super::distribution::{beta_quantile, normal_quantile};
use super::moments::{mean, variance};
use statrs::function::gamma::ln_gamma;

/// `hits` of `trials`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// How often it happened; never above `trials`.
    pub hits: u64,
    /// How often it could have happened.
    pub trials: u64,
}

impl Count {
    /// hits / trials; `None` of no trials.
    #[must_use]
    pub fn share(self) -> Option<f64> {
        (self.trials > 0).then(|| self.hits as f64 / self.trials as f64)
    }
}

/// Wilson's score interval (Journal of the American Statistical Association 22, 1927).
#[must_use]
pub fn wilson(count: Count, confidence: f64) -> Option<Interval> {
    let share = count.share()?;
    let n = count.trials as f64;
    let z = normal_quantile(0.5 * (1.0 + confidence));
    let scale = 1.0 + z * z / n;
    let centre = (share + z * z / (2.0 * n)) / scale;
    let half_width = z / scale * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    let interval = Interval::around(centre, half_width);
    Some(Interval { low: interval.low.max(0.0), high: interval.high.min(1.0) })
}

/// Clopper and Pearson's exact interval (Biometrika 26, 1934).
#[must_use]
pub fn clopper_pearson(count: Count, confidence: f64) -> Option<Interval> {
    count.share()?;
    let (hits, misses) = (count.hits as f64, count.trials.saturating_sub(count.hits) as f64);
    let tail = 0.5 * (1.0 - confidence);
    let low = if hits == 0.0 { 0.0 } else { beta_quantile(tail, hits, misses + 1.0) };
    let high = if misses == 0.0 { 1.0 } else { beta_quantile(1.0 - tail, hits + 1.0, misses) };
    Some(Interval { low, high })
}

/// The interval of `new − base`: Newcombe's method 10, from the two Wilson intervals (Statistics
/// in Medicine 17, 1998).
#[must_use]
pub fn newcombe(base: Count, new: Count, confidence: f64) -> Option<Interval> {
    let (p_base, p_new) = (base.share()?, new.share()?);
    let (of_base, of_new) = (wilson(base, confidence)?, wilson(new, confidence)?);
    let difference = p_new - p_base;
    Some(Interval {
        low: difference - (p_new - of_new.low).hypot(of_base.high - p_base),
        high: difference + (of_new.high - p_new).hypot(p_base - of_base.low),
    })
}

/// Fisher's exact test, one-sided: the p-value of "new fails no more often than base".
#[must_use]
pub fn fisher_more(base: Count, new: Count) -> f64 {
    let hits = base.hits + new.hits;
    let total = base.trials + new.trials;
    let ln_choose = |n: u64, k: u64| {
        let (n, k) = (n as f64, k as f64);
        ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0)
    };
    let most = hits.min(new.trials);
    if new.hits > most || base.hits > base.trials {
        return f64::NAN;
    }
    // All counts from the least possible one: then the test is certain.
    if new.hits <= hits.saturating_sub(base.trials) {
        return 1.0;
    }
    let first = ln_choose(hits, new.hits) + ln_choose(total - hits, new.trials - new.hits)
        - ln_choose(total, new.trials);
    let mut term = first.exp();
    let mut tail = term;
    for k in new.hits..most {
        // The ratio of neighbouring hypergeometric probabilities.
        term *= (hits - k) as f64 * (new.trials - k) as f64;
        term /= (k + 1) as f64 * (total - hits - new.trials + k + 1) as f64;
        tail += term;
        // Past the mode the terms only shrink: what follows is below rounding.
        if term < tail * 1e-17 {
            break;
        }
    }
    tail.min(1.0)
}

/// Counts made smaller by the design effect of clustered failures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deflated {
    /// The design effect, ≥ 1: how many failures count as one.
    pub design_effect: f64,
    /// The base side's counts over `design_effect`.
    pub base: Count,
    /// The new side's counts over `design_effect`.
    pub new: Count,
}

/// Deflates counts by start: failures come in bursts, so they are no independent trials (Rao and
/// Scott, Biometrics 48, 1992). The design effect is the mean, over the sides with failures, of
/// the variance of failures per start over the binomial one, at least 1.
#[must_use]
pub fn deflate(base: &[Count], new: &[Count]) -> Deflated {
    let effects: Vec<f64> = [base, new].into_iter().filter_map(design_effect).collect();
    let design_effect = mean(&effects).unwrap_or(1.0).max(1.0);
    let shrink = |starts: &[Count]| {
        let total = sum(starts);
        let part = |count: u64| (count as f64 / design_effect).round_ties_even() as u64;
        let trials = part(total.trials);
        Count { hits: part(total.hits).min(trials), trials }
    };
    Deflated { design_effect, base: shrink(base), new: shrink(new) }
}

/// The counts of all starts together.
#[must_use]
pub fn sum(starts: &[Count]) -> Count {
    starts.iter().fold(Count::default(), |sum, start| Count {
        hits: sum.hits + start.hits,
        trials: sum.trials + start.trials,
    })
}

fn design_effect(starts: &[Count]) -> Option<f64> {
    let total = sum(starts);
    let share = total.share().filter(|share| *share > 0.0 && *share < 1.0)?;
    let hits: Vec<f64> = starts.iter().map(|start| start.hits as f64).collect();
    let per_start = total.trials as f64 / starts.len() as f64;
    Some(variance(&hits)? / (per_start * share * (1.0 - share)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_trials_have_no_share() {
        let none = Count::default();
        assert_eq!(wilson(none, 0.95), None);
        assert_eq!(clopper_pearson(none, 0.95), None);
        assert_eq!(newcombe(none, none, 0.95), None);
        assert_eq!(fisher_more(none, none), 1.0);
    }

    #[test]
    fn fisher_by_hand() {
        // Of 2 failures among 2 + 2 requests both fall on the new side in 1 of 6 ways.
        let p = fisher_more(Count { hits: 0, trials: 2 }, Count { hits: 2, trials: 2 });
        assert!((p - 1.0 / 6.0).abs() < 1e-12);
    }
}
