//! A timeline: when a request was due, sent and answered, when each event came with how many tokens,
//! and what else was seen of it.

use serde::{Deserialize, Serialize};

use super::Failure;
use crate::api::Content;

/// One event that carried a generated token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenEvent {
    /// When its last byte had been read, on the run's clock.
    pub at_ns: u64,
    /// Tokens in it, by the request's token authority; 1 where events are the authority.
    pub tokens: u32,
    /// Reasoning or visible.
    pub content: Content,
}

/// The times of one request on the run's clock; `None` if it did not happen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenTimeline {
    /// When it was due (open loop).
    pub due_ns: Option<u64>,
    /// When it was handed to the connection: to one that stood, so connecting is not in it.
    pub sent_ns: Option<u64>,
    /// When the response head had been read.
    pub headers_ns: Option<u64>,
    /// When the first byte of the body had been read.
    pub first_byte_ns: Option<u64>,
    /// Every event that carried a token.
    pub events: Vec<TokenEvent>,
    /// How long connecting (name, TCP, TLS) held the request up, ns; `None` if its connection
    /// stood already or none came about.
    pub connect_ns: Option<u64>,
    /// When the answer had ended or failed.
    pub end_ns: Option<u64>,
    /// Whether the connection had carried a request before.
    pub connection_reused: Option<bool>,
    /// Whether it was sent a second time, because the server was closing the first connection.
    pub resent: bool,
}

/// What is said of a request that we stopped.
pub const STOPPED: &str = "stopped by the client before its end";

/// Which source counted a request's output tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenSource {
    /// Token ids in the events.
    TokenIds,
    /// A running usage in the events.
    EventUsage,
    /// The final usage, spread over the events.
    FinalUsage,
    /// One token an event: a last resort, said aloud.
    Events,
}

impl TokenSource {
    /// What people call it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::TokenIds => "token ids in every event",
            Self::EventUsage => "usage in every event",
            Self::FinalUsage => "final usage",
            Self::Events => "events",
        }
    }
}

/// Everything seen of one request.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// When what happened.
    pub timeline: TokenTimeline,
    /// The status, where there was one.
    pub status: Option<u16>,
    /// Prompt tokens by the server's count.
    pub input_tokens: Option<u32>,
    /// Prompt tokens served from a cache, if reported.
    pub cached_tokens: Option<u32>,
    /// Generated tokens by the authority.
    pub output_tokens: Option<u32>,
    /// Who counted.
    pub token_source: Option<TokenSource>,
    /// `stop`, `length`, …
    pub finish_reason: Option<String>,
    /// Why it failed, where it did.
    pub failure: Option<Failure>,
}
