//! A length in tokens: fixed, or drawn from a distribution.

use std::fmt;
use std::ops::RangeInclusive;

use rand::{Rng, RngExt};
use rand_distr::{Distribution, LogNormal, Normal};
use serde::{Deserialize, Serialize};

use super::content_hash::fnv1a_128;
use crate::error::{Error, Result};

/// Beyond any model's context; a typed digit too many.
pub const MAX_TOKENS: u32 = 16_777_216;

/// Normal and log-normal draws are cut this many standard deviations above the middle (one draw in
/// 30 000), so that a single request cannot outgrow the model's context unannounced.
const CUT_SD: f64 = 4.0;

/// A longer label would crowd the tables, and paths have limits.
const MAX_LABEL_BYTES: usize = 40;

/// A mix of mixes of mixes is a mistake, and recursion needs a limit.
const MAX_MIX_DEPTH: u32 = 3;

/// How many tokens a prompt or an answer has. At least 1 wherever it is drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// Always this many.
    Fixed(u32),
    /// Even between both ends, both included.
    Range {
        /// The least.
        min: u32,
        /// The most.
        max: u32,
    },
    /// Normal with this mean and coefficient of variation, cut at 1 and at 4 sd above the mean.
    Normal {
        /// Mean, tokens.
        mean: f64,
        /// Standard deviation / mean.
        cv: f64,
    },
    /// Log-normal: the usual shape of real prompts; cut at 4 sigma above the median.
    LogNormal {
        /// Median, tokens.
        median: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// One of several, by weight.
    Mix(Vec<Weighted>),
    /// As long as the prompts of the file are: nothing is asked, the server counts (drawn as 0).
    OfPrompt,
}

/// One part of a [`Length::Mix`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Weighted {
    /// Its weight; weights need not sum to 1.
    pub weight: f64,
    /// The length drawn where this part is chosen.
    pub length: Length,
}

impl From<u32> for Length {
    fn from(tokens: u32) -> Self {
        Self::Fixed(tokens)
    }
}

impl From<RangeInclusive<u32>> for Length {
    fn from(range: RangeInclusive<u32>) -> Self {
        Self::Range { min: *range.start(), max: *range.end() }
    }
}

impl Length {
    /// Normal with this mean (tokens) and coefficient of variation.
    #[must_use]
    pub fn normal(mean: f64, cv: f64) -> Self {
        Self::Normal { mean, cv }
    }

    /// Log-normal with this median (tokens) and standard deviation of the logarithm.
    #[must_use]
    pub fn log_normal(median: f64, sigma: f64) -> Self {
        Self::LogNormal { median, sigma }
    }

    /// One of several by weight: `Length::mix([(0.7, 512), (0.3, 4096)])`.
    #[must_use]
    pub fn mix<L: Into<Length>>(parts: impl IntoIterator<Item = (f64, L)>) -> Self {
        let part = |(weight, length): (f64, L)| Weighted { weight, length: length.into() };
        Self::Mix(parts.into_iter().map(part).collect())
    }

    /// Draws a length, tokens: between 1 and [`Length::max`] (0 for [`Length::OfPrompt`]).
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> u32 {
        let drawn = match self {
            Self::Fixed(tokens) => return *tokens,
            Self::OfPrompt => return 0,
            Self::Range { min, max } => return rng.random_range(*min.min(max)..=*max.max(min)),
            // A shape that cannot be built was refused by `check`; its middle then stands in.
            Self::Normal { mean, cv } => {
                Normal::new(*mean, mean * cv).map_or(*mean, |normal| normal.sample(rng))
            }
            Self::LogNormal { median, sigma } => {
                LogNormal::new(median.ln(), *sigma).map_or(*median, |shape| shape.sample(rng))
            }
            Self::Mix(parts) => return sample_mix(parts, rng),
        };
        whole(drawn).min(self.max())
    }

    /// The expected length, tokens. The cuts of normal and log-normal shapes are left out.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fixed(tokens) => f64::from(*tokens),
            Self::OfPrompt => 0.0,
            Self::Range { min, max } => f64::midpoint(f64::from(*min), f64::from(*max)),
            Self::Normal { mean, .. } => *mean,
            Self::LogNormal { median, sigma } => median * (sigma * sigma / 2.0).exp(),
            Self::Mix(parts) => {
                let total: f64 = parts.iter().map(|part| part.weight).sum();
                parts.iter().map(|part| part.weight / total * part.length.mean()).sum()
            }
        }
    }

    /// The most that can be drawn, tokens.
    #[must_use]
    pub fn max(&self) -> u32 {
        match self {
            Self::Fixed(tokens) => *tokens,
            Self::OfPrompt => 0,
            Self::Range { max, .. } => *max,
            Self::Normal { mean, cv } => whole(mean * (1.0 + CUT_SD * cv)),
            Self::LogNormal { median, sigma } => whole(median * (CUT_SD * sigma).exp()),
            Self::Mix(parts) => parts.iter().map(|part| part.length.max()).max().unwrap_or(1),
        }
    }

    /// As it stands in ids, which become paths: as it displays, or a hash of that where it is long.
    #[must_use]
    pub fn label(&self) -> String {
        let text = self.to_string();
        if text.len() <= MAX_LABEL_BYTES {
            return text;
        }
        let hash = fnv1a_128(text.as_bytes());
        format!("mix-{}", hash.get(hash.len() - 12..).unwrap_or_default())
    }

    /// Whether lengths can be drawn.
    ///
    /// # Errors
    /// Where a length may be 0 or beyond 16,777,216, a range is empty, a spread or weight is not
    /// a number that makes sense, or mixes nest too deeply.
    pub fn check(&self) -> Result<()> {
        self.check_at(0)
    }

    fn check_at(&self, depth: u32) -> Result<()> {
        let bad = |why: String| Err(Error::scenario(why));
        match self {
            Self::OfPrompt => return Ok(()),
            Self::Fixed(tokens) => return check_tokens(f64::from(*tokens)),
            Self::Range { min, max } => {
                if min > max {
                    return bad(format!("length range from {min} to {max} is empty"));
                }
                check_tokens(f64::from(*min))?;
            }
            Self::Normal { mean, cv } => {
                check_tokens(*mean)?;
                if !(0.0..=10.0).contains(cv) {
                    return bad(format!("length cv {cv} is not between 0 and 10"));
                }
            }
            Self::LogNormal { median, sigma } => {
                check_tokens(*median)?;
                if !(0.0..=10.0).contains(sigma) {
                    return bad(format!("length sigma {sigma} is not between 0 and 10"));
                }
            }
            Self::Mix(parts) => {
                if parts.is_empty() {
                    return bad("length mix has no parts".into());
                }
                if depth == MAX_MIX_DEPTH {
                    return bad(format!("length mixes nest deeper than {MAX_MIX_DEPTH}"));
                }
                for part in parts {
                    if !(part.weight > 0.0 && part.weight.is_finite()) {
                        return bad(format!("length weight {} is not positive", part.weight));
                    }
                    if part.length == Self::OfPrompt {
                        return bad("a length mix cannot hold the prompts' own lengths".into());
                    }
                    part.length.check_at(depth + 1)?;
                }
            }
        }
        check_tokens(f64::from(self.max()))
    }
}

/// As it stands in ids and tables: `512`, `512-4096`, `512cv0.2`, `400ln0.8`, `mix_0.7x512_0.3x4096`.
impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(tokens) => write!(f, "{tokens}"),
            Self::OfPrompt => f.write_str("file"),
            Self::Range { min, max } => write!(f, "{min}-{max}"),
            Self::Normal { mean, cv } => write!(f, "{mean}cv{cv}"),
            Self::LogNormal { median, sigma } => write!(f, "{median}ln{sigma}"),
            Self::Mix(parts) => {
                f.write_str("mix")?;
                parts.iter().try_for_each(|part| write!(f, "_{}x{}", part.weight, part.length))
            }
        }
    }
}

fn sample_mix<R: Rng + ?Sized>(parts: &[Weighted], rng: &mut R) -> u32 {
    let total: f64 = parts.iter().map(|part| part.weight).sum();
    let mut left = rng.random::<f64>() * total;
    for part in parts {
        left -= part.weight;
        if left < 0.0 {
            return part.length.sample(rng);
        }
    }
    // Rounding may leave a hair: the last part takes it.
    parts.last().map_or(1, |part| part.length.sample(rng))
}

fn check_tokens(tokens: f64) -> Result<()> {
    if (1.0..=f64::from(MAX_TOKENS)).contains(&tokens) {
        return Ok(());
    }
    Err(Error::scenario(format!("length {tokens} is not between 1 and {MAX_TOKENS} tokens")))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // `as` saturates
fn whole(tokens: f64) -> u32 {
    (tokens.round() as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;

    fn draws(length: &Length, count: u32) -> Vec<f64> {
        let mut rng = Seed(11).rng();
        (0..count).map(|_| f64::from(length.sample(&mut rng))).collect()
    }

    fn mean_and_sd(values: &[f64]) -> (f64, f64) {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
        (mean, variance.sqrt())
    }

    #[test]
    fn draws_have_the_mean_they_promise() {
        for length in [
            Length::from(100..=300),
            Length::normal(512.0, 0.2),
            Length::log_normal(400.0, 0.5),
            Length::mix([(3.0, 100), (1.0, 500)]),
        ] {
            let values = draws(&length, 40_000);
            let (mean, sd) = mean_and_sd(&values);
            // 6 standard errors, and half a token for rounding.
            let bound = 6.0 * sd / 200.0 + 0.5;
            assert!((mean - length.mean()).abs() < bound, "{length}: {mean} ± {bound}");
            assert!(values.iter().all(|v| (1.0..=f64::from(length.max())).contains(v)));
        }
    }

    #[test]
    fn cv_and_sigma_are_what_they_say() {
        let (mean, sd) = mean_and_sd(&draws(&Length::normal(1000.0, 0.2), 40_000));
        assert!((sd / mean - 0.2).abs() < 0.006, "{}", sd / mean);
        let logs: Vec<f64> =
            draws(&Length::log_normal(4000.0, 0.5), 40_000).iter().map(|v| v.ln()).collect();
        let (_, sigma) = mean_and_sd(&logs);
        assert!((sigma - 0.5).abs() < 0.012, "{sigma}");
    }

    #[test]
    fn both_ends_of_a_range_are_drawn() {
        let values = draws(&Length::from(3..=5), 1000);
        for end in [3.0, 4.0, 5.0] {
            assert!(values.contains(&end), "{end}");
        }
    }

    #[test]
    fn long_labels_become_hashes() {
        assert_eq!(Length::mix([(0.7, 512), (0.3, 4096)]).label(), "mix_0.7x512_0.3x4096");
        let long = |last| Length::mix((0..20).chain([last]).map(|i| (0.05, 100 + i))).label();
        assert_eq!(long(1).len(), 16);
        assert_ne!(long(1), long(2));
    }

    #[test]
    fn lengths_that_cannot_be_drawn_are_refused() {
        let mut nested = Length::from(1);
        for _ in 0..=MAX_MIX_DEPTH {
            nested = Length::mix([(1.0, nested)]);
        }
        for bad in [
            Length::Fixed(0),
            Length::Fixed(MAX_TOKENS + 1),
            Length::Range { min: 5, max: 4 },
            Length::normal(f64::NAN, 0.1),
            Length::normal(100.0, -0.1),
            Length::log_normal(0.0, 0.5),
            Length::log_normal(1e6, 5.0),
            Length::Mix(Vec::new()),
            Length::mix([(0.0, 5)]),
            nested,
        ] {
            assert!(bad.check().is_err(), "{bad}");
        }
        assert!(Length::mix([(0.7, 512), (0.3, 4096)]).check().is_ok());
    }
}
