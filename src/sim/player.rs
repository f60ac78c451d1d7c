//! Player: one thread that lets the engine's virtual time run with the clock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc as ticks;

use super::exposition::{FinishReason, Finished, Observed};
use super::scheduler::{Engine, EngineEvent, EventKind, Gauges, RequestId, RequestSpec};
use super::truth::lock;
use crate::clock::Clock;
use crate::units::ns_to_s;

/// The longest sleep, so that a lost wake-up can't hang the server.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The state of the queue, for whoever decides who may join it.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Requests that wait.
    pub(crate) waiting: Arc<AtomicU32>,
    /// How long the first of them has, nanoseconds.
    pub(crate) longest_wait_ns: Arc<AtomicU64>,
}

/// Tokens on their way to a response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tick {
    pub(crate) at_ns: u64,
    pub(crate) queued_ns: u64,
    pub(crate) scheduled_ns: u64,
    pub(crate) tokens: u32,
    pub(crate) kind: EventKind,
}

/// Messages from the HTTP side to the player.
#[derive(Debug)]
pub(crate) enum Command {
    Submit(Submission),
    Abort(u64),
    Stop,
}

/// A request with the place its tokens go to.
#[derive(Debug)]
pub(crate) struct Submission {
    /// The HTTP side's own number of the request.
    pub(crate) key: u64,
    pub(crate) received_ns: u64,
    pub(crate) spec: RequestSpec,
    pub(crate) reason: FinishReason,
    /// Must have room for one tick per token.
    pub(crate) ticks: ticks::Sender<Tick>,
}

/// Aborts its request when dropped before the end: the client went away.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) key: u64,
    pub(crate) commands: Sender<Command>,
    pub(crate) outcome: Outcome,
}

/// Whether a request has got its last token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Open,
    Complete,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.outcome == Outcome::Open {
            // A player that is gone has nothing left to abort.
            let _ = self.commands.send(Command::Abort(self.key));
        }
    }
}

struct Subscriber {
    key: u64,
    submission: Submission,
    first_ns: Option<u64>,
    last_ns: u64,
    tokens: u32,
}

pub(crate) struct Player {
    engine: Engine,
    clock: Clock,
    observed: Arc<Mutex<Observed>>,
    queue: Queue,
    subscribers: HashMap<RequestId, Subscriber>,
    ids: HashMap<u64, RequestId>,
}

enum Flow {
    Go,
    Stop,
}

impl Player {
    pub(crate) fn new(
        engine: Engine,
        clock: Clock,
        observed: Arc<Mutex<Observed>>,
        queue: Queue,
    ) -> Self {
        Self { engine, clock, observed, queue, subscribers: HashMap::new(), ids: HashMap::new() }
    }

    /// Runs until asked to stop or until nobody can talk to it any more.
    pub(crate) fn run(mut self, commands: &Receiver<Command>) {
        let mut events = Vec::new();
        loop {
            if let Flow::Stop = self.wait(commands) {
                return;
            }
            while let Ok(command) = commands.try_recv() {
                if let Flow::Stop = self.handle(command) {
                    return;
                }
            }
            self.engine.advance_into(self.clock.now_ns(), &mut events);
            self.deliver(&mut events);
        }
    }

    /// Sleeps until a command or the engine's next event. The wait of a channel is a futex, some 50 µs exact
    /// where tokio's timer is 1 ms coarse.
    fn wait(&mut self, commands: &Receiver<Command>) -> Flow {
        let left = self.engine.next_event_time().map_or(LONGEST_WAIT, |at| {
            Duration::from_nanos(at.saturating_sub(self.clock.now_ns())).min(LONGEST_WAIT)
        });
        if left.is_zero() {
            return Flow::Go;
        }
        match commands.recv_timeout(left) {
            Ok(command) => self.handle(command),
            Err(RecvTimeoutError::Timeout) => Flow::Go,
            Err(RecvTimeoutError::Disconnected) => Flow::Stop,
        }
    }

    fn handle(&mut self, command: Command) -> Flow {
        match command {
            Command::Stop => return Flow::Stop,
            Command::Abort(key) => {
                if let Some(id) = self.ids.remove(&key) {
                    self.engine.abort(id);
                    self.subscribers.remove(&id);
                }
            }
            Command::Submit(submission) => {
                let key = submission.key;
                let id = self.engine.submit(submission.received_ns, submission.spec);
                self.ids.insert(key, id);
                let subscriber =
                    Subscriber { key, submission, first_ns: None, last_ns: 0, tokens: 0 };
                self.subscribers.insert(id, subscriber);
            }
        }
        Flow::Go
    }

    fn deliver(&mut self, events: &mut Vec<EngineEvent>) {
        let observed = self.observed.clone();
        // Held from before the first token leaves, so that whoever has seen a token finds it counted. Tokens leave
        // before the bookkeeping, which must not delay them.
        let mut observed = lock(&observed);
        for event in &*events {
            if let Some(subscriber) = self.subscribers.get(&event.request) {
                let tick = Tick {
                    at_ns: event.at_ns,
                    queued_ns: event.queued_ns,
                    scheduled_ns: event.scheduled_ns,
                    tokens: event.tokens,
                    kind: event.kind,
                };
                // Room was made for every token; a closed channel is a client that left.
                let _ = subscriber.submission.ticks.try_send(tick);
            }
        }
        for event in events.drain(..) {
            self.observe(event, &mut observed);
        }
        observed.gauges = self.engine.gauges();
        let Gauges { waiting, longest_wait_ns, .. } = observed.gauges;
        self.queue.waiting.store(waiting, Ordering::Relaxed);
        self.queue.longest_wait_ns.store(longest_wait_ns, Ordering::Relaxed);
    }

    fn observe(&mut self, event: EngineEvent, observed: &mut Observed) {
        let Some(subscriber) = self.subscribers.get_mut(&event.request) else { return };
        let received_ns = subscriber.submission.received_ns;
        match subscriber.first_ns {
            None => {
                subscriber.first_ns = Some(event.at_ns);
                observed.first_token(ns_to_s(event.at_ns.saturating_sub(received_ns)));
            }
            Some(_) => observed.gap(ns_to_s(event.at_ns.saturating_sub(subscriber.last_ns))),
        }
        subscriber.last_ns = event.at_ns;
        subscriber.tokens += event.tokens;
        if event.kind == EventKind::Finished
            && let Some(done) = self.subscribers.remove(&event.request)
        {
            self.ids.remove(&done.key);
            observed.finished(Finished {
                received_ns,
                queued_ns: event.queued_ns,
                scheduled_ns: event.scheduled_ns,
                first_ns: done.first_ns.unwrap_or(event.at_ns),
                last_ns: done.last_ns,
                prompt_tokens: done.submission.spec.prompt_tokens,
                output_tokens: done.tokens,
                reason: done.submission.reason,
            });
        }
    }
}
