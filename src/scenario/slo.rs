//! Limits that a request must meet to count as good.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Limits per request, in milliseconds; those not set always hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slo {
    /// Highest TTFT, ms.
    pub ttft_ms: Option<f64>,
    /// Highest TPOT, ms. A request whose TPOT is undefined meets it.
    pub tpot_ms: Option<f64>,
    /// Highest E2EL, ms.
    pub e2el_ms: Option<f64>,
    /// Least share of the requests that must be good for a load to meet it; none: 0.95.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
}

/// The least share of good requests where nothing else is said.
const LEAST_SHARE: f64 = 0.95;

impl Slo {
    /// No limit yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the highest TTFT, ms.
    #[must_use]
    pub fn ttft_ms(mut self, limit: impl Into<f64>) -> Self {
        self.ttft_ms = Some(limit.into());
        self
    }

    /// Sets the highest TPOT, ms.
    #[must_use]
    pub fn tpot_ms(mut self, limit: impl Into<f64>) -> Self {
        self.tpot_ms = Some(limit.into());
        self
    }

    /// Sets the highest E2EL, ms.
    #[must_use]
    pub fn e2el_ms(mut self, limit: impl Into<f64>) -> Self {
        self.e2el_ms = Some(limit.into());
        self
    }

    /// Sets the least share of the requests that must be good for a load to meet it.
    #[must_use]
    pub fn share(mut self, share: f64) -> Self {
        self.share = Some(share);
        self
    }

    /// The least share of good requests.
    #[must_use]
    pub(crate) fn least_share(&self) -> f64 {
        self.share.unwrap_or(LEAST_SHARE)
    }

    /// Whether the limits make sense.
    ///
    /// # Errors
    /// Where no limit is set (goodput would be QPS under another name), or one is not a positive number.
    pub fn check(&self) -> Result<()> {
        let limits =
            [("ttft_ms", self.ttft_ms), ("tpot_ms", self.tpot_ms), ("e2el_ms", self.e2el_ms)];
        if limits.iter().all(|(_, limit)| limit.is_none()) {
            return Err(Error::scenario("goodput without a limit")
                .with_hint("set one of `ttft_ms`, `tpot_ms`, `e2el_ms`"));
        }
        if let Some(share) = self.share
            && !(share > 0.0 && share <= 1.0)
        {
            return Err(Error::scenario(format!(
                "goodput `share` is {share}, not a share of the requests"
            ))
            .with_hint("write for example 0.95 or 0.99"));
        }
        for (name, limit) in limits {
            if let Some(limit) = limit
                && !(limit.is_finite() && limit > 0.0)
            {
                return Err(Error::scenario(format!(
                    "goodput limit `{name}` is {limit}, not a positive number of milliseconds"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_positive_and_present() {
        assert!(Slo::new().check().is_err());
        assert!(Slo::new().ttft_ms(0).check().is_err());
        assert!(Slo::new().tpot_ms(f64::NAN).check().is_err());
        assert!(Slo::new().ttft_ms(200).tpot_ms(30.5).check().is_ok());
    }
}
