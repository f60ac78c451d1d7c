//! The requests of a round: lengths, seeds and due times.

use crate::rng::Seed;

/// One request as planned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlannedRequest {
    /// Its number in the round, from 0.
    pub index: u64,
    /// When it is due, nanoseconds after the round began; none in a closed loop.
    pub due_ns: Option<u64>,
    /// Asked prompt length, tokens.
    pub input_tokens: u32,
    /// Asked answer length, tokens.
    pub output_tokens: u32,
    /// The seed of its prompt and sampling.
    pub seed: Seed,
}

/// The endless list of a round's requests: the n-th is the same whoever asks and when.
#[derive(Debug, Clone)]
pub struct Schedule {}
