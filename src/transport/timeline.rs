//! When a request was due, sent and answered, and when each event came with how many tokens.

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

/// The times of one request on the run's clock; none where it did not happen.
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
    /// How long connecting (name, TCP, TLS) held the request up, ns; none where its connection
    /// stood already or none came about.
    pub connect_ns: Option<u64>,
    /// When the answer had ended or failed.
    pub end_ns: Option<u64>,
    /// Whether the connection had carried a request before.
    pub connection_reused: Option<bool>,
}
