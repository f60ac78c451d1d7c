//! Benchmark reports of llm-d, version 0.2: one load point a report, figures alone.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::fields::{Fields, rounded};
use super::result::{Asked, Note, Offered, Tool, ToolResult};
use crate::error::Result;
use crate::record::{FindingCode, Severity};
use crate::scenario::Load;

pub(super) const TOOL: Tool = Tool {
    name: "llm-d benchmark report",
    definitions: "llm-d-report-0.2",
    measures: "each figure is that of the client which measured, by that client's definitions",
    keeps_requests: "the file of the client that measured may hold them: import it instead",
};

/// Our metrics and theirs.
const LATENCIES: [(&str, &str); 6] = [
    ("ttft", "time_to_first_token"),
    ("ttft_from_sent", "time_to_first_token"),
    ("tpot", "time_per_output_token"),
    ("itl", "inter_token_latency"),
    ("e2el", "request_latency"),
    ("e2el_from_sent", "request_latency"),
];

/// Our statistics and theirs.
const STATISTICS: [(&str, &str); 8] = [
    ("mean", "mean"),
    ("std", "stddev"),
    ("min", "min"),
    ("p50", "p50"),
    ("p90", "p90"),
    ("p95", "p95"),
    ("p99", "p99"),
    ("max", "max"),
];

/// The figures within a report.
const AGGREGATE: &str = "/results/request_performance/aggregate";

pub(super) fn recognises(object: &Map<String, Value>) -> bool {
    let version = object.get("version").and_then(Value::as_str);
    version.is_some_and(|version| version.starts_with("0.2"))
        && object.get("results").is_some_and(|results| results.get("request_performance").is_some())
}

/// Reads one report.
///
/// # Errors
/// If the report lacks its load or its request rate.
pub(super) fn read(source: String, object: Map<String, Value>) -> Result<ToolResult> {
    let fields = Fields::new(source, TOOL.name, object);
    let at = |pointer: &str| format!("{AGGREGATE}/{pointer}");
    let total = fields.count_at(&at("requests/total")).unwrap_or(0);
    let failed = fields.count_at(&at("requests/failures"));
    let incomplete = fields.count_at(&at("requests/incomplete")).unwrap_or(0);
    let completed = total.saturating_sub(failed.unwrap_or(0) + incomplete);
    let rate = fields.number_at(&at("throughput/request_rate/mean")).filter(|rate| *rate > 0.0);
    #[allow(clippy::cast_precision_loss)] // counts of requests and tokens
    let (duration_s, tokens) = (
        rate.map(|rate| completed as f64 / rate).filter(|seconds| *seconds > 0.0),
        |name: &str| {
            let mean = fields.number_at(&at(&format!("requests/{name}/mean")))?;
            Some(rounded(mean * completed as f64))
        },
    );
    let duration_s = duration_s.ok_or_else(|| {
        fields.wrong("request_rate", "is missing or 0: the time that was measured is not known")
    })?;
    let load = load(&fields)?;
    let standardized = |name: &str| {
        fields.text_at(&format!("/scenario/load/standardized/{name}")).map(str::to_owned)
    };
    let client = standardized("tool").unwrap_or_default();
    let mut settings = BTreeMap::from([("client".to_owned(), client.clone())]);
    settings
        .extend(standardized("tool_version").map(|version| ("client version".to_owned(), version)));
    let ended = fields.text_at("/run/time/end").and_then(|text| text.parse::<Timestamp>().ok());
    Ok(ToolResult {
        tool: &TOOL,
        model: model(&fields),
        api: String::new(),
        settings,
        metadata: BTreeMap::new(),
        written_at: ended,
        duration_s,
        num_prompts: None,
        completed,
        failed,
        input_tokens: tokens("input_length"),
        output_tokens: tokens("output_length"),
        asked: Asked::default(),
        load,
        offered: Offered::AsSaid,
        reported: figures(&fields, &client),
        details: None,
        notes: notes(&client, incomplete),
        source: fields.source.clone(),
    })
}

/// The first model of the stack.
fn model(fields: &Fields) -> String {
    let stack = fields.at("/scenario/stack").and_then(Value::as_array);
    let names = stack.into_iter().flatten();
    let mut names = names.filter_map(|part| part.pointer("/standardized/model/name")?.as_str());
    names.next().unwrap_or_default().to_owned()
}

fn load(fields: &Fields) -> Result<Load> {
    let standardized = |name: &str| format!("/scenario/load/standardized/{name}");
    let rate = fields.number_at(&standardized("rate_qps"));
    let streams = fields.count_at(&standardized("concurrency"));
    let streams = streams.map(|streams| u32::try_from(streams).unwrap_or(u32::MAX));
    let load = match (rate, streams) {
        (Some(per_s), cap) => {
            let mut rate = Load::request_rate(per_s);
            rate.max_concurrency = cap;
            rate.into()
        }
        (None, Some(streams)) => Load::concurrency(streams),
        (None, None) => {
            let what = "names neither `rate_qps` nor `concurrency`: the load is not known";
            return Err(fields.wrong("scenario.load.standardized", what));
        }
    };
    load.check()
        .map_err(|cause| fields.wrong("scenario.load", "is not a load").with_cause(cause))?;
    Ok(load)
}

/// Clients whose ITL is a mean of each request, which we call TPOT.
fn itl_is_tpot(client: &str) -> bool {
    ["guidellm", "aiperf"].contains(&client)
}

fn notes(client: &str, incomplete: u64) -> Vec<Note> {
    let note = |text: String| Note { code: FindingCode::LlmD, severity: Severity::Note, text };
    let mut notes = Vec::new();
    if itl_is_tpot(client) {
        notes.push(note(format!(
            "the inter-token latency of {client} is a mean of each request: it is read as TPOT, and there is no ITL"
        )));
    }
    if incomplete > 0 {
        notes
            .push(note(format!("{incomplete} requests were cut off at the end and count nowhere")));
    }
    notes
}

/// How many ms a unit of theirs has.
fn unit_ms(unit: Option<&str>) -> Option<f64> {
    Some(match unit? {
        "ms" | "ms/token" => 1.0,
        "s" | "s/token" => 1e3,
        _ => return None,
    })
}

fn figures(fields: &Fields, client: &str) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    for (ours, theirs) in LATENCIES {
        let theirs = match ours {
            "tpot" if itl_is_tpot(client) => "inter_token_latency",
            "itl" if itl_is_tpot(client) => continue,
            _ => theirs,
        };
        let place = format!("{AGGREGATE}/latency/{theirs}");
        let Some(unit_ms) = unit_ms(fields.text_at(&format!("{place}/units"))) else { continue };
        for (statistic, name) in STATISTICS {
            let value = fields.number_at(&format!("{place}/{name}"));
            figures.extend(value.map(|value| (format!("{ours}_{statistic}"), value * unit_ms)));
        }
    }
    for (ours, theirs) in [
        ("request_throughput", "request_rate"),
        ("output_throughput", "output_token_rate"),
        ("total_token_throughput", "total_token_rate"),
    ] {
        let value = fields.number_at(&format!("{AGGREGATE}/throughput/{theirs}/mean"));
        figures.extend(value.map(|rate| (ours.to_owned(), rate)));
    }
    figures
}
