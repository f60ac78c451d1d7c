//! The completions dialect: `/v1/completions`.

use bytes::Bytes;
use serde::Serialize;

use super::body::{self, Common};
use super::event::{self, WireUsage};
use super::lenient::{ListLength, Name, Part, Text};
use super::{Content, Dialect, GenerateRequest, StreamEvent};
use crate::error::Result;
use crate::scenario::Prompt;

/// OpenAI's completions: prompts as text or, for exact lengths, as token ids.
#[derive(Debug, Clone, Copy, Default)]
pub struct Completions;

#[derive(Serialize)]
struct Body<'a> {
    prompt: PromptField<'a>,
    #[serde(flatten)]
    common: Common<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum PromptField<'a> {
    Text(&'a str),
    Tokens(&'a [u32]),
}

#[derive(serde::Deserialize)]
struct Choice {
    #[serde(default)]
    text: Text,
    #[serde(default)]
    token_ids: ListLength,
    #[serde(default)]
    finish_reason: Name,
    #[serde(default)]
    usage: Part<WireUsage>,
}

impl event::Choice for Choice {
    fn content(&self) -> Content {
        if self.text.is_present() { Content::Visible } else { Content::None }
    }

    fn token_ids(&self) -> Option<u32> {
        self.token_ids.0
    }

    fn take_usage(&mut self) -> Option<WireUsage> {
        self.usage.0.take()
    }

    fn take_finish_reason(&mut self) -> Option<String> {
        self.finish_reason.0.take()
    }
}

impl Dialect for Completions {
    fn name(&self) -> &'static str {
        "completions"
    }

    fn path(&self) -> &'static str {
        "completions"
    }

    fn body(&self, request: &GenerateRequest<'_>) -> Result<Bytes> {
        let prompt = match request.prompt {
            Prompt::Text(text) => PromptField::Text(text),
            Prompt::Tokens(ids) => PromptField::Tokens(ids),
        };
        body::encode(&Body { prompt, common: Common::new(request) }, request.extra)
    }

    fn event(&self, data: &[u8]) -> Result<StreamEvent, String> {
        event::read::<Choice>(data)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::super::LeftOut;
    use super::*;
    use crate::api::{Offers, Place, Usage};

    fn body(prompt: &Prompt, offers: Offers, extra: &Map<String, Value>) -> Value {
        let request =
            GenerateRequest { model: "m", prompt, max_tokens: 4, seed: u64::MAX, offers, extra };
        serde_json::from_slice(&Completions.body(&request).unwrap()).unwrap()
    }

    fn event(data: &str) -> StreamEvent {
        Completions.event(data.as_bytes()).unwrap()
    }

    #[test]
    fn a_body_without_offers_holds_the_standard_alone() {
        let ids = Prompt::Tokens(vec![1, 2]);
        assert_eq!(
            body(&ids, Offers::default(), &Map::new()),
            json!({"prompt": [1, 2], "model": "m", "stream": true, "max_tokens": 4,
                "temperature": 0.0, "seed": 0x7fff_ffff})
        );
    }

    #[test]
    fn offers_add_their_fields_and_extra_comes_last() {
        let offers = Offers {
            ignore_eos: true,
            min_tokens: true,
            include_usage: true,
            continuous_usage: true,
            token_ids: true,
            ..Offers::default()
        };
        let Value::Object(extra) = json!({"temperature": 0.7, "seed": null, "user": "u"}) else {
            unreachable!()
        };
        assert_eq!(
            body(&Prompt::Text("p".into()), offers, &extra),
            json!({"prompt": "p", "model": "m", "stream": true, "max_tokens": 4,
                "temperature": 0.7, "user": "u", "ignore_eos": true, "min_tokens": 4,
                "return_token_ids": true,
                "stream_options": {"include_usage": true, "continuous_usage_stats": true}})
        );
    }

    #[test]
    fn refused_fields_are_left_out_and_the_limit_has_its_newer_name() {
        let left_out = LeftOut { temperature: true, seed: true, max_tokens: true };
        assert_eq!(
            body(&Prompt::Tokens(vec![1]), Offers { left_out, ..Offers::default() }, &Map::new()),
            json!({"prompt": [1], "model": "m", "stream": true, "max_completion_tokens": 4})
        );
    }

    #[test]
    fn text_counts_and_emptiness_does_not() {
        assert_eq!(event(r#"{"choices":[{"text":" a"}]}"#).content, Content::Visible);
        assert_eq!(event(r#"{"choices":[{"text":"\n"}]}"#).content, Content::Visible);
        for empty in
            [r#"{"choices":[]}"#, r#"{"choices":null,"usage":null}"#, r#"{"choices":[null]}"#, "{}"]
        {
            assert_eq!(event(empty), StreamEvent::default(), "{empty}");
        }
        for empty in [
            r#"{"choices":[{"text":""}]}"#,
            r#"{"choices":[{"text":null}]}"#,
            r#"{"choices":[{}]}"#,
        ] {
            let in_answer = StreamEvent { place: Place::InAnswer, ..StreamEvent::default() };
            assert_eq!(event(empty), in_answer, "{empty}");
        }
    }

    #[test]
    fn usage_comes_with_choices_without_and_in_odd_types() {
        let with = event(
            r#"{"choices":[{"text":"a"}],"usage":{"prompt_tokens":4,"completion_tokens":2,
               "prompt_tokens_details":{"cached_tokens":3}}}"#,
        );
        let usage =
            Usage { prompt_tokens: Some(4), completion_tokens: Some(2), cached_tokens: Some(3) };
        assert_eq!(with.usage, Some(usage));
        let odd = event(
            r#"{"choices":[],"usage":{"prompt_tokens":-1,"completion_tokens":99999999999,
               "prompt_tokens_details":null}}"#,
        );
        assert_eq!(odd.usage, Some(Usage::default()));
    }

    #[test]
    fn ids_are_counted_and_null_ids_are_none() {
        assert_eq!(event(r#"{"choices":[{"text":"","token_ids":[5,6]}]}"#).token_ids, Some(2));
        assert_eq!(event(r#"{"choices":[{"text":"a","token_ids":null}]}"#).token_ids, None);
    }

    #[test]
    fn errors_in_every_shape() {
        for (data, text) in [
            (r#"{"error":{"message":"m","code":500}}"#, "m"),
            (r#"{"error":"text"}"#, "text"),
            (r#"{"error":{"code":7}}"#, r#"{"code":7}"#),
            (r#"{"object":"error","message":"flat","code":40303}"#, "flat"),
            (r#"{"detail":"Not Found"}"#, "Not Found"),
            (r#"{"error":{"message":"with choices"},"choices":[]}"#, "with choices"),
        ] {
            assert_eq!(event(data).error.as_deref(), Some(text), "{data}");
        }
        assert_eq!(event(r#"{"error":null,"choices":[]}"#).error, None);
        let long = event(&format!(r#"{{"error":"{}"}}"#, "é".repeat(2000))).error.unwrap();
        assert!(long.len() <= 1024 && long.starts_with('é'));
    }

    #[test]
    fn what_is_not_json_is_refused_in_words() {
        for data in ["", "{", "<html>", "[1]", "12", "{\"choices\":7}", "\u{0}"] {
            assert!(!Completions.event(data.as_bytes()).unwrap_err().is_empty(), "{data}");
        }
        assert!(Completions.event(b"{\"choices\":[{\"text\":\"\xff\"}").is_err());
    }
}
