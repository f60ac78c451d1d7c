//! Noise: the seeded factor on each iteration's time, and the rare pauses.

use rand::rngs::ChaCha8Rng;
use rand_distr::{Distribution, Exp1, StandardNormal, StandardUniform};

use crate::rng::Seed;

/// How an engine's iteration times vary. All spreads are standard deviations of the logarithm (0.01 = 1 %).
///
/// The parts are those of the model behind the statistics: a day, a start of the server, a slow drift, each
/// iteration by itself, and rare pauses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// The day's offset itself (a logarithm, not a spread): 0 is the reference day.
    pub day: f64,
    /// Spread between starts of the server; one draw per engine.
    pub start_sd: f64,
    /// Spread of the slow drift, a first-order autoregression in time.
    pub drift_sd: f64,
    /// Memory of the drift in seconds (its correlation falls to 1/e over this time); above 0.
    pub drift_memory_s: f64,
    /// Spread of each iteration by itself.
    pub iid_sd: f64,
    /// Probability in [0, 1] that an iteration is followed by a pause.
    pub pause_probability: f64,
    /// Mean length of a pause in milliseconds (exponential).
    pub pause_mean_ms: f64,
}

impl Noise {
    /// No noise at all: times follow the formula.
    pub const OFF: Self = Self {
        day: 0.0,
        start_sd: 0.0,
        drift_sd: 0.0,
        drift_memory_s: 60.0,
        iid_sd: 0.0,
        pause_probability: 0.0,
        pause_mean_ms: 0.0,
    };
}

/// The seed of one engine start: the same for the same run seed, side and block, and for no other.
#[must_use]
pub fn start_seed(seed: Seed, side: &str, block: u64) -> Seed {
    seed.named("sim").named(side).nth(block)
}

/// The running state of a [`Noise`].
#[derive(Debug)]
pub(crate) struct NoiseState {
    noise: Noise,
    start: f64,
    drift: f64,
    drifted_at_ns: u64,
    rng: ChaCha8Rng,
}

impl NoiseState {
    pub(crate) fn new(noise: Noise, seed: Seed) -> Self {
        let mut rng = seed.named("noise").rng();
        let start = noise.start_sd * normal(&mut rng);
        // The drift starts in its stationary state, so that a start's first second is like any other.
        let drift = noise.drift_sd * normal(&mut rng);
        Self { noise, start, drift, drifted_at_ns: 0, rng }
    }

    /// The factor on an iteration that begins at `at_ns`; `at_ns` never falls.
    pub(crate) fn factor(&mut self, at_ns: u64) -> f64 {
        let noise = self.noise;
        if noise.drift_sd > 0.0 {
            // Exact discretisation of an Ornstein-Uhlenbeck process: right for any step.
            let step_s = crate::units::ns_to_s(at_ns.saturating_sub(self.drifted_at_ns));
            let keep = (-step_s / noise.drift_memory_s.max(1e-9)).exp();
            let fresh = (1.0 - keep * keep).sqrt();
            self.drift = self.drift * keep + noise.drift_sd * fresh * normal(&mut self.rng);
        }
        self.drifted_at_ns = at_ns;
        let iid = if noise.iid_sd > 0.0 { noise.iid_sd * normal(&mut self.rng) } else { 0.0 };
        (noise.day + self.start + self.drift + iid).exp()
    }

    /// The pause after an iteration in milliseconds, most often 0.
    pub(crate) fn pause_ms(&mut self) -> f64 {
        if self.noise.pause_probability <= 0.0 {
            return 0.0;
        }
        let draw: f64 = StandardUniform.sample(&mut self.rng);
        if draw >= self.noise.pause_probability {
            return 0.0;
        }
        let exponential: f64 = Exp1.sample(&mut self.rng);
        self.noise.pause_mean_ms * exponential
    }
}

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    StandardNormal.sample(rng)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_is_exactly_one() {
        let mut state = NoiseState::new(Noise::OFF, Seed(1));
        for step in 0..10 {
            assert_eq!(state.factor(step * 1_000_000), 1.0);
            assert_eq!(state.pause_ms(), 0.0);
        }
    }

    #[test]
    fn starts_spread_as_asked_and_repeat() {
        let noise = Noise { start_sd: 0.01, ..Noise::OFF };
        let start =
            |block| NoiseState::new(noise, start_seed(Seed(3), "new", block)).factor(0).ln();
        assert_eq!(start(4), start(4));
        let logs: Vec<f64> = (0..2000).map(start).collect();
        let sd = (logs.iter().map(|x| x * x).sum::<f64>() / 2000.0).sqrt();
        // Five standard errors of a standard deviation: sd / sqrt(2 n).
        assert!((sd - 0.01).abs() < 5.0 * 0.01 / 4000.0_f64.sqrt(), "{sd}");
    }

    #[test]
    fn drift_forgets_within_its_memory() {
        let noise = Noise { drift_sd: 0.01, drift_memory_s: 60.0, ..Noise::OFF };
        let (mut near, mut far, mut variance) = (0.0, 0.0, 0.0);
        for n in 0..3000 {
            let mut state = NoiseState::new(noise, Seed(5).nth(n));
            let first = state.factor(0).ln();
            near += first * state.factor(1_000_000_000).ln();
            far += first * state.factor(600_000_000_000).ln();
            variance += first * first;
        }
        assert!(near / variance > 0.9, "{}", near / variance);
        assert!((far / variance).abs() < 0.1, "{}", far / variance);
    }
}
