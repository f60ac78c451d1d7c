//! Results of inference-perf: a file a stage, and `per_request_lifecycle_metrics.json` beside them
//! with the requests of all stages.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::details::{Details, Gaps, RequestTimes};
use super::fields::{Fields, number, rounded};
use super::result::{Asked, Offered, Tool, ToolResult};
use crate::error::{Error, Result};
use crate::scenario::Load;

pub(super) const TOOL: Tool = Tool {
    name: "inference-perf",
    definitions: "inference-perf-1",
    measures: "latencies count from the send, E2EL ends when the answer is closed, output tokens are counted by its tokenizer, throughput counts ramp and drain",
    keeps_requests: "`report.request_lifecycle.per_request: true` keeps them: import the folder",
};

/// The mean latency of the requests that belong to a stage is the stage's own, within this share.
const SAME_MEAN: f64 = 1e-6;

/// Our metrics and theirs; times in seconds.
const LATENCIES: [(&str, &str); 6] = [
    ("ttft", "time_to_first_token"),
    ("ttft_from_sent", "time_to_first_token"),
    ("tpot", "time_per_output_token"),
    ("itl", "inter_token_latency"),
    ("e2el", "request_latency"),
    ("e2el_from_sent", "request_latency"),
];

/// Our statistics and theirs.
const STATISTICS: [(&str, &str); 7] = [
    ("mean", "mean"),
    ("min", "min"),
    ("p50", "median"),
    ("p90", "p90"),
    ("p95", "p95"),
    ("p99", "p99"),
    ("max", "max"),
];

/// Whether an object holds the figures of a stage, or of all stages.
pub(super) fn is_lifecycle(object: &Map<String, Value>) -> bool {
    object.contains_key("load_summary") && object.contains_key("successes")
}

/// Whether an object is one request of the file with the requests.
pub(super) fn is_request(object: &Map<String, Value>) -> bool {
    ["start_time", "end_time", "info"].iter().all(|name| object.contains_key(*name))
}

/// Whether the figures name their load: those of all stages together do not.
pub(super) fn names_a_load(object: &Map<String, Value>) -> bool {
    object.get("load_summary").is_some_and(|load| {
        ["requested_rate", "concurrency"]
            .iter()
            .any(|name| load.get(*name).is_some_and(Value::is_number))
    })
}

/// The error about figures of all stages together that stand alone.
pub(super) fn no_load(source: &str) -> Error {
    Error::store(format!("`{source}` sums up all stages and names no load"))
        .with_hint("import the files `stage_N_lifecycle_metrics.json` beside it")
}

/// Reads the figures of one stage.
///
/// # Errors
/// If the file lacks its load or its duration.
pub(super) fn read(source: String, stage: Map<String, Value>) -> Result<ToolResult> {
    let fields = Fields::new(source, TOOL.name, stage);
    let duration_s = fields.number_at("/benchmark_time_seconds").or_else(|| {
        let done = fields.number_at("/successes/count")?;
        Some(done / fields.number_at("/successes/throughput/requests_per_sec")?)
    });
    let duration_s = duration_s.filter(|seconds| seconds.is_finite() && *seconds > 0.0);
    let duration_s =
        duration_s.ok_or_else(|| fields.wrong("benchmark_time_seconds", "is not a time"))?;
    let completed = fields.count_at("/successes/count").unwrap_or(0);
    #[allow(clippy::cast_precision_loss)] // a count of requests
    let total = |name: &str| {
        let mean = fields.number_at(&format!("/successes/{name}/mean"))?;
        Some(rounded(mean * completed as f64))
    };
    let load = load(&fields)?;
    Ok(ToolResult {
        tool: &TOOL,
        model: String::new(),
        api: String::new(),
        settings: BTreeMap::new(),
        metadata: BTreeMap::new(),
        written_at: None,
        duration_s,
        num_prompts: fields.count_at("/load_summary/count").and_then(|n| u32::try_from(n).ok()),
        completed,
        failed: fields.count_at("/failures/count"),
        input_tokens: fields
            .count_at("/successes/prompt_tokens/total")
            .or_else(|| total("prompt_tokens"))
            .or_else(|| total("prompt_len")),
        output_tokens: total("output_len"),
        asked: Asked::default(),
        load,
        offered: Offered::AsSaid,
        reported: figures(&fields),
        details: None,
        notes: Vec::new(),
        source: fields.source.clone(),
    })
}

fn load(fields: &Fields) -> Result<Load> {
    let streams = fields.count_at("/load_summary/concurrency").filter(|streams| *streams > 0);
    let load = match streams {
        Some(streams) => Load::concurrency(u32::try_from(streams).unwrap_or(u32::MAX)),
        None => {
            let rate = fields.number_at("/load_summary/requested_rate");
            Load::request_rate(rate.unwrap_or(0.0)).into()
        }
    };
    load.check()
        .map_err(|cause| fields.wrong("load_summary", "is not a load").with_cause(cause))?;
    Ok(load)
}

fn figures(fields: &Fields) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    for (ours, theirs) in LATENCIES {
        for (statistic, name) in STATISTICS {
            let value = fields.number_at(&format!("/successes/latency/{theirs}/{name}"));
            figures.extend(value.map(|s| (format!("{ours}_{statistic}"), s * 1e3)));
        }
    }
    for (ours, theirs) in [
        ("request_throughput", "requests_per_sec"),
        ("output_throughput", "output_tokens_per_sec"),
        ("total_token_throughput", "total_tokens_per_sec"),
    ] {
        let value = fields.number_at(&format!("/successes/throughput/{theirs}"));
        figures.extend(value.map(|rate| (ours.to_owned(), rate)));
    }
    figures
}

/// Gives the requests to their stages. The file does not say which stage a request belongs to, but
/// stages run one after the other: in the order of their starts, the first are those of the first
/// stage. That the means then agree proves it.
///
/// # Errors
/// The reason for which the requests cannot be distinguished; the stages then keep their figures alone.
pub(super) fn share_out(
    stages: &mut [ToolResult],
    mut requests: Vec<Map<String, Value>>,
) -> Result<(), &'static str> {
    let start = |request: &Map<String, Value>| request.get("start_time").and_then(number);
    requests.sort_by(|a, b| start(a).unwrap_or(0.0).total_cmp(&start(b).unwrap_or(0.0)));
    let of_stages: u64 = stages.iter().map(ToolResult::attempted).sum();
    if of_stages != requests.len() as u64 {
        return Err(
            "it does not hold as many requests as the stages beside it; their figures are read",
        );
    }
    let mut shares = Vec::new();
    let mut rest = &requests[..];
    for stage in stages.iter() {
        let (own, others) = rest.split_at(usize::try_from(stage.attempted()).unwrap_or(0));
        rest = others;
        let times: Vec<RequestTimes> = own.iter().map(request_times).collect();
        if !agrees(stage, own) {
            return Err(
                "its requests cannot be assigned to stages, so the figures of the stages are used",
            );
        }
        shares.push(Details::of_requests(times, Gaps::Tokens));
    }
    for (stage, details) in stages.iter_mut().zip(shares) {
        stage.details = details;
    }
    Ok(())
}

/// Whether these requests have the stage's mean latency.
#[allow(clippy::cast_precision_loss)] // counts of requests
fn agrees(stage: &ToolResult, requests: &[Map<String, Value>]) -> bool {
    let done = requests.iter().filter(|request| request.get("error").is_none_or(Value::is_null));
    let latency = |request: &Map<String, Value>| {
        Some(number(request.get("end_time")?)? - number(request.get("start_time")?)?)
    };
    let latencies: Vec<f64> = done.filter_map(latency).collect();
    let mean_ms = latencies.iter().sum::<f64>() / latencies.len().max(1) as f64 * 1e3;
    match stage.reported.get("e2el_mean") {
        Some(said) => (mean_ms / said - 1.0).abs() < SAME_MEAN,
        None => latencies.is_empty(),
    }
}

/// One request. Its E2EL ends at its last token, its clock starts at the send.
fn request_times(request: &Map<String, Value>) -> RequestTimes {
    let at = |name: &str| request.get(name).and_then(number);
    let info = |pointer: &str| request.get("info").and_then(|info| info.pointer(pointer));
    let tokens = info("/response_metrics/output_token_times").and_then(Value::as_array);
    let times: Vec<f64> = tokens.into_iter().flatten().filter_map(number).collect();
    let since = |time: Option<&f64>| Some(time? - at("start_time")?);
    let count = |value: Option<&Value>| u32::try_from(rounded(value.and_then(number)?)).ok();
    let error = request.get("error").filter(|error| !error.is_null());
    let message = |error: &Value| {
        let part = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
        format!("{} {}", part("error_type"), part("error_msg")).trim().to_owned()
    };
    let ended_s = at("end_time").zip(at("start_time")).map(|(end, start)| end - start);
    RequestTimes {
        start_s: at("start_time"),
        ttft_s: since(times.first()),
        latency_s: since(times.last()).or(ended_s),
        gaps_s: (!times.is_empty())
            .then(|| times.windows(2).map(|pair| (pair[1] - pair[0]).max(0.0)).collect()),
        input_tokens: count(
            info("/request_metrics/text/input_tokens").or_else(|| info("/input_tokens")),
        ),
        output_tokens: count(
            info("/response_metrics/output_tokens").or_else(|| info("/output_tokens")),
        ),
        error: error
            .map(message)
            .map_or(String::new(), |text| if text.is_empty() { "failed".to_owned() } else { text }),
    }
}
