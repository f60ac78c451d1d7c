//! Prefetched requests, with their bodies, built before they are needed.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::Wire;
use crate::api::{GenerateRequest, tokens_asked};
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::{PlannedRequest, RoundPlan, Schedule};
use crate::rng::Seed;
use crate::transport::Exchange;

/// Bytes of prompts that may lie ready: 64 MiB, so that prompts of 128k tokens do not fill memory.
const READY_BYTES: u64 = 64 << 20;
/// A token id in JSON, or a short word, with its comma or space.
const BYTES_A_TOKEN: u64 = 8;

/// Which list of requests one comes from. Ramp and warm-up have lists of their own, so that the
/// measured requests are the same on every run and on both sides, however many went before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Branch {
    WarmUp,
    Ramp,
    Main,
}

impl Branch {
    /// The root of the list's lengths, arrivals and prompts.
    fn seed(self, root: Seed) -> Seed {
        match self {
            Self::WarmUp => root.named("warm-up"),
            Self::Ramp => root.named("ramp"),
            Self::Main => root,
        }
    }

    /// Where the list begins in prompts that go by their number, as those of a file do. Measured are
    /// the first N; the tail has the next N to itself; then come the lists that must not share a
    /// prompt with the measured ones (a file of fewer than 4 N lines begins anew all the same).
    fn first_prompt(self, requests: u32) -> u64 {
        u64::from(requests)
            * match self {
                Self::Main => 0,
                Self::Ramp => 2,
                Self::WarmUp => 3,
            }
    }
}

/// A request ready to be sent.
#[derive(Debug)]
pub(super) struct PreparedRequest {
    pub(super) planned: PlannedRequest,
    pub(super) branch: Branch,
    pub(super) body: Bytes,
    /// When it is due on the run's clock; set by the pacer.
    pub(super) due_ns: Option<u64>,
}

impl PreparedRequest {
    /// Sends it and reads its answer to the end, or until it is asked to stop.
    pub(super) async fn exchange(
        self,
        wire: &Wire,
        clock: Clock,
        stop: impl Future<Output = ()>,
    ) -> Exchange {
        let Self { planned, body, due_ns, .. } = self;
        let max_tokens = tokens_asked(planned.output_tokens, &wire.extra_body);
        wire.client.exchange_within(clock, &*wire.dialect, body, due_ns, max_tokens, stop).await
    }
}

/// Requests in order, built ahead by a thread of their own up to a bound.
#[derive(Debug)]
pub(super) struct Prefetch(mpsc::Receiver<Result<PreparedRequest>>);

impl Prefetch {
    /// Starts building the requests of `plan`. `wanted` is how many may be needed at once.
    ///
    /// # Errors
    /// Where the system refuses a thread.
    pub(super) fn start(
        wire: &Arc<Wire>,
        plan: &RoundPlan,
        branch: Branch,
        wanted: u32,
    ) -> Result<Self> {
        let mut plan = plan.clone();
        plan.seed = branch.seed(plan.seed);
        let first_prompt = branch.first_prompt(plan.stop.requests);
        let schedule = Schedule::new(&plan);
        let (sender, receiver) = mpsc::channel(look_ahead(&schedule, wanted));
        let wire = Arc::clone(wire);
        thread("inferometer-feed", move || {
            for planned in schedule {
                let ready = build(&wire, planned, branch, first_prompt);
                let failed = ready.is_err();
                // A closed channel is how the round says that it needs no more.
                if sender.blocking_send(ready).is_err() || failed {
                    return;
                }
            }
        })?;
        Ok(Self(receiver))
    }

    /// The next request. Safe to drop.
    pub(super) async fn next(&mut self) -> Result<PreparedRequest> {
        self.0.recv().await.unwrap_or_else(|| Err(ended()))
    }

    /// The next request, where it is ready now.
    pub(super) fn try_next(&mut self) -> Option<Result<PreparedRequest>> {
        self.0.try_recv().ok()
    }

    /// The next request, waiting on a thread outside the runtime.
    pub(super) fn blocking_next(&mut self) -> Result<PreparedRequest> {
        self.0.blocking_recv().unwrap_or_else(|| Err(ended()))
    }
}

/// Starts a detached thread, which ends when its channel closes.
///
/// # Errors
/// Where the system refuses it.
pub(super) fn thread(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<std::thread::Thread> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map(|handle| handle.thread().clone())
        .map_err(|error| {
            Error::new(ErrorKind::Client, "cannot start a thread to drive the load")
                .with_cause(error)
        })
}

fn ended() -> Error {
    Error::new(ErrorKind::Client, "the thread that builds requests ended early")
}

fn build(
    wire: &Wire,
    mut planned: PlannedRequest,
    branch: Branch,
    first_prompt: u64,
) -> Result<PreparedRequest> {
    let number = first_prompt.saturating_add(planned.index);
    let prompt = wire.prompts.prompt(number, planned.input_tokens, planned.seed)?;
    if let Some(tokens) = wire.prompts.output_tokens(number) {
        planned.output_tokens = tokens;
    }
    let body = wire.dialect.body(&GenerateRequest {
        model: &wire.model,
        prompt: &prompt,
        max_tokens: planned.output_tokens,
        // 31 bits: some servers keep a seed in an i32 or u32, and all ones means "random" there.
        seed: planned.seed.named("sampling").0 >> 33,
        offers: wire.offers,
        extra: &wire.extra_body,
    })?;
    Ok(PreparedRequest { planned, branch, body, due_ns: None })
}

/// How many requests lie ready: twice as many as may be needed at once, within the bytes.
fn look_ahead(schedule: &Schedule, wanted: u32) -> usize {
    const SAMPLE: usize = 64;
    let tokens: u64 =
        schedule.clone().take(SAMPLE).map(|planned| u64::from(planned.input_tokens)).sum();
    let bytes_each = (tokens * BYTES_A_TOKEN / SAMPLE as u64).max(1);
    let fits = usize::try_from(READY_BYTES / bytes_each).unwrap_or(usize::MAX);
    (wanted as usize).saturating_mul(2).clamp(16, 512).min(fits).max(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_list_shares_its_prompts_with_the_measured() {
        let lists = [Branch::Main, Branch::Ramp, Branch::WarmUp];
        assert_eq!(lists.map(|branch| branch.first_prompt(100)), [0, 200, 300]);
        let seeds = lists.map(|branch| branch.seed(Seed(5)));
        assert_eq!(seeds[0], Seed(5), "the measured list is the plan's own");
        assert!(seeds[0] != seeds[1] && seeds[1] != seeds[2] && seeds[0] != seeds[2]);
    }
}
