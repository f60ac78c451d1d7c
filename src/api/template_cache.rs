//! A template cache of events: an event that differs from an earlier one in its text and numbers alone is not parsed
//! again.
//!
//! Nearly all events of a stream have one form: only the text, the running counts, and from answer
//! to answer the id differ. A form is learned from one event: each value that may differ is tried
//! with other content on the dialect itself, so that what the value means is observed and not
//! assumed. An event of a known form is then compared piece by piece, a sixth of the work of a parse
//! and, what matters more where every event wakes the client from sleep, a small part of its code.
//! Whatever differs elsewhere is parsed as ever.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;

use super::lenient::MOST_TOKENS;
use super::{Content, Dialect, GenerateRequest, StreamEvent, Usage};
use crate::error::Result;

/// Forms kept: text and reasoning, each with and without what an answer begins with.
const FORMS: usize = 4;

/// Events tried for a form; a server whose every event is another is parsed from then on.
const TRIES: u32 = 16;

/// Values of an event that may differ; one with more is always parsed.
const MOST_SLOTS: usize = 8;

/// The longest event that is learned, bytes: real ones have a few hundred.
const LONGEST: usize = 4096;

/// Digits of a number that may differ: what no u64 overflows.
const MOST_DIGITS: usize = 18;

/// A dialect that recognises the events it has read before.
///
/// What it wraps must look at generated text for whether there is any, and for nothing else, as both
/// built-in dialects do.
#[derive(Debug, Default)]
pub struct TemplateCache<D> {
    dialect: D,
    forms: [OnceLock<Form>; FORMS],
    tried: AtomicU32,
}

/// The form of an event.
#[derive(Debug)]
struct Form {
    /// Literal bytes, and the value that follows them.
    parts: Vec<(Vec<u8>, Slot)>,
    /// What follows the last value.
    tail: Vec<u8>,
    /// The event that it was learned from.
    event: StreamEvent,
}

/// A value that may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// A string that carries no information.
    AnyString,
    /// A number that carries no information.
    AnyNumber,
    /// Generated text: it is there.
    Text,
    PromptTokens,
    CompletionTokens,
}

impl<D: Dialect> TemplateCache<D> {
    /// Nothing learned yet.
    #[must_use]
    pub fn new(dialect: D) -> Self {
        Self { dialect, forms: Default::default(), tried: AtomicU32::new(0) }
    }

    fn recognise(&self, data: &[u8]) -> Option<StreamEvent> {
        self.forms.iter().map_while(OnceLock::get).find_map(|form| form.read(data))
    }

    fn learn(&self, data: &[u8], event: &StreamEvent) {
        let ends = event.error.is_some() || event.finish_reason.is_some();
        if ends || event.content == Content::None || data.len() > LONGEST {
            return;
        }
        let Some(free) = self.forms.iter().find(|form| form.get().is_none()) else { return };
        if self.tried.fetch_add(1, Ordering::Relaxed) >= TRIES {
            // It must not wrap around.
            self.tried.store(TRIES, Ordering::Relaxed);
            return;
        }
        if let Some(form) = Form::of(&self.dialect, data, event) {
            // Where another task was quicker, its form serves.
            let _ = free.set(form);
        }
    }
}

impl<D: Dialect> Dialect for TemplateCache<D> {
    fn name(&self) -> &'static str {
        self.dialect.name()
    }

    fn path(&self) -> &'static str {
        self.dialect.path()
    }

    fn body(&self, request: &GenerateRequest<'_>) -> Result<Bytes> {
        self.dialect.body(request)
    }

    fn event(&self, data: &[u8]) -> std::result::Result<StreamEvent, String> {
        if let Some(event) = self.recognise(data) {
            return Ok(event);
        }
        let event = self.dialect.event(data)?;
        self.learn(data, &event);
        Ok(event)
    }
}

impl Form {
    /// The form of an event with text; `None` if the text cannot be distinguished from the rest.
    fn of(dialect: &impl Dialect, data: &[u8], event: &StreamEvent) -> Option<Self> {
        let text = std::str::from_utf8(data).ok()?;
        let mut values = values(text);
        if values.len() > MOST_SLOTS {
            return None;
        }
        values.retain(|(range, slot)| slot.is_meant(dialect, text, range, event));
        let texts = values.iter().filter(|(_, slot)| *slot == Slot::Text).count();
        let mut at = 0;
        let mut parts = Vec::with_capacity(values.len());
        for (range, slot) in values {
            parts.push((data[at..range.start].to_vec(), slot));
            at = range.end;
        }
        let tail = data[at..].to_vec();
        (texts == 1).then(|| Self { parts, tail, event: event.clone() })
    }

    /// An event of this form.
    fn read(&self, data: &[u8]) -> Option<StreamEvent> {
        let mut rest = data;
        let mut usage = self.event.usage;
        for (literal, slot) in &self.parts {
            rest = rest.strip_prefix(literal.as_slice())?;
            let (value, after) = rest.split_at(slot.length(rest)?);
            slot.enter(value, &mut usage)?;
            rest = after;
        }
        (rest == self.tail).then(|| StreamEvent { usage, ..self.event.clone() })
    }
}

impl Slot {
    /// What a value of this name may be; `None` if it must stay as it is.
    fn of(name: &str, is_string: bool) -> Option<Self> {
        match (name, is_string) {
            ("id", true) => Some(Self::AnyString),
            ("text" | "content" | "reasoning" | "reasoning_content", true) => Some(Self::Text),
            ("created" | "total_tokens", false) => Some(Self::AnyNumber),
            ("prompt_tokens", false) => Some(Self::PromptTokens),
            ("completion_tokens", false) => Some(Self::CompletionTokens),
            _ => None,
        }
    }

    /// Whether the value means what its name says: the dialect reads it so with other content.
    fn is_meant(
        self,
        dialect: &impl Dialect,
        text: &str,
        range: &Range<usize>,
        event: &StreamEvent,
    ) -> bool {
        let with = |value: &str| {
            let changed = [&text[..range.start], value, &text[range.end..]].concat();
            dialect.event(changed.as_bytes()).ok()
        };
        let same = |value: &str| with(value).as_ref() == Some(event);
        let counted = |value: u32| {
            let mut usage = event.usage;
            self.enter(value.to_string().as_bytes(), &mut usage).is_some()
                && with(&value.to_string()) == Some(StreamEvent { usage, ..event.clone() })
        };
        match self {
            Self::AnyString => same("") && same("x"),
            Self::AnyNumber => same("0") && same("7"),
            Self::Text => {
                let empty = with("");
                same("x") && empty == Some(StreamEvent { content: Content::None, ..event.clone() })
            }
            Self::PromptTokens | Self::CompletionTokens => counted(0) && counted(7),
        }
    }

    /// How many bytes at the start of `data` are such a value; `None` if they are none, or hold what
    /// only a parser should judge.
    fn length(self, data: &[u8]) -> Option<usize> {
        match self {
            Self::AnyString => plain_length(data),
            Self::Text => plain_length(data).filter(|length| *length > 0),
            Self::AnyNumber | Self::PromptTokens | Self::CompletionTokens => {
                let length = data.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let padded = length > 1 && data[0] == b'0';
                (1..=MOST_DIGITS).contains(&length).then_some(length).filter(|_| !padded)
            }
        }
    }

    /// Enters what the value counts; `None` if it is no count.
    fn enter(self, value: &[u8], usage: &mut Option<Usage>) -> Option<()> {
        let field = match (self, usage) {
            (Self::PromptTokens, Some(usage)) => &mut usage.prompt_tokens,
            (Self::CompletionTokens, Some(usage)) => &mut usage.completion_tokens,
            (Self::PromptTokens | Self::CompletionTokens, None) => return None,
            (Self::AnyString | Self::AnyNumber | Self::Text, _) => return Some(()),
        };
        let digits = value.iter().map(|digit| u64::from(digit - b'0'));
        let number = digits.fold(0, |number, digit| 10 * number + digit);
        let count = u32::try_from(number).ok().filter(|_| number <= MOST_TOKENS)?;
        // A prompt of no token is no count.
        *field = Some(count).filter(|count| *count > 0 || self != Self::PromptTokens);
        Some(())
    }
}

/// The length of a string's content up to its closing quote; `None` if it has escapes, or what no
/// string may hold.
fn plain_length(data: &[u8]) -> Option<usize> {
    let length = memchr::memchr2(b'"', b'\\', data).filter(|end| data[*end] == b'"')?;
    let content = &data[..length];
    let whole = std::str::from_utf8(content).is_ok();
    (whole && !content.iter().any(u8::is_ascii_control)).then_some(length)
}

/// The values of a JSON text that may differ by their names: the content of strings without escapes,
/// and whole numbers.
fn values(text: &str) -> Vec<(Range<usize>, Slot)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut name = None;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let value = match byte {
            b' ' => {
                at += 1;
                continue;
            }
            b'"' => {
                let content = at + 1..at + 1 + string_length(&bytes[at + 1..]);
                at = content.end + 1;
                if bytes.get(at) == Some(&b':') {
                    name = text.get(content);
                    at += 1;
                    continue;
                }
                content
            }
            b'0'..=b'9' => {
                let digits = bytes[at..].iter().take_while(|b| b.is_ascii_digit()).count();
                at += digits;
                at - digits..at
            }
            // A list or an object begins or ends: what it holds has names of its own.
            _ => {
                at += 1;
                name = None;
                continue;
            }
        };
        let slot = name.take().and_then(|name| Slot::of(name, *byte == b'"'));
        let fits = |slot: &Slot| slot.length(&bytes[value.start..]) == Some(value.len());
        if let Some(slot) = slot.filter(fits) {
            found.push((value, slot));
        }
    }
    found
}

/// The length of a string up to its closing quote, or to the end of the text.
fn string_length(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(step) = memchr::memchr2(b'"', b'\\', &bytes[at..]) {
        at += step;
        if bytes[at] == b'"' {
            return at;
        }
        at = (at + 2).min(bytes.len());
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::api::chat::Chat;
    use crate::api::completions::Completions;

    const RUNNING: &str = r#"{"id":"cmpl-1","object":"text_completion","created":17,"model":"m","choices":[{"index":0,"text":" a","logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":4,"total_tokens":5,"completion_tokens":1}}"#;
    const DELTA: &str =
        r#"{"id": "c-1", "created": 17, "choices": [{"index": 0, "delta": {"content": "a"}}]}"#;
    const THOUGHT: &str =
        r#"{"id":"c-1","choices":[{"delta":{"reasoning_content":"a","content":null}}]}"#;

    fn knowing<D: Dialect>(dialect: D, data: &str) -> TemplateCache<D> {
        let familiar = TemplateCache::new(dialect);
        familiar.event(data.as_bytes()).unwrap();
        familiar
    }

    fn known(familiar: &TemplateCache<impl Dialect>, data: &str) -> Option<StreamEvent> {
        let event = familiar.recognise(data.as_bytes())?;
        assert_eq!(Ok(&event), familiar.dialect.event(data.as_bytes()).as_ref(), "{data}");
        Some(event)
    }

    #[test]
    fn text_counts_and_the_answer_may_differ() {
        let familiar = knowing(Completions, RUNNING);
        let next = RUNNING
            .replace("cmpl-1", "cmpl-9f")
            .replace(" a", " 你好 }]\u{7e}")
            .replace(":17", ":1795977753")
            .replace(":4,", ":4096,")
            .replace(":5,", ":4224,")
            .replace(":1}", ":128}");
        let event = known(&familiar, &next).unwrap();
        assert_eq!(event.content, Content::Visible);
        let usage = event.usage.unwrap();
        assert_eq!((usage.prompt_tokens, usage.completion_tokens), (Some(4096), Some(128)));
        assert!(known(&knowing(Chat, DELTA), &DELTA.replace("\"a\"", "\"bc\"")).is_some());
        let thought = known(&knowing(Chat, THOUGHT), &THOUGHT.replace("\"a\"", "\"bc\"")).unwrap();
        assert_eq!(thought.content, Content::Reasoning);
    }

    #[test]
    fn what_differs_elsewhere_is_parsed() {
        let familiar = knowing(Completions, RUNNING);
        for (from, to) in [
            ("\" a\"", "\"\""),
            ("\" a\"", "\"\\n\""),
            ("\" a\"", "\"\u{1}\""),
            ("\" a\"", "null"),
            ("\"finish_reason\":null", "\"finish_reason\":\"stop\""),
            ("\"completion_tokens\":1", "\"completion_tokens\":100000001"),
            ("\"completion_tokens\":1", "\"completion_tokens\":01"),
            ("\"completion_tokens\":1", "\"completion_tokens\":1.5"),
            ("\"completion_tokens\":1", "\"completion_tokens\":-1"),
            ("\"completion_tokens\":1", "\"completion_tokens\":9999999999999999999999"),
            ("\"model\":\"m\"", "\"model\":\"n\""),
            ("}}", "}"),
            ("}}", "}} "),
        ] {
            let changed = RUNNING.replace(from, to);
            assert_ne!(changed, RUNNING, "{from}");
            assert_eq!(known(&familiar, &changed), None, "{changed}");
            let (plain, read) =
                (Completions.event(changed.as_bytes()), familiar.event(changed.as_bytes()));
            assert_eq!(read, plain, "{changed}");
        }
    }

    #[test]
    fn what_means_nothing_sure_is_not_learned() {
        for data in [
            // The text of one choice of two decides nothing by itself.
            r#"{"choices":[{"text":"a"},{"text":"b"}]}"#,
            r#"{"choices":[{"text":"a","finish_reason":"stop"}]}"#,
            r#"{"choices":[{"text":"a"}],"error":"broken"}"#,
            r#"{"choices":[{"text":""}]}"#,
            r#"{"choices":[{"text":"\n"}]}"#,
            r#"{"choices":[],"text":"a"}"#,
        ] {
            let familiar = knowing(Completions, data);
            assert!(familiar.forms.iter().all(|form| form.get().is_none()), "{data}");
        }
        // A name that means something elsewhere, and nothing here.
        let beside = r#"{"x":{"completion_tokens":3},"choices":[{"text":"a"}]}"#;
        let familiar = knowing(Completions, beside);
        assert_eq!(known(&familiar, &beside.replace(":3", ":4")), None);
        assert!(known(&familiar, &beside.replace("\"a\"", "\"b\"")).is_some());
    }

    #[test]
    fn forms_and_tries_are_bounded() {
        let familiar = TemplateCache::new(Completions);
        for number in 0..100 {
            let event = format!(r#"{{"choices":[{{"text":"a","logprobs":{number}}}]}}"#);
            familiar.event(event.as_bytes()).unwrap();
        }
        assert!(familiar.forms.iter().all(|form| form.get().is_some()));
        let familiar = TemplateCache::new(Completions);
        for _ in 0..100 {
            familiar.event(br#"{"choices":[{"text":"\n"}]}"#).unwrap();
        }
        assert_eq!(familiar.tried.load(Ordering::Relaxed), TRIES);
    }

    proptest! {
        #[test]
        fn any_change_is_read_as_without(
            which in 0_usize..3,
            edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..3), 1..4),
        ) {
            let base = [RUNNING, DELTA, THOUGHT][which];
            let mut data = base.as_bytes().to_vec();
            for (place, byte, kind) in edits {
                let at = place.index(data.len());
                match kind {
                    0 => data[at] = byte,
                    1 => data.insert(at, byte),
                    _ => drop(data.remove(at)),
                }
            }
            prop_assert_eq!(knowing(Chat, base).event(&data), Chat.event(&data));
            prop_assert_eq!(knowing(Completions, base).event(&data), Completions.event(&data));
        }
    }
}
