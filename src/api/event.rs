//! The JSON of an event, read leniently: what is generated, counted, finished or wrong.
//!
//! Only the fields that matter are read, and text only for whether there is any, so that an event
//! costs no copy of its content. A field of an unexpected type counts as absent: servers differ,
//! and a client that stops at a stray type measures nothing.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{Content, StreamEvent, Usage};

/// The longest text of an error kept, bytes.
const MAX_ERROR_BYTES: usize = 1024;

/// The top level of an event, in both dialects.
#[derive(serde::Deserialize)]
#[serde(bound(deserialize = "C: serde::Deserialize<'de>"))]
pub(super) struct Envelope<C> {
    choices: Option<Vec<C>>,
    usage: Option<WireUsage>,
    error: Option<serde_json::Value>,
    /// FastAPI's word for an error.
    detail: Option<serde_json::Value>,
    /// `error` in the flat errors of some servers.
    object: Option<Word>,
    message: Option<serde_json::Value>,
}

/// One element of `choices`, as a dialect reads it.
pub(super) trait Choice {
    fn content(&self) -> Content;
    fn token_ids(&self) -> Option<u32>;
    fn take_finish_reason(&mut self) -> Option<String>;
}

/// Reads an event of a dialect whose choices are `C`.
pub(super) fn read<'a, C>(data: &'a [u8]) -> Result<StreamEvent, String>
where
    C: Choice + serde::Deserialize<'a>,
{
    let envelope: Envelope<C> = serde_json::from_slice(data).map_err(|e| e.to_string())?;
    let mut event = StreamEvent {
        usage: envelope.usage.map(Usage::from),
        error: envelope.error.as_ref().and_then(error_text),
        ..StreamEvent::default()
    };
    match envelope.choices {
        Some(choices) => {
            for mut choice in choices {
                merge(&mut event, &mut choice);
            }
        }
        None if event.error.is_none() => {
            event.error = envelope.detail.as_ref().and_then(error_text);
            if event.error.is_none() && envelope.object.is_some_and(|w| w == Word::Error) {
                event.error = envelope.message.as_ref().and_then(error_text);
            }
        }
        None => {}
    }
    Ok(event)
}

/// Visible output outweighs reasoning where one event carries both: TTFO must not wait longer.
fn merge(event: &mut StreamEvent, choice: &mut impl Choice) {
    event.content = match (event.content, choice.content()) {
        (Content::Visible, _) | (_, Content::Visible) => Content::Visible,
        (Content::Reasoning, _) | (_, Content::Reasoning) => Content::Reasoning,
        (Content::None, Content::None) => Content::None,
    };
    if let Some(ids) = choice.token_ids() {
        event.token_ids = Some(event.token_ids.unwrap_or(0).saturating_add(ids));
    }
    if let Some(reason) = choice.take_finish_reason() {
        event.finish_reason = Some(reason);
    }
}

/// The text of an error in any of the shapes seen: `{"error": {"message": …}}`, `{"error": "…"}`,
/// `{"detail": …}`, `{"message": …}`, a bare string. None where there is no error (null, false,
/// ""). At most 1 KiB.
#[must_use]
pub fn error_text(value: &serde_json::Value) -> Option<String> {
    use serde_json::Value;
    let text = match value {
        Value::Null | Value::Bool(false) => return None,
        Value::String(text) if text.is_empty() => return None,
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let inner = ["error", "message", "detail"]
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

#[derive(serde::Deserialize)]
struct WireUsage {
    #[serde(default)]
    prompt_tokens: Count,
    #[serde(default)]
    completion_tokens: Count,
    prompt_tokens_details: Option<WireDetails>,
}

#[derive(serde::Deserialize)]
struct WireDetails {
    #[serde(default)]
    cached_tokens: Count,
}

impl From<WireUsage> for Usage {
    fn from(wire: WireUsage) -> Self {
        Self {
            prompt_tokens: wire.prompt_tokens.0,
            completion_tokens: wire.completion_tokens.0,
            cached_tokens: wire.prompt_tokens_details.and_then(|d| d.cached_tokens.0),
        }
    }
}

/// Whether a field holds any text: a string that is not "", or a list or object that is not empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Text {
    #[default]
    Absent,
    Present,
}

impl Text {
    fn when(present: bool) -> Self {
        if present { Self::Present } else { Self::Absent }
    }

    pub(super) fn is_present(self) -> bool {
        self == Self::Present
    }
}

/// A number of tokens; absent where it is not a whole number from 0.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Count(Option<u32>);

/// The length of a list; absent where it is not a list.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ListLength(pub(super) Option<u32>);

/// The one word that `object` is looked at for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Error,
    Other,
}

/// What a value of any type comes to; each reader takes the part it needs.
enum Shape {
    Nothing,
    Text { present: bool, says_error: bool },
    Number(Option<u64>),
    List(usize),
    Object(usize),
}

struct ShapeVisitor;

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(Shape::Nothing)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Shape, E> {
        Ok(Shape::Nothing)
    }

    fn visit_str<E>(self, text: &str) -> Result<Shape, E> {
        Ok(Shape::Text { present: !text.is_empty(), says_error: text == "error" })
    }

    fn visit_u64<E>(self, number: u64) -> Result<Shape, E> {
        Ok(Shape::Number(Some(number)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Shape, E> {
        Ok(Shape::Number(u64::try_from(number).ok()))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Shape, E> {
        Ok(Shape::Number(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Shape, A::Error> {
        let mut length = 0;
        while list.next_element::<IgnoredAny>()?.is_some() {
            length += 1;
        }
        Ok(Shape::List(length))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shape, A::Error> {
        let mut length = 0;
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
            length += 1;
        }
        Ok(Shape::Object(length))
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match deserializer.deserialize_any(ShapeVisitor)? {
            Shape::Text { present, .. } => Self::when(present),
            Shape::List(length) | Shape::Object(length) => Self::when(length > 0),
            Shape::Nothing | Shape::Number(_) => Self::Absent,
        })
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match deserializer.deserialize_any(ShapeVisitor)? {
            Shape::Number(Some(number)) => Self(Some(u32::try_from(number).unwrap_or(u32::MAX))),
            _ => Self(None),
        })
    }
}

impl<'de> Deserialize<'de> for ListLength {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match deserializer.deserialize_any(ShapeVisitor)? {
            Shape::List(length) => Self(Some(u32::try_from(length).unwrap_or(u32::MAX))),
            _ => Self(None),
        })
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match deserializer.deserialize_any(ShapeVisitor)? {
            Shape::Text { says_error: true, .. } => Self::Error,
            _ => Self::Other,
        })
    }
}
