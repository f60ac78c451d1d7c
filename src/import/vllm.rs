//! Results of `vllm bench serve` and `benchmark_serving.py`: what only vLLM's client writes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use super::fields::Fields;
use super::result::{Tool, ToolResult};
use super::serving;
use crate::error::Result;
use crate::record::stored::DEFINITIONS;
use crate::settings::is_secret_name;

/// TTFT is any first chunk with `choices`, from the send; ITL the gap between two chunks; rates
/// divide by the whole run with ramp and drain.
pub(super) const TOOL: Tool = Tool {
    name: "vllm bench serve",
    definitions: "vllm-client-1",
    measures: "TTFT ends at the first chunk of any kind and counts from the send, throughput counts ramp and drain",
    keeps_requests: "`--save-detailed` keeps them",
};

/// The same file, written by `inferometer bench-serve` by the same definitions.
const BENCH_SERVE: Tool = Tool { name: "inferometer bench-serve", ..TOOL };

/// The same fields, written by `inferometer export` from a run of its own.
const EXPORTED: Tool = Tool {
    name: "inferometer export --format vllm",
    definitions: DEFINITIONS,
    measures: "TTFT ends at the first token, rates are those of the measured window",
    keeps_requests: "`inferometer run` keeps them beside the run",
};

/// The same, from a run that was imported from another client's file.
static EXPORTED_OF_OTHERS: [Tool; 5] = [
    exported_of("sglang-bench-serving-1"),
    exported_of("guidellm-1"),
    exported_of("aiperf-1"),
    exported_of("inference-perf-1"),
    exported_of("llm-d-report-0.2"),
];

const fn exported_of(definitions: &'static str) -> Tool {
    Tool { definitions, measures: "as the client that measured defines them", ..EXPORTED }
}

/// Facts of the tool that are kept as settings.
const SETTINGS: [&str; 6] =
    ["backend", "endpoint_type", "tokenizer_id", "label", "burstiness", "num_prompts"];

/// Every other field that vLLM itself writes; what is not among them came from `--metadata`.
const OWN: [&str; 31] = [
    "date",
    "model_id",
    "request_rate",
    "max_concurrency",
    "duration",
    "completed",
    "failed",
    "total_input",
    "total_output",
    "total_input_tokens",
    "total_output_tokens",
    "request_throughput",
    "request_goodput",
    "request_goodput:",
    "input_throughput",
    "output_throughput",
    "total_token_throughput",
    "max_output_tokens_per_s",
    "max_concurrent_requests",
    "rtfx",
    "ramp_up_strategy",
    "ramp_up_start_rps",
    "ramp_up_end_rps",
    "qps",
    "error_rate",
    "best_of",
    "use_beam_search",
    "num_warmups",
    "probe_request_rate",
    "goodput",
    "steady_state",
];

/// Whether an object is a result of this client, complete or not.
pub(super) fn recognises(object: &Map<String, Value>) -> bool {
    ["model_id", "tokenizer_id", "endpoint_type", "request_throughput", "mean_ttft_ms", "ttfts"]
        .iter()
        .any(|name| object.get(*name).is_some_and(|value| !value.is_object()))
}

/// Reads one result.
///
/// # Errors
/// If a field is missing or makes no sense.
pub(super) fn read(source: String, object: Map<String, Value>) -> Result<ToolResult> {
    let own = object.get("inferometer");
    let tool = match own.map(|own| own["definitions"].as_str()) {
        Some(Some(DEFINITIONS)) => &EXPORTED,
        Some(Some(others)) => {
            EXPORTED_OF_OTHERS.iter().find(|tool| tool.definitions == others).unwrap_or(&TOOL)
        }
        Some(None) => &BENCH_SERVE,
        None => &TOOL,
    };
    let fields = Fields::new(source, TOOL.name, object);
    fields.require(&["model_id", "duration", "completed", "request_rate|max_concurrency"])?;
    let (mut result, fields) = serving::read(tool, fields)?;
    result.model = fields.text("model_id")?.unwrap_or_default().to_owned();
    result.api = api(&fields)?;
    result.settings = settings(&fields);
    result.metadata = metadata(&fields);
    result.written_at = fields.text("date")?.and_then(written_at);
    Ok(result)
}

/// Our word for the API that was measured; another as the tool names it.
fn api(fields: &Fields) -> Result<String> {
    let name = match fields.text("endpoint_type")? {
        Some(name) => name,
        None => fields.text("backend")?.unwrap_or_default(),
    };
    Ok(match name {
        "openai-chat" => "chat",
        "openai" | "vllm" => "completions",
        other => other,
    }
    .to_owned())
}

fn settings(fields: &Fields) -> BTreeMap<String, String> {
    let known = fields.scalars().filter(|(name, _)| SETTINGS.contains(name));
    known.map(|(name, text)| (name.to_owned(), text)).collect()
}

/// What `--metadata` of vLLM's client put beside its own fields.
fn metadata(fields: &Fields) -> BTreeMap<String, String> {
    let own = |name: &str| {
        SETTINGS.contains(&name)
            || OWN.contains(&name)
            || name.starts_with("spec_decode_")
            || name.ends_with("_ms")
    };
    let given = fields.scalars().filter(|(name, _)| !own(name));
    // A file may hold what its writer should not have stored.
    let kept = |name: &str, text: String| match is_secret_name(name) {
        true => "[redacted]".to_owned(),
        false => text,
    };
    given.map(|(name, text)| (name.to_owned(), kept(name, text))).collect()
}

/// The file has the client's local time without a zone; it is read as UTC.
fn written_at(date: &str) -> Option<Timestamp> {
    let date = DateTime::strptime("%Y%m%d-%H%M%S", date).ok()?;
    TimeZone::UTC.to_timestamp(date).ok()
}
