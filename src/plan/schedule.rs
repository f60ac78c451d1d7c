//! The requests of a round: lengths, seeds and due times.

use rand_distr::{Distribution, Gamma};

use super::{Phase, RoundPlan};
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
/// Arrivals are a renewal process with gamma gaps of shape `burstiness` and mean 1/rate (CV of the
/// gaps 1/√burstiness), as in vLLM's `bench serve`. The first request is due one gap after the
/// round began, as there. Other than there, delays are not rescaled to end at n/rate: that would
/// take the variance of the count out of what is called Poisson.
#[derive(Debug, Clone)]
pub struct Schedule {
    input: Length,
    output: Length,
    arrivals: Option<Arrivals>,
    seed: Seed,
    next: u64,
}

#[derive(Debug, Clone)]
struct Arrivals {
    gaps_s: Gaps,
    at_s: f64,
    seed: Seed,
}

#[derive(Debug, Clone)]
enum Gaps {
    Gamma(Gamma<f64>),
    /// For a shape that cannot be built; `Load::check` refuses those before a plan is made.
    Even(f64),
}

impl Schedule {
    /// The requests of this round.
    #[must_use]
    pub fn new(round: &RoundPlan) -> Self {
        let seed = round.seed;
        let arrivals = match round.point.load {
            Load::Concurrency(_) => None,
            Load::RequestRate(rate) => {
                let scale_s = 1.0 / (rate.per_s * rate.burstiness);
                let gaps_s = Gamma::new(rate.burstiness, scale_s)
                    .map_or(Gaps::Even(1.0 / rate.per_s), Gaps::Gamma);
                Some(Arrivals { gaps_s, at_s: 0.0, seed: seed.named("arrivals") })
            }
        };
        let (input, output) = (round.point.input.clone(), round.point.output.clone());
        let next = match round.phase {
            Phase::WarmUp => FIRST_WARM_UP_INDEX,
            Phase::Reference | Phase::Load => 0,
        };
        Self { input, output, arrivals, seed, next }
    }
}

impl Arrivals {
    fn next_due_ns(&mut self, index: u64) -> u64 {
        self.at_s += match &self.gaps_s {
            Gaps::Gamma(gamma) => gamma.sample(&mut self.seed.nth(index).rng()),
            Gaps::Even(gap_s) => *gap_s,
        };
        s_to_ns(self.at_s)
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
