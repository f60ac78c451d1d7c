//! Arrivals: when each request is due, as vLLM's client draws it.

use rand_distr::{Distribution, Gamma};

use crate::rng::Seed;

/// The arrival process of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Arrivals {
    /// Per second; infinite: all at once.
    pub(crate) rate: f64,
    /// Gamma shape of the gaps; infinite: equal gaps.
    pub(crate) burstiness: f64,
    pub(crate) ramp_up: Option<RampUp>,
}

/// A rate that rises from the first request to the last.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RampUp {
    pub(crate) strategy: RampStrategy,
    pub(crate) start_rps: u32,
    pub(crate) end_rps: u32,
}

/// How it rises with the number of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RampStrategy {
    Linear,
    Exponential,
}

impl RampStrategy {
    /// vLLM's word.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Exponential => "exponential",
        }
    }
}

impl RampUp {
    /// The rate at request `index` of `count`.
    pub(crate) fn rate(self, index: usize, count: usize) -> f64 {
        #[allow(clippy::cast_precision_loss)]
        let progress = index as f64 / count.saturating_sub(1).max(1) as f64;
        let (start, end) = (f64::from(self.start_rps), f64::from(self.end_rps));
        match self.strategy {
            RampStrategy::Linear => start + (end - start) * progress,
            RampStrategy::Exponential => start * (end / start).powf(progress),
        }
    }
}

impl Arrivals {
    /// Due times, seconds after the start. At a constant rate they are scaled so that the last one
    /// is due at `count / rate`, as vLLM's client does: the offered rate is then exact.
    pub(crate) fn due_s(&self, count: usize, seed: Seed) -> Vec<f64> {
        let mut rng = seed.named("arrivals").rng();
        let mut at = 0.0;
        let mut due: Vec<f64> = (0..count)
            .map(|index| {
                let rate = self.ramp_up.map_or(self.rate, |ramp| ramp.rate(index, count));
                at += self.gap_s(rate, &mut rng);
                at
            })
            .collect();
        if self.ramp_up.is_none() && at > 0.0 {
            #[allow(clippy::cast_precision_loss)]
            let scale = count as f64 / self.rate / at;
            due.iter_mut().for_each(|due| *due *= scale);
        }
        due
    }

    fn gap_s(&self, rate: f64, rng: &mut impl rand::Rng) -> f64 {
        if rate == f64::INFINITY {
            return 0.0;
        }
        if self.burstiness == f64::INFINITY {
            return 1.0 / rate;
        }
        // Both are above 0: the command line was checked.
        Gamma::new(self.burstiness, 1.0 / (rate * self.burstiness))
            .map_or(1.0 / rate, |gaps| gaps.sample(rng))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constant(rate: f64, burstiness: f64) -> Arrivals {
        Arrivals { rate, burstiness, ramp_up: None }
    }

    #[test]
    fn a_constant_rate_ends_exactly_at_its_time() {
        let due = constant(20.0, 1.0).due_s(400, Seed(3));
        assert!((due[399] - 20.0).abs() < 1e-9, "{}", due[399]);
        assert!(due.is_sorted() && due[0] > 0.0);
        // Of a Poisson process: the gaps' standard deviation is their mean.
        let gaps: Vec<f64> = due.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / 399.0;
        let sd = (gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / 398.0).sqrt();
        assert!((sd / mean - 1.0).abs() < 0.25, "{}", sd / mean);
    }

    #[test]
    fn infinite_burstiness_is_even_and_an_infinite_rate_is_at_once() {
        assert_eq!(constant(2.0, f64::INFINITY).due_s(3, Seed(0)), [0.5, 1.0, 1.5]);
        assert_eq!(constant(f64::INFINITY, 1.0).due_s(3, Seed(0)), [0.0; 3]);
    }

    #[test]
    fn a_ramp_goes_from_its_start_to_its_end() {
        let ramp = |strategy| RampUp { strategy, start_rps: 2, end_rps: 8 };
        let linear = ramp(RampStrategy::Linear);
        assert_eq!([0, 1, 2].map(|i| linear.rate(i, 3)), [2.0, 5.0, 8.0]);
        let exponential = ramp(RampStrategy::Exponential);
        assert_eq!([0, 1, 2].map(|i| exponential.rate(i, 3)), [2.0, 4.0, 8.0]);
        assert_eq!(linear.rate(0, 1), 2.0);
    }
}
