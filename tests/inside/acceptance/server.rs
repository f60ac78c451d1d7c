//! The simulated server behind the published figures: its loads, and what a client sees of one start.
//!
//! Iterations of 6 ms + 0.020 ms a prompt token + 0.040 ms a decoding sequence, starts that differ by
//! 1 %, a drift of 0.7 % with a memory of 60 s, 3 % from one iteration to the next, rare pauses of
//! 40 ms ([`Preset::Statistics`]); prompts log-normal about 400 tokens, outputs about 128. The network's
//! 2 ms are the client's: they are a part of TTFT, and a slot refills in the iteration after its
//! request's last, as in the model that the figures were published for.

use rand_distr::{Distribution, Exp1, StandardNormal};

use super::virtual_run::{Arrival, SlotStart, VirtualRequest, closed_loop, open_loop};
use crate::rng::Seed;
use crate::sim::{Engine, FrontEnd, Preset, Profile, RequestSpec, start_seed};
use crate::units::{ns_to_ms, ns_to_s, s_to_ns};

/// A load of the simulated server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// This many requests in flight, all sent at once, as in the published model. Iterations then
    /// hold the same requests on both sides of a block however fast each is: the best that equal
    /// prompts can do for a pair.
    Closed(usize),
    /// The same with the first requests spread over one expected E2EL, as the harness does.
    Spread(usize),
    /// Poisson arrivals of this many requests a second.
    Poisson(f64),
    /// The same, scaled to be exactly so many, as the harness does.
    Scaled(f64),
}

impl Load {
    /// Requests before the measured ones: two for each slot and 16 at least, two seconds and ten.
    fn warm_up(self) -> usize {
        match self {
            Self::Closed(concurrency) | Self::Spread(concurrency) => (2 * concurrency).max(16),
            Self::Poisson(per_s) | Self::Scaled(per_s) => (2.0 * per_s) as usize + 10,
        }
    }

    /// Requests after the measured ones, which keep the load up until the last of those has ended:
    /// about one and a half times those that are in flight.
    fn drain(self) -> usize {
        match self {
            Self::Closed(concurrency) | Self::Spread(concurrency) => concurrency + concurrency / 2,
            Self::Poisson(per_s) | Self::Scaled(per_s) => (3.0 * per_s) as usize,
        }
    }
}

/// One start of the server. Its rounds follow one another within its noise.
#[derive(Debug)]
pub struct Start {
    engine: Engine,
    content: Seed,
    network: Seed,
    rounds: u64,
    ended_ns: u64,
}

impl Start {
    /// A start of a side that is `slowdown` times as slow. Both sides of a block get the same
    /// lengths and arrivals, and a noise of their own.
    #[must_use]
    pub fn new(seed: Seed, side: &str, block: u64, slowdown: f64) -> Self {
        let front = FrontEnd {
            busy_at_512_ms: 0.0,
            in_ms: 0.0,
            in_sigma: 0.0,
            out_ms: 0.0,
            busy_token_ms: 0.0,
        };
        let profile = Profile { slowdown, front, ..Preset::Statistics.profile() };
        let own = start_seed(seed, side, block);
        Self {
            engine: Engine::new(profile, Preset::Statistics.noise(), own),
            content: seed.named("content").nth(block),
            network: own.named("way"),
            rounds: 0,
            ended_ns: 0,
        }
    }

    /// Plays a load until this many requests are measured, after the warm-up and with the load kept up.
    #[must_use]
    pub fn round(&mut self, load: Load, measured: usize) -> Round {
        self.round_of(self.content.nth(self.rounds), load, measured)
    }

    /// The same with lengths and arrivals that hang on the load alone, as the harness has them.
    #[must_use]
    pub fn round_by_load(&mut self, load: Load, measured: usize) -> Round {
        self.round_of(self.content.named(&format!("{load:?}")), load, measured)
    }

    fn round_of(&mut self, content: Seed, load: Load, measured: usize) -> Round {
        let warm_up = load.warm_up();
        let specs = lengths(warm_up + measured + load.drain(), content.named("lengths"));
        // A second of silence, so that rounds do not run into each other.
        let from_ns = self.ended_ns + s_to_ns(1.0);
        let mut requests = match load {
            Load::Closed(concurrency) => {
                let slots = SlotStart::Together;
                closed_loop(&mut self.engine, from_ns, &specs, concurrency, slots)
            }
            Load::Spread(concurrency) => {
                let slots = SlotStart::Spread { over_ns: expected_e2el_ns(concurrency) };
                closed_loop(&mut self.engine, from_ns, &specs, concurrency, slots)
            }
            Load::Poisson(per_s) => {
                let due = arrivals(&specs, from_ns, per_s, content.named("arrivals"));
                open_loop(&mut self.engine, &due)
            }
            Load::Scaled(per_s) => {
                let due = scaled(&specs, from_ns, per_s, content.named("arrivals"));
                open_loop(&mut self.engine, &due)
            }
        };
        let mut ends_ns: Vec<u64> = requests.iter().map(|r| r.last_token_ns).collect();
        ends_ns.sort_unstable();
        self.ended_ns = ends_ns.last().copied().unwrap_or(from_ns);
        let window_ns = ends_ns[warm_up + measured - 1] - ends_ns[warm_up - 1];
        requests.truncate(warm_up + measured);
        requests.drain(..warm_up);
        let network_ms = network_ms(measured, self.network.nth(self.rounds));
        self.rounds += 1;
        Round { requests, network_ms, qps: measured as f64 / ns_to_s(window_ns) }
    }
}

/// What was measured of one round.
#[derive(Debug)]
pub struct Round {
    requests: Vec<VirtualRequest>,
    network_ms: Vec<f64>,
    /// Completed requests per second, between the completions that enclose as many as are measured.
    pub qps: f64,
}

impl Round {
    /// TTFT of the measured requests, in the order of their sends, ms.
    #[must_use]
    pub fn ttfts_ms(&self) -> Vec<f64> {
        self.with_network(VirtualRequest::ttft_ns)
    }

    /// E2EL of the measured requests, in the order of their sends, ms.
    #[must_use]
    pub fn e2els_ms(&self) -> Vec<f64> {
        self.with_network(VirtualRequest::e2el_ns)
    }

    /// TPOT of the measured requests that have one, ms.
    #[must_use]
    pub fn tpots_ms(&self) -> Vec<f64> {
        self.requests.iter().filter_map(VirtualRequest::tpot_ms).collect()
    }

    fn with_network(&self, of: fn(&VirtualRequest) -> u64) -> Vec<f64> {
        let requests = self.requests.iter().zip(&self.network_ms);
        requests.map(|(request, network_ms)| ns_to_ms(of(request)) + network_ms).collect()
    }
}

/// The way there and back: about 2 ms (sigma 0.3).
fn network_ms(count: usize, seed: Seed) -> Vec<f64> {
    let mut rng = seed.rng();
    let mut one = || {
        let normal: f64 = StandardNormal.sample(&mut rng);
        2.0 * (0.3 * normal).exp()
    };
    (0..count).map(|_| one()).collect()
}

/// Prompts of about 400 tokens (sigma 0.8) and outputs of about 128 (sigma 0.5).
fn lengths(count: usize, seed: Seed) -> Vec<RequestSpec> {
    let mut rng = seed.rng();
    let mut draw = |median: f64, sigma: f64| {
        let normal: f64 = StandardNormal.sample(&mut rng);
        (median * (sigma * normal).exp()).round().max(1.0) as u32
    };
    (0..count).map(|_| RequestSpec::new(draw(400.0, 0.8), draw(128.0, 0.5))).collect()
}

fn arrivals(specs: &[RequestSpec], from_ns: u64, per_s: f64, seed: Seed) -> Vec<Arrival> {
    let mut rng = seed.rng();
    let mut at_s = 0.0;
    let mut next = |spec: &RequestSpec| {
        let gap: f64 = Exp1.sample(&mut rng);
        at_s += gap / per_s;
        Arrival { due_ns: from_ns + s_to_ns(at_s), spec: *spec }
    };
    specs.iter().map(&mut next).collect()
}

/// Arrivals scaled so that all of them take their number over the rate.
fn scaled(specs: &[RequestSpec], from_ns: u64, per_s: f64, seed: Seed) -> Vec<Arrival> {
    let mut due = arrivals(specs, from_ns, per_s, seed);
    let last_ns = due.last().map_or(0, |last| last.due_ns - from_ns);
    let scale = specs.len() as f64 / per_s / ns_to_s(last_ns);
    for arrival in &mut due {
        arrival.due_ns = from_ns + ((arrival.due_ns - from_ns) as f64 * scale) as u64;
    }
    due
}

/// One expected end-to-end latency: 145 tokens on average, an iteration each, in which C sequences
/// decode and C / 145 prompts of 551 tokens are computed.
fn expected_e2el_ns(concurrency: usize) -> u64 {
    s_to_ns(0.145 * (6.0 + 0.116 * concurrency as f64))
}
