//! One request of a dataset, and what a dataset is given.

use std::path::PathBuf;

use rand::seq::SliceRandom;

use crate::bench_serve::text::TextMaker;
use crate::error::Error;
use crate::rng::Seed;
use crate::scenario::Prompt;

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) prompt: Prompt,
    /// Tokens that the prompt is meant to have; the server's own count goes before it.
    pub(crate) input_tokens: u32,
    /// The most tokens of the answer.
    pub(crate) output_tokens: u32,
}

/// `random`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RandomOptions {
    pub(crate) input_len: u32,
    pub(crate) output_len: u32,
    /// Tokens that all prompts share.
    pub(crate) prefix_len: u32,
    /// Lengths lie between (1 − r) and (1 + r) times the length.
    pub(crate) input_range: f64,
    pub(crate) output_range: f64,
}

/// `prefix_repetition`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PrefixRepetition {
    pub(crate) prefix_len: u32,
    pub(crate) suffix_len: u32,
    pub(crate) num_prefixes: u32,
    pub(crate) output_len: u32,
    pub(crate) shuffle: bool,
}

/// A dataset in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileOptions {
    pub(crate) path: PathBuf,
    /// `None`: the file's own lengths.
    pub(crate) output_len: Option<u32>,
    pub(crate) shuffle: bool,
    /// Whether a file with too few prompts is read again from its start.
    pub(crate) oversample: bool,
}

/// What the datasets are made with.
pub(in crate::bench_serve) struct Making<'a> {
    pub(in crate::bench_serve) text: &'a TextMaker,
    /// How many requests are asked for.
    pub(in crate::bench_serve) count: u32,
    pub(in crate::bench_serve) seed: Seed,
}

impl FileOptions {
    /// Puts what the file gave into the order asked for.
    pub(super) fn order<T>(&self, mut read: Vec<T>, seed: Seed) -> Vec<T> {
        if self.shuffle {
            read.shuffle(&mut seed.named("shuffle").rng());
        }
        read
    }

    /// As many samples as are asked for, some of them again where there are too few.
    pub(super) fn fill(&self, samples: Vec<Sample>, count: u32, seed: Seed) -> Vec<Sample> {
        let missing = (count as usize).saturating_sub(samples.len());
        if missing == 0 || samples.is_empty() || !self.oversample {
            return samples;
        }
        let again = |i: usize| {
            let number = seed.named("oversample").nth(i as u64).0 % samples.len() as u64;
            samples[usize::try_from(number).unwrap_or(0)].clone()
        };
        let more: Vec<Sample> = (0..missing).map(again).collect();
        [samples, more].concat()
    }

    pub(super) fn wrong(&self, what: &str) -> Error {
        Error::scenario(format!("`{}`: {what}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_short_a_file_is_used_again_unless_it_must_not() {
        let sample = |i: u32| Sample {
            prompt: Prompt::Text(i.to_string()),
            input_tokens: 1,
            output_tokens: 1,
        };
        let mut options =
            FileOptions { path: PathBuf::new(), output_len: None, shuffle: true, oversample: true };
        let filled = options.fill(vec![sample(0), sample(1)], 10, Seed(4));
        assert_eq!(filled.len(), 10);
        assert_eq!(filled[..2], [sample(0), sample(1)]);
        assert!(filled[2..].contains(&sample(0)) && filled[2..].contains(&sample(1)));
        options.oversample = false;
        assert_eq!(options.fill(vec![sample(0)], 10, Seed(4)).len(), 1);
        let order = |seed| options.order((0..50).collect::<Vec<u32>>(), Seed(seed));
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }
}
