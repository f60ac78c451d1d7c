//! A load: this many requests in flight, or this many arrivals per second.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// More sockets than one client machine has ports for.
const MAX_CONCURRENCY: u32 = 65_535;
/// Beyond what one client can pace; a typed exponent too many.
const MAX_RATE_PER_S: f64 = 1e6;
/// Gaps of a smaller shape are almost all zero, of a larger one all equal (CV 0.001).
const BURSTINESS_RANGE: std::ops::RangeInclusive<f64> = 1e-3..=1e6;

/// The load of one load point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Closed loop: exactly this many in flight; a slot refills as soon as its request ends.
    Concurrency(u32),
    /// Open loop: arrivals that never wait for answers.
    RequestRate(RequestRate),
}

/// An open-loop arrival process.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RequestRate {
    /// Offered arrivals per second, > 0.
    pub per_s: f64,
    /// Gamma shape of the gaps: 1 = Poisson, < 1 burstier, > 1 more regular (vLLM's meaning).
    pub burstiness: f64,
    /// A cap on requests in flight; the wait for a slot counts in the latency from due.
    pub max_concurrency: Option<u32>,
}

impl RequestRate {
    /// Sets the gamma shape of the gaps (1 = Poisson, the default).
    #[must_use]
    pub fn burstiness(mut self, shape: f64) -> Self {
        self.burstiness = shape;
        self
    }

    /// Caps the requests in flight.
    #[must_use]
    pub fn max_concurrency(mut self, cap: u32) -> Self {
        self.max_concurrency = Some(cap);
        self
    }
}

impl From<RequestRate> for Load {
    fn from(rate: RequestRate) -> Self {
        Self::RequestRate(rate)
    }
}

impl Load {
    /// This many requests in flight.
    #[must_use]
    pub fn concurrency(in_flight: u32) -> Self {
        Self::Concurrency(in_flight)
    }

    /// This many arrivals per second, Poisson unless [`RequestRate::burstiness`] says otherwise.
    #[must_use]
    pub fn request_rate(per_s: f64) -> RequestRate {
        RequestRate { per_s, burstiness: 1.0, max_concurrency: None }
    }

    /// The last part of a load point's id: `c16`, `r20`, `r2.5`, `r20b0.5`, `r20m64`.
    #[must_use]
    pub fn id(&self) -> String {
        match self {
            Self::Concurrency(n) => format!("c{n}"),
            Self::RequestRate(rate) => {
                let mut id = format!("r{}", rate.per_s);
                #[allow(clippy::float_cmp)] // exactly the default, or not
                if rate.burstiness != 1.0 {
                    id.push_str(&format!("b{}", rate.burstiness));
                }
                if let Some(cap) = rate.max_concurrency {
                    id.push_str(&format!("m{cap}"));
                }
                id
            }
        }
    }

    /// Whether the load can be driven.
    ///
    /// # Errors
    /// Where a count is 0 or a rate or shape is not a positive number within reach of one client.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Concurrency(n) => check_count("concurrency", *n),
            Self::RequestRate(rate) => {
                if !(rate.per_s > 0.0 && rate.per_s <= MAX_RATE_PER_S) {
                    return Err(Error::scenario(format!(
                        "request rate {} is not between 0 and {MAX_RATE_PER_S} per second",
                        rate.per_s
                    )));
                }
                if !BURSTINESS_RANGE.contains(&rate.burstiness) {
                    return Err(Error::scenario(format!(
                        "burstiness {} is not between {} and {}",
                        rate.burstiness,
                        BURSTINESS_RANGE.start(),
                        BURSTINESS_RANGE.end()
                    ))
                    .with_hint("1 is Poisson, 0.5 burstier, 2 more regular"));
                }
                rate.max_concurrency.map_or(Ok(()), |cap| check_count("max concurrency", cap))
            }
        }
    }

    /// The load as a number, for an axis: requests in flight, or requests per second.
    #[must_use]
    pub(crate) fn level(&self) -> f64 {
        self.rank().1
    }

    /// Its place when loads run up: concurrencies by number, then rates by rate.
    #[must_use]
    pub fn rank(&self) -> (u8, f64) {
        match self {
            Self::Concurrency(n) => (0, f64::from(*n)),
            Self::RequestRate(rate) => (1, rate.per_s),
        }
    }
}

fn check_count(what: &str, count: u32) -> Result<()> {
    if (1..=MAX_CONCURRENCY).contains(&count) {
        return Ok(());
    }
    Err(Error::scenario(format!("{what} {count} is not between 1 and {MAX_CONCURRENCY}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_say_what_differs_from_the_default() {
        assert_eq!(Load::concurrency(16).id(), "c16");
        assert_eq!(Load::from(Load::request_rate(2.5)).id(), "r2.5");
        let rate = Load::request_rate(20.0).burstiness(0.5).max_concurrency(64);
        assert_eq!(Load::from(rate).id(), "r20b0.5m64");
    }

    #[test]
    fn loads_that_cannot_be_driven_are_refused() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Load::from(Load::request_rate(bad)).check().is_err(), "rate {bad}");
            let shaped = Load::request_rate(1.0).burstiness(bad);
            assert!(Load::from(shaped).check().is_err(), "burstiness {bad}");
        }
        assert!(Load::concurrency(0).check().is_err());
        assert!(Load::from(Load::request_rate(1.0).max_concurrency(0)).check().is_err());
        assert!(Load::from(Load::request_rate(0.01)).check().is_ok());
    }
}
