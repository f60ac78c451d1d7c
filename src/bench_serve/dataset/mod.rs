//! Datasets: the requests of a benchmark, made or read as vLLM's client makes and reads them.

mod burstgpt;
mod custom;
mod random;
mod sample;
mod sharegpt;

use crate::error::{Error, Result};

pub(super) use sample::Making;
pub(crate) use sample::{FileOptions, PrefixRepetition, RandomOptions, Sample};

/// Where the requests come from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Dataset {
    Random(RandomOptions),
    PrefixRepetition(PrefixRepetition),
    ShareGpt(FileOptions),
    Custom(FileOptions),
    BurstGpt(FileOptions),
}

impl Dataset {
    /// The requests, at least one.
    pub(super) async fn samples(&self, making: &Making<'_>) -> Result<Vec<Sample>> {
        let samples = match self {
            Self::Random(options) => random::samples(options, making)?,
            Self::PrefixRepetition(options) => random::prefix_repetition(options, making)?,
            Self::ShareGpt(options) => sharegpt::samples(options, making).await?,
            Self::Custom(options) => custom::samples(options, making).await?,
            Self::BurstGpt(options) => burstgpt::samples(options, making)?,
        };
        if samples.is_empty() {
            return Err(Error::scenario("the dataset gives no request"));
        }
        Ok(samples)
    }

    /// Whether its prompts are made, in lengths that are asked for.
    pub(super) fn is_made(&self) -> bool {
        matches!(self, Self::Random(_) | Self::PrefixRepetition(_) | Self::BurstGpt(_))
    }

    /// The longest prompt and answer that are known before anything is read, tokens.
    pub(super) fn longest(&self) -> (u32, u32) {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
        let up_to = |len: u32, range: f64| (f64::from(len) * (1.0 + range)).ceil() as u32;
        match self {
            Self::Random(o) => (
                up_to(o.input_len, o.input_range).saturating_add(o.prefix_len),
                up_to(o.output_len, o.output_range),
            ),
            Self::PrefixRepetition(o) => (o.prefix_len.saturating_add(o.suffix_len), o.output_len),
            Self::ShareGpt(o) | Self::Custom(o) | Self::BurstGpt(o) => {
                (1, o.output_len.unwrap_or(1))
            }
        }
    }
}
