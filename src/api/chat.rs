//! The chat dialect: `/v1/chat/completions`.

use bytes::Bytes;
use serde::Serialize;

use super::body::{self, Common};
use super::event::{self, WireUsage};
use super::lenient::{ListLength, Name, Part, Parts, Text};
use super::{Content, Dialect, GenerateRequest, StreamEvent};
use crate::error::{Error, Result};
use crate::scenario::Prompt;

/// OpenAI's chat completions: the prompt is one user message.
#[derive(Debug, Clone, Copy, Default)]
pub struct Chat;

#[derive(Serialize)]
struct Body<'a> {
    messages: [Message<'a>; 1],
    #[serde(flatten)]
    common: Common<'a>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(serde::Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Part<Delta>,
    #[serde(default)]
    token_ids: ListLength,
    #[serde(default)]
    finish_reason: Name,
    #[serde(default)]
    usage: Part<WireUsage>,
}

/// The fields of a delta that carry generated text. `role`, a tool's name and its id are given by
/// the template or the server, and are no token of their own.
#[derive(serde::Deserialize)]
struct Delta {
    #[serde(default)]
    content: Text,
    /// vLLM's word.
    #[serde(default)]
    reasoning: Text,
    /// DeepSeek's, llama-server's and SGLang's word.
    #[serde(default)]
    reasoning_content: Text,
    /// OpenRouter's list; text comes in `reasoning`, too, unless it does not.
    #[serde(default)]
    reasoning_details: Text,
    #[serde(default)]
    refusal: Text,
    #[serde(default)]
    tool_calls: Parts<ToolCall>,
    /// The older form of a tool call.
    #[serde(default)]
    function_call: Part<Function>,
}

#[derive(serde::Deserialize)]
struct ToolCall {
    #[serde(default)]
    function: Part<Function>,
}

#[derive(serde::Deserialize)]
struct Function {
    #[serde(default)]
    arguments: Text,
}

impl Delta {
    fn content(&self) -> Content {
        let called = |f: &Function| f.arguments.is_present();
        let tools = self
            .tool_calls
            .0
            .iter()
            .filter_map(|call| call.function.0.as_ref())
            .chain(&self.function_call.0)
            .any(called);
        if self.content.is_present() || self.refusal.is_present() || tools {
            Content::Visible
        } else if self.reasoning.is_present()
            || self.reasoning_content.is_present()
            || self.reasoning_details.is_present()
        {
            Content::Reasoning
        } else {
            Content::None
        }
    }
}

impl event::Choice for Choice {
    fn content(&self) -> Content {
        self.delta.0.as_ref().map_or(Content::None, Delta::content)
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

impl Dialect for Chat {
    fn name(&self) -> &'static str {
        "chat"
    }

    fn path(&self) -> &'static str {
        "chat/completions"
    }

    fn body(&self, request: &GenerateRequest<'_>) -> Result<Bytes> {
        let Prompt::Text(content) = request.prompt else {
            return Err(Error::scenario("the chat API takes no token ids as a prompt")
                .with_hint("use `--api completions`, or a prompt source of text"));
        };
        let messages = [Message { role: "user", content }];
        body::encode(&Body { messages, common: Common::new(request) }, request.extra)
    }

    fn event(&self, data: &[u8]) -> Result<StreamEvent, String> {
        event::read::<Choice>(data)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::api::Offers;

    #[track_caller]
    fn check(delta: &str, expect: Content) {
        let event = Chat.event(format!(r#"{{"choices":[{{"delta":{delta}}}]}}"#).as_bytes());
        assert_eq!(event.unwrap().content, expect, "{delta}");
    }

    #[test]
    fn generated_text_by_any_name() {
        check(r#"{"content":"a"}"#, Content::Visible);
        check(r#"{"refusal":"no"}"#, Content::Visible);
        check(r#"{"content":[{"type":"text","text":"a"}]}"#, Content::Visible);
        check(r#"{"tool_calls":[{"function":{"arguments":"{"}}]}"#, Content::Visible);
        check(r#"{"function_call":{"arguments":"{"}}"#, Content::Visible);
        check(r#"{"reasoning":"hm"}"#, Content::Reasoning);
        check(r#"{"reasoning_content":"hm","content":null}"#, Content::Reasoning);
        check(r#"{"reasoning":"hm","content":"a"}"#, Content::Visible);
    }

    #[test]
    fn what_is_not_generated() {
        for delta in [
            "null",
            "{}",
            r#"{"role":"assistant"}"#,
            r#"{"role":"assistant","content":""}"#,
            r#"{"role":"assistant","content":null}"#,
            r#"{"reasoning":null,"reasoning_content":"","refusal":null,"tool_calls":null}"#,
            r#"{"tool_calls":[{"id":"c","function":{"name":"f","arguments":""}}]}"#,
            r#"{"tool_calls":[{"function":null}],"content":false}"#,
        ] {
            check(delta, Content::None);
        }
    }

    #[test]
    fn the_limit_goes_by_the_name_that_every_server_obeys() {
        let extra = Map::new();
        let prompt = Prompt::Text("hi".into());
        let request = GenerateRequest {
            model: "m",
            prompt: &prompt,
            max_tokens: 7,
            seed: 1,
            offers: Offers::default(),
            extra: &extra,
        };
        let body: Value = serde_json::from_slice(&Chat.body(&request).unwrap()).unwrap();
        assert_eq!(
            body,
            json!({"messages": [{"role": "user", "content": "hi"}], "model": "m", "stream": true,
                "max_tokens": 7, "temperature": 0.0, "seed": 1})
        );
        let ids = Prompt::Tokens(vec![1]);
        assert!(Chat.body(&GenerateRequest { prompt: &ids, ..request }).is_err());
    }
}
