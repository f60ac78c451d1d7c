//! The served models, and the engine behind them.

use serde_json::Value;

use super::Examination;
use crate::record::{FindingCode, Severity};
use crate::transport::ClientSettings;
use crate::transport::client::{Client, Endpoint, Reply};
use crate::transport::{BaseUrl, FailureKind};
use crate::transport::{Page, is_page};

/// Most names listed in a message.
const MAX_NAMES: usize = 20;

/// A model as `/v1/models` lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Served {
    id: String,
    /// Other names that the server gives to it (llama-server).
    aliases: Vec<String>,
    max_model_len: Option<u32>,
    owner: Option<String>,
}

impl Examination<'_> {
    /// Reaches the server, has the key accepted, and finds the model.
    pub(super) async fn find_model(&mut self) {
        let reply = match self.client.get(Endpoint::Api("models")).await {
            Ok(reply) => reply,
            Err(failure) if failure.kind == FailureKind::Tls && self.speaks_plain_http().await => {
                return self.no_tls();
            }
            Err(failure) => return self.fail("the list of models", &failure),
        };
        self.read_engine(&reply);
        if matches!(reply.status, 404 | 405 | 501) {
            self.without_list();
        } else if reply.status == 403 && self.settings.model.is_some() {
            // A key may infer and not list: a wrong key is refused by the first request, too.
            self.trust("the key may not list the models (status 403)");
        } else if reply.status >= 500 && self.settings.model.is_some() {
            self.trust(&format!("the server's list of models fails (status {})", reply.status));
        } else if let Some(failure) = self.client.refusal(&reply) {
            return self.fail("the list of models", &failure);
        } else {
            match served(&reply.body) {
                Some(served) => self.choose(&served),
                None => self.no_list(&reply),
            }
        }
        if !self.report.is_fatal() {
            self.check_key_spaces();
            Box::pin(self.read_version()).await;
            Box::pin(self.read_props()).await;
        }
    }

    fn without_list(&mut self) {
        if self.settings.model.is_some() {
            return self.trust("the server lists no models");
        }
        let url = self.client.base_url().api("models");
        self.report.find(
            FindingCode::NoModels,
            Severity::Fatal,
            format!("there is nothing at `{url}`, so the model is not known"),
            "name it with `--model`, or check the base URL and its prefix",
        );
    }

    /// Goes on with the named model: the probes tell whether it answers.
    fn trust(&mut self, why: &str) {
        let model = self.settings.model.clone().unwrap_or_default();
        self.report.find(
            FindingCode::NoModels,
            Severity::Warning,
            format!("{why}: that it serves `{model}` is taken on trust"),
            "check that a wrong name is refused: some servers answer to any",
        );
        self.report.model = model;
    }

    fn no_list(&mut self, reply: &Reply) {
        let url = self.client.base_url().api("models");
        let body = String::from_utf8_lossy(&reply.body);
        let is_page = is_page(reply.header("content-type"), &body);
        let said = if is_page { Page::read(&body).subject() } else { body.trim().to_owned() };
        // Cleaned first, then cut: half a key is not found.
        let begin: String = self.client.clean(&said).chars().take(80).collect();
        if is_page {
            return self.report.find(
                FindingCode::NoModels,
                Severity::Fatal,
                format!("the answer of `{url}` is a web page, no list of models: `{begin}`"),
                "a gateway or another service answers there: check the base URL, its port and its prefix",
            );
        }
        self.report.find(
            FindingCode::NoModels,
            Severity::Fatal,
            format!("the answer of `{url}` is no list of models: `{begin}`"),
            "is the base URL right, or does a gateway answer in the server's place?",
        );
    }

    /// Whether a port that gave no TLS answers plain HTTP, asked without key and headers. Those that
    /// speak TLS say 400 to it, or nothing.
    async fn speaks_plain_http(&self) -> bool {
        let Some(rest) = self.client.base_url().root().strip_prefix("https://") else {
            return false;
        };
        let Ok(base_url) = BaseUrl::parse(&format!("http://{rest}")) else { return false };
        let settings =
            ClientSettings { timeouts: self.settings.timeouts, ..ClientSettings::new(base_url) };
        let Ok(client) = Client::new(settings) else { return false };
        client.get(Endpoint::Api("models")).await.is_ok_and(|reply| reply.status != 400)
    }

    fn no_tls(&mut self) {
        let root = self.client.base_url().root().to_owned();
        let plain = root.replacen("https://", "http://", 1);
        self.report.find(
            FindingCode::NoTls,
            Severity::Fatal,
            format!("`{root}` speaks no TLS: it answers plain HTTP"),
            &format!("use `{plain}`"),
        );
    }

    fn choose(&mut self, served: &[Served]) {
        let names: Vec<&str> = served.iter().map(|s| s.id.as_str()).collect();
        let Some(first) = served.first() else {
            if self.settings.model.is_some() {
                return self.trust("the server's list of models is empty");
            }
            return self.report.find(
                FindingCode::NoModels,
                Severity::Fatal,
                "the server serves no model",
                "is it still loading? look at its log; where it loads on demand, name it with `--model`",
            );
        };
        let asked = self.settings.model.as_deref();
        let is_asked = |s: &&Served| Some(s.id.as_str()) == asked || s.has_alias(asked);
        let chosen = match asked {
            None => Some(first),
            Some(_) => served.iter().find(is_asked),
        };
        let Some(chosen) = chosen else {
            let asked = asked.unwrap_or_default();
            let hint = match did_you_mean(asked, &names) {
                Some(name) => format!("did you mean `{name}`? names are case-sensitive"),
                None => "names are case-sensitive; without `--model` the first one is taken".into(),
            };
            let text = format!("the model `{asked}` is not served; served: {}", list(&names));
            return self.report.find(FindingCode::Model, Severity::Fatal, text, &hint);
        };
        if asked.is_none() && served.len() > 1 {
            self.report.find(
                FindingCode::ModelChosen,
                Severity::Note,
                format!("of {} served models the first is measured: `{}`", served.len(), chosen.id),
                "name another with `--model`",
            );
        }
        self.report.model = asked.unwrap_or(&chosen.id).to_owned();
        self.report.max_model_len = chosen.max_model_len;
        if self.report.engine.is_none() {
            self.report.engine = chosen.owner.as_deref().and_then(engine_of_owner);
        }
    }

    fn read_engine(&mut self, reply: &Reply) {
        let server = reply.header("server").unwrap_or_default();
        // vLLM and SGLang say `uvicorn`, which carries no information about the engine.
        let (name, version) = server.split_once('/').unwrap_or((server, ""));
        if matches!(name, "llama.cpp" | "inferometer-sim") {
            self.report.engine = Some(name.to_owned());
            self.report.engine_version = Some(version.to_owned()).filter(|v| !v.is_empty());
        }
    }

    async fn get_json(&self, path: &str) -> Option<Value> {
        let reply = self.client.get(Endpoint::Root(path)).await.ok()?;
        if !reply.is_success() {
            return None;
        }
        serde_json::from_slice(&reply.body).ok()
    }

    async fn read_version(&mut self) {
        let answer = self.get_json("version").await;
        let version = answer.as_ref().and_then(|a| a.get("version")).and_then(Value::as_str);
        if let Some(version) = version {
            self.report.engine_version = Some(version.to_owned());
        }
    }

    /// llama-server's settings: `/props`.
    async fn read_props(&mut self) {
        if self.report.engine.as_deref().is_some_and(|engine| engine != "llama.cpp") {
            return;
        }
        let Some(props) = self.get_json("props").await else { return };
        let slots = props.get("default_generation_settings");
        // Context of one slot: what one request may fill.
        if let Some(context) = slots.and_then(|s| s.get("n_ctx")).and_then(Value::as_u64) {
            self.report.max_model_len = u32::try_from(context).ok();
            self.report.engine_settings.insert("n_ctx".to_owned(), context.to_string());
        }
        for name in ["total_slots", "model_path", "build_info"] {
            if let Some(value) = props.get(name).and_then(scalar) {
                self.report.engine_settings.insert(name.to_owned(), value);
            }
        }
        if let Some(build) = props.get("build_info").and_then(Value::as_str) {
            self.report.engine = Some("llama.cpp".to_owned());
            self.report.engine_version = Some(build.to_owned());
        }
    }
}

impl Served {
    fn has_alias(&self, name: Option<&str>) -> bool {
        self.aliases.iter().any(|alias| Some(alias.as_str()) == name)
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// The models of an answer; `None` if it is no list of models. Some gateways leave the envelope out,
/// or call the list `models`.
fn served(body: &[u8]) -> Option<Vec<Served>> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    let number = |model: &Value, name: &str| {
        // 0 is reported where the server does not know.
        let number = model.get(name).and_then(Value::as_u64).filter(|n| *n > 0);
        number.and_then(|n| u32::try_from(n).ok())
    };
    let model = |model: &Value| {
        let aliases = model.get("aliases").and_then(Value::as_array);
        Some(Served {
            id: model.get("id")?.as_str()?.to_owned(),
            aliases: aliases
                .map(|a| a.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect())
                .unwrap_or_default(),
            max_model_len: number(model, "max_model_len"),
            owner: model.get("owned_by").and_then(Value::as_str).map(str::to_owned),
        })
    };
    let list = ["data", "models"].iter().find_map(|name| answer.get(name)?.as_array());
    Some(list.or(answer.as_array())?.iter().filter_map(model).collect())
}

fn engine_of_owner(owner: &str) -> Option<String> {
    match owner {
        "vllm" | "sglang" => Some(owner.to_owned()),
        "llamacpp" => Some("llama.cpp".to_owned()),
        "inferometer" => Some("inferometer-sim".to_owned()),
        _ => None,
    }
}

fn list(names: &[&str]) -> String {
    let shown = names.iter().take(MAX_NAMES).map(|name| format!("`{name}`"));
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if names.len() > MAX_NAMES {
        text.push_str(&format!(" and {} more", names.len() - MAX_NAMES));
    }
    text
}

/// The served name that was probably meant: the same but for case, the last part of a path, or at
/// most a third of its letters apart.
fn did_you_mean<'a>(asked: &str, names: &[&'a str]) -> Option<&'a str> {
    let lower = asked.to_lowercase();
    let last = |name: &str| name.to_lowercase().rsplit('/').next().map(str::to_owned);
    let same = names.iter().find(|name| name.to_lowercase() == lower);
    let part = names.iter().find(|name| last(name) == last(asked));
    if let Some(name) = same.or(part) {
        return Some(name);
    }
    let nearest = names.iter().min_by_key(|name| distance(&name.to_lowercase(), &lower))?;
    let near = distance(&nearest.to_lowercase(), &lower) * 3 <= asked.chars().count();
    near.then_some(*nearest)
}

/// Levenshtein's distance, by the two-row table (Wagner and Fischer, JACM 1974). Model names are
/// short; longer ones are cut at 200 characters.
fn distance(a: &str, b: &str) -> usize {
    const MAX_CHARS: usize = 200;
    let b: Vec<char> = b.chars().take(MAX_CHARS).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(MAX_CHARS).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_was_meant() {
        let names = ["meta/Llama-3-8B", "tiny"];
        assert_eq!(did_you_mean("Tiny", &names), Some("tiny"));
        assert_eq!(did_you_mean("llama-3-8b", &names), Some("meta/Llama-3-8B"));
        assert_eq!(did_you_mean("tini", &names), Some("tiny"));
        assert_eq!(did_you_mean("gpt-4", &names), None);
        assert_eq!(did_you_mean("x", &[]), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn lists_of_vllm_and_of_others() {
        let vllm = br#"{"data":[{"id":"tiny","owned_by":"vllm","max_model_len":4096}]}"#;
        let read = served(vllm).unwrap();
        assert_eq!((read[0].id.as_str(), read[0].max_model_len), ("tiny", Some(4096)));
        assert_eq!(engine_of_owner(read[0].owner.as_deref().unwrap()).as_deref(), Some("vllm"));
        assert_eq!(served(br#"{"data":[]}"#), Some(vec![]));
        for other in
            [r#"[{"id":"tiny","max_model_len":0}]"#, r#"{"data":null,"models":[{"id":"tiny"}]}"#]
        {
            let read = served(other.as_bytes()).unwrap();
            assert_eq!((read[0].id.as_str(), read[0].max_model_len), ("tiny", None), "{other}");
        }
        assert_eq!(served(b"<html>"), None);
        assert_eq!(served(br#"{"error":"x"}"#), None);
    }
}
