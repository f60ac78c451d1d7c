//! Request: what a body asks for, or the refusal in vLLM's words.

use serde_json::{Value, json};

use super::exposition::FinishReason;
use super::vocabulary;
use crate::rng::Seed;

/// Which endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Chat,
    Completions,
}

/// How the answer comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    Stream,
    Whole,
}

/// Where usage is wanted in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UsageAt {
    Nowhere,
    End,
    Everywhere,
}

/// Whether token ids are wanted in the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenIds {
    Hidden,
    Shown,
}

/// An understood request.
#[derive(Debug, Clone)]
pub(crate) struct Form {
    pub(crate) api: Api,
    pub(crate) delivery: Delivery,
    pub(crate) prompt: Vec<u32>,
    pub(crate) output_tokens: u32,
    pub(crate) reason: FinishReason,
    pub(crate) usage: UsageAt,
    pub(crate) token_ids: TokenIds,
    /// The generated text follows from the request's seed and its prompt.
    pub(crate) text_seed: Seed,
    /// A prompt token that the vocabulary lacks: known only when the engine looks.
    pub(crate) bad_token: Option<u32>,
}

/// What the server allows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) model: &'a str,
    pub(crate) max_model_len: u32,
    pub(crate) stop_after_tokens: Option<u32>,
}

/// An answer that is not 200.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Prompt tokens that a chat template adds to each message, and to the whole.
const TEMPLATE_TOKENS_PER_MESSAGE: u32 = 4;
const TEMPLATE_TOKENS: u32 = 5;

/// vLLM's default where a completion names no limit.
const DEFAULT_COMPLETION_TOKENS: u64 = 16;

pub(crate) fn refuse(status: u16, kind: &str, message: &str, param: Option<&str>) -> Refusal {
    // Written by hand, because the order of the keys is vLLM's.
    let body = format!(
        r#"{{"error":{{"message":{},"type":"{kind}","param":{},"code":{status}}}}}"#,
        json!(message),
        json!(param)
    );
    Refusal { status, body }
}

fn bad_request(message: &str, param: &str) -> Refusal {
    refuse(400, "BadRequestError", message, Some(param))
}

/// Reads the JSON of a body.
pub(crate) fn parse_json(body: &[u8]) -> Result<Value, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        let param = format!("body.{}", error.column().saturating_sub(1));
        let message = format!(
            "1 validation error:\n  {{'type': 'json_invalid', 'loc': '{param}', 'msg': 'JSON decode error', \
             'input': '<dict of 0 items>', 'ctx': {{'error': 'Expecting value'}}}}"
        );
        refuse(400, "Bad Request", &message, Some(&param))
    })
}

/// Reads a generation request.
pub(crate) fn parse(api: Api, body: &[u8], rules: Rules<'_>) -> Result<Form, Refusal> {
    let value = parse_json(body)?;
    check_model(&value, rules.model)?;
    let prompt = match api {
        Api::Completions => completion_prompt(&value)?,
        Api::Chat => chat_prompt(&value)?,
    };
    for (name, allowed) in [("n", 1), ("best_of", 1)] {
        if integer(&value, name)?.is_some_and(|n| n != allowed) {
            return Err(bad_request(&format!("this simulator serves {name}=1 only"), name));
        }
    }
    let (output_tokens, reason) = output(api, &value, prompt.len(), rules)?;
    let options = &value["stream_options"];
    let usage = match (flag(options, "include_usage"), flag(options, "continuous_usage_stats")) {
        (false, _) => UsageAt::Nowhere,
        (true, false) => UsageAt::End,
        (true, true) => UsageAt::Everywhere,
    };
    let seed = Seed(integer(&value, "seed")?.unwrap_or(0).unsigned_abs());
    let text_seed = prompt.iter().take(64).fold(seed.named("text"), |s, id| s.nth(u64::from(*id)));
    Ok(Form {
        api,
        delivery: if flag(&value, "stream") { Delivery::Stream } else { Delivery::Whole },
        bad_token: prompt.iter().copied().find(|id| *id >= vocabulary::SIZE),
        prompt,
        output_tokens,
        reason,
        usage,
        token_ids: if flag(&value, "return_token_ids") {
            TokenIds::Shown
        } else {
            TokenIds::Hidden
        },
        text_seed,
    })
}

/// Refuses another model's name; a missing one means the served one, as on vLLM.
pub(crate) fn check_model(value: &Value, served: &str) -> Result<(), Refusal> {
    match value["model"].as_str() {
        Some(asked) if asked != served => {
            let message = format!("The model `{asked}` does not exist. Valid aliases: {served}.");
            Err(refuse(404, "NotFoundError", &message, Some("model")))
        }
        _ => Ok(()),
    }
}

/// The ids of a `/tokenize` body: a prompt or messages.
pub(crate) fn tokenize_prompt(value: &Value) -> Result<Vec<u32>, Refusal> {
    match &value["prompt"] {
        Value::String(text) => Ok(vocabulary::ids_of(text)),
        _ => chat_prompt(value),
    }
}

fn flag(value: &Value, name: &str) -> bool {
    value[name].as_bool().unwrap_or(false)
}

fn integer(value: &Value, name: &str) -> Result<Option<i64>, Refusal> {
    match &value[name] {
        Value::Null => Ok(None),
        other => other.as_i64().map(Some).ok_or_else(|| {
            bad_request(
                &format!("{name} must be an integer. (parameter={name}, value={other})"),
                name,
            )
        }),
    }
}

fn completion_prompt(value: &Value) -> Result<Vec<u32>, Refusal> {
    let wrong =
        || bad_request("Either prompt or prompt_embeds must be provided and non-empty.", "prompt");
    let prompt = match &value["prompt"] {
        Value::Array(items)
            if matches!(items.first(), Some(Value::String(_) | Value::Array(_))) =>
        {
            if items.len() > 1 {
                return Err(bad_request("this simulator serves one prompt a request", "prompt"));
            }
            &items[0]
        }
        prompt => prompt,
    };
    let ids: Vec<u32> = match prompt {
        Value::String(text) => vocabulary::ids_of(text),
        Value::Array(ids) => ids
            .iter()
            .map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok()))
            .collect::<Option<_>>()
            .ok_or_else(wrong)?,
        _ => return Err(wrong()),
    };
    if ids.is_empty() { Err(wrong()) } else { Ok(ids) }
}

fn chat_prompt(value: &Value) -> Result<Vec<u32>, Refusal> {
    let messages = value["messages"]
        .as_array()
        .filter(|messages| !messages.is_empty())
        .ok_or_else(|| bad_request("messages must be a non-empty list", "messages"))?;
    let mut ids: Vec<u32> = (0..TEMPLATE_TOKENS).collect();
    for message in messages {
        ids.extend(0..TEMPLATE_TOKENS_PER_MESSAGE);
        match &message["content"] {
            Value::String(text) => ids.extend(vocabulary::ids_of(text)),
            Value::Array(parts) => {
                for part in parts {
                    ids.extend(vocabulary::ids_of(part["text"].as_str().unwrap_or("")));
                }
            }
            _ => {}
        }
    }
    Ok(ids)
}

/// How many tokens come and why they end, or vLLM's refusal.
fn output(
    api: Api,
    value: &Value,
    prompt_tokens: usize,
    rules: Rules<'_>,
) -> Result<(u32, FinishReason), Refusal> {
    let limit = u64::from(rules.max_model_len);
    let prompt = prompt_tokens as u64;
    if prompt >= limit {
        return Err(bad_request(
            &format!(
                "This model's maximum context length is {limit} tokens. However, your prompt contains {prompt} \
                 input tokens, which exceeds this limit even without any output tokens. Please reduce the length \
                 of the input prompt. (parameter=input_tokens, value={prompt})"
            ),
            "input_tokens",
        ));
    }
    let name = match api {
        Api::Chat if !value["max_completion_tokens"].is_null() => "max_completion_tokens",
        _ => "max_tokens",
    };
    let room = limit - prompt;
    let asked = match integer(value, name)? {
        Some(asked) => u64::try_from(asked).ok().filter(|n| *n > 0).ok_or_else(|| {
            let message = format!(
                "{name} must be at least 1, got {asked}. (parameter={name}, value={asked})"
            );
            bad_request(&message, name)
        })?,
        None if api == Api::Completions => DEFAULT_COMPLETION_TOKENS.min(room),
        None => room,
    };
    if asked > room {
        return Err(bad_request(
            &format!(
                "This model's maximum context length is {limit} tokens. However, you requested {asked} output tokens \
                 and your prompt contains at least {prompt} input tokens, for a total of at least {} tokens. Please \
                 reduce the length of the input prompt or the number of requested output tokens. \
                 (parameter=input_tokens, value={prompt})",
                asked.saturating_add(prompt)
            ),
            "input_tokens",
        ));
    }
    let least = integer(value, "min_tokens")?.unwrap_or(0);
    let least = u64::try_from(least).unwrap_or(0);
    if least > asked {
        let message = format!(
            "min_tokens must be less than or equal to max_tokens={asked}, got {least}. (parameter=min_tokens, value={least})"
        );
        return Err(bad_request(&message, "min_tokens"));
    }
    let natural = rules.stop_after_tokens.filter(|_| !flag(value, "ignore_eos"));
    let stop = natural.map(|n| u64::from(n).max(least).max(1)).filter(|n| *n < asked);
    let count = u32::try_from(stop.unwrap_or(asked)).unwrap_or(u32::MAX);
    let reason = if stop.is_some() { FinishReason::Stop } else { FinishReason::Length };
    Ok((count, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules<'static> =
        Rules { model: "sim", max_model_len: 100, stop_after_tokens: Some(7) };

    fn completions(body: &str) -> Result<Form, Refusal> {
        parse(Api::Completions, body.as_bytes(), RULES)
    }

    #[test]
    fn output_length_obeys_each_parameter() {
        let cases = [
            (r#"{"prompt":[1,2]}"#, 7, FinishReason::Stop),
            (r#"{"prompt":[1,2],"max_tokens":5}"#, 5, FinishReason::Length),
            (r#"{"prompt":[1,2],"max_tokens":20,"ignore_eos":true}"#, 20, FinishReason::Length),
            (r#"{"prompt":[1,2],"max_tokens":20,"min_tokens":12}"#, 12, FinishReason::Stop),
            (r#"{"prompt":"the light","ignore_eos":true}"#, 16, FinishReason::Length),
        ];
        for (body, tokens, reason) in cases {
            let form = completions(body).unwrap();
            assert_eq!((form.output_tokens, form.reason, form.prompt.len()), (tokens, reason, 2));
        }
        let chat = r#"{"messages":[{"role":"user","content":"the light"}],"ignore_eos":true}"#;
        let form = parse(Api::Chat, chat.as_bytes(), RULES).unwrap();
        assert_eq!((form.prompt.len(), form.output_tokens), (11, 89));
    }

    #[test]
    fn refusals_say_what_the_real_server_says() {
        let refusal = completions(r#"{"model":"no-such-model","prompt":"a"}"#).unwrap_err();
        assert_eq!(refusal.status, 404);
        assert_eq!(
            refusal.body,
            r#"{"error":{"message":"The model `no-such-model` does not exist. Valid aliases: sim.","type":"NotFoundError","param":"model","code":404}}"#
        );
        let refusal = completions(r#"{"prompt":"a","max_tokens":-5}"#).unwrap_err();
        assert_eq!(
            refusal.body,
            r#"{"error":{"message":"max_tokens must be at least 1, got -5. (parameter=max_tokens, value=-5)","type":"BadRequestError","param":"max_tokens","code":400}}"#
        );
        let long = format!(r#"{{"prompt":{:?}}}"#, vec![5; 120]);
        let refusal = completions(&long).unwrap_err();
        assert!(refusal.body.contains("your prompt contains 120 input tokens, which exceeds"));
    }

    #[test]
    fn nothing_a_client_sends_panics() {
        for body in [
            "",
            "[]",
            "null",
            r#"{"prompt":[[]]}"#,
            r#"{"prompt":[-1]}"#,
            r#"{"prompt":"x","seed":1.5}"#,
        ] {
            let status = completions(body).unwrap_err().status;
            assert_eq!(status, 400, "{body}");
        }
        let huge = r#"{"prompt":"x","max_tokens":9223372036854775807,"seed":-9223372036854775808}"#;
        assert_eq!(completions(huge).unwrap_err().status, 400);
    }
}
