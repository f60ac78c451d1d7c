//! Engine: a continuous-batching scheduler as a pure state machine in virtual time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use rand_distr::{Distribution, StandardNormal};

use super::noise::{Noise, NoiseState};
use super::profile::{Prefill, Profile, Scheduling};
use crate::rng::Seed;

/// What a request asks of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestSpec {
    /// Tokens of the prompt; 0 counts as 1.
    pub prompt_tokens: u32,
    /// Tokens to generate, exactly; 0 counts as 1.
    pub output_tokens: u32,
    /// Tokens at the prompt's head that a prefix cache serves; at least one token is always computed.
    pub cached_tokens: u32,
}

impl RequestSpec {
    /// A request with nothing cached.
    #[must_use]
    pub fn new(prompt_tokens: u32, output_tokens: u32) -> Self {
        Self { prompt_tokens, output_tokens, cached_tokens: 0 }
    }
}

/// A request's number within its engine, in order of submission from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What an [`EngineEvent`] tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A token, with more to come.
    Token,
    /// The last token.
    Finished,
}

/// Tokens that leave the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineEvent {
    /// When they leave, in nanoseconds of virtual time.
    pub at_ns: u64,
    /// Whose they are.
    pub request: RequestId,
    /// How many; 1 today.
    pub tokens: u32,
    /// Whether more will come.
    pub kind: EventKind,
    /// When the request reached the scheduler.
    pub queued_ns: u64,
    /// When the request first entered an iteration.
    pub scheduled_ns: u64,
}

/// The engine's state as its metrics show it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Gauges {
    /// Requests in the batch.
    pub running: u32,
    /// Requests that wait for a place, those still in the front end included.
    pub waiting: u32,
    /// How long the first of them has waited at the scheduler, nanoseconds.
    pub longest_wait_ns: u64,
    /// Share of the KV cache in use, in [0, 1].
    pub kv_usage: f64,
    /// Prompt tokens of finished prefills, since the start.
    pub prompt_tokens: u64,
    /// Prompt tokens that the prefix cache served, since the start.
    pub cached_tokens: u64,
    /// Tokens generated, since the start.
    pub generation_tokens: u64,
    /// Requests that got all their tokens, since the start.
    pub finished: u64,
    /// Requests aborted, since the start.
    pub aborted: u64,
    /// Iterations, since the start.
    pub iterations: u64,
}

/// A request inside the engine.
#[derive(Debug, Clone, Copy)]
struct Sequence {
    id: RequestId,
    prompt: u32,
    output: u32,
    cached: u32,
    prefilled: u32,
    produced: u32,
    /// Tokens it was given in the iteration under way.
    granted: u32,
    queued_ns: u64,
    scheduled_ns: u64,
}

impl Sequence {
    fn decodes(&self) -> bool {
        self.prefilled == self.prompt
    }

    /// Whether the iteration under way brings it a token: not a piece of a prompt before the last.
    fn produces(&self) -> bool {
        self.decodes() || self.prefilled + self.granted == self.prompt
    }

    fn context(&self) -> u64 {
        u64::from(self.prefilled) + u64::from(self.produced)
    }

    /// Blocks are reserved for the whole life, so that this engine never preempts.
    fn reserved(&self) -> u64 {
        u64::from(self.prompt) + u64::from(self.output)
    }
}

/// The scheduler. Its time is virtual: the caller submits and advances.
#[derive(Debug)]
pub struct Engine {
    profile: Profile,
    noise: NoiseState,
    network_seed: Seed,
    now_ns: u64,
    next_id: u64,
    front_free_ns: u64,
    /// When the front end is done with the tokens on their way back.
    tokens_done_ns: u64,
    /// Requests on their way through the front end, by the time they reach the scheduler.
    arriving: BinaryHeap<Reverse<(u64, RequestId)>>,
    arriving_specs: BTreeMap<RequestId, Sequence>,
    waiting: VecDeque<Sequence>,
    running: Vec<Sequence>,
    reserved_tokens: u64,
    iteration_ends_ns: Option<u64>,
    /// When the last iteration began.
    iteration_began_ns: u64,
    /// Whether an iteration ended at the very moment that the caller asked for. The next one begins with the
    /// next call, so that requests submitted at that moment still join it.
    rests: bool,
    /// Tokens on their way back. Times never fall, because the way back takes a fixed time.
    leaving: VecDeque<EngineEvent>,
    totals: Gauges,
}

impl Engine {
    /// An idle engine at time 0. `seed` is the seed of this start: see [`super::noise::start_seed`].
    #[must_use]
    pub fn new(profile: Profile, noise: Noise, seed: Seed) -> Self {
        Self {
            profile,
            noise: NoiseState::new(noise, seed),
            network_seed: seed.named("network"),
            now_ns: 0,
            next_id: 0,
            front_free_ns: 0,
            tokens_done_ns: 0,
            arriving: BinaryHeap::new(),
            arriving_specs: BTreeMap::new(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            reserved_tokens: 0,
            iteration_ends_ns: None,
            iteration_began_ns: 0,
            rests: false,
            leaving: VecDeque::new(),
            totals: Gauges::default(),
        }
    }

    /// Hands a request to the front end at `at_ns` (not before the time advanced to: then it counts as now).
    pub fn submit(&mut self, at_ns: u64, spec: RequestSpec) -> RequestId {
        let id = RequestId(self.next_id);
        self.next_id += 1;
        let prompt = spec.prompt_tokens.max(1);
        let front = self.profile.front;
        // The front end takes one request at a time, as an API server's single event loop does.
        let begin = at_ns.max(self.now_ns).max(self.front_free_ns);
        self.front_free_ns = begin.saturating_add(ms_to_ns(front.busy_ms(prompt)));
        let jitter = if front.in_sigma > 0.0 {
            let mut rng = self.network_seed.nth(id.0).rng();
            let normal: f64 = StandardNormal.sample(&mut rng);
            (front.in_sigma * normal).exp()
        } else {
            1.0
        };
        let arrives = self.front_free_ns.saturating_add(ms_to_ns(front.in_ms * jitter));
        let cached = spec.cached_tokens.min(prompt - 1);
        self.arriving.push(Reverse((arrives, id)));
        self.arriving_specs.insert(
            id,
            Sequence {
                id,
                prompt,
                output: spec.output_tokens.max(1),
                cached,
                prefilled: cached,
                produced: 0,
                granted: 0,
                queued_ns: 0,
                scheduled_ns: 0,
            },
        );
        id
    }

    /// Drops a request wherever it is; tokens already on their way back are dropped too.
    pub fn abort(&mut self, id: RequestId) {
        let mut found = self.arriving_specs.remove(&id).is_some();
        let before = self.waiting.len();
        self.waiting.retain(|s| s.id != id);
        found |= self.waiting.len() < before;
        if let Some(place) = self.running.iter().position(|s| s.id == id) {
            // The iteration under way keeps its length: the work was already given out.
            let sequence = self.running.remove(place);
            self.reserved_tokens -= sequence.reserved();
            found = true;
        }
        self.leaving.retain(|event| event.request != id);
        if found {
            self.totals.aborted += 1;
        }
    }

    /// When something next happens inside; `None` while idle.
    #[must_use]
    pub fn next_event_time(&self) -> Option<u64> {
        let begins = self.rests && !(self.running.is_empty() && self.waiting.is_empty());
        let work = self
            .iteration_ends_ns
            .or(begins.then_some(self.now_ns))
            .or_else(|| self.arriving.peek().map(|r| r.0.0));
        let leave = self.leaving.front().map(|event| event.at_ns);
        match (work, leave) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Runs to `to_ns` and returns the tokens that left by then, in order of time.
    pub fn advance(&mut self, to_ns: u64) -> Vec<EngineEvent> {
        let mut events = Vec::new();
        self.advance_into(to_ns, &mut events);
        events
    }

    /// As [`Engine::advance`], appending to a buffer of the caller's.
    pub fn advance_into(&mut self, to_ns: u64, events: &mut Vec<EngineEvent>) {
        loop {
            match self.iteration_ends_ns {
                Some(end) if end <= to_ns => {
                    self.now_ns = end;
                    self.end_iteration();
                    self.rests = end == to_ns;
                    if self.rests {
                        break;
                    }
                }
                Some(_) => break,
                None if self.rests => self.rests = false,
                None => match self.arriving.peek() {
                    Some(Reverse((at, _))) if *at <= to_ns => self.now_ns = self.now_ns.max(*at),
                    _ => break,
                },
            }
            self.accept_arrivals();
            self.begin_iteration();
        }
        self.now_ns = self.now_ns.max(to_ns);
        while let Some(event) = self.leaving.front()
            && event.at_ns <= to_ns
        {
            events.push(*event);
            self.leaving.pop_front();
        }
    }

    /// The state as metrics show it.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
    pub fn gauges(&self) -> Gauges {
        let used: u64 = self.running.iter().map(Sequence::context).sum();
        let capacity = self.profile.limits.kv_capacity_tokens.max(1);
        Gauges {
            running: self.running.len() as u32,
            waiting: (self.waiting.len() + self.arriving_specs.len()) as u32,
            longest_wait_ns: self
                .waiting
                .front()
                .map_or(0, |first| self.now_ns.saturating_sub(first.queued_ns)),
            kv_usage: (used as f64 / capacity as f64).min(1.0),
            ..self.totals
        }
    }

    /// Takes in what arrived before the next iteration was put together.
    fn accept_arrivals(&mut self) {
        let is_ahead =
            self.profile.limits.scheduling == Scheduling::Async && !self.running.is_empty();
        let until_ns = if is_ahead { self.iteration_began_ns } else { self.now_ns };
        while let Some(Reverse((at, id))) = self.arriving.peek().copied()
            && at <= until_ns
        {
            self.arriving.pop();
            // Aborted ones are gone from the specs.
            if let Some(mut sequence) = self.arriving_specs.remove(&id) {
                sequence.queued_ns = at;
                self.waiting.push_back(sequence);
            }
        }
    }

    fn begin_iteration(&mut self) {
        for sequence in &mut self.running {
            sequence.granted = 0;
        }
        match self.profile.limits.prefill {
            Prefill::Chunked => self.grant_chunked(),
            Prefill::Whole => self.grant_whole(),
        }
        if self.running.iter().all(|s| s.granted == 0) {
            self.iteration_ends_ns = None;
            return;
        }
        self.iteration_began_ns = self.now_ns;
        let factor = self.noise.factor(self.now_ns) * self.profile.slowdown;
        let pause_ms = self.noise.pause_ms();
        let length_ns = ms_to_ns(self.iteration_ms() * factor + pause_ms);
        // At least a nanosecond, or a profile of zeros would never let time pass.
        self.iteration_ends_ns = Some(self.now_ns.saturating_add(length_ns.max(1)));
        self.totals.iterations += 1;
    }

    /// Decodes first, then prefill from what is left of the budget, in pieces.
    fn grant_chunked(&mut self) {
        let mut budget = self.profile.limits.max_num_batched_tokens.max(1);
        for sequence in self.running.iter_mut().filter(|s| s.decodes()) {
            let take = budget.min(1);
            sequence.granted = take;
            budget -= take;
        }
        for sequence in self.running.iter_mut().filter(|s| !s.decodes()) {
            let take = budget.min(sequence.prompt - sequence.prefilled);
            sequence.granted = take;
            budget -= take;
        }
        while budget > 0
            && let Some(mut sequence) = self.admit()
        {
            let take = budget.min(sequence.prompt - sequence.prefilled);
            sequence.granted = take;
            budget -= take;
            self.running.push(sequence);
        }
    }

    /// Decodes first, then whole prompts as long as the rest of the budget holds them.
    fn grant_whole(&mut self) {
        let most = self.profile.limits.max_num_batched_tokens.max(1);
        let mut budget = most;
        for sequence in self.running.iter_mut().filter(|s| s.decodes()) {
            let take = budget.min(1);
            sequence.granted = take;
            budget -= take;
        }
        while let Some(next) = self.waiting.front() {
            let need = next.prompt - next.prefilled;
            // A prompt longer than the whole budget goes with nothing beside it but decodes, or it would
            // wait for ever; vLLM refuses to start with such limits.
            let alone = need > most && budget > 0 && self.running.iter().all(Sequence::decodes);
            if need > budget && !alone {
                break;
            }
            let Some(mut sequence) = self.admit() else { break };
            sequence.granted = need;
            budget = budget.saturating_sub(need);
            self.running.push(sequence);
        }
    }

    /// Takes the first waiting request where a place and KV blocks are free.
    fn admit(&mut self) -> Option<Sequence> {
        let limits = self.profile.limits;
        let next = self.waiting.front()?;
        let full = self.running.len() >= limits.max_num_seqs.max(1) as usize;
        let fits = self.reserved_tokens + next.reserved() <= limits.kv_capacity_tokens;
        // A request larger than the cache may run alone, or it would wait for ever.
        if full || !(fits || self.running.is_empty()) {
            return None;
        }
        let mut sequence = self.waiting.pop_front()?;
        sequence.scheduled_ns = self.now_ns;
        self.reserved_tokens += sequence.reserved();
        Some(sequence)
    }

    /// The formula: a + b·prefill tokens + c0·decoding + kv·(their context) + attn·(sum of prefill positions).
    #[allow(clippy::cast_precision_loss)]
    fn iteration_ms(&self) -> f64 {
        let (mut prefill, mut decoding, mut context, mut positions) = (0_u64, 0_u64, 0_u64, 0_u64);
        for sequence in self.running.iter().filter(|s| s.granted > 0) {
            if sequence.decodes() {
                decoding += 1;
                context += sequence.context();
            } else {
                let (from, count) = (u64::from(sequence.prefilled), u64::from(sequence.granted));
                prefill += count;
                // Positions from, …, from + count - 1.
                positions += count * from + count * (count - 1) / 2;
            }
        }
        let costs = self.profile.costs;
        let mixed_ms = if prefill > 0 { costs.prefill_ms } else { 0.0 };
        costs.base_ms
            + mixed_ms
            + costs.prefill_token_ms * prefill as f64
            + costs.decoding_ms * decoding as f64
            + costs.context_token_ms * context as f64
            + costs.position_ms * positions as f64
    }

    /// Sends the tokens of an iteration through the front end; returns when they leave. Tokens go before
    /// requests, which wait there for as long.
    fn through_front_end(&mut self, tokens: u64) -> u64 {
        let front = self.profile.front;
        let busy_ns = ms_to_ns(front.busy_token_ms).saturating_mul(tokens);
        if busy_ns > 0 {
            self.tokens_done_ns = self.tokens_done_ns.max(self.now_ns).saturating_add(busy_ns);
            self.front_free_ns = self.front_free_ns.max(self.now_ns).saturating_add(busy_ns);
            let in_front_end = |at: u64| at > self.now_ns.saturating_add(ms_to_ns(front.in_ms));
            let late = |Reverse((at, id)): Reverse<(u64, RequestId)>| {
                Reverse((if in_front_end(at) { at.saturating_add(busy_ns) } else { at }, id))
            };
            self.arriving = std::mem::take(&mut self.arriving).into_iter().map(late).collect();
        }
        self.now_ns.max(self.tokens_done_ns).saturating_add(ms_to_ns(front.out_ms))
    }

    fn end_iteration(&mut self) {
        self.iteration_ends_ns = None;
        let produced = self.running.iter().filter(|s| s.granted > 0 && s.produces()).count();
        let at_ns = self.through_front_end(produced as u64);
        let (leaving, totals) = (&mut self.leaving, &mut self.totals);
        let reserved_tokens = &mut self.reserved_tokens;
        self.running.retain_mut(|sequence| {
            if sequence.granted == 0 {
                return true;
            }
            if !sequence.decodes() {
                sequence.prefilled += sequence.granted;
                if !sequence.decodes() {
                    return true;
                }
                totals.prompt_tokens += u64::from(sequence.prompt);
                totals.cached_tokens += u64::from(sequence.cached);
            }
            sequence.produced += 1;
            totals.generation_tokens += 1;
            let done = sequence.produced == sequence.output;
            leaving.push_back(EngineEvent {
                at_ns,
                request: sequence.id,
                tokens: 1,
                kind: if done { EventKind::Finished } else { EventKind::Token },
                queued_ns: sequence.queued_ns,
                scheduled_ns: sequence.scheduled_ns,
            });
            if done {
                totals.finished += 1;
                *reserved_tokens -= sequence.reserved();
            }
            !done
        });
    }
}

/// Milliseconds to whole nanoseconds.
fn ms_to_ns(ms: f64) -> u64 {
    crate::units::s_to_ns(ms / 1e3)
}
