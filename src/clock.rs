//! The one clock: nanoseconds since the run began, and the wall time it began at.

use std::time::Duration;

use tokio::time::Instant;

/// A monotonic clock with an origin of its own. Copies share the origin.
///
/// It follows tokio's time, so schedule tests may pause it.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
    wall_origin: jiff::Timestamp,
}

impl Clock {
    /// Starts a clock: its zero is now.
    #[must_use]
    #[allow(clippy::disallowed_methods)] // this is the one place
    pub fn start() -> Self {
        Self { origin: Instant::now(), wall_origin: jiff::Timestamp::now() }
    }

    /// Nanoseconds since the origin. Allocates nothing and locks nothing.
    #[must_use]
    #[inline]
    #[allow(clippy::disallowed_methods)]
    pub fn now_ns(&self) -> u64 {
        duration_ns(Instant::now().saturating_duration_since(self.origin))
    }

    /// The instant that lies `at_ns` after the origin.
    #[must_use]
    pub fn instant(&self, at_ns: u64) -> Instant {
        self.origin + Duration::from_nanos(at_ns)
    }

    /// Nanoseconds from the origin to `instant`; 0 for an instant before it.
    #[must_use]
    pub fn at_ns(&self, instant: Instant) -> u64 {
        duration_ns(instant.saturating_duration_since(self.origin))
    }

    /// The wall time of the origin.
    #[must_use]
    pub fn wall_origin(&self) -> jiff::Timestamp {
        self.wall_origin
    }

    /// The wall time `at_ns` after the origin, by the monotonic clock.
    #[must_use]
    pub fn wall(&self, at_ns: u64) -> jiff::Timestamp {
        let offset = jiff::SignedDuration::from_nanos(i64::try_from(at_ns).unwrap_or(i64::MAX));
        self.wall_origin.checked_add(offset).unwrap_or(self.wall_origin)
    }

    /// Sleeps until `at_ns` by tokio's timer, which is 1 ms coarse. Load is paced by `drive`'s own pacer.
    pub async fn sleep_until(&self, at_ns: u64) {
        tokio::time::sleep_until(self.instant(at_ns)).await;
    }
}

/// A duration in whole nanoseconds, saturating after 584 years.
#[must_use]
pub fn duration_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn follows_paused_time() {
        let clock = Clock::start();
        clock.sleep_until(5_000_000_000).await;
        assert_eq!(clock.now_ns(), 5_000_000_000);
    }
}
