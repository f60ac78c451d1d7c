//! Virtual run: a closed or open loop played against an engine without waiting for the clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::sim::scheduler::{Engine, EngineEvent, EventKind, RequestId, RequestSpec};

/// When the slots of a closed loop send their first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotStart {
    /// All at time 0.
    Together,
    /// Evenly over this many nanoseconds.
    Spread {
        /// The span, most often one expected end-to-end latency.
        over_ns: u64,
    },
}

/// A request of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// When it is due, in nanoseconds of virtual time.
    pub due_ns: u64,
    /// What it asks.
    pub spec: RequestSpec,
}

/// What a client would have seen of one request; times in nanoseconds of virtual time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VirtualRequest {
    /// When it was due.
    pub due_ns: u64,
    /// When it was sent: here always when it was due.
    pub sent_ns: u64,
    /// Its first token.
    pub first_token_ns: u64,
    /// Its last token.
    pub last_token_ns: u64,
    /// Tokens generated.
    pub output_tokens: u32,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Gaps between its tokens; one fewer than tokens.
    pub gaps_ns: Vec<u64>,
}

impl VirtualRequest {
    /// Time to first token.
    #[must_use]
    pub fn ttft_ns(&self) -> u64 {
        self.first_token_ns - self.due_ns
    }

    /// End-to-end latency.
    #[must_use]
    pub fn e2el_ns(&self) -> u64 {
        self.last_token_ns - self.due_ns
    }

    /// Time per output token in milliseconds; undefined with one token.
    #[must_use]
    pub fn tpot_ms(&self) -> Option<f64> {
        let following = self.output_tokens.checked_sub(1).filter(|n| *n > 0)?;
        let span = self.last_token_ns - self.first_token_ns;
        Some(crate::units::ns_to_ms(span) / f64::from(following))
    }
}

/// Plays all `specs` in order, `concurrency` (at least 1) at a time; each slot refills as its request ends.
///
/// The engine's time may be past 0 (rounds of one start): times in the result are the engine's own.
#[must_use]
pub fn closed_loop(
    engine: &mut Engine,
    from_ns: u64,
    specs: &[RequestSpec],
    concurrency: usize,
    slots: SlotStart,
) -> Vec<VirtualRequest> {
    let mut run = Run::new(engine, specs.len());
    let concurrency = concurrency.max(1).min(specs.len());
    for slot in 0..concurrency {
        let offset = match slots {
            SlotStart::Together => 0,
            SlotStart::Spread { over_ns } => over_ns / concurrency as u64 * slot as u64,
        };
        run.due.push(Reverse((from_ns + offset, slot)));
    }
    let mut next = concurrency;
    run.play(
        |index| specs[index],
        |run, ended_ns| {
            if next < specs.len() {
                run.due.push(Reverse((ended_ns, next)));
                next += 1;
            }
        },
    );
    run.finish()
}

/// Plays arrivals at their due times, whatever the engine does.
#[must_use]
pub fn open_loop(engine: &mut Engine, arrivals: &[Arrival]) -> Vec<VirtualRequest> {
    let mut run = Run::new(engine, arrivals.len());
    run.due.extend(arrivals.iter().enumerate().map(|(i, a)| Reverse((a.due_ns, i))));
    run.play(|index| arrivals[index].spec, |_, _| {});
    run.finish()
}

struct Run<'a> {
    engine: &'a mut Engine,
    due: BinaryHeap<Reverse<(u64, usize)>>,
    requests: Vec<Option<VirtualRequest>>,
    /// The request behind an engine's id, counted from the first id of this run.
    index_of: Vec<usize>,
    first_id: Option<u64>,
}

impl<'a> Run<'a> {
    fn new(engine: &'a mut Engine, count: usize) -> Self {
        let requests = vec![None; count];
        let index_of = Vec::with_capacity(count);
        Self { engine, due: BinaryHeap::new(), requests, index_of, first_id: None }
    }

    fn play(&mut self, spec: impl Fn(usize) -> RequestSpec, mut ended: impl FnMut(&mut Self, u64)) {
        let mut events = Vec::new();
        // Ends when nothing is due and the engine is idle: each request brings a bounded number of events.
        loop {
            let due = self.due.peek().map(|entry| entry.0);
            let inside = self.engine.next_event_time();
            match (due, inside) {
                (None, None) => break,
                (Some((at, index)), inside) if inside.is_none_or(|t| at <= t) => {
                    self.due.pop();
                    self.send(at, index, spec(index));
                }
                (_, Some(at)) => {
                    self.engine.advance_into(at, &mut events);
                    for event in events.drain(..) {
                        if self.take(&event) == EventKind::Finished {
                            ended(self, event.at_ns);
                        }
                    }
                }
                (Some(_), None) => break, // covered by the guard above
            }
        }
    }

    fn send(&mut self, at_ns: u64, index: usize, spec: RequestSpec) {
        let RequestId(id) = self.engine.submit(at_ns, spec);
        self.first_id.get_or_insert(id);
        self.index_of.push(index);
        self.requests[index] = Some(VirtualRequest {
            due_ns: at_ns,
            sent_ns: at_ns,
            first_token_ns: 0,
            last_token_ns: 0,
            output_tokens: 0,
            prompt_tokens: spec.prompt_tokens,
            gaps_ns: Vec::with_capacity(spec.output_tokens as usize),
        });
    }

    fn take(&mut self, event: &EngineEvent) -> EventKind {
        // Tokens of requests submitted before this run belong to nobody here.
        let place = self.first_id.and_then(|first| event.request.0.checked_sub(first));
        let index = place.and_then(|p| self.index_of.get(usize::try_from(p).ok()?).copied());
        let Some(request) = index.and_then(|i| self.requests[i].as_mut()) else {
            return EventKind::Token;
        };
        if request.output_tokens == 0 {
            request.first_token_ns = event.at_ns;
        } else {
            request.gaps_ns.push(event.at_ns - request.last_token_ns);
        }
        request.last_token_ns = event.at_ns;
        request.output_tokens += event.tokens;
        event.kind
    }

    fn finish(self) -> Vec<VirtualRequest> {
        self.requests.into_iter().flatten().collect()
    }
}
