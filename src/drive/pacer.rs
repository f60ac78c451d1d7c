//! The pacer: hands out open-loop requests at their due times, from a dedicated thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

use tokio::sync::mpsc;

use super::prefetch::{Prefetch, PreparedRequest, thread};
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};

/// Due requests that may wait for the loop. Beyond it the pacer waits too, and the requests keep
/// their due times, so nothing is lost: it only bounds memory.
const WAITING: usize = 256;
/// The system wakes a sleeper up to about this late; the rest is waited out by yielding.
const SLACK_NS: u64 = 50_000;
/// The longest single sleep, so that a missed wake-up cannot hold the thread for long.
const LONGEST_SLEEP_NS: u64 = 1_000_000_000;

/// Requests as they fall due. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Pacer {
    due: mpsc::Receiver<Result<PreparedRequest>>,
    stopped: Arc<AtomicBool>,
    thread: Thread,
}

/// Requests of one list, and the moment their due times count from.
#[derive(Debug)]
pub(super) struct Stretch {
    pub(super) feed: Prefetch,
    /// On the run's clock.
    pub(super) from_ns: u64,
    /// Requests due at this moment or later are left out; `u64::MAX`: none.
    pub(super) until_ns: u64,
}

impl Pacer {
    /// Hands out the stretches one after the other. Tokio's timer is 1 ms coarse; this thread sleeps
    /// by the system's.
    ///
    /// # Errors
    /// Where the system refuses a thread.
    pub(super) fn start(clock: Clock, stretches: Vec<Stretch>) -> Result<Self> {
        let (sender, due) = mpsc::channel(WAITING);
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopped);
        let thread = thread("inferometer-pacer", move || {
            for stretch in stretches {
                if !pace(clock, stretch, &sender, &stop) {
                    return;
                }
            }
        })?;
        Ok(Self { due, stopped, thread })
    }

    /// The next request that has fallen due. Safe to drop.
    pub(super) async fn next(&mut self) -> Result<PreparedRequest> {
        self.due.recv().await.unwrap_or_else(|| {
            Err(Error::new(ErrorKind::Client, "the thread that paces requests ended early"))
        })
    }

    /// The next request, where it has fallen due already.
    pub(super) fn try_next(&mut self) -> Option<Result<PreparedRequest>> {
        self.due.try_recv().ok()
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Paces one stretch. False where nobody wants more.
fn pace(
    clock: Clock,
    mut stretch: Stretch,
    sender: &mpsc::Sender<Result<PreparedRequest>>,
    stop: &AtomicBool,
) -> bool {
    loop {
        let ready = match stretch.feed.blocking_next() {
            Ok(mut ready) => {
                let due_ns = stretch.from_ns.saturating_add(ready.planned.due_ns.unwrap_or(0));
                if due_ns >= stretch.until_ns {
                    return true;
                }
                ready.due_ns = Some(due_ns);
                if !wait_until(clock, due_ns, stop) {
                    return false;
                }
                Ok(ready)
            }
            Err(error) => Err(error),
        };
        let failed = ready.is_err();
        if sender.blocking_send(ready).is_err() || failed {
            return false;
        }
    }
}

/// Sleeps, then yields for the last [`SLACK_NS`]. False where it was stopped.
fn wait_until(clock: Clock, due_ns: u64, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Acquire) {
            return false;
        }
        let left_ns = due_ns.saturating_sub(clock.now_ns());
        if left_ns == 0 {
            return true;
        }
        if left_ns > SLACK_NS {
            let sleep_ns = (left_ns - SLACK_NS).min(LONGEST_SLEEP_NS);
            std::thread::park_timeout(Duration::from_nanos(sleep_ns));
        } else {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_until_due_and_never_less() {
        let clock = Clock::start();
        let due_ns = clock.now_ns() + 3_000_000;
        assert!(wait_until(clock, due_ns, &AtomicBool::new(false)));
        assert!(clock.now_ns() >= due_ns);
    }

    #[test]
    fn a_stop_ends_the_wait() {
        let clock = Clock::start();
        assert!(!wait_until(clock, u64::MAX, &AtomicBool::new(true)));
    }
}
