//! Wire: the bytes of answers, in the format that vLLM was captured with.

use std::fmt::Write;

use super::request::{Api, TokenIds};

/// What vLLM puts into `system_fingerprint`: engine, version, hash.
const FINGERPRINT: &str = "inferometer-sim-0";

/// Token counts of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) prompt: u32,
    pub(crate) completion: u32,
}

impl Usage {
    fn json(self) -> String {
        let Self { prompt, completion } = self;
        let total = u64::from(prompt) + u64::from(completion);
        format!(
            r#"{{"prompt_tokens":{prompt},"total_tokens":{total},"completion_tokens":{completion}}}"#
        )
    }
}

/// The delta's field that carries the text of a chat chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Content,
    Reasoning,
    ReasoningContent,
}

impl Field {
    fn name(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Reasoning => "reasoning",
            Self::ReasoningContent => "reasoning_content",
        }
    }
}

/// Server-side times of a request in milliseconds, as `--enable-per-request-metrics` prints them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RequestTimes {
    pub(crate) time_to_first_token_ms: f64,
    pub(crate) generation_time_ms: f64,
    pub(crate) queue_time_ms: f64,
    pub(crate) mean_itl_ms: Option<f64>,
    pub(crate) tokens_per_second: f64,
}

impl RequestTimes {
    fn json(self) -> String {
        format!(
            r#"{{"time_to_first_token_ms":{:?},"generation_time_ms":{:?},"queue_time_ms":{:?},"mean_itl_ms":{},"tokens_per_second":{:?}}}"#,
            self.time_to_first_token_ms,
            self.generation_time_ms,
            self.queue_time_ms,
            self.mean_itl_ms.map_or("null".to_owned(), |ms| format!("{ms:?}")),
            self.tokens_per_second
        )
    }
}

/// A piece of a stream that carries tokens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub(crate) text: &'a str,
    pub(crate) ids: &'a [u32],
    /// The prompt, on the first piece where ids are shown (completions).
    pub(crate) prompt_ids: Option<&'a [u32]>,
    pub(crate) field: Field,
    pub(crate) finish: Option<&'a str>,
    pub(crate) usage: Option<Usage>,
    /// Whether this piece ends the stream's JSON: then it carries the fingerprint.
    pub(crate) place: Place,
}

/// Where a piece stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Middle,
    End,
}

/// The parts that all of an answer's JSON shares.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    api: Api,
    token_ids: TokenIds,
    /// `"id":…,"object":…,"created":…,"model":…`
    stream_head: String,
    whole_head: String,
}

fn text_json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn ids_json(ids: &[u32]) -> String {
    let mut json = String::with_capacity(ids.len() * 6 + 2);
    json.push('[');
    for (place, id) in ids.iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        let _ = write!(json, "{comma}{id}");
    }
    json.push(']');
    json
}

impl Writer {
    pub(crate) fn new(
        api: Api,
        token_ids: TokenIds,
        id: &str,
        model: &str,
        created_s: i64,
    ) -> Self {
        let head = |object: &str| {
            let model = text_json(model);
            format!(r#""id":"{id}","object":"{object}","created":{created_s},"model":{model}"#)
        };
        let (stream, whole) = match api {
            Api::Chat => ("chat.completion.chunk", "chat.completion"),
            Api::Completions => ("text_completion", "text_completion"),
        };
        Self { api, token_ids, stream_head: head(stream), whole_head: head(whole) }
    }

    /// The chunk that names the role and carries no token (chat).
    pub(crate) fn role(&self, prompt_ids: &[u32], usage: Option<Usage>) -> String {
        let shown = match self.token_ids {
            TokenIds::Shown => ids_json(prompt_ids),
            TokenIds::Hidden => "null".to_owned(),
        };
        format!(
            r#"{{{},"choices":[{{"index":0,"delta":{{"role":"assistant","content":""}},"logprobs":null,"finish_reason":null}}],"prompt_token_ids":{shown},"prompt_text":null{}}}"#,
            self.stream_head,
            usage_tail(usage)
        )
    }

    /// A chunk with tokens.
    pub(crate) fn piece(&self, piece: &Piece<'_>) -> String {
        let text = text_json(piece.text);
        let finish = piece.finish.map_or("null".to_owned(), text_json);
        let ids = match self.token_ids {
            TokenIds::Shown => ids_json(piece.ids),
            TokenIds::Hidden => "null".to_owned(),
        };
        let choice = match self.api {
            Api::Completions => {
                let prompt = piece.prompt_ids.map_or("null".to_owned(), ids_json);
                format!(
                    r#"{{"index":0,"text":{text},"logprobs":null,"finish_reason":{finish},"stop_reason":null,"prompt_token_ids":{prompt},"token_ids":{ids}}}"#
                )
            }
            Api::Chat => {
                let stop = if piece.finish.is_some() { r#""stop_reason":null,"# } else { "" };
                format!(
                    r#"{{"index":0,"delta":{{"{}":{text}}},"logprobs":null,"finish_reason":{finish},{stop}"token_ids":{ids}}}"#,
                    piece.field.name()
                )
            }
        };
        let end = match piece.place {
            Place::End => format!(r#","system_fingerprint":"{FINGERPRINT}""#),
            Place::Middle => String::new(),
        };
        format!(r#"{{{},"choices":[{choice}]{}{end}}}"#, self.stream_head, usage_tail(piece.usage))
    }

    /// The chunk with the usage and no choices.
    pub(crate) fn usage(&self, usage: Usage, times: Option<RequestTimes>) -> String {
        let metrics =
            times.map_or(String::new(), |times| format!(r#","metrics":{}"#, times.json()));
        format!(
            r#"{{{},"choices":[]{},"system_fingerprint":"{FINGERPRINT}"{metrics}}}"#,
            self.stream_head,
            usage_tail(Some(usage))
        )
    }

    /// The whole answer without a stream.
    pub(crate) fn whole(
        &self,
        piece: &Piece<'_>,
        usage: Usage,
        times: Option<RequestTimes>,
    ) -> String {
        let text = text_json(piece.text);
        let finish = piece.finish.map_or("null".to_owned(), text_json);
        let (ids, prompt) = match self.token_ids {
            TokenIds::Shown => {
                (ids_json(piece.ids), piece.prompt_ids.map_or("null".to_owned(), ids_json))
            }
            TokenIds::Hidden => ("null".to_owned(), "null".to_owned()),
        };
        let (choice, tail) = match self.api {
            Api::Completions => (
                format!(
                    r#"{{"index":0,"text":{text},"logprobs":null,"finish_reason":{finish},"stop_reason":null,"token_ids":{ids},"prompt_logprobs":null,"prompt_token_ids":{prompt},"routed_experts":null}}"#
                ),
                String::new(),
            ),
            Api::Chat => (
                format!(
                    r#"{{"index":0,"message":{{"role":"assistant","content":{text},"refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null}},"logprobs":null,"finish_reason":{finish},"stop_reason":null,"token_ids":{ids},"routed_experts":null}}"#
                ),
                format!(
                    r#","prompt_logprobs":null,"prompt_token_ids":{prompt},"prompt_text":null"#
                ),
            ),
        };
        let usage = usage.json();
        let usage = usage.trim_end_matches('}');
        let metrics = times.map_or("null".to_owned(), RequestTimes::json);
        format!(
            r#"{{{},"choices":[{choice}],"service_tier":null,"system_fingerprint":"{FINGERPRINT}","usage":{usage},"prompt_tokens_details":null,"completion_tokens_details":null}}{tail},"kv_transfer_params":null,"ec_transfer_params":null,"metrics":{metrics}}}"#,
            self.whole_head
        )
    }
}

fn usage_tail(usage: Option<Usage>) -> String {
    usage.map_or(String::new(), |usage| format!(r#","usage":{}"#, usage.json()))
}

/// The error that a stream carries when the engine is gone, with the spaces it was captured with.
pub(crate) const ENGINE_GONE: &str = r#"{"error": {"message": "EngineCore encountered an issue. See stack trace (above) for the root cause.", "type": "InternalServerError", "param": null, "code": 500}}"#;

/// The error of a stream whose prompt holds a token that the vocabulary lacks.
pub(crate) fn bad_token(id: u32) -> String {
    format!(
        r#"{{"error": {{"message": "Token id {id} is out of vocabulary", "type": "BadRequestError", "param": null, "code": 400}}}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// vLLM's own bytes with this server's id, time and fingerprint.
    fn writer(api: Api) -> Writer {
        let id = match api {
            Api::Chat => "chatcmpl-958bf4cdbf1d0625",
            Api::Completions => "cmpl-8c07193126153682",
        };
        Writer::new(api, TokenIds::Hidden, id, "tiny", 1_795_977_753)
    }

    fn piece(text: &str) -> Piece<'_> {
        Piece {
            text,
            ids: &[],
            prompt_ids: None,
            field: Field::Content,
            finish: None,
            usage: None,
            place: Place::Middle,
        }
    }

    #[test]
    fn completion_chunks_match_the_capture() {
        let writer = writer(Api::Completions);
        assert_eq!(
            writer.piece(&piece(" respectmag")),
            r#"{"id":"cmpl-8c07193126153682","object":"text_completion","created":1795977753,"model":"tiny","choices":[{"index":0,"text":" respectmag","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}"#
        );
        assert_eq!(
            writer.usage(Usage { prompt: 4, completion: 8 }, None),
            r#"{"id":"cmpl-8c07193126153682","object":"text_completion","created":1795977753,"model":"tiny","choices":[],"usage":{"prompt_tokens":4,"total_tokens":12,"completion_tokens":8},"system_fingerprint":"inferometer-sim-0"}"#
        );
    }

    #[test]
    fn chat_chunks_match_the_capture() {
        let writer = writer(Api::Chat);
        assert_eq!(
            writer.role(&[], None),
            r#"{"id":"chatcmpl-958bf4cdbf1d0625","object":"chat.completion.chunk","created":1795977753,"model":"tiny","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null,"prompt_text":null}"#
        );
        let last = Piece { finish: Some("length"), ..piece("mul") };
        assert_eq!(
            writer.piece(&last),
            r#"{"id":"chatcmpl-958bf4cdbf1d0625","object":"chat.completion.chunk","created":1795977753,"model":"tiny","choices":[{"index":0,"delta":{"content":"mul"},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}]}"#
        );
    }

    #[test]
    fn whole_answers_match_the_capture() {
        let usage = Usage { prompt: 13, completion: 6 };
        let last = Piece { finish: Some("length"), ..piece(" hmul hmul hmul") };
        assert_eq!(
            writer(Api::Chat).whole(&last, usage, None),
            r#"{"id":"chatcmpl-958bf4cdbf1d0625","object":"chat.completion","created":1795977753,"model":"tiny","choices":[{"index":0,"message":{"role":"assistant","content":" hmul hmul hmul","refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null,"routed_experts":null}],"service_tier":null,"system_fingerprint":"inferometer-sim-0","usage":{"prompt_tokens":13,"total_tokens":19,"completion_tokens":6,"prompt_tokens_details":null,"completion_tokens_details":null},"prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null,"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}"#
        );
    }
}
