//! SGLang's bench_serving: a JSON object a line, one for each load point.
//!
//! Schema: the dictionary `result` in `sglang/benchmark/serving.py`, 0.5.23. What does not exist is
//! null; a load without a rate has the word `inf`, since JSON has no infinity.

use serde_json::{Value, json};

use super::measured::{Measured, Point};
use crate::error::{Error, Result};
use crate::metric::{Measure, Metric};
use crate::record::stored::DEFINITIONS;
use crate::scenario::{Length, Load, LoadPoint, PromptSpec};

/// The latencies: our metric (their clock starts at the send) and their name.
const LATENCIES: [(Metric, &str); 4] = [
    (Metric::E2elFromSent, "e2e_latency"),
    (Metric::TtftFromSent, "ttft"),
    (Metric::Tpot, "tpot"),
    (Metric::Itl, "itl"),
];

/// The lines.
pub(super) fn render(measured: &Measured<'_>) -> Result<String> {
    let mut text = String::new();
    for point in measured.loads() {
        let line = serde_json::to_string(&result(measured, point)).map_err(|error| {
            Error::store("the figures cannot be written as JSON").with_cause(error)
        })?;
        text.push_str(&line);
        text.push('\n');
    }
    Ok(text)
}

fn result(measured: &Measured<'_>, point: &Point<'_>) -> Value {
    let summary = point.summary();
    let (rate, cap) = match point.input.point.load {
        Load::Concurrency(cap) => (json!("inf"), Some(cap)),
        Load::RequestRate(rate) => (json!(rate.per_s), rate.max_concurrency),
    };
    let length = |length: &Length| match length {
        Length::Fixed(tokens) => Some(*tokens),
        _ => None,
    };
    let server = measured.server();
    let mut result = json!({
        "tag": measured.run.name,
        "backend": "sglang-oai",
        "dataset_name": dataset(measured, point),
        "request_rate": rate,
        "max_concurrency": cap,
        "random_input_len": length(&point.input.point.input),
        "random_output_len": length(&point.input.point.output),
        "random_range_ratio": range_ratio(&point.input.point),
        "server_info": server.map(|server| json!({ "model_path": server.model })),
        "duration": summary.duration_s,
        "completed": summary.completed,
        "total_input_tokens": summary.input_tokens,
        "total_output_tokens": summary.output_tokens,
        "request_throughput": summary.request_throughput,
        "input_throughput": input_throughput(point),
        "output_throughput": summary.output_throughput,
        "total_throughput": summary.total_token_throughput,
        "concurrency": summary.concurrency_mean,
        "accept_length": Value::Null,
        "definitions": measured.run.definitions,
    });
    if server.is_some_and(|server| server.api == "chat") {
        result["backend"] = "sglang-oai-chat".into();
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
            result[format!("{statistic}_{name}_ms")] = json!(value);
        }
    }
    result
}

/// The data set's name there; that of an imported run only if its file had one.
fn dataset(measured: &Measured<'_>, point: &Point<'_>) -> Option<String> {
    if measured.run.definitions != DEFINITIONS {
        return measured.run.settings.get("dataset_name").cloned();
    }
    let synthetic = point.input.point.prompt == PromptSpec::Synthetic;
    Some(if synthetic { "random" } else { "custom" }.to_owned())
}

/// 1 if all lengths are fixed; otherwise SGLang has no word for it.
fn range_ratio(point: &LoadPoint) -> Option<f64> {
    let fixed = |length: &Length| matches!(length, Length::Fixed(_));
    (fixed(&point.input) && fixed(&point.output)).then_some(1.0)
}

/// Tokens of prompts a second: all less those of answers.
fn input_throughput(point: &Point<'_>) -> Option<f64> {
    let rate = |metric| point.get(Measure::rate(metric));
    Some(rate(Metric::TotalTokenThroughput)? - rate(Metric::OutputThroughput)?)
}
