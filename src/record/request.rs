//! One request as it was: outcome, times, tokens. Failures are data.

use serde::{Deserialize, Serialize};

use crate::plan::{Phase, Side};
use crate::transport::client::TokenSource;
use crate::transport::{Failure, FailureKind};

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

/// One line of `requests.jsonl`. Times are nanoseconds on the run's clock; none where it did not
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
    pub events: u32,
    /// Events within 50 µs of the one before.
    pub coalesced_events: u32,
    pub worst_gap_ns: Option<u64>,
    pub connection_reused: Option<bool>,
}
