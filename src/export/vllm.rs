//! A result file of `vllm bench serve`: its fields in its order.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use super::ExportFile;
use super::measured::{Measured, Point};
use crate::error::{Error, Result};
use crate::metric::Metric;
use crate::scenario::Load;
use crate::summary::Distribution;

/// One result: fields in the order in which they were first set.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct VllmResult(Vec<(String, Value)>);

/// The first fields of a result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header<'a> {
    /// Local time, `20261129-185323`.
    pub(crate) date: &'a str,
    pub(crate) backend: &'a str,
    pub(crate) label: Option<&'a str>,
    pub(crate) model_id: &'a str,
    pub(crate) tokenizer_id: &'a str,
    pub(crate) num_prompts: u32,
    /// Set at the top level.
    pub(crate) metadata: &'a [(String, String)],
    /// Requests a second; infinite: the word `inf`.
    pub(crate) request_rate: f64,
    pub(crate) burstiness: f64,
    pub(crate) max_concurrency: Option<u32>,
}

impl VllmResult {
    /// A result with its header.
    pub(crate) fn new(header: Header<'_>) -> Self {
        let mut result = Self::default();
        result.set("date", json!(header.date));
        result.set("endpoint_type", json!(header.backend));
        result.set("backend", json!(header.backend));
        result.set("label", json!(header.label));
        result.set("model_id", json!(header.model_id));
        result.set("tokenizer_id", json!(header.tokenizer_id));
        result.set("num_prompts", json!(header.num_prompts));
        for (key, value) in header.metadata {
            result.set(key, json!(value));
        }
        result.set("request_rate", number(header.request_rate));
        result.set("burstiness", number(header.burstiness));
        result.set("max_concurrency", json!(header.max_concurrency));
        result
    }

    /// Sets a field: in its place if it has one.
    pub(crate) fn set(&mut self, name: &str, value: Value) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// The text of the file, one line without its end.
    ///
    /// # Errors
    /// If a value cannot be written as JSON, which none of these is.
    pub(crate) fn to_json(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|error| Error::store("the result cannot be written as JSON").with_cause(error))
    }
}

/// JSON has no infinity: vLLM's client writes the word.
fn number(value: f64) -> Value {
    if value == f64::INFINITY { json!("inf") } else { json!(value) }
}

impl Serialize for VllmResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// The name of a file for which none is given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileName<'a> {
    /// The label, else the backend.
    pub(crate) label: &'a str,
    pub(crate) request_rate: f64,
    /// `linear-1qps-10qps` where the rate rises.
    pub(crate) ramp_up: Option<&'a str>,
    pub(crate) max_concurrency: Option<u32>,
    pub(crate) model_id: &'a str,
    pub(crate) date: &'a str,
}

impl FileName<'_> {
    /// `openai-infqps-concurrency8-Qwen3-0.6B-20261129-185323.json`.
    pub(crate) fn render(&self) -> String {
        let rate = match self.ramp_up {
            Some(ramp_up) => format!("ramp-up-{ramp_up}"),
            // `Debug` writes 4.0 as Python does.
            None => format!("{:?}qps", self.request_rate),
        };
        let limit = self.max_concurrency.map(|n| format!("-concurrency{n}")).unwrap_or_default();
        let model = self.model_id.rsplit('/').next().unwrap_or(self.model_id);
        format!("{}-{rate}{limit}-{model}-{}.json", self.label, self.date)
    }
}

/// The latencies: our metric (their clock starts at the send) and their name.
const LATENCIES: [(Metric, &str); 4] = [
    (Metric::TtftFromSent, "ttft"),
    (Metric::Tpot, "tpot"),
    (Metric::Itl, "itl"),
    (Metric::E2elFromSent, "e2el"),
];

/// A file for each load point, named by it.
pub(super) fn render(measured: &Measured<'_>) -> Result<Vec<ExportFile>> {
    measured
        .loads()
        .map(|point| {
            let path = format!("{}.json", point.file_name()).into();
            Ok(ExportFile { path, text: result_of(measured, point).to_json()? + "\n" })
        })
        .collect()
}

/// The figures of a stored run under vLLM's names. Its rates are those of the measured window, which
/// `definitions` says.
fn result_of(measured: &Measured<'_>, point: &Point<'_>) -> VllmResult {
    let summary = point.summary();
    let (request_rate, burstiness, max_concurrency) = match point.input.point.load {
        Load::Concurrency(cap) => (f64::INFINITY, 1.0, Some(cap)),
        Load::RequestRate(rate) => (rate.per_s, rate.burstiness, rate.max_concurrency),
    };
    let server = measured.server();
    let model = server.map_or("", |server| server.model.as_str());
    let is_chat = server.is_some_and(|server| server.api == "chat");
    let metadata: Vec<(String, String)> = measured.run.metadata.clone().into_iter().collect();
    let mut result = VllmResult::new(Header {
        date: &measured.run.started_at.strftime("%Y%m%d-%H%M%S").to_string(),
        backend: if is_chat { "openai-chat" } else { "openai" },
        label: measured.run.name.as_deref(),
        model_id: model,
        tokenizer_id: model,
        num_prompts: u32::try_from(summary.completed + summary.failed).unwrap_or(u32::MAX),
        metadata: &metadata,
        request_rate,
        burstiness,
        max_concurrency,
    });
    result.set("duration", json!(summary.duration_s));
    result.set("completed", json!(summary.completed));
    result.set("failed", json!(summary.failed));
    result.set("total_input_tokens", json!(summary.input_tokens));
    result.set("total_output_tokens", json!(summary.output_tokens));
    result.set("request_throughput", json!(summary.request_throughput));
    result.set("request_goodput", json!(summary.goodput));
    result.set("output_throughput", json!(summary.output_throughput));
    result.set("total_token_throughput", json!(summary.total_token_throughput));
    for (metric, name) in LATENCIES {
        let distribution = summary.distributions.get(&metric).copied().unwrap_or_default();
        for (statistic, value) in [
            ("mean", distribution.mean),
            ("median", distribution.p50),
            ("std", std(distribution)),
            ("p90", distribution.p90),
            ("p95", distribution.p95),
            ("p99", distribution.p99),
        ] {
            result.set(&format!("{statistic}_{name}_ms"), json!(value));
        }
    }
    result.set("inferometer", json!({ "definitions": measured.run.definitions }));
    result
}

/// The standard deviation with divisor n, as vLLM's client has it; ours is over n − 1.
fn std(distribution: Distribution) -> Option<f64> {
    #[allow(clippy::cast_precision_loss)] // counts of requests and tokens
    let n = distribution.count as f64;
    distribution.std.map(|std| if n > 1.0 { std * ((n - 1.0) / n).sqrt() } else { std })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(metadata: &[(String, String)]) -> Header<'_> {
        Header {
            date: "20261129-185323",
            backend: "openai",
            label: None,
            model_id: "a/b",
            tokenizer_id: "a/b",
            num_prompts: 4,
            metadata,
            request_rate: f64::INFINITY,
            burstiness: 1.0,
            max_concurrency: Some(8),
        }
    }

    #[test]
    fn fields_keep_their_order_and_metadata_their_place() {
        let metadata = [("tp".to_owned(), "1".to_owned()), ("duration".to_owned(), "x".to_owned())];
        let mut result = VllmResult::new(header(&metadata));
        result.set("duration", json!(2.5));
        assert_eq!(
            result.to_json().unwrap(),
            r#"{"date":"20261129-185323","endpoint_type":"openai","backend":"openai","label":null,"model_id":"a/b","tokenizer_id":"a/b","num_prompts":4,"tp":"1","duration":2.5,"request_rate":"inf","burstiness":1.0,"max_concurrency":8}"#
        );
    }

    #[test]
    fn names_are_those_of_vllm() {
        let name = FileName {
            label: "openai",
            request_rate: f64::INFINITY,
            ramp_up: None,
            max_concurrency: Some(8),
            model_id: "Qwen/Qwen3-0.6B",
            date: "D",
        };
        assert_eq!(name.render(), "openai-infqps-concurrency8-Qwen3-0.6B-D.json");
        let rate = FileName { request_rate: 4.0, max_concurrency: None, ..name };
        assert_eq!(rate.render(), "openai-4.0qps-Qwen3-0.6B-D.json");
        let ramp = FileName { ramp_up: Some("linear-1qps-10qps"), ..rate };
        assert_eq!(ramp.render(), "openai-ramp-up-linear-1qps-10qps-Qwen3-0.6B-D.json");
    }
}
