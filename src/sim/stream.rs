//! Stream: a response body that writes its script and stamps what it hands to the socket.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, Sleep};

use super::link::{Busy, Link};
use super::player::{Outcome, Tick, Ticket};
use super::scheduler::EventKind;
use super::stream_script::{Ending, Script, Step, Steps};
use super::truth::{TruthLog, TruthRecord};
use crate::clock::Clock;

/// Writes a request's truth into the log when dropped, however the request ended.
#[derive(Debug)]
pub(crate) struct Stamp {
    clock: Clock,
    log: Arc<TruthLog>,
    record: TruthRecord,
}

impl Stamp {
    pub(crate) fn new(clock: Clock, log: Arc<TruthLog>, record: TruthRecord) -> Self {
        Self { clock, log, record }
    }

    /// These tokens are handed to the socket now.
    pub(crate) fn tokens(&mut self, count: u32) {
        if count > 0 {
            let now_ns = self.clock.now_ns();
            self.record.first_token_ns.get_or_insert(now_ns);
            self.record.last_token_ns = Some(now_ns);
            self.record.output_tokens += count;
        }
    }
}

impl Drop for Stamp {
    fn drop(&mut self) {
        self.log.push(self.record.clone());
    }
}

/// A stream of tokens.
#[derive(Debug)]
pub(crate) struct TokenStream {
    ticks: mpsc::Receiver<Tick>,
    ticket: Ticket,
    script: Script,
    steps: Steps,
    sleep: Option<Pin<Box<Sleep>>>,
    keep_alive: Option<Interval>,
    stamp: Stamp,
    link: Arc<Link>,
    /// Whether the script has come to its end.
    outcome: Outcome,
}

impl TokenStream {
    pub(crate) fn new(
        ticks: mpsc::Receiver<Tick>,
        ticket: Ticket,
        mut script: Script,
        stamp: Stamp,
        link: Arc<Link>,
    ) -> Self {
        let mut steps = Steps::new();
        script.open(&mut steps);
        let keep_alive = script.keep_alive_every().map(|every| {
            let mut interval =
                tokio::time::interval(every.max(std::time::Duration::from_millis(1)));
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval
        });
        let outcome = Outcome::Open;
        Self { ticks, ticket, script, steps, sleep: None, keep_alive, stamp, link, outcome }
    }

    fn end(&mut self, ending: Ending) -> Option<io::Result<Frame<Bytes>>> {
        self.outcome = Outcome::Complete;
        match ending {
            Ending::Clean => None,
            Ending::Cut => Some(Err(io::ErrorKind::UnexpectedEof.into())),
            Ending::Reset => {
                self.link.reset();
                Some(Err(io::ErrorKind::ConnectionReset.into()))
            }
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        loop {
            if let Some(sleep) = &mut self.sleep {
                ready!(sleep.as_mut().poll(cx));
                self.sleep = None;
            }
            match self.steps.pop_front() {
                Some(Step::Write { bytes, tokens }) => {
                    self.stamp.tokens(tokens);
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                Some(Step::Pause(time)) => {
                    self.sleep = Some(Box::pin(tokio::time::sleep(time)));
                    continue;
                }
                Some(Step::End(ending)) => return Poll::Ready(self.end(ending)),
                None if self.outcome == Outcome::Complete => return Poll::Ready(None),
                None => {}
            }
            match self.ticks.poll_recv(cx) {
                Poll::Ready(Some(tick)) => {
                    if tick.kind == EventKind::Finished {
                        self.ticket.outcome = Outcome::Complete;
                    }
                    self.script.tick(tick, &mut self.steps);
                }
                Poll::Ready(None) => self.script.engine_gone(&mut self.steps),
                Poll::Pending => {
                    let Some(interval) = &mut self.keep_alive else { return Poll::Pending };
                    ready!(interval.poll_tick(cx));
                    self.steps.push_back(self.script.keep_alive());
                }
            }
        }
    }
}

/// A response body; its connection counts as busy until it is dropped.
#[derive(Debug)]
pub(crate) struct Reply {
    kind: ReplyKind,
    _busy: Busy,
}

#[derive(Debug)]
pub(crate) enum ReplyKind {
    Whole(Option<Bytes>),
    Stream(Box<TokenStream>),
}

impl Reply {
    pub(crate) fn new(kind: ReplyKind, busy: Busy) -> Self {
        Self { kind, _busy: busy }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut self.kind {
            ReplyKind::Whole(bytes) => {
                Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))))
            }
            ReplyKind::Stream(stream) => stream.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.kind, ReplyKind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            ReplyKind::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            ReplyKind::Stream(_) => SizeHint::default(),
        }
    }
}
