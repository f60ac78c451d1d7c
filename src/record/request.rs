//! One request as it was: outcome, times, tokens. Failures are data.

use serde::{Deserialize, Serialize};

use crate::api::Content;
use crate::plan::{Phase, PlannedRequest, Side};
use crate::transport::client::TokenSource;
use crate::transport::{Exchange, Failure, FailureKind, TokenEvent};

/// Two events closer than this, 50 µs in ns, came in one read: the gap is the network's or the
/// client's, not a decode step's (the fastest of which take several times as long).
const COALESCED_NS: u64 = 50_000;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// With its full answer.
    Completed,
    /// With a failure.
    Failed,
    /// By our own hand, after the window or on interruption: neither a success nor a failure.
    Cancelled,
}

/// Why an answer ended, by its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Finish {
    /// At the limit that was asked for.
    Length,
    /// Where the model ended it.
    Stop,
    /// A content filter cut it.
    ContentFilter,
    /// Another reason.
    #[serde(other)]
    Other,
}

impl Finish {
    /// Of the word that servers use.
    fn of(word: &str) -> Self {
        match word {
            "length" | "max_tokens" => Self::Length,
            "stop" | "end_turn" | "eos" => Self::Stop,
            "content_filter" => Self::ContentFilter,
            _ => Self::Other,
        }
    }
}

/// The part of a round in which a request was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Before the window opened.
    Ramp,
    /// One of the measured.
    Measured,
    /// After the measured ones, to keep the load up.
    Tail,
}

/// One line of `requests.jsonl`. Times are nanoseconds on the run's clock; `None` if it did not
/// happen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // the names are the definitions: DESIGN's list of fields
pub struct RequestRecord {
    pub side: Side,
    pub block: u32,
    pub start: u32,
    pub round: u32,
    pub phase: Phase,
    pub part: Part,
    pub index: u64,
    pub seed: u64,
    pub outcome: Outcome,
    pub failure: Option<FailureKind>,
    /// Evidence of a failure; bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Box<Failure>>,
    pub status: Option<u16>,
    pub due_ns: Option<u64>,
    pub sent_ns: Option<u64>,
    pub headers_ns: Option<u64>,
    pub first_byte_ns: Option<u64>,
    pub first_token_ns: Option<u64>,
    pub first_output_ns: Option<u64>,
    pub last_token_ns: Option<u64>,
    pub end_ns: Option<u64>,
    /// Asked of the server.
    pub input_tokens_asked: u32,
    pub output_tokens_asked: u32,
    /// Counted by the server.
    pub input_tokens: Option<u32>,
    pub cached_tokens: Option<u32>,
    pub output_tokens: Option<u32>,
    pub first_event_tokens: u32,
    /// Output tokens delivered inside the round's window.
    pub window_tokens: u32,
    pub token_source: Option<TokenSource>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<Finish>,
    pub events: u32,
    /// Events within 50 µs of the one before.
    pub coalesced_events: u32,
    pub worst_gap_ns: Option<u64>,
    pub connection_reused: Option<bool>,
    /// Sent a second time, because the server was closing the first connection.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resent: bool,
}

/// Where a request belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestIdent {
    /// Whose server.
    pub side: Side,
    /// Which block.
    pub block: u32,
    /// Which start.
    pub start: u32,
    /// Which pass within the start.
    pub round: u32,
    /// Reference or load.
    pub phase: Phase,
    /// Ramp, measured or tail.
    pub part: Part,
}

impl RequestRecord {
    /// The record of one exchange. `window` is (open, close) in ns on the run's clock: a token
    /// counts inside where open < its time ≤ close, so that neighbouring windows share none.
    #[must_use]
    pub fn from_exchange(
        ident: RequestIdent,
        planned: &PlannedRequest,
        exchange: &Exchange,
        window: (u64, u64),
    ) -> Self {
        let timeline = &exchange.timeline;
        let events = timeline.events.as_slice();
        let gaps = || events.windows(2).map(|pair| pair[1].at_ns.saturating_sub(pair[0].at_ns));
        let failure = exchange.failure.as_ref();
        Self {
            side: ident.side,
            block: ident.block,
            start: ident.start,
            round: ident.round,
            phase: ident.phase,
            part: ident.part,
            index: planned.index,
            seed: planned.seed.0,
            outcome: Outcome::of(failure),
            failure: failure.map(|failure| failure.kind),
            evidence: exchange.failure.clone().map(Box::new),
            status: exchange.status,
            due_ns: timeline.due_ns,
            sent_ns: timeline.sent_ns,
            headers_ns: timeline.headers_ns,
            first_byte_ns: timeline.first_byte_ns,
            first_token_ns: events.first().map(|event| event.at_ns),
            first_output_ns: events
                .iter()
                .find(|event| event.content == Content::Visible)
                .map(|event| event.at_ns),
            last_token_ns: events.last().map(|event| event.at_ns),
            end_ns: timeline.end_ns,
            input_tokens_asked: planned.input_tokens,
            output_tokens_asked: planned.output_tokens,
            input_tokens: exchange.input_tokens,
            cached_tokens: exchange.cached_tokens,
            output_tokens: exchange.output_tokens,
            first_event_tokens: events.first().map_or(0, |event| event.tokens),
            window_tokens: tokens_within(events, window),
            token_source: exchange.token_source,
            finish: exchange.finish_reason.as_deref().map(Finish::of),
            events: u32::try_from(events.len()).unwrap_or(u32::MAX),
            coalesced_events: u32::try_from(gaps().filter(|gap| *gap < COALESCED_NS).count())
                .unwrap_or(u32::MAX),
            worst_gap_ns: gaps().max(),
            connection_reused: timeline.connection_reused,
            resent: timeline.resent,
        }
    }

    /// Whether its latencies count: measured, and completed.
    #[must_use]
    pub fn is_sample(&self) -> bool {
        self.part == Part::Measured && self.outcome == Outcome::Completed
    }

    /// When its clock started, ns: due in the open loop, else sent.
    #[must_use]
    pub fn clock_start_ns(&self) -> Option<u64> {
        self.due_ns.or(self.sent_ns)
    }

    /// When it ended: its answer's end, else its last token.
    #[must_use]
    pub fn ended_ns(&self) -> Option<u64> {
        self.end_ns.or(self.last_token_ns)
    }
}

impl Outcome {
    fn of(failure: Option<&Failure>) -> Self {
        match failure.map(|failure| failure.kind) {
            None => Self::Completed,
            Some(FailureKind::Cancelled) => Self::Cancelled,
            Some(_) => Self::Failed,
        }
    }
}

/// Tokens of the events with open < at ≤ close, saturating.
fn tokens_within(events: &[TokenEvent], (open_ns, close_ns): (u64, u64)) -> u32 {
    events
        .iter()
        .filter(|event| open_ns < event.at_ns && event.at_ns <= close_ns)
        .fold(0, |sum: u32, event| sum.saturating_add(event.tokens))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;
    use crate::transport::TokenTimeline;
    use proptest::prelude::*;

    const IDENT: RequestIdent = RequestIdent {
        side: Side::New,
        block: 1,
        start: 2,
        round: 0,
        phase: Phase::Load,
        part: Part::Measured,
    };

    const PLANNED: PlannedRequest = PlannedRequest {
        index: 7,
        due_ns: None,
        input_tokens: 512,
        output_tokens: 128,
        seed: Seed(99),
    };

    fn event(at_ns: u64, tokens: u32, content: Content) -> TokenEvent {
        TokenEvent { at_ns, tokens, content }
    }

    fn exchange(events: Vec<TokenEvent>) -> Exchange {
        let output_tokens = events.iter().map(|event| event.tokens).sum();
        Exchange {
            timeline: TokenTimeline {
                due_ns: Some(1_000_000),
                sent_ns: Some(3_000_000),
                headers_ns: Some(9_000_000),
                first_byte_ns: Some(9_000_000),
                end_ns: Some(60_000_000),
                connection_reused: Some(true),
                resent: false,
                connect_ns: None,
                events,
            },
            status: Some(200),
            input_tokens: Some(512),
            cached_tokens: None,
            output_tokens: Some(output_tokens),
            token_source: Some(TokenSource::EventUsage),
            finish_reason: Some("length".into()),
            failure: None,
        }
    }

    fn record(exchange: &Exchange) -> RequestRecord {
        RequestRecord::from_exchange(IDENT, &PLANNED, exchange, (12_000_000, 40_000_000))
    }

    #[test]
    fn every_latency_by_its_definition() {
        // 2 tokens at 11 ms, 1 at 12 (on the opening edge: outside), 3 at 30, 1 at 40 (inside).
        let record = record(&exchange(vec![
            event(11_000_000, 2, Content::Reasoning),
            event(12_000_000, 1, Content::Reasoning),
            event(30_000_000, 3, Content::Visible),
            event(30_020_000, 0, Content::Visible),
            event(40_000_000, 1, Content::Visible),
        ]));
        assert_eq!(record.ttft_ms(), Some(10.0));
        assert_eq!(record.ttft_from_sent_ms(), Some(8.0));
        assert_eq!(record.ttfo_ms(), Some(29.0));
        assert_eq!(record.e2el_ms(), Some(39.0));
        assert_eq!(record.e2el_from_sent_ms(), Some(37.0));
        assert_eq!(record.schedule_delay_ms(), Some(2.0));
        assert_eq!(record.tpot_ms(), Some(29.0 / 5.0));
        assert_eq!(record.worst_gap_ms(), Some(18.0));
        assert_eq!((record.window_tokens, record.first_event_tokens), (4, 2));
        assert_eq!((record.events, record.coalesced_events), (5, 1));
        assert_eq!((record.index, record.seed, record.outcome), (7, 99, Outcome::Completed));
    }

    #[test]
    fn a_closed_loop_starts_its_clock_at_the_send() {
        let mut exchange = exchange(vec![event(11_000_000, 1, Content::Visible)]);
        exchange.timeline.due_ns = None;
        let record = record(&exchange);
        assert_eq!((record.ttft_ms(), record.schedule_delay_ms()), (Some(8.0), None));
    }

    #[test]
    fn one_event_has_no_tpot_and_no_gap() {
        let one = record(&exchange(vec![event(11_000_000, 1, Content::Visible)]));
        assert_eq!((one.tpot_ms(), one.worst_gap_ns, one.e2el_ms()), (None, None, Some(10.0)));
        // A whole answer in one event: its tokens are no rate.
        let mut whole = exchange(vec![event(11_000_000, 1, Content::Visible)]);
        whole.output_tokens = Some(128);
        assert_eq!(record(&whole).tpot_ms(), None);
    }

    #[test]
    fn a_failure_is_data() {
        let mut broken = exchange(Vec::new());
        broken.failure = Some(Failure {
            kind: FailureKind::RateLimited,
            message: "slow down".into(),
            retry_after: Some("1".into()),
            first_bytes: String::new(),
            last_bytes: String::new(),
        });
        let failed = record(&broken);
        assert_eq!(failed.outcome, Outcome::Failed);
        assert_eq!(failed.failure, Some(FailureKind::RateLimited));
        assert_eq!((failed.ttft_ms(), failed.tpot_ms(), failed.ttfo_ms()), (None, None, None));
        let line = serde_json::to_string(&failed).unwrap();
        assert_eq!(serde_json::from_str::<RequestRecord>(&line).unwrap(), failed);
        if let Some(failure) = &mut broken.failure {
            failure.kind = FailureKind::Cancelled;
        }
        assert_eq!(record(&broken).outcome, Outcome::Cancelled);
    }

    #[test]
    fn a_million_records_fit_in_a_gigabyte() {
        assert!(size_of::<RequestRecord>() <= 1024);
    }

    proptest! {
        #[test]
        fn neighbouring_windows_share_no_token_and_lose_none(
            events in prop::collection::vec((1_u64..1_000, 0_u32..9), 0..40),
            edge in 0_u64..1_000,
        ) {
            let events = events
                .into_iter()
                .map(|(at_ns, tokens)| event(at_ns, tokens, Content::Visible))
                .collect();
            let exchange = exchange(events);
            let tokens = |window| {
                RequestRecord::from_exchange(IDENT, &PLANNED, &exchange, window).window_tokens
            };
            prop_assert_eq!(
                Some(tokens((0, edge)) + tokens((edge, 1_000))),
                exchange.output_tokens
            );
        }
    }
}
