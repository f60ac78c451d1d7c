//! The health of a round: what its records show, with what the client measured of itself.

use crate::record::health::OfferedLoad;
use crate::record::stored::Health;
use crate::record::{GapHistogram, RequestRecord, Window};

/// What a round knows besides its records.
#[derive(Debug)]
pub(super) struct Circumstances<'a> {
    pub(super) window: Window,
    pub(super) load: OfferedLoad,
    /// How late requests of the window were sent.
    pub(super) lags: &'a GapHistogram,
    pub(super) loop_lag_p50_ms: Option<f64>,
    pub(super) loop_lag_p99_ms: Option<f64>,
    pub(super) client_cpu: Option<f64>,
}

/// All figures of [`Health`].
pub(super) fn health(records: &[RequestRecord], at: &Circumstances<'_>) -> Health {
    Health {
        schedule_lag_p50_ms: at.lags.quantile(0.5).map(|ns| ns / 1e6),
        schedule_lag_p99_ms: at.lags.quantile(0.99).map(|ns| ns / 1e6),
        loop_lag_p50_ms: at.loop_lag_p50_ms,
        loop_lag_p99_ms: at.loop_lag_p99_ms,
        client_cpu: at.client_cpu,
        ..Health::of(records, at.window, at.load)
    }
}

/// Whether completions fell behind the arrivals: below 0.95 of them (docs/statistics.md, section 5), and by more
/// than the number in flight changes by chance between two moments. That number is about Poisson for
/// a server that keeps up, so the difference of two has the variance 2L; two standard deviations are
/// allowed, or a short round at a low rate would call a healthy server saturated.
pub(super) fn is_saturated(health: &Health, window: Window) -> bool {
    let (Some(ratio), Some(offered)) = (health.completion_ratio, health.offered_per_s) else {
        return false;
    };
    let missing = (1.0 - ratio) * offered * window.seconds();
    let in_flight = health.in_flight_mean.unwrap_or(0.0).max(1.0);
    ratio < 0.95 && missing > 2.0 * (2.0 * in_flight).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { open_ns: 1_000_000_000, close_ns: 3_000_000_000 };

    #[test]
    fn chance_is_not_saturation_and_a_backlog_is() {
        let health = |ratio: f64, offered: f64, in_flight: f64| Health {
            completion_ratio: Some(ratio),
            offered_per_s: Some(offered),
            in_flight_mean: Some(in_flight),
            ..Health::default()
        };
        // One of 20 still under way: 0.95 by chance.
        assert!(!is_saturated(&health(0.9, 5.0, 1.0), WINDOW));
        // Half of 200 missing.
        assert!(is_saturated(&health(0.5, 100.0, 50.0), WINDOW));
        assert!(!is_saturated(&health(0.96, 10_000.0, 1.0), WINDOW));
        assert!(!is_saturated(&Health::default(), WINDOW));
    }
}
