//! A load: so many requests in flight, or so many arrivals per second.

use serde::{Deserialize, Serialize};

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

impl Load {
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
}
