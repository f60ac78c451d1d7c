//! Results of aiperf: `profile_export_aiperf.json` with the figures and the load, and
//! `profile_export.jsonl` beside it with a line a request.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use super::details::{Details, Gaps, RequestTimes};
use super::fields::{Fields, number, rounded};
use super::result::{Asked, Note, Offered, Tool, ToolResult};
use crate::error::Result;
use crate::record::{FindingCode, Severity};
use crate::scenario::Load;

pub(super) const TOOL: Tool = Tool {
    name: "aiperf",
    definitions: "aiperf-1",
    measures: "TTFT ends at the first chunk with content and counts from the send, TPOT is its `inter_token_latency`, ICL its `inter_chunk_latency`, tokens are counted by its tokenizer, throughput is over the time that it observed",
    keeps_requests: "`profile_export.jsonl` beside the file holds them: import the folder",
};

/// Our metrics and theirs.
const LATENCIES: [(&str, &str); 6] = [
    ("ttft", "time_to_first_token"),
    ("ttft_from_sent", "time_to_first_token"),
    ("tpot", "inter_token_latency"),
    ("icl", "inter_chunk_latency"),
    ("e2el", "request_latency"),
    ("e2el_from_sent", "request_latency"),
];

/// Our statistics and theirs.
const STATISTICS: [(&str, &str); 8] = [
    ("mean", "avg"),
    ("std", "std"),
    ("min", "min"),
    ("p50", "p50"),
    ("p90", "p90"),
    ("p95", "p95"),
    ("p99", "p99"),
    ("max", "max"),
];

/// Whether an object is the file with the figures.
pub(super) fn is_summary(object: &Map<String, Value>) -> bool {
    ["request_latency", "request_throughput", "request_count"]
        .iter()
        .any(|name| object.get(*name).is_some_and(|metric| metric.get("unit").is_some()))
}

/// Whether a file is of the warm-up: aiperf keeps its phases in `phases/<name>/`.
pub(super) fn is_warm_up(path: &Path) -> bool {
    let mut folders = path.iter().rev().skip(1);
    folders.next().is_some_and(|name| name == "warmup")
        && folders.next().is_some_and(|name| name == "phases")
}

/// Whether an object is a line of the file with the requests.
pub(super) fn is_record(object: &Map<String, Value>) -> bool {
    object.contains_key("metrics")
        && object.get("metadata").is_some_and(|metadata| metadata.get("request_start_ns").is_some())
}

/// Reads the figures, with the requests if their file is there.
///
/// # Errors
/// If the file lacks its load or its duration.
pub(super) fn read(
    source: String,
    summary: Map<String, Value>,
    records: Option<&[Map<String, Value>]>,
) -> Result<ToolResult> {
    let fields = Fields::new(source, TOOL.name, summary);
    let metric = |name: &str, statistic: &str| fields.number_at(&format!("/{name}/{statistic}"));
    let requests: Vec<RequestTimes> = records.into_iter().flatten().filter_map(request).collect();
    let completed = fields.count_at("/request_count/avg").unwrap_or(0);
    // Its rates divide by the time that it observed, which `benchmark_duration` is only a part of.
    #[allow(clippy::cast_precision_loss)] // a count of requests
    let observed = metric("request_throughput", "avg").map(|rate| completed as f64 / rate);
    let duration_s = observed.or_else(|| metric("benchmark_duration", "avg"));
    let duration_s = duration_s.filter(|seconds| seconds.is_finite() && *seconds > 0.0);
    let duration_s =
        duration_s.ok_or_else(|| fields.wrong("benchmark_duration", "is not a time"))?;
    let load = load(&fields)?;
    let tokens = |total: &str, each: &str| {
        let sum = fields.count_at(&format!("/{total}/avg"));
        sum.or_else(|| fields.count_at(&format!("/{each}/sum"))).or_else(|| {
            #[allow(clippy::cast_precision_loss)] // a count of requests
            metric(each, "avg").map(|mean| rounded(mean * completed as f64))
        })
    };
    let details = Details::of_requests(requests, Gaps::Chunks);
    Ok(ToolResult {
        tool: &TOOL,
        model: ["/input_config/models/items/0/name", "/input_config/endpoint/model_names/0"]
            .iter()
            .find_map(|pointer| fields.text_at(pointer))
            .unwrap_or_default()
            .to_owned(),
        api: fields.text_at("/input_config/endpoint/type").unwrap_or_default().to_owned(),
        settings: BTreeMap::new(),
        metadata: BTreeMap::new(),
        written_at: fields.text_at("/end_time").and_then(local_time),
        duration_s,
        num_prompts: None,
        completed,
        failed: Some(failed(&fields)),
        input_tokens: tokens("total_isl", "input_sequence_length"),
        output_tokens: tokens("total_osl", "output_sequence_length"),
        asked: asked(&fields),
        load,
        offered: Offered::AsSaid,
        reported: figures(&fields),
        details,
        notes: notes(&fields),
        source: fields.source.clone(),
    })
}

/// The lengths of synthetic data, if they have no spread.
fn asked(fields: &Fields) -> Asked {
    let of = |name: &str| {
        let place = format!("/input_config/datasets/0/prompts/{name}");
        let spread =
            fields.number_at(&format!("{place}/stddev")).is_some_and(|spread| spread > 0.0);
        let tokens =
            fields.count_at(&format!("{place}/mean")).filter(|tokens| *tokens > 0 && !spread);
        u32::try_from(tokens?).ok()
    };
    Asked { input: of("isl"), output: of("osl") }
}

/// Failures are counted as a metric, or by kind.
fn failed(fields: &Fields) -> u64 {
    fields.count_at("/error_request_count/avg").unwrap_or_else(|| {
        let kinds = fields.at("/error_summary").and_then(Value::as_array);
        let counts = kinds.into_iter().flatten().filter_map(|kind| kind.get("count")?.as_u64());
        counts.sum()
    })
}

fn notes(fields: &Fields) -> Vec<Note> {
    let warning = |text: &str| Note {
        code: FindingCode::Aiperf,
        severity: Severity::Warning,
        text: text.to_owned(),
    };
    let is = |name: &str, value: bool| fields.at(name).and_then(Value::as_bool) == Some(value);
    let cut = is("/was_cancelled", true) || is("/is_complete", false);
    let mut notes: Vec<Note> =
        cut.then(|| warning("the run was cancelled before its end")).into_iter().collect();
    if is("/input_config/endpoint/streaming", false) {
        notes.push(warning("the answers were not streamed: there is no TTFT, TPOT or ITL"));
    }
    notes
}

/// The load of the profiling phase; older files have it under `loadgen`.
fn load(fields: &Fields) -> Result<Load> {
    let phases = fields.at("/input_config/phases").and_then(Value::as_array);
    let profiling = phases.into_iter().flatten().find(|phase| {
        let kind = phase.get("kind").or_else(|| phase.get("name")).and_then(Value::as_str);
        kind.is_none_or(|kind| kind == "profiling")
    });
    let given = |names: &[&str]| {
        let of_phase = names.iter().find_map(|name| profiling?.get(*name).and_then(number));
        of_phase.or_else(|| {
            names.iter().find_map(|name| {
                ["loadgen", "input"]
                    .iter()
                    .find_map(|place| fields.number_at(&format!("/input_config/{place}/{name}")))
            })
        })
    };
    let cap = given(&["concurrency"]).map(|n| u32::try_from(rounded(n)).unwrap_or(u32::MAX));
    let load = match (given(&["rate", "request_rate"]), cap) {
        (Some(per_s), cap) => {
            let mut rate = Load::request_rate(per_s);
            rate.burstiness = given(&["smoothness", "arrival_smoothness"]).unwrap_or(1.0);
            rate.max_concurrency = cap;
            rate.into()
        }
        (None, Some(cap)) => Load::concurrency(cap),
        (None, None) => {
            return Err(fields.wrong("input_config", "names neither a concurrency nor a rate"));
        }
    };
    load.check()
        .map_err(|cause| fields.wrong("input_config", "is not a load").with_cause(cause))?;
    Ok(load)
}

/// How many ms a unit of theirs has.
fn unit_ms(unit: Option<&str>) -> Option<f64> {
    Some(match unit? {
        "ms" => 1.0,
        "s" | "sec" | "seconds" => 1e3,
        "us" => 1e-3,
        "ns" => 1e-6,
        _ => return None,
    })
}

fn figures(fields: &Fields) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    for (ours, theirs) in LATENCIES {
        let Some(unit_ms) = unit_ms(fields.text_at(&format!("/{theirs}/unit"))) else { continue };
        for (statistic, name) in STATISTICS {
            let value = fields.number_at(&format!("/{theirs}/{name}"));
            figures.extend(value.map(|value| (format!("{ours}_{statistic}"), value * unit_ms)));
        }
    }
    for (ours, theirs) in [
        ("request_throughput", "request_throughput"),
        ("output_throughput", "output_token_throughput"),
        ("total_token_throughput", "total_token_throughput"),
        ("goodput", "goodput"),
    ] {
        let value = fields.number_at(&format!("/{theirs}/avg"));
        figures.extend(value.map(|rate| (ours.to_owned(), rate)));
    }
    figures
}

/// One measured request; `None` for warm-up and for one that was cancelled at the end.
fn request(record: &Map<String, Value>) -> Option<RequestTimes> {
    let metadata = record.get("metadata")?;
    let of = |name: &str| metadata.get(name);
    let phase = of("phase_kind").or_else(|| of("benchmark_phase")).and_then(Value::as_str);
    let cancelled = of("was_cancelled").and_then(Value::as_bool) == Some(true);
    if cancelled || phase.is_some_and(|phase| phase != "profiling") {
        return None;
    }
    let metric = |name: &str| record.get("metrics")?.get(name);
    let unit_s = |name: &str| Some(unit_ms(metric(name)?.get("unit")?.as_str())? / 1e3);
    let seconds = |name: &str| Some(number(metric(name)?.get("value")?)? * unit_s(name)?);
    let tokens = |name: &str| u32::try_from(rounded(number(metric(name)?.get("value")?)?)).ok();
    let gaps = || {
        let list = metric("inter_chunk_latency")?.get("value")?.as_array()?;
        let unit_s = unit_s("inter_chunk_latency")?;
        Some(list.iter().filter_map(number).map(|gap| gap * unit_s).collect())
    };
    let error = record.get("error").filter(|error| !error.is_null());
    Some(RequestTimes {
        start_s: of("request_start_ns").and_then(number).map(|ns| ns / 1e9),
        ttft_s: seconds("time_to_first_token"),
        latency_s: seconds("request_latency"),
        gaps_s: gaps(),
        input_tokens: tokens("input_sequence_length"),
        output_tokens: tokens("output_sequence_length"),
        error: error.map_or(String::new(), error_text),
    })
}

/// What an error reports: its type and its message.
fn error_text(error: &Value) -> String {
    let part = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
    let text = format!("{} {}", part("type"), part("message"));
    if text.trim().is_empty() { "failed".to_owned() } else { text.trim().to_owned() }
}

/// The file has the client's local time without a zone; it is read as UTC.
fn local_time(text: &str) -> Option<Timestamp> {
    let time: DateTime = text.parse().ok()?;
    TimeZone::UTC.to_timestamp(time).ok()
}
