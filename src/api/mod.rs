//! API dialects: request parts out, stream events in. Synchronous and pure.

mod body;
pub mod chat;
pub mod completions;
mod event;
mod lenient;
mod repair;
pub mod template_cache;
pub mod tokenize;

pub use body::tokens_asked;
pub(crate) use event::cut;
pub use event::error_text;

use bytes::Bytes;

use crate::error::Result;
use crate::scenario::Prompt;

/// What one request asks for.
#[derive(Debug, Clone)]
pub struct GenerateRequest<'a> {
    /// The served model's name.
    pub model: &'a str,
    /// The prompt.
    pub prompt: &'a Prompt,
    /// The most tokens to generate.
    pub max_tokens: u32,
    /// The sampling seed.
    pub seed: u64,
    /// Which optional parameters this server takes.
    pub offers: Offers,
    /// Fields merged into the body last.
    pub extra: &'a serde_json::Map<String, serde_json::Value>,
}

/// What preflight found a server to take and tell. Default: nothing beyond the standard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Offers {
    /// `ignore_eos` is accepted.
    pub ignore_eos: bool,
    /// `min_tokens` is accepted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub min_tokens: bool,
    /// `stream_options.include_usage` is accepted.
    pub include_usage: bool,
    /// `stream_options.continuous_usage_stats` puts a running usage into every event.
    pub continuous_usage: bool,
    /// `return_token_ids` puts the ids into every event.
    pub token_ids: bool,
    /// Prompts may be token ids.
    pub token_prompts: bool,
    /// What every request carries elsewhere, and is refused here.
    #[serde(default, skip_serializing_if = "LeftOut::is_none")]
    pub left_out: LeftOut,
}

/// Fields that a server refuses, so that they are not sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LeftOut {
    /// `temperature`.
    pub temperature: bool,
    /// `seed`.
    pub seed: bool,
    /// `max_tokens`: `max_completion_tokens` is sent in its place.
    pub max_tokens: bool,
}

impl LeftOut {
    /// Whether every field is sent.
    #[allow(clippy::trivially_copy_pass_by_ref)] // serde's form
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// One event of a stream, as a dialect reads it. Any field may be missing or null on the wire.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StreamEvent {
    /// What the event carries.
    pub content: Content,
    /// Whether it is of the answer at all.
    pub place: Place,
    /// Generated tokens in this event by their ids, where the server sends ids.
    pub token_ids: Option<u32>,
    /// Usage, from whatever event it comes in.
    pub usage: Option<Usage>,
    /// The reason the answer ended, where this event says so.
    pub finish_reason: Option<String>,
    /// An error object or string inside a stream.
    pub error: Option<String>,
}

/// What kind of generated text an event carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Content {
    /// No generated text: role-only, empty, null or usage-only.
    #[default]
    None,
    /// Hidden reasoning.
    Reasoning,
    /// Visible output: text, refusal or tool-call arguments.
    Visible,
}

/// Where an event stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Place {
    /// Beside the answer: it has no choice, at most a usage, and is never a token.
    #[default]
    Beside,
    /// In the answer: it has a choice, if perhaps an empty one.
    InAnswer,
}

/// Token counts as a server reports them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Prompt tokens.
    pub prompt_tokens: Option<u32>,
    /// Generated tokens so far (or in all, in the last event).
    pub completion_tokens: Option<u32>,
    /// Prompt tokens served from a cache.
    pub cached_tokens: Option<u32>,
}

/// One API dialect.
pub trait Dialect: Send + Sync {
    /// Its name: `completions`, `chat`.
    fn name(&self) -> &'static str;

    /// The path below the API root: `completions`, `chat/completions`.
    fn path(&self) -> &'static str;

    /// The JSON body of a streamed request.
    ///
    /// # Errors
    /// Where the dialect cannot carry the prompt (token ids in chat).
    fn body(&self, request: &GenerateRequest<'_>) -> Result<Bytes>;

    /// Reads the data of one event (never `[DONE]`, which is the stream's own).
    ///
    /// # Errors
    /// The text of what is wrong, where the data is not the dialect's JSON.
    fn event(&self, data: &[u8]) -> Result<StreamEvent, String>;
}
