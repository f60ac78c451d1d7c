//! Limits that a request must meet to count as good.

use serde::{Deserialize, Serialize};

/// Limits per request, in milliseconds; those not set always hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Slo {
    /// Highest TTFT, ms.
    pub ttft_ms: Option<f64>,
    /// Highest TPOT, ms. A request whose TPOT is undefined meets it.
    pub tpot_ms: Option<f64>,
    /// Highest E2EL, ms.
    pub e2el_ms: Option<f64>,
}
