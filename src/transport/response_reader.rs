//! The reading of one answer: what has come so far, and the verdict at its end.

use std::ops::ControlFlow;
use std::time::Duration;

use http::header::RETRY_AFTER;

use super::answer::{Answer, Outgoing, text_header};
use super::buffer_budget::{Buffered, MOST_BUFFERED};
use super::classify::{self, Stage};
use super::connection::ConnectionError;
use super::error_body::said;
use super::failure_excerpt::Evidence;
use super::redact::Redactor;
use super::sse::{self, Decoder, Oversized};
use super::timeline::{Exchange, TokenTimeline};
use super::timeouts::{Limits, Reached};
use super::token_counter::{HasTokens, Progress, TokenCounter};
use super::{Failure, FailureKind};
use crate::api::{Content, Dialect};
use crate::clock::Clock;

/// What went wrong, before its evidence is added.
#[derive(Debug)]
pub(super) struct Fault {
    kind: FailureKind,
    message: String,
}

impl Fault {
    pub(super) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// One answer as it comes in.
pub(super) struct Reading<'a> {
    pub(super) clock: Clock,
    pub(super) timeline: TokenTimeline,
    pub(super) evidence: Evidence,
    pub(super) limits: Limits,
    redactor: &'a Redactor,
    status: Option<u16>,
    retry_after: Option<String>,
    decoder: Decoder,
    buffered: Buffered,
    events: Events<'a>,
}

/// What the events said.
struct Events<'a> {
    dialect: &'a dyn Dialect,
    tally: TokenCounter,
    most_events: usize,
    seen: Seen,
    finish_reason: Option<String>,
    fault: Option<Fault>,
}

/// How far the stream of events has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    Nothing,
    Event,
    /// `[DONE]`.
    Done,
}

impl<'a> Reading<'a> {
    pub(super) fn new(
        outgoing: &Outgoing<'a>,
        clock: Clock,
        dialect: &'a dyn Dialect,
        due_ns: Option<u64>,
    ) -> Self {
        Self {
            clock,
            timeline: TokenTimeline { due_ns, ..TokenTimeline::default() },
            evidence: Evidence::new(outgoing.redactor),
            limits: Limits { timeouts: outgoing.timeouts, sent_ns: 0, reached: Reached::Nothing },
            redactor: outgoing.redactor,
            status: None,
            retry_after: None,
            decoder: Decoder::new(),
            buffered: outgoing.pool.buffers().part(),
            events: Events {
                dialect,
                tally: TokenCounter::new(outgoing.most_events),
                most_events: outgoing.most_events,
                seen: Seen::Nothing,
                finish_reason: None,
                fault: None,
            },
        }
    }

    /// The request goes to the pool.
    pub(super) fn sent(&mut self, at_ns: u64) {
        self.timeline.sent_ns = Some(at_ns);
        self.limits.sent_ns = at_ns;
    }

    /// The head is there. Where its connection was made for this request, the request was sent
    /// when that stood.
    pub(super) fn headed(&mut self, answer: &Answer, at_ns: u64) {
        self.timeline.headers_ns = Some(at_ns);
        self.status = Some(answer.status.as_u16());
        self.retry_after =
            text_header(&answer.headers, &RETRY_AFTER).map(|v| self.redactor.message(&v));
        let info = answer.info;
        self.timeline.connection_reused = Some(info.earlier_answers > 0);
        self.timeline.resent = info.resent;
        let connected_ns = self.clock.at_ns(info.connected).min(at_ns);
        let sent_ns = self.limits.sent_ns;
        // The clock of a request that was sent again runs from its first send.
        if info.earlier_answers == 0 && connected_ns > sent_ns && !info.resent {
            self.timeline.connect_ns = Some(connected_ns - sent_ns);
            self.sent(connected_ns);
        }
    }

    /// Takes a chunk that had been read at `at_ns`. Breaks at `[DONE]`.
    pub(super) fn take(&mut self, at_ns: u64, chunk: &[u8]) -> Result<ControlFlow<()>, Fault> {
        if self.timeline.first_byte_ns.is_none() && !chunk.is_empty() {
            self.timeline.first_byte_ns = Some(at_ns);
            self.limits.reached = Reached::FirstByte;
        }
        self.evidence.push(chunk);
        let (decoder, events, limits) = (&mut self.decoder, &mut self.events, &mut self.limits);
        let flow = decoder.feed(chunk, |event| events.take(at_ns, event, limits));
        if let Some(fault) = self.events.fault.take() {
            return Err(fault);
        }
        if self.events.seen == Seen::Done {
            self.timeline.end_ns = Some(at_ns);
        }
        if !self.buffered.holds(self.decoder.held(), MOST_BUFFERED) {
            let most = MOST_BUFFERED / (1024 * 1024);
            let message =
                format!("unfinished events of all answers together take more than {most} MiB");
            return Err(Fault::new(FailureKind::Oversized, message));
        }
        flow.map_err(|Oversized { limit_bytes }| {
            Fault::new(FailureKind::Oversized, format!("an event of more than {limit_bytes} bytes"))
        })
    }

    /// The fault of a request that got no head by `at_ns`.
    pub(super) fn head_fault(&self, error: &ConnectionError, at_ns: u64) -> Fault {
        let waited = Duration::from_nanos(at_ns.saturating_sub(self.limits.sent_ns));
        self.fault(error, Stage::Head { waited })
    }

    /// The fault of a body that broke off.
    pub(super) fn body_fault(&self, error: &ConnectionError) -> Fault {
        self.fault(error, Stage::Body)
    }

    fn fault(&self, error: &ConnectionError, stage: Stage) -> Fault {
        let (kind, message) = classify::streamed(error, stage);
        Fault { kind, message }
    }

    /// Judges a stream that ended.
    pub(super) fn verdict(&self) -> Result<(), Fault> {
        let (kind, message) = match self.events.tally.holds() {
            HasTokens::Tokens if self.events.finish_reason.is_some() => return Ok(()),
            HasTokens::Tokens => {
                let end = match self.events.seen {
                    Seen::Done => "`[DONE]` came",
                    Seen::Nothing | Seen::Event => "the stream ended",
                };
                (FailureKind::Incomplete, format!("{end} without a finish reason"))
            }
            HasTokens::Nothing
                if self.events.seen == Seen::Nothing && !self.evidence.may_be_events() =>
            {
                let message = match said(self.evidence.ends(self.redactor).first.as_bytes()) {
                    Some(said) => format!("the body of the answer holds no event: {said}"),
                    None => "the body of the answer holds no event".to_owned(),
                };
                (FailureKind::NotAStream, message)
            }
            HasTokens::Nothing => (FailureKind::Empty, "status 200 and no token".to_owned()),
        };
        Err(Fault { kind, message })
    }

    /// Counts the tokens and closes the books.
    pub(super) fn finish(mut self, fault: Option<Fault>) -> Exchange {
        let end_ns = self.timeline.end_ns.unwrap_or_else(|| self.clock.now_ns());
        self.timeline.end_ns = Some(end_ns);
        let counted = self.events.tally.count();
        self.timeline.events = counted.events;
        let failure = fault.map(|fault| {
            let ends = self.evidence.ends(self.redactor);
            Failure {
                kind: fault.kind,
                message: self.redactor.message(&fault.message),
                retry_after: self.retry_after.clone(),
                first_bytes: ends.first,
                last_bytes: ends.last,
            }
        });
        Exchange {
            timeline: self.timeline,
            status: self.status,
            input_tokens: counted.usage.prompt_tokens,
            cached_tokens: counted.usage.cached_tokens,
            output_tokens: counted.output_tokens,
            token_source: counted.source,
            finish_reason: self.events.finish_reason,
            failure,
        }
    }
}

impl Events<'_> {
    /// Takes one event. Breaks where nothing further counts.
    fn take(&mut self, at_ns: u64, event: sse::Event<'_>, limits: &mut Limits) -> ControlFlow<()> {
        let data = event.data.trim_ascii();
        if event.name == sse::Name::Error {
            return self.fail(FailureKind::ErrorInStream, said_error(data));
        }
        if data.is_empty() {
            return ControlFlow::Continue(());
        }
        if data == b"[DONE]" {
            self.seen = Seen::Done;
            return ControlFlow::Break(());
        }
        self.seen = Seen::Event;
        let event = match self.dialect.event(data) {
            Ok(event) => event,
            Err(text) => return self.fail(FailureKind::InvalidEvent, text),
        };
        match self.tally.push(at_ns, &event) {
            Progress::Token => limits.reached = Reached::Token { at_ns },
            Progress::Nothing => {}
            Progress::Full => {
                let message = format!(
                    "more than {} events: the server ignores the length that it was asked for",
                    self.most_events
                );
                return self.fail(FailureKind::Oversized, message);
            }
        }
        if let Some(error) = event.error {
            return self.fail(FailureKind::ErrorInStream, error);
        }
        // Text after a finish is of another choice, which then has to finish too.
        if event.finish_reason.is_some() || event.content != Content::None {
            self.finish_reason = event.finish_reason;
        }
        if let (Some(_), Reached::Token { at_ns }) = (&self.finish_reason, limits.reached) {
            limits.reached = Reached::Finish { token_ns: at_ns };
        }
        ControlFlow::Continue(())
    }

    fn fail(&mut self, kind: FailureKind, message: String) -> ControlFlow<()> {
        self.fault = Some(Fault { kind, message });
        ControlFlow::Break(())
    }
}

/// What an event that is named an error reports.
fn said_error(data: &[u8]) -> String {
    said(data).unwrap_or_else(|| "an event named `error`, without a word".to_owned())
}
