//! The health of a round: what its records show, with what the client measured of itself.

use crate::record::health::OfferedLoad;
use crate::record::stored::Health;
use crate::record::{GapHistogram, RequestRecord, Window};
use crate::units::ns_to_ms;

/// What a round knows besides its records.
#[derive(Debug)]
pub(super) struct Circumstances<'a> {
    pub(super) window: Window,
    pub(super) load: OfferedLoad,
    /// How late requests of the window were sent.
    pub(super) lags: &'a GapHistogram,
    pub(super) loop_lag_p50_ms: Option<f64>,
    pub(super) loop_lag_p99_ms: Option<f64>,
    /// How long the client stood still at a stretch, ms.
    pub(super) longest_stall_ms: Option<f64>,
    pub(super) client_cpu: Option<f64>,
}

/// All figures of [`Health`].
pub(super) fn health(records: &[RequestRecord], at: &Circumstances<'_>) -> Health {
    let window_ms = ns_to_ms(at.window.close_ns.saturating_sub(at.window.open_ns));
    Health {
        schedule_lag_p50_ms: at.lags.quantile(0.5).map(|ns| ns / 1e6),
        schedule_lag_p99_ms: at.lags.quantile(0.99).map(|ns| ns / 1e6),
        loop_lag_p50_ms: at.loop_lag_p50_ms,
        loop_lag_p99_ms: at.loop_lag_p99_ms,
        longest_stall_ms: at.longest_stall_ms,
        stalled_share: at.longest_stall_ms.map(|ms| ms / window_ms).filter(|_| window_ms > 0.0),
        client_cpu: at.client_cpu,
        ..Health::of(records, at.window, at.load)
    }
}
