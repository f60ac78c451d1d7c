//! The JSON body of a streamed request: what both dialects share.

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use super::GenerateRequest;
use crate::error::{Error, ErrorKind, Result};

/// The fields that both dialects send.
#[derive(Serialize)]
pub(super) struct Common<'a> {
    model: &'a str,
    stream: bool,
    /// The one name of the limit that vLLM, llama-server, llama_cpp.server and transformers all
    /// obey, in chat too: the last two ignore `max_completion_tokens` without a word (1024 tokens
    /// came where 4 were asked).
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    /// For a server that refuses `max_tokens`.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    /// Greedy: the same prompt gives the same work on both sides of a comparison. Left out, vLLM
    /// samples at 1.0, and answers that stop early by chance are noise.
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    /// 31 bits: every server's integer holds them, and none reads them as "random".
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ignore_eos: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    return_token_ids: Option<bool>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    continuous_usage_stats: Option<bool>,
}

impl<'a> Common<'a> {
    pub(super) fn new(request: &GenerateRequest<'a>) -> Self {
        let offers = request.offers;
        let left_out = offers.left_out;
        // vLLM takes the running usage only together with the final one.
        let stream_options =
            (offers.include_usage || offers.continuous_usage).then(|| StreamOptions {
                include_usage: true,
                continuous_usage_stats: offers.continuous_usage.then_some(true),
            });
        Self {
            model: request.model,
            stream: true,
            max_tokens: (!left_out.max_tokens).then_some(request.max_tokens),
            max_completion_tokens: left_out.max_tokens.then_some(request.max_tokens),
            temperature: (!left_out.temperature).then_some(0.0),
            seed: (!left_out.seed).then_some(request.seed & 0x7fff_ffff),
            stream_options,
            ignore_eos: offers.ignore_eos.then_some(true),
            min_tokens: offers.min_tokens.then_some(request.max_tokens),
            return_token_ids: offers.token_ids.then_some(true),
        }
    }
}

/// Serialises `body` and merges the extra fields into it, last: an extra field replaces one of the
/// same name, and null takes it out.
///
/// # Errors
/// Where the body is no JSON object: a mistake of a dialect.
pub(super) fn encode(
    body: &impl Serialize,
    extra: &serde_json::Map<String, Value>,
) -> Result<Bytes> {
    let failed = |cause: serde_json::Error| {
        Error::new(ErrorKind::Client, "could not write the request body").with_cause(cause)
    };
    if extra.is_empty() {
        return serde_json::to_vec(body).map(Bytes::from).map_err(failed);
    }
    let mut value = serde_json::to_value(body).map_err(failed)?;
    if let Value::Object(fields) = &mut value {
        for (name, field) in extra {
            if field.is_null() {
                fields.remove(name);
            } else {
                fields.insert(name.clone(), field.clone());
            }
        }
    }
    serde_json::to_vec(&value).map(Bytes::from).map_err(failed)
}

/// The most tokens that an answer may have: `max_tokens`, or what the extra fields set in its place,
/// times the answers that they ask for.
#[must_use]
pub fn tokens_asked(max_tokens: u32, extra: &serde_json::Map<String, Value>) -> u32 {
    let own = |name: &str| extra.get(name).and_then(Value::as_u64);
    let longest = own("max_tokens").max(own("max_completion_tokens")).max(Some(max_tokens.into()));
    let answers = own("n").unwrap_or(1).max(1);
    let tokens = longest.unwrap_or_default().saturating_mul(answers);
    u32::try_from(tokens).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_extra_fields_ask_for_counts() {
        for (extra, tokens) in [
            ("{}", 7),
            (r#"{"max_tokens":null,"max_completion_tokens":70}"#, 70),
            (r#"{"max_tokens":3}"#, 7),
            (r#"{"n":3}"#, 21),
            (r#"{"n":0,"max_tokens":"x"}"#, 7),
            (r#"{"n":9999999999}"#, u32::MAX),
        ] {
            assert_eq!(tokens_asked(7, &serde_json::from_str(extra).unwrap()), tokens, "{extra}");
        }
    }
}
