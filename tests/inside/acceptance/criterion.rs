//! Why none of this is done on requests: criterion's rule on the pooled requests of one run a side.

use super::Figure;
use super::server::{Load, Start};
use crate::rng::Seed;
use crate::stats::distribution::t_two_sided;
use crate::stats::moments::mean;
use crate::stats::t_test::welch;

/// Criterion's default significance level.
const SIGNIFICANCE: f64 = 0.05;
/// Criterion's default noise threshold: the interval of the change must lie beyond it.
const NOISE_THRESHOLD: f64 = 0.01;
/// The 97.5 % quantile of the normal distribution: with hundreds of requests t is no other.
const NORMAL_975: f64 = 1.96;

/// What criterion would say of two sets of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// p is not below the significance level.
    NoChange,
    /// "Change within noise threshold."
    WithinNoise,
    /// "Performance has regressed" or "improved".
    Changed,
}

/// Criterion's rule: the means differ at 5 %, and the 95 % interval of the relative change lies
/// beyond 1 %. Welch's test and the normal interval stand for its bootstrap, which with hundreds of
/// values gives the same. `None` of fewer than two values a side.
#[must_use]
pub fn word(base: &[f64], new: &[f64]) -> Option<Word> {
    let test = welch(base, new)?;
    let centre = mean(base)?;
    if t_two_sided(test.mean / test.se, test.df) >= SIGNIFICANCE {
        return Some(Word::NoChange);
    }
    let nearest = (test.mean.abs() - NORMAL_975 * test.se) / centre;
    Some(if nearest > NOISE_THRESHOLD { Word::Changed } else { Word::WithinNoise })
}

/// Shares of an unchanged server's pairs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares {
    /// p is below 5 %.
    pub significant: f64,
    /// "Regressed" or "improved".
    pub changed: f64,
}

/// The verdict on mean TPOT, of `measured` requests from one start of each side of the same
/// server under the same prompts.
#[must_use]
pub fn of_unchanged(load: Load, measured: usize, pairs: u32, seed: Seed) -> Shares {
    let words = (0..u64::from(pairs)).filter_map(|pair| {
        let of = |side| Start::new(seed, side, pair, 1.0).round(load, measured).tpots_ms();
        word(&of("base"), &of("new"))
    });
    let words: Vec<Word> = words.collect();
    let share = |holds: fn(&Word) -> bool| {
        words.iter().filter(|word| holds(word)).count() as f64 / f64::from(pairs.max(1))
    };
    Shares {
        significant: share(|word| *word != Word::NoChange),
        changed: share(|word| *word == Word::Changed),
    }
}

/// The row of the negative control.
#[must_use]
pub fn figure(pairs: u32, seed: Seed) -> Figure {
    Figure {
        name: "criterion's rule on requests of one run: A/A",
        published: "34-49 %",
        accepted: 0.20..=1.0,
        ours: of_unchanged(Load::Closed(16), 512, pairs, seed).changed,
        reports: pairs,
    }
}
