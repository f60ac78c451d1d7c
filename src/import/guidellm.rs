//! Reports of guidellm (`benchmarks.json`, report versions 1 and 2): several load points a file.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::details::{Details, Gaps, RequestTimes};
use super::fields::{Fields, number, rounded};
use super::result::{Asked, Note, Offered, Tool, ToolResult};
use crate::error::Result;
use crate::record::{FindingCode, Severity};
use crate::scenario::Load;

pub(super) const TOOL: Tool = Tool {
    name: "guidellm",
    definitions: "guidellm-1",
    measures: "TTFT ends at the first token of any kind and counts from the send, TPOT leaves the first token out (its `inter_token_latency_ms`; its `time_per_output_token_ms` counts it and is not read), throughput is over the measured time",
    keeps_requests: "its JSON output keeps them unless `--metrics` sets a sample size",
};

/// Our metrics, theirs, and their unit in ms.
const LATENCIES: [(&str, &str, f64); 5] = [
    ("ttft", "time_to_first_token_ms", 1.0),
    ("ttft_from_sent", "time_to_first_token_ms", 1.0),
    ("tpot", "inter_token_latency_ms", 1.0),
    ("e2el", "request_latency", 1e3),
    ("e2el_from_sent", "request_latency", 1e3),
];

/// Our statistics and where theirs stand.
const STATISTICS: [(&str, &str); 8] = [
    ("mean", "mean"),
    ("std", "std_dev"),
    ("min", "min"),
    ("p50", "median"),
    ("p90", "percentiles/p90"),
    ("p95", "percentiles/p95"),
    ("p99", "percentiles/p99"),
    ("max", "max"),
];

pub(super) fn recognises(object: &Map<String, Value>) -> bool {
    let first = object.get("benchmarks").and_then(|list| list.get(0));
    first.is_some_and(|first| first.get("metrics").is_some_and(Value::is_object))
}

/// Reads every benchmark of a report.
///
/// # Errors
/// If a benchmark lacks its load or its times.
pub(super) fn read(source: &str, mut object: Map<String, Value>) -> Result<Vec<ToolResult>> {
    let benchmarks = match object.remove("benchmarks") {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    let report = Fields::new(source.to_owned(), TOOL.name, object);
    let several = benchmarks.len() > 1;
    let mut results = Vec::new();
    for (index, benchmark) in benchmarks.into_iter().enumerate() {
        let Value::Object(benchmark) = benchmark else {
            return Err(report.wrong("benchmarks", "holds something that is no benchmark"));
        };
        let place = if several { format!("{source} #{}", index + 1) } else { source.to_owned() };
        results.push(result(&report, Fields::new(place, TOOL.name, benchmark), index)?);
    }
    Ok(results)
}

fn result(report: &Fields, mut fields: Fields, index: usize) -> Result<ToolResult> {
    let duration_s = fields.number("duration")?.filter(|seconds| *seconds > 0.0);
    let duration_s = duration_s.ok_or_else(|| fields.wrong("duration", "is not a time"))?;
    let requests = requests(&mut fields);
    let (load, offered, mut notes) = load(report, &fields, index)?;
    let total = |status: &str| fields.count_at(&format!("/metrics/request_totals/{status}"));
    let completed = total("successful").unwrap_or(0);
    let sampled = requests.iter().filter(|request| request.error.is_empty()).count() as u64;
    if sampled < completed {
        notes.push(note(format!(
            "the file keeps {sampled} of {completed} requests: distributions are as reported"
        )));
    }
    if let Some(cut) = total("incomplete").filter(|cut| *cut > 0) {
        notes.push(note(format!("{cut} requests were cut off at the end and count nowhere")));
    }
    let sum = |name: &str| {
        fields.count_at(&format!("/metrics/{name}/successful/total_sum")).or_else(|| {
            let mean = fields.number_at(&format!("/metrics/{name}/successful/mean"))?;
            #[allow(clippy::cast_precision_loss)] // a count of requests
            Some(rounded(mean * completed as f64))
        })
    };
    let backend = |name: &str| {
        let own = fields.text_at(&format!("/config/backend/{name}"));
        own.or_else(|| report.text_at(&format!("/config/spec/backend/{name}")))
    };
    let api = backend("request_format").or_else(|| report.text_at("/args/request_type"));
    let ended_s = fields.number_at("/end_time");
    Ok(ToolResult {
        tool: &TOOL,
        model: backend("model").or_else(|| report.text_at("/args/model")).unwrap_or("").to_owned(),
        api: match api.unwrap_or("") {
            path if path.contains("chat") => "chat",
            path if path.contains("completions") => "completions",
            other => other,
        }
        .to_owned(),
        settings: BTreeMap::new(),
        metadata: labels(report),
        written_at: ended_s
            .and_then(|s| Timestamp::from_second(i64::try_from(rounded(s)).ok()?).ok()),
        duration_s,
        num_prompts: None,
        completed,
        failed: total("errored"),
        input_tokens: sum("prompt_token_count"),
        output_tokens: sum("output_token_count"),
        asked: asked(report),
        load,
        offered,
        reported: figures(&fields),
        details: Details::of_requests(requests, Gaps::Tokens).filter(|_| sampled >= completed),
        notes,
        source: fields.source.clone(),
    })
}

fn note(text: String) -> Note {
    Note { code: FindingCode::Guidellm, severity: Severity::Note, text }
}

/// The lengths of synthetic data, if they have no spread.
fn asked(report: &Fields) -> Asked {
    let of = |name: &str| {
        let place = format!("/config/spec/data/0/{name}");
        let spread = report.number_at(&format!("{place}_stdev")).is_some_and(|spread| spread > 0.0);
        let tokens = report.count_at(&place).filter(|tokens| *tokens > 0 && !spread)?;
        u32::try_from(tokens).ok()
    };
    Asked { input: of("prompt_tokens"), output: of("output_tokens") }
}

/// The user's `--label`s.
fn labels(report: &Fields) -> BTreeMap<String, String> {
    let labels = report.at("/config/metadata/labels").and_then(Value::as_object);
    let labels = labels.into_iter().flatten();
    labels.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

/// The load as the scheduler drove it; reports before per-benchmark strategies name it once for all.
fn load(report: &Fields, fields: &Fields, index: usize) -> Result<(Load, Offered, Vec<Note>)> {
    let strategy = |name: &str| fields.number_at(&format!("/config/strategy/{name}"));
    let kind = ["/config/strategy/type_", "/args/strategy/type_"];
    let kind = kind.iter().find_map(|pointer| fields.text_at(pointer));
    let kind = kind.or_else(|| report.text_at("/args/profile")).unwrap_or("");
    let given = strategy("rate").or_else(|| {
        let list = report.at("/args/rate")?;
        list.as_f64().or_else(|| list.get(index)?.as_f64())
    });
    let streams = strategy("streams").or_else(|| strategy("max_concurrency"));
    let mut notes = Vec::new();
    let (load, offered) = match kind {
        "synchronous" => (Load::concurrency(1), Offered::AsSaid),
        "concurrent" => {
            let streams = streams.or(given).map_or(0, rounded);
            (Load::concurrency(u32::try_from(streams).unwrap_or(u32::MAX)), Offered::AsSaid)
        }
        "throughput" => {
            let cap = streams.or_else(|| strategy("worker_count")).map_or(0, rounded);
            (Load::concurrency(u32::try_from(cap).unwrap_or(u32::MAX)), Offered::AtOnce)
        }
        "constant" | "poisson" | "async" => {
            if kind != "poisson" {
                notes.push(note("arrivals were evenly spaced, not Poisson".to_owned()));
            }
            (Load::request_rate(given.unwrap_or(0.0)).into(), Offered::AsSaid)
        }
        other => {
            let what = format!("is `{other}`, whose load is not known");
            return Err(fields.wrong("config.strategy.type_", &what));
        }
    };
    load.check()
        .map_err(|cause| fields.wrong("config.strategy", "is not a load").with_cause(cause))?;
    Ok((load, offered, notes))
}

fn figures(fields: &Fields) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    let of = |metric: &str, statistic: &str| {
        fields.number_at(&format!("/metrics/{metric}/successful/{statistic}"))
    };
    for (ours, theirs, unit_ms) in LATENCIES {
        if of(theirs, "count").is_some_and(|count| count < 1.0) {
            continue;
        }
        for (statistic, place) in STATISTICS {
            let value = of(theirs, place).map(|value| value * unit_ms);
            figures.extend(value.map(|ms| (format!("{ours}_{statistic}"), ms)));
        }
    }
    for (ours, theirs) in [
        ("request_throughput", "requests_per_second"),
        ("output_throughput", "output_tokens_per_second"),
        ("total_token_throughput", "tokens_per_second"),
    ] {
        figures.extend(of(theirs, "mean").map(|rate| (ours.to_owned(), rate)));
    }
    figures
}

/// The requests that completed, then those that failed.
fn requests(fields: &mut Fields) -> Vec<RequestTimes> {
    let Some(Value::Object(mut kept)) = fields.take("requests") else { return Vec::new() };
    let mut requests = Vec::new();
    for (status, failed) in [("successful", false), ("errored", true)] {
        let Some(Value::Array(list)) = kept.remove(status) else { continue };
        requests.extend(list.iter().map(|request| request_times(request, failed)));
    }
    requests
}

/// One request. Its E2EL ends at its last token if the file has that time, else at its end.
fn request_times(request: &Value, failed: bool) -> RequestTimes {
    let at = |pointer: &str| request.pointer(pointer).and_then(number);
    let timing = |name: &str| at(&format!("/info/timings/{name}"));
    let start_s = timing("request_start").or_else(|| at("/request_start_time"));
    let last_s = timing("last_token_iteration").zip(start_s).map(|(last, start)| last - start);
    let tokens = |name: &str| at(name).and_then(|tokens| u32::try_from(rounded(tokens)).ok());
    let error = request.pointer("/info/error").and_then(Value::as_str).unwrap_or("failed");
    RequestTimes {
        start_s,
        ttft_s: at("/time_to_first_token_ms").map(|ms| ms / 1e3),
        latency_s: last_s.or_else(|| at("/request_latency")),
        gaps_s: None,
        input_tokens: tokens("/prompt_tokens"),
        output_tokens: tokens("/output_tokens"),
        error: if failed { error.to_owned() } else { String::new() },
    }
}
