//! The client's own machine: CPU used, and how late its event loop runs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};

use crate::clock::Clock;
use crate::record::GapHistogram;

/// How often the event loop's lag is sampled: 50 times a second, so that its p99 rests on hundreds
/// of samples in a round of ten seconds, at no cost worth naming.
const LAG_PERIOD: Duration = Duration::from_millis(20);

/// Measures the CPU of this process between two moments.
#[derive(Debug, Clone, Copy)]
pub struct CpuMeter {
    clock: Clock,
    from_ns: u64,
    used_ns: Option<u64>,
}

impl CpuMeter {
    /// Starts measuring now.
    #[must_use]
    pub fn start(clock: Clock) -> Self {
        Self { clock, from_ns: clock.now_ns(), used_ns: cpu_ns() }
    }

    /// CPU time since the start / (elapsed time × cores), 0 to about 1; `None` if the system does
    /// not tell or no time has passed. An embedded server's share is in it.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        let used_ns = cpu_ns()?.saturating_sub(self.used_ns?);
        let elapsed_ns = self.clock.now_ns().saturating_sub(self.from_ns);
        let cores = std::thread::available_parallelism().ok()?.get();
        #[allow(clippy::cast_precision_loss)] // exact below 104 days
        (elapsed_ns > 0).then(|| used_ns as f64 / (elapsed_ns as f64 * cores as f64))
    }
}

/// CPU time of this process so far, user and system, ns; `None` if the system does not report it.
#[must_use]
pub fn cpu_ns() -> Option<u64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let ns = |time: TimeVal| u64::try_from(time.num_nanoseconds()).unwrap_or(0);
    Some(ns(usage.user_time()).saturating_add(ns(usage.system_time())))
}

/// Samples how late the runtime runs a timer, from its start to its stop.
#[derive(Debug)]
pub struct LagSampler {
    clock: Clock,
    lags: Arc<Mutex<GapHistogram>>,
    task: Option<tokio::task::JoinHandle<()>>,
}

impl LagSampler {
    /// A sampler that has not started, with its memory ready.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock, lags: Arc::new(Mutex::new(GapHistogram::with_room())), task: None }
    }

    /// Starts sampling on the current runtime. Its timer is 1 ms coarse, so an idle machine shows
    /// about 1 to 2 ms: judge what lies beyond that floor.
    pub fn start(&mut self) {
        self.stop();
        let (clock, kept) = (self.clock, Arc::clone(&self.lags));
        self.task = Some(tokio::spawn(async move {
            let mut asleep = Suspension::new();
            loop {
                let asked_ns = clock.now_ns().saturating_add(crate::clock::duration_ns(LAG_PERIOD));
                clock.sleep_until(asked_ns).await;
                let slept_ns = asleep.since_last();
                let lag_ns = clock.now_ns().saturating_sub(asked_ns).saturating_add(slept_ns);
                // Nobody else takes this lock before the end, so it is never waited for.
                kept.lock().unwrap_or_else(PoisonError::into_inner).record(lag_ns, 1);
            }
        }));
    }

    /// Stops sampling; what was sampled stays.
    pub fn stop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    /// The median of the lags so far, ms; none before the first sample.
    #[must_use]
    pub fn p50_ms(&self) -> Option<f64> {
        self.quantile_ms(0.50)
    }

    /// The p99 of the lags so far, ms; none before the first sample.
    #[must_use]
    pub fn p99_ms(&self) -> Option<f64> {
        self.quantile_ms(0.99)
    }

    /// The longest of the lags so far, ms: how long the client stood still at a stretch. The time that the
    /// machine was suspended counts. None before the first sample.
    #[must_use]
    pub fn longest_ms(&self) -> Option<f64> {
        let lags = self.lags.lock().unwrap_or_else(PoisonError::into_inner);
        lags.max().map(|ns| ns / 1e6)
    }

    fn quantile_ms(&self, q: f64) -> Option<f64> {
        let lags = self.lags.lock().unwrap_or_else(PoisonError::into_inner);
        lags.quantile(q).map(|ns| ns / 1e6)
    }
}

/// Time that the machine was suspended, which the monotonic clock leaves out: the boot clock does not.
struct Suspension {
    /// Boot clock minus monotonic clock, ns.
    apart_ns: Option<u64>,
}

impl Suspension {
    fn new() -> Self {
        Self { apart_ns: Self::apart_ns() }
    }

    /// Nanoseconds suspended since the last call; 0 where the system has no boot clock.
    fn since_last(&mut self) -> u64 {
        let now = Self::apart_ns();
        let before = std::mem::replace(&mut self.apart_ns, now);
        now.zip(before).map_or(0, |(now, before)| now.saturating_sub(before))
    }

    #[cfg(target_os = "linux")]
    fn apart_ns() -> Option<u64> {
        use nix::time::{ClockId, clock_gettime};
        let read = |id: ClockId| clock_gettime(id).ok().map(|at| at.num_nanoseconds());
        let (monotonic, boot) = (read(ClockId::CLOCK_MONOTONIC)?, read(ClockId::CLOCK_BOOTTIME)?);
        u64::try_from(boot - monotonic).ok()
    }

    #[cfg(not(target_os = "linux"))]
    fn apart_ns() -> Option<u64> {
        None
    }
}

impl Drop for LagSampler {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_grows_with_work_and_the_share_is_one() {
        let meter = CpuMeter::start(Clock::start());
        let before_ns = cpu_ns().unwrap();
        let mut x = 1_u64;
        // Bounded: far more than a microsecond, the resolution of the system's figure.
        for i in 0..20_000_000_u64 {
            x = std::hint::black_box(x.wrapping_mul(31).wrapping_add(i));
        }
        assert!(cpu_ns().unwrap() > before_ns);
        let share = meter.share().unwrap();
        assert!(share > 0.0 && share <= 1.05, "{share}");
    }

    #[tokio::test(start_paused = true)]
    async fn lag_is_seen_when_the_loop_is_held_up() {
        let mut sampler = LagSampler::new(Clock::start());
        sampler.start();
        assert_eq!(sampler.p99_ms(), None);
        tokio::task::yield_now().await;
        // Time jumps past the sampler's timer: it runs 80 ms late.
        tokio::time::advance(Duration::from_millis(100)).await;
        tokio::task::yield_now().await;
        let p99_ms = sampler.p99_ms().unwrap();
        assert!((79.0..=82.0).contains(&p99_ms), "{p99_ms}");
        sampler.stop();
        assert!(sampler.longest_ms().is_some_and(|ms| (79.0..=82.0).contains(&ms)));
        tokio::time::advance(Duration::from_millis(500)).await;
        tokio::task::yield_now().await;
        assert_eq!(sampler.p99_ms(), Some(p99_ms), "what follows the stop does not count");
    }
}
