//! Results of `python -m sglang.bench_serving`: one JSON object a line.

use serde_json::{Map, Value};

use super::fields::Fields;
use super::result::{Note, Tool, ToolResult};
use super::serving;
use crate::error::Result;
use crate::record::{FindingCode, Severity};

/// TTFT and TPOT as in vLLM's client; ITL divides the gap between two chunks by the tokens of the
/// later one where the backend reports them.
pub(super) const TOOL: Tool = Tool {
    name: "sglang.bench_serving",
    definitions: "sglang-bench-serving-1",
    measures: "TTFT ends at the first chunk and counts from the send, ITL spreads a chunk's gap over its tokens, throughput counts ramp and drain",
    keeps_requests: "`--output-details` keeps them",
};

/// Facts of the tool that are kept as settings.
const SETTINGS: [&str; 7] = [
    "backend",
    "dataset_name",
    "random_input_len",
    "random_output_len",
    "random_range_ratio",
    "sharegpt_output_len",
    "num_prompts",
];

/// Whether an object is a result of this client: vLLM's names the total rate and E2EL otherwise.
pub(super) fn recognises(object: &Map<String, Value>) -> bool {
    !object.contains_key("model_id")
        && [
            "mean_e2e_latency_ms",
            "total_throughput",
            "accept_length",
            "total_output_tokens_retokenized",
        ]
        .iter()
        .any(|name| object.contains_key(*name))
}

/// Reads one result.
///
/// # Errors
/// If a field is missing or makes no sense.
pub(super) fn read(source: String, object: Map<String, Value>) -> Result<ToolResult> {
    let fields = Fields::new(source, TOOL.name, object);
    fields.require(&["duration", "completed", "request_rate|max_concurrency"])?;
    if fields.text("request_rate").ok().flatten() == Some("trace") {
        return Err(fields.wrong("request_rate", "is `trace`: the replay of a trace has no rate"));
    }
    let (mut result, fields) = serving::read(&TOOL, fields)?;
    let model = ["/server_info/served_model_name", "/server_info/model_path"];
    result.model =
        model.iter().find_map(|pointer| fields.text_at(pointer)).unwrap_or_default().to_owned();
    result.api = match fields.text("backend")?.unwrap_or_default() {
        name if name.ends_with("-chat") => "chat",
        "vllm" | "sglang-oai" | "lmdeploy" => "completions",
        other => other,
    }
    .to_owned();
    let known = fields.scalars().filter(|(name, _)| SETTINGS.contains(name));
    result.settings = known.map(|(name, text)| (name.to_owned(), text)).collect();
    if let Some(tag) = fields.text("tag")? {
        result.metadata.insert("tag".to_owned(), tag.to_owned());
    }
    if let Some(tokens) = fields.number("accept_length")? {
        result.notes.push(Note {
            code: FindingCode::Speculative,
            severity: Severity::Note,
            text: format!("the server decoded speculatively: {tokens:.2} tokens accepted per step"),
        });
    }
    Ok(result)
}
