//! The JSON of an event, read leniently: what is generated, counted, finished or wrong.
//!
//! Only the fields that matter are read, and text only for whether there is any, so that an event
//! costs no copy of its content.

use serde_json::Value;

use super::lenient::{Count, Part, Word};
use super::repair::repaired;
use super::{Content, Place, StreamEvent, Usage};

/// The longest text of an error kept, bytes.
const MAX_ERROR_BYTES: usize = 1024;

/// The top level of an event, in both dialects.
#[derive(serde::Deserialize)]
#[serde(bound(deserialize = "C: serde::Deserialize<'de>"))]
pub(super) struct Envelope<C> {
    /// A list or nothing: whatever else it is, the event is not of this dialect.
    choices: Option<Vec<Part<C>>>,
    #[serde(default = "Part::default")]
    usage: Part<WireUsage>,
    error: Option<Value>,
    /// FastAPI's word for an error.
    detail: Option<Value>,
    /// `error` in the flat errors of some servers, as `type` is in those of others.
    #[serde(default)]
    object: Word,
    #[serde(default)]
    r#type: Word,
    code: Option<Value>,
    message: Option<Value>,
}

/// One element of `choices`, as a dialect reads it.
pub(super) trait Choice {
    fn content(&self) -> Content;
    fn token_ids(&self) -> Option<u32>;
    /// A usage inside the choice (Moonshot).
    fn take_usage(&mut self) -> Option<WireUsage>;
    fn take_finish_reason(&mut self) -> Option<String>;
}

/// Reads an event of a dialect whose choices are `C`.
pub(super) fn read<C>(data: &[u8]) -> Result<StreamEvent, String>
where
    C: Choice + serde::de::DeserializeOwned,
{
    let envelope = parse(data).or_else(|error| {
        let Some(whole) = repaired(data) else { return Err(error.to_string()) };
        parse(&whole).map_err(|error| error.to_string())
    })?;
    Ok(of_envelope::<C>(envelope))
}

/// As `from_slice`, but that text is looked through for broken characters once, and not string by
/// string.
fn parse<C: serde::de::DeserializeOwned>(data: &[u8]) -> serde_json::Result<Envelope<C>> {
    std::str::from_utf8(data).map_or_else(|_| serde_json::from_slice(data), serde_json::from_str)
}

fn of_envelope<C: Choice>(envelope: Envelope<C>) -> StreamEvent {
    let mut event = StreamEvent {
        error: envelope.error.as_ref().and_then(error_text),
        ..StreamEvent::default()
    };
    if envelope.choices.is_none() && event.error.is_none() {
        event.error = envelope.flat_error();
    }
    event.usage = envelope.usage.0.map(Usage::from);
    for mut choice in envelope.choices.into_iter().flatten().filter_map(|part| part.0) {
        merge(&mut event, &mut choice);
    }
    if let Some(reason) = event.finish_reason.as_deref().filter(|reason| gave_up(reason))
        && event.error.is_none()
    {
        event.error =
            Some(format!("the server gave the answer up: its finish reason is `{reason}`"));
    }
    event
}

/// The finish reasons of an answer that its server did not bring to an end (vLLM and SGLang say
/// `abort`, gateways `error`).
fn gave_up(reason: &str) -> bool {
    matches!(reason, "abort" | "aborted" | "cancelled" | "canceled" | "error")
}

impl<C> Envelope<C> {
    /// The error of an event without choices that has no `error`: FastAPI's `detail`, or a message that
    /// something beside it calls an error. A message alone may be a gateway's "still working".
    fn flat_error(&self) -> Option<String> {
        let code = |code: &Value| match code {
            Value::Number(number) => !matches!(number.as_u64(), Some(0 | 200)),
            Value::String(text) => !matches!(text.as_str(), "" | "0" | "200"),
            _ => false,
        };
        let called_error = self.object == Word::Error
            || self.r#type == Word::Error
            || self.code.as_ref().is_some_and(code);
        let detail = self.detail.as_ref().and_then(error_text);
        detail.or_else(|| self.message.as_ref().filter(|_| called_error).and_then(error_text))
    }
}

/// Visible output outweighs reasoning where one event carries both: TTFO must not wait longer.
fn merge(event: &mut StreamEvent, choice: &mut impl Choice) {
    event.place = Place::InAnswer;
    event.content = match (event.content, choice.content()) {
        (Content::Visible, _) | (_, Content::Visible) => Content::Visible,
        (Content::Reasoning, _) | (_, Content::Reasoning) => Content::Reasoning,
        (Content::None, Content::None) => Content::None,
    };
    if let Some(ids) = choice.token_ids() {
        event.token_ids = Some(event.token_ids.unwrap_or(0).saturating_add(ids));
    }
    if event.usage.is_none() {
        event.usage = choice.take_usage().map(Usage::from);
    }
    if let Some(reason) = choice.take_finish_reason() {
        event.finish_reason = Some(reason);
    }
}

/// The text of an error in any of the shapes seen: `{"error": {"message": …}}`, `{"error": "…"}`,
/// `{"detail": …}`, `{"message": …}`, a list of these, a bare string. `None` if there is no error
/// (null, false, 0, "", {} or []). At most 1 KiB.
#[must_use]
pub fn error_text(value: &Value) -> Option<String> {
    let text = match value {
        Value::Null | Value::Bool(false) => return None,
        Value::String(text) if text.is_empty() => return None,
        Value::Object(fields) if fields.is_empty() => return None,
        Value::Array(list) if list.is_empty() => return None,
        Value::Number(number) if number.as_f64() == Some(0.0) => return None,
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let inner = ["error", "message", "detail", "errors", "msg"]
                .iter()
                .filter_map(|name| fields.get(*name))
                .find_map(error_text);
            inner.unwrap_or_else(|| value.to_string())
        }
        other => other.to_string(),
    };
    Some(cut(text, MAX_ERROR_BYTES))
}

/// `text` cut to at most `bytes`, at the end of a character.
pub(crate) fn cut(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        let end = (0..=bytes).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

/// Token counts by the names that servers use.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    prompt_tokens: Count,
    completion_tokens: Count,
    total_tokens: Count,
    /// Anthropic's name, and that of OpenAI's newer API.
    input_tokens: Count,
    /// See `input_tokens`.
    output_tokens: Count,
    prompt_tokens_details: Part<WireDetails>,
    input_tokens_details: Part<WireDetails>,
    completion_tokens_details: Part<WireDetails>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct WireDetails {
    cached_tokens: Count,
    reasoning_tokens: Count,
}

impl From<WireUsage> for Usage {
    /// A prompt of no token is no count: proxies fill a usage that they do not know with zeros. Reasoning
    /// that `completion_tokens` leaves out is added where `total_tokens` has it.
    fn from(wire: WireUsage) -> Self {
        let details = |part: &Part<WireDetails>, pick: fn(&WireDetails) -> Count| {
            part.0.as_ref().and_then(|details| pick(details).0)
        };
        let counted = |count: Count| count.0.filter(|tokens| *tokens > 0);
        let prompt_tokens = counted(wire.prompt_tokens).or(counted(wire.input_tokens));
        let visible = wire.completion_tokens.0.or(wire.output_tokens.0);
        let reasoning = details(&wire.completion_tokens_details, |d| d.reasoning_tokens);
        let beyond_prompt = counted(wire.total_tokens)
            .zip(prompt_tokens)
            .and_then(|(total, prompt)| total.checked_sub(prompt));
        let with_reasoning = visible.zip(reasoning).and_then(|(v, r)| v.checked_add(r));
        let completion_tokens = match with_reasoning {
            Some(all) if beyond_prompt == Some(all) => Some(all),
            _ => visible,
        };
        let cached = |part| details(part, |d| d.cached_tokens);
        Self {
            prompt_tokens,
            completion_tokens,
            cached_tokens: cached(&wire.prompt_tokens_details)
                .or(cached(&wire.input_tokens_details)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(json: &str) -> Usage {
        Usage::from(serde_json::from_str::<WireUsage>(json).unwrap())
    }

    #[test]
    fn usage_is_read_by_every_name() {
        let plain = usage(r#"{"prompt_tokens":3,"completion_tokens":8,"total_tokens":11}"#);
        let other = usage(r#"{"input_tokens":3,"output_tokens":8}"#);
        assert_eq!(plain, other);
        assert_eq!((plain.prompt_tokens, plain.completion_tokens), (Some(3), Some(8)));
    }

    #[test]
    fn a_usage_of_zeros_is_no_count_of_the_prompt() {
        let zeros = usage(r#"{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}"#);
        assert_eq!((zeros.prompt_tokens, zeros.completion_tokens), (None, Some(0)));
    }

    #[test]
    fn reasoning_that_only_the_total_holds_is_generated_too() {
        let details = r#""completion_tokens_details":{"reasoning_tokens":32}"#;
        let hidden =
            format!(r#"{{"prompt_tokens":10,"completion_tokens":16,"total_tokens":58,{details}}}"#);
        assert_eq!(usage(&hidden).completion_tokens, Some(48));
        let counted =
            format!(r#"{{"prompt_tokens":10,"completion_tokens":48,"total_tokens":58,{details}}}"#);
        assert_eq!(usage(&counted).completion_tokens, Some(48));
    }
}
