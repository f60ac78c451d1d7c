//! The client: one pool, no proxy, no redirect, no retry.

use serde::{Deserialize, Serialize};

use super::{Failure, TokenTimeline};

/// Which source counted a request's output tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
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

/// Everything seen of one request.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// When what happened.
    pub timeline: TokenTimeline,
    /// The status, where there was one.
    pub status: Option<u16>,
    /// Prompt tokens by the server's count.
    pub input_tokens: Option<u32>,
    /// Prompt tokens served from a cache, where told.
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

/// The client.
#[derive(Debug, Clone)]
pub struct Client {}
