//! A length in tokens: fixed, or drawn from a distribution.

use serde::{Deserialize, Serialize};

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
    /// Normal with this mean and coefficient of variation, cut at 1.
    Normal {
        /// Mean, tokens.
        mean: f64,
        /// Standard deviation / mean.
        cv: f64,
    },
    /// Log-normal: the usual shape of real prompts.
    LogNormal {
        /// Median, tokens.
        median: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// One of several, by weight.
    Mix(Vec<Weighted>),
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
