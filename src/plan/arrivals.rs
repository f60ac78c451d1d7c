//! The arrivals of a round: when each request is due, with its lengths and seed.

use std::collections::VecDeque;

use rand_distr::{Distribution, Gamma};

use super::{Phase, RoundPlan, StopRule};
use crate::rng::Seed;
use crate::scenario::prompt::FIRST_WARM_UP_INDEX;
use crate::scenario::{Length, Load};
use crate::units::s_to_ns;

/// One request as planned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlannedRequest {
    /// Its number in the round, from 0; in a warm-up from [`FIRST_WARM_UP_INDEX`].
    pub index: u64,
    /// When it is due, nanoseconds after the round began; none in a closed loop.
    pub due_ns: Option<u64>,
    /// Asked prompt length, tokens; 0 where the prompt comes as it is from a file.
    pub input_tokens: u32,
    /// Asked answer length, tokens.
    pub output_tokens: u32,
    /// The seed of its prompt and sampling.
    pub seed: Seed,
}

/// The endless list of a round's requests: the n-th is the same whoever asks and when.
///
/// Arrivals have gamma gaps of shape `burstiness` and mean 1/rate (CV of the gaps 1/√burstiness), as
/// in vLLM's `bench serve`. The first request is due one gap after the round began, and the N that a
/// round measures are scaled so that they take N/rate, both as there: what is offered is the rate that
/// stands in the load point's name. So is every later N. The reference is evenly spaced: what it is
/// to tell is the latency of a request that meets no other.
#[derive(Debug, Clone)]
pub struct Schedule {
    input: Length,
    output: Length,
    arrivals: Option<Arrivals>,
    seed: Seed,
    next: u64,
}

/// Arrivals scaled as one, at most: 0.5 MiB of gaps.
const LONGEST_BLOCK: u32 = 65_536;

#[derive(Debug, Clone)]
struct Arrivals {
    gaps: Gaps,
    per_s: f64,
    /// Arrivals of a block, which together take exactly `block` / `per_s` seconds.
    block: u32,
    /// The gaps left of the block, seconds.
    scaled: VecDeque<f64>,
    at_s: f64,
    seed: Seed,
}

#[derive(Debug, Clone)]
enum Gaps {
    Gamma(Gamma<f64>),
    /// The reference, and a shape that cannot be built: `Load::check` refuses those before a plan is
    /// made.
    Even,
}

impl Schedule {
    /// The requests of this round.
    #[must_use]
    pub fn new(round: &RoundPlan) -> Self {
        let seed = round.seed;
        let arrivals = match round.point.load {
            Load::Concurrency(_) => None,
            Load::RequestRate(rate) => Some(Arrivals {
                gaps: match round.phase {
                    Phase::Reference => Gaps::Even,
                    Phase::WarmUp | Phase::Load | Phase::Search => {
                        Gamma::new(rate.burstiness, 1.0).map_or(Gaps::Even, Gaps::Gamma)
                    }
                },
                per_s: rate.per_s,
                block: measured(round.stop, rate.per_s).clamp(1, LONGEST_BLOCK),
                scaled: VecDeque::new(),
                at_s: 0.0,
                seed: seed.named("arrivals"),
            }),
        };
        let (input, output) = (round.point.input.clone(), round.point.output.clone());
        let next = match round.phase {
            Phase::WarmUp => FIRST_WARM_UP_INDEX,
            Phase::Reference | Phase::Load | Phase::Search => 0,
        };
        Self { input, output, arrivals, seed, next }
    }
}

/// How many arrivals a round of this rule measures.
fn measured(stop: StopRule, per_s: f64) -> u32 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
    let in_time = (stop.min_time_s * per_s).round() as u32;
    stop.requests.max(in_time)
}

impl Arrivals {
    /// The due time of request `index`, the one after the last asked for.
    fn next_due_ns(&mut self, index: u64) -> u64 {
        if self.scaled.is_empty() {
            self.scaled = self.block_from(index);
        }
        self.at_s += self.scaled.pop_front().unwrap_or(1.0 / self.per_s);
        s_to_ns(self.at_s)
    }

    /// The gaps of the block that begins with request `index`, scaled.
    fn block_from(&self, index: u64) -> VecDeque<f64> {
        let Gaps::Gamma(gamma) = &self.gaps else { return VecDeque::new() };
        let block = u64::from(self.block);
        let mut gaps: VecDeque<f64> = (index..index.saturating_add(block))
            .map(|nth| gamma.sample(&mut self.seed.nth(nth).rng()))
            .collect();
        let scale_s = f64::from(self.block) / self.per_s / gaps.iter().sum::<f64>();
        if !scale_s.is_finite() {
            return VecDeque::new();
        }
        gaps.iter_mut().for_each(|gap| *gap *= scale_s);
        gaps
    }
}

impl Iterator for Schedule {
    type Item = PlannedRequest;

    /// Never ends.
    fn next(&mut self) -> Option<PlannedRequest> {
        let index = self.next;
        self.next += 1;
        // Each draw has a generator of its own: another input length moves no output length.
        let draw =
            |length: &Length, name| length.sample(&mut self.seed.named(name).nth(index).rng());
        Some(PlannedRequest {
            index,
            input_tokens: draw(&self.input, "input"),
            output_tokens: draw(&self.output, "output"),
            due_ns: self.arrivals.as_mut().map(|arrivals| arrivals.next_due_ns(index)),
            seed: self.seed.named("prompt").nth(index),
        })
    }
}
