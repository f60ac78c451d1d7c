//! Benchmark reports of llm-d, version 0.2.1: a JSON file for each load point.
//!
//! Schema: `llmd_benchmark_report/schema_v0_2.py`, package `llmd-benchmark-report` 0.2.1, which
//! validates these files.

use serde_json::{Map, Value, json};

use super::file::ExportFile;
use super::measured::{Measured, Point};
use crate::error::Result;
use crate::metric::Metric;
use crate::plan::Phase;
use crate::scenario::content_hash::fnv1a_128;
use crate::scenario::{Length, Load, PromptSpec};
use crate::summary::Distribution;

/// The version of the schema.
const VERSION: &str = "0.2.1";

/// The latencies: our metric (counted from the send, as the clients of these reports do), their name
/// and unit.
const LATENCIES: [(Metric, &str, &str); 4] = [
    (Metric::TtftFromSent, "time_to_first_token", "ms"),
    (Metric::Tpot, "time_per_output_token", "ms/token"),
    (Metric::Itl, "inter_token_latency", "ms/token"),
    (Metric::E2elFromSent, "request_latency", "ms"),
];

/// The reports. The stage counts the load points, since a report is one of them.
pub(super) fn render(measured: &Measured<'_>) -> Result<Vec<ExportFile>> {
    let mut files = Vec::new();
    for (stage, point) in measured.points.iter().enumerate() {
        let text = super::file::json(&report(measured, point, stage))?;
        let reference = if point.input.phase == Phase::Reference { "-reference" } else { "" };
        let name = format!("benchmark_report-{}{reference}.json", point.file_name());
        files.push(ExportFile { path: name.into(), text });
    }
    Ok(files)
}

fn report(measured: &Measured<'_>, point: &Point<'_>, stage: usize) -> Value {
    let run = measured.run;
    let mut time = Map::new();
    time.insert("start".to_owned(), run.started_at.to_string().into());
    if let Some(end) = run.ended_at {
        time.insert("end".to_owned(), end.to_string().into());
    }
    time.insert("duration".to_owned(), format!("PT{}S", point.summary().duration_s).into());
    json!({
        "version": VERSION,
        "run": {
            "uid": format!("{}/{}/{}", run.id, measured.side.side.name(), point.id()),
            "eid": run.id,
            "time": time,
            "description": format!("{} of {}", point.id(), measured.side.name),
        },
        "scenario": {
            "stack": stack(measured),
            "load": load(measured, point, stage),
        },
        "results": { "request_performance": { "aggregate": aggregate(point) } },
    })
}

/// The server as far as it is known. Its hardware is not, so it is a component of the generic kind.
fn stack(measured: &Measured<'_>) -> Value {
    let Some(server) = measured.server() else { return json!([]) };
    let settings = &server.engine_settings;
    let cfg_id = fnv1a_128(format!("{:?}{settings:?}", server.command).as_bytes());
    json!([{
        "metadata": { "label": server.label, "cfg_id": cfg_id },
        "standardized": {
            "kind": "generic",
            "tool": server.engine.as_deref().unwrap_or("unknown"),
            "tool_version": server.engine_version.as_deref().unwrap_or("unknown"),
            "model": { "name": server.model },
        },
        "native": { "config": settings },
    }])
}

fn load(measured: &Measured<'_>, point: &Point<'_>, stage: usize) -> Value {
    let place = &point.input.point;
    let (rate, cap) = match place.load {
        Load::Concurrency(cap) => (None, Some(cap)),
        Load::RequestRate(rate) => (Some(rate.per_s), rate.max_concurrency),
    };
    // Ours is `inferometer 0.1.0`; an imported run names another client, without its version.
    let tool = measured.run.tool.as_str();
    let own = tool.split_once(' ').filter(|(name, _)| *name == "inferometer");
    let (tool, version) = own.unwrap_or((tool, "unknown"));
    let source = if place.prompt == PromptSpec::Synthetic { "random" } else { "sampled" };
    let mut standardized = json!({
        "tool": tool,
        "tool_version": version,
        "source": source,
        "stage": stage,
        "input_seq_len": length(&place.input, mean(point.summary().input_tokens, point)),
        "output_seq_len": length(&place.output, mean(point.summary().output_tokens, point)),
    });
    if let Some(rate) = rate {
        standardized["rate_qps"] = rate.into();
    }
    if let Some(cap) = cap {
        standardized["concurrency"] = cap.into();
    }
    json!({
        "metadata": { "cfg_id": measured.run.workload_hash, "description": point.id() },
        "standardized": standardized,
        "native": { "args": {}, "config": { "command": measured.run.command_line } },
    })
}

/// Mean tokens of a completed request.
#[allow(clippy::cast_precision_loss)] // counts of tokens and requests
fn mean(tokens: u64, point: &Point<'_>) -> f64 {
    tokens as f64 / point.summary().completed.max(1) as f64
}

/// A length as asked for; what that was if it is known, else the mean of what was measured.
fn length(asked: &Length, measured: f64) -> Value {
    match asked {
        Length::Fixed(tokens) => json!({ "distribution": "fixed", "value": tokens }),
        Length::Range { min, max } => json!({
            "distribution": "uniform", "value": asked.mean(), "min": min, "max": max
        }),
        Length::Normal { mean, cv } => json!({
            "distribution": "gaussian", "value": mean, "std_dev": mean * cv
        }),
        _ => json!({ "distribution": "other", "value": measured }),
    }
}

fn aggregate(point: &Point<'_>) -> Value {
    let summary = point.summary();
    let total = summary.completed + summary.failed;
    let mut latency = Map::new();
    for (metric, name, unit) in LATENCIES {
        let distribution = summary.distributions.get(&metric).copied().unwrap_or_default();
        if let Some(statistics) = statistics(&distribution, unit) {
            latency.insert(name.to_owned(), statistics);
        }
    }
    let mut throughput = Map::new();
    let input = summary.total_token_throughput.zip(summary.output_throughput);
    for (name, unit, value) in [
        ("request_rate", "queries/s", summary.request_throughput),
        ("input_token_rate", "tokens/s", input.map(|(all, output)| all - output)),
        ("output_token_rate", "tokens/s", summary.output_throughput),
        ("total_token_rate", "tokens/s", summary.total_token_throughput),
    ] {
        if let Some(mean) = value.filter(|value| value.is_finite()) {
            throughput.insert(name.to_owned(), json!({ "units": unit, "mean": mean }));
        }
    }
    let count = |tokens: u64| json!({ "units": "count", "mean": mean(tokens, point) });
    let mut requests = json!({
        "total": total,
        "failures": summary.failed,
        "incomplete": 0,
    });
    if summary.completed > 0 {
        requests["input_length"] = count(summary.input_tokens);
        requests["output_length"] = count(summary.output_tokens);
    }
    json!({ "requests": requests, "latency": latency, "throughput": throughput })
}

/// Statistics need a mean in this schema; those that do not exist are left out.
fn statistics(distribution: &Distribution, unit: &str) -> Option<Value> {
    let mut fields = Map::new();
    fields.insert("units".to_owned(), unit.into());
    fields.insert("mean".to_owned(), distribution.mean?.into());
    for (name, value) in [
        ("stddev", distribution.std),
        ("min", distribution.min),
        ("p50", distribution.p50),
        ("p90", distribution.p90),
        ("p95", distribution.p95),
        ("p99", distribution.p99),
        ("max", distribution.max),
    ] {
        fields.extend(value.map(|value| (name.to_owned(), value.into())));
    }
    Some(Value::Object(fields))
}
