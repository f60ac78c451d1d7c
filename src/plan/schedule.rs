//! The requests of a round: lengths, seeds and due times.

use super::RoundPlan;
use crate::rng::Seed;
use crate::scenario::{Length, Load};

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
pub struct Schedule {
    plan: RoundPlan,
    next: u64,
}

impl Schedule {
    /// The list of this round.
    #[must_use]
    pub fn new(plan: &RoundPlan) -> Self {
        Self { plan: plan.clone(), next: 0 }
    }
}

impl Iterator for Schedule {
    type Item = PlannedRequest;

    fn next(&mut self) -> Option<PlannedRequest> {
        let index = self.next;
        self.next += 1;
        let tokens = |length: &Length| match length {
            Length::Fixed(tokens) => *tokens,
            _ => 1,
        };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let due_ns = match self.plan.point.load {
            Load::Concurrency(_) => None,
            Load::RequestRate(rate) => Some((index as f64 / rate.per_s * 1e9) as u64),
        };
        Some(PlannedRequest {
            index,
            due_ns,
            input_tokens: tokens(&self.plan.point.input),
            output_tokens: tokens(&self.plan.point.output),
            seed: self.plan.seed.nth(index),
        })
    }
}
