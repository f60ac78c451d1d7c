//! Bodies of requests, field for field as vLLM's client writes them.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::dataset::Sample;
use super::options::{BodyOptions, Lora, LoraAssignment};
use crate::rng::Seed;
use crate::scenario::Prompt;
use crate::settings::ApiChoice;

/// Writes the bodies of one benchmark.
#[derive(Debug, Clone)]
pub(super) struct BodyWriter {
    pub(super) api: ApiChoice,
    pub(super) model: String,
    pub(super) options: BodyOptions,
    pub(super) lora: Lora,
    pub(super) seed: Seed,
}

impl BodyWriter {
    /// The body of the request of this number.
    pub(super) fn write(&self, sample: &Sample, index: usize) -> Bytes {
        let mut body = Map::new();
        let mut put = |name: &str, value: Value| body.insert(name.to_owned(), value);
        put("model", json!(self.model(index)));
        match (self.api, &sample.prompt) {
            (ApiChoice::Chat, Prompt::Text(text)) => {
                let content = json!([{"type": "text", "text": text}]);
                put("messages", json!([{"role": "user", "content": content}]));
                put("max_completion_tokens", json!(sample.output_tokens));
            }
            (_, prompt) => {
                put("prompt", prompt_value(prompt));
                put("repetition_penalty", json!(1.0));
                put("max_tokens", json!(sample.output_tokens));
                put("logprobs", json!(self.options.logprobs));
            }
        }
        put("stream", json!(true));
        put("stream_options", json!({"include_usage": true}));
        if self.options.ignore_eos {
            put("ignore_eos", json!(true));
        }
        body.extend(self.options.extra.clone());
        Value::Object(body).to_string().into()
    }

    fn model(&self, index: usize) -> &str {
        let modules = &self.lora.modules;
        let count = modules.len() as u64;
        let number = match self.lora.assignment {
            LoraAssignment::RoundRobin => index as u64,
            LoraAssignment::Random => self.seed.named("lora").nth(index as u64).0,
        };
        let place = number.checked_rem(count).and_then(|place| usize::try_from(place).ok());
        place.and_then(|place| modules.get(place)).unwrap_or(&self.model)
    }
}

fn prompt_value(prompt: &Prompt) -> Value {
    match prompt {
        Prompt::Text(text) => json!(text),
        Prompt::Tokens(ids) => json!(ids),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer(api: ApiChoice) -> BodyWriter {
        let extra = json!({"temperature": 0.5}).as_object().cloned().unwrap_or_default();
        BodyWriter {
            api,
            model: "m".into(),
            options: BodyOptions { ignore_eos: true, logprobs: None, extra },
            lora: Lora::default(),
            seed: Seed(1),
        }
    }

    fn written(writer: &BodyWriter, index: usize) -> Value {
        let sample =
            Sample { prompt: Prompt::Text("hi".into()), input_tokens: 1, output_tokens: 7 };
        serde_json::from_slice(&writer.write(&sample, index)).unwrap()
    }

    /// What `vllm bench serve` 0.32.0 sent for the same request.
    #[test]
    fn bodies_are_those_of_vllm() {
        assert_eq!(
            written(&writer(ApiChoice::Completions), 0),
            json!({"model": "m", "prompt": "hi", "repetition_penalty": 1.0, "max_tokens": 7,
                "logprobs": null, "stream": true, "stream_options": {"include_usage": true},
                "ignore_eos": true, "temperature": 0.5})
        );
        assert_eq!(
            written(&writer(ApiChoice::Chat), 0),
            json!({"model": "m", "max_completion_tokens": 7, "stream": true,
                "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
                "stream_options": {"include_usage": true}, "ignore_eos": true, "temperature": 0.5})
        );
    }

    #[test]
    fn adapters_go_round_or_by_chance() {
        let modules = vec!["a".to_owned(), "b".to_owned()];
        let mut writer = writer(ApiChoice::Completions);
        writer.lora = Lora { modules, assignment: LoraAssignment::RoundRobin };
        let models = |writer: &BodyWriter| -> String {
            (0..40).map(|i| written(writer, i)["model"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(models(&writer), "ab".repeat(20));
        writer.lora.assignment = LoraAssignment::Random;
        let drawn = models(&writer);
        assert!(drawn.contains('a') && drawn.contains('b') && drawn != "ab".repeat(20), "{drawn}");
    }
}
