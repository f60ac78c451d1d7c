//! A stored run as result files of `vllm bench serve`: one for each load point.
//!
//! Schema: `vllm/benchmarks/serve.py`, 0.22 to 0.32. What does not exist is null, where vLLM's client
//! writes 0. The arrays of `--save-detailed` are not written.

use serde_json::json;

use super::ExportFile;
use super::measured::{Measured, Point, file_name};
use super::vllm::{FileName, Header, VllmResult};
use crate::error::Result;
use crate::metric::Metric;
use crate::scenario::Load;

/// The latencies: our metric (its clock starts at the send, as theirs does) and their name.
const LATENCIES: [(Metric, &str); 4] = [
    (Metric::TtftFromSent, "ttft"),
    (Metric::Tpot, "tpot"),
    (Metric::Itl, "itl"),
    (Metric::E2elFromSent, "e2el"),
];

/// The files.
pub(super) fn render(measured: &Measured<'_>) -> Result<Vec<ExportFile>> {
    measured.loads().map(|point| file(measured, point)).collect()
}

fn file(measured: &Measured<'_>, point: &Point<'_>) -> Result<ExportFile> {
    let run = measured.run;
    let date = run.ended_at.unwrap_or(run.started_at).strftime("%Y%m%d-%H%M%S").to_string();
    let (request_rate, burstiness, max_concurrency) = match point.input.point.load {
        Load::Concurrency(cap) => (f64::INFINITY, 1.0, Some(cap)),
        Load::RequestRate(rate) => (rate.per_s, rate.burstiness, rate.max_concurrency),
    };
    let server = measured.server();
    let model = server.map(|server| server.model.as_str()).unwrap_or_default();
    let is_chat = server.is_some_and(|server| server.api == "chat");
    let metadata: Vec<(String, String)> =
        run.metadata.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let summary = point.summary();
    let attempted = summary.completed + summary.failed;
    let mut result = VllmResult::new(Header {
        date: &date,
        backend: if is_chat { "openai-chat" } else { "openai" },
        label: Some(point.id()),
        model_id: model,
        tokenizer_id: model,
        num_prompts: u32::try_from(attempted).unwrap_or(u32::MAX),
        metadata: &metadata,
        request_rate,
        burstiness,
        max_concurrency,
    });
    fill(&mut result, point);
    result.set("definitions", json!(run.definitions));
    let name = FileName {
        label: &point.file_name(),
        request_rate,
        ramp_up: None,
        max_concurrency,
        model_id: &file_name(model.rsplit('/').next().unwrap_or(model)),
        date: &date,
    };
    Ok(ExportFile { path: name.render().into(), text: format!("{}\n", result.to_json()?) })
}

/// Totals and statistics, in vLLM's order.
fn fill(result: &mut VllmResult, point: &Point<'_>) {
    let summary = point.summary();
    for (name, value) in [
        ("duration", json!(summary.duration_s)),
        ("completed", json!(summary.completed)),
        ("failed", json!(summary.failed)),
        ("total_input_tokens", json!(summary.input_tokens)),
        ("total_output_tokens", json!(summary.output_tokens)),
        ("request_throughput", json!(summary.request_throughput)),
        ("request_goodput", json!(summary.goodput)),
        ("output_throughput", json!(summary.output_throughput)),
        ("total_token_throughput", json!(summary.total_token_throughput)),
    ] {
        result.set(name, value);
    }
    for (metric, name) in LATENCIES {
        let distribution = summary.distributions.get(&metric).copied().unwrap_or_default();
        for (statistic, value) in [
            ("mean", distribution.mean),
            ("median", distribution.p50),
            ("std", distribution.std),
            ("p90", distribution.p90),
            ("p95", distribution.p95),
            ("p99", distribution.p99),
        ] {
            result.set(&format!("{statistic}_{name}_ms"), json!(value));
        }
    }
}
