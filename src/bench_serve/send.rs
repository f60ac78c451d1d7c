//! Sending: exactly the requests of a benchmark, and what vLLM's client would note of each.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::thread::Thread;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::body::BodyWriter;
use super::dataset::Sample;
use crate::api::{Dialect, GenerateRequest, Place, StreamEvent};
use crate::clock::Clock;
use crate::drive::{Interrupt, Urgency};
use crate::error::{Error, ErrorKind, Result};
use crate::transport::{Client, Exchange, FailureKind};
use crate::units::s_to_ns;

/// The system wakes a sleeper up to about this late; the rest is waited out by yielding.
const SLACK_NS: u64 = 50_000;
/// The longest single sleep, so that a missed wake-up cannot hold the pacer for long.
const LONGEST_SLEEP_NS: u64 = 1_000_000_000;

/// Requests on their way to one server.
#[derive(Clone)]
pub(super) struct Sender {
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) dialect: Arc<dyn Dialect>,
    pub(super) bodies: Arc<BodyWriter>,
    /// Keeps the generated text.
    pub(super) keeps_text: bool,
}

/// One request as it went. Times are nanoseconds on the run's clock.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    /// Its number among the samples.
    pub(super) index: usize,
    /// When it was due; beyond a limit on requests in flight it waited from then on.
    pub(super) arrived_ns: u64,
    /// When it was begun; connecting follows, as in vLLM's client.
    pub(super) begun_ns: u64,
    /// When it had ended.
    pub(super) ended_ns: u64,
    /// When each event with a choice had been read, which is what vLLM's client calls a chunk: an
    /// event without text counts too.
    pub(super) chunks_ns: Vec<u64>,
    pub(super) text: String,
    pub(super) exchange: Exchange,
}

/// How far a benchmark is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    pub(super) ended: usize,
    pub(super) of: usize,
}

/// What came of all requests.
#[derive(Debug)]
pub(super) struct Sent {
    /// In the order of their numbers.
    pub(super) answers: Vec<Answer>,
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    /// Whether the user stopped it before the last answer had come.
    pub(super) is_interrupted: bool,
}

impl Sender {
    /// Sends every sample at its due time (seconds after the start), at most `limit` in flight, and
    /// reads every answer to its end. After a Ctrl-C nothing more is sent.
    pub(super) async fn send_all(
        &self,
        samples: &Arc<Vec<Sample>>,
        due_s: Vec<f64>,
        limit: Option<u32>,
        interrupt: &Interrupt,
        show: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Sent> {
        let limit = limit.map_or(usize::MAX, |limit| limit as usize);
        let begin_ns = self.clock.now_ns();
        let mut pacer = Pacer::start(self.clock, begin_ns, due_s)?;
        let mut waiting: VecDeque<Arrival> = VecDeque::new();
        let mut flights: JoinSet<Answer> = JoinSet::new();
        let mut answers = Vec::with_capacity(samples.len());
        let mut end_ns = begin_ns;
        let mut is_interrupted = false;
        while answers.len() < samples.len() && !(is_interrupted && flights.is_empty()) {
            while !is_interrupted
                && flights.len() < limit
                && let Some(arrival) = waiting.pop_front()
            {
                let (sender, samples) = (self.clone(), Arc::clone(samples));
                flights.spawn(async move { sender.send(&samples[arrival.index], arrival).await });
            }
            tokio::select! {
                biased;
                _ = interrupt.beyond(Urgency::None), if !is_interrupted => is_interrupted = true,
                Some(ended) = flights.join_next() => {
                    end_ns = self.clock.now_ns();
                    answers.push(ended.map_err(|error| {
                        Error::new(ErrorKind::Client, "a request of the client broke").with_cause(error)
                    })?);
                    show(Progress { ended: answers.len(), of: samples.len() });
                }
                Some(arrival) = pacer.arrivals.recv() => waiting.push_back(arrival),
            }
        }
        answers.sort_by_key(|answer| answer.index);
        Ok(Sent { answers, begin_ns, end_ns, is_interrupted })
    }

    /// Sends one request and reads its answer.
    pub(super) async fn send(&self, sample: &Sample, arrival: Arrival) -> Answer {
        let body = self.bodies.write(sample, arrival.index);
        let watch = Watch {
            inner: &*self.dialect,
            clock: self.clock,
            keeps_text: self.keeps_text,
            seen: Mutex::new(Seen::default()),
        };
        let begun_ns = self.clock.now_ns();
        let stop = std::future::pending();
        let sending =
            self.client.exchange_within(self.clock, &watch, body, None, sample.output_tokens, stop);
        let mut exchange = Box::pin(sending).await;
        let Seen { chunks_ns, text } = watch.seen.into_inner().unwrap_or_default();
        let is_empty = exchange.failure.as_ref().is_some_and(|f| f.kind == FailureKind::Empty);
        if is_empty && exchange.finish_reason.is_some() && !chunks_ns.is_empty() {
            // The model ended at once: an answer without text, which vLLM's client takes as complete.
            exchange.failure = None;
        }
        let Arrival { index, arrived_ns } = arrival;
        let ended_ns = self.clock.now_ns();
        Answer { index, arrived_ns, begun_ns, ended_ns, chunks_ns, text, exchange }
    }
}

/// A request that has fallen due.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) index: usize,
    pub(super) arrived_ns: u64,
}

/// A dialect that notes when its events are read.
struct Watch<'a> {
    inner: &'a dyn Dialect,
    clock: Clock,
    keeps_text: bool,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    chunks_ns: Vec<u64>,
    text: String,
}

impl Dialect for Watch<'_> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn path(&self) -> &'static str {
        self.inner.path()
    }

    fn body(&self, request: &GenerateRequest<'_>) -> Result<Bytes> {
        self.inner.body(request)
    }

    fn event(&self, data: &[u8]) -> Result<StreamEvent, String> {
        let event = self.inner.event(data)?;
        if event.place == Place::InAnswer
            && let Ok(mut seen) = self.seen.lock()
        {
            seen.chunks_ns.push(self.clock.now_ns());
            if self.keeps_text {
                seen.text.push_str(&text_of(data));
            }
        }
        Ok(event)
    }
}

/// The text of an event's first choice.
fn text_of(data: &[u8]) -> String {
    let event: Value = serde_json::from_slice(data).unwrap_or_default();
    let choice = &event["choices"][0];
    let text = choice["text"].as_str().or(choice["delta"]["content"].as_str());
    text.unwrap_or_default().to_owned()
}

/// Hands out the numbers of requests as they fall due, from a dedicated thread: tokio's timer is
/// 1 ms coarse.
struct Pacer {
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    thread: Thread,
}

impl Pacer {
    fn start(clock: Clock, begin_ns: u64, due_s: Vec<f64>) -> Result<Self> {
        let (sender, arrivals) = mpsc::unbounded_channel();
        let pace = move || {
            for (index, due_s) in due_s.into_iter().enumerate() {
                let arrived_ns = begin_ns.saturating_add(s_to_ns(due_s));
                wait_until(clock, arrived_ns, &sender);
                // A closed channel means that nobody sends any more.
                if sender.send(Arrival { index, arrived_ns }).is_err() {
                    return;
                }
            }
        };
        let handle = std::thread::Builder::new().name("inferometer-pacer".to_owned()).spawn(pace);
        let handle = handle.map_err(|error| {
            Error::new(ErrorKind::Client, "cannot start a thread to pace the load")
                .with_cause(error)
        })?;
        Ok(Self { arrivals, thread: handle.thread().clone() })
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        self.arrivals.close();
        self.thread.unpark();
    }
}

fn wait_until(clock: Clock, due_ns: u64, sender: &mpsc::UnboundedSender<Arrival>) {
    loop {
        let left_ns = due_ns.saturating_sub(clock.now_ns());
        if left_ns == 0 || sender.is_closed() {
            return;
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
    fn the_text_of_both_apis() {
        assert_eq!(text_of(br#"{"choices":[{"text":" a"}]}"#), " a");
        assert_eq!(text_of(br#"{"choices":[{"delta":{"content":"b"}}]}"#), "b");
        assert_eq!(text_of(br#"{"choices":[{"delta":{"role":"assistant"}}]}"#), "");
        assert_eq!(text_of(br#"{"choices":[]}"#), "");
    }
}
