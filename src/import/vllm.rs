//! One result of `vllm bench serve`: its header, its figures, its details.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use super::MOST_RESULTS;
use super::details::Details;
use super::fields::Fields;
use crate::error::{Error, Result};
use crate::scenario::Load;

/// Longer than a year is no benchmark, seconds.
const LONGEST_S: f64 = 366.0 * 86_400.0;

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

/// The latencies, by vLLM's name and ours (its clock starts at the send, so both of ours agree).
const LATENCIES: [(&str, &[&str]); 4] = [
    ("ttft", &["ttft", "ttft_from_sent"]),
    ("tpot", &["tpot"]),
    ("itl", &["itl"]),
    ("e2el", &["e2el", "e2el_from_sent"]),
];

/// Their statistics, ours and vLLM's.
const STATISTICS: [(&str, &[&str]); 6] = [
    ("mean", &["mean"]),
    ("std", &["std"]),
    ("p50", &["median", "p50"]),
    ("p90", &["p90"]),
    ("p95", &["p95"]),
    ("p99", &["p99"]),
];

/// How the load was offered, as far as it needs a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offered {
    /// As the load says.
    AsSaid,
    /// No rate and no limit: all requests at once.
    AtOnce,
    /// The rate rose while it was measured.
    Ramp,
}

/// One result.
#[derive(Debug)]
pub(super) struct VllmResult {
    pub(super) source: String,
    pub(super) model: String,
    pub(super) api: String,
    pub(super) settings: BTreeMap<String, String>,
    pub(super) metadata: BTreeMap<String, String>,
    /// When it was written; the file has the client's local time without a zone, read as UTC.
    pub(super) written_at: Option<Timestamp>,
    pub(super) duration_s: f64,
    pub(super) num_prompts: Option<u32>,
    pub(super) completed: u64,
    pub(super) failed: u64,
    pub(super) input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    pub(super) load: Load,
    pub(super) offered: Offered,
    pub(super) reported: BTreeMap<String, f64>,
    pub(super) details: Option<Details>,
}

/// The results of one file: one object, or several as `--append-result` writes them.
pub(super) fn parse(path: &str, text: &str) -> Result<Vec<VllmResult>> {
    let not_json = |cause: serde_json::Error| {
        Error::store(format!("`{path}` is not a result file: it is not JSON"))
            .with_cause(cause)
            .with_hint("give a file that `vllm bench serve --save-result` wrote")
    };
    let mut objects: Vec<Map<String, Value>> = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        let Value::Object(object) = value.map_err(not_json)? else {
            return Err(Error::store(format!(
                "`{path}` is not a result file: it holds no JSON object"
            ))
            .with_hint("give a file that `vllm bench serve --save-result` wrote"));
        };
        objects.push(object);
        if objects.len() > MOST_RESULTS {
            return Err(Error::store(format!("`{path}` holds more than {MOST_RESULTS} results")));
        }
    }
    if objects.is_empty() {
        return Err(Error::store(format!("`{path}` is empty"))
            .with_hint("`vllm bench serve` writes its results at the end: did it end?"));
    }
    let several = objects.len() > 1;
    let result = |(index, object)| {
        let source = if several { format!("{path} #{}", index + 1) } else { path.to_owned() };
        VllmResult::of(Fields::new(source, object))
    };
    objects.into_iter().enumerate().map(result).collect()
}

impl VllmResult {
    fn of(mut fields: Fields) -> Result<Self> {
        fields.require(&["model_id", "duration", "completed", "request_rate|max_concurrency"])?;
        let details = Details::take(&mut fields)?;
        let duration_s = fields.number("duration")?.unwrap_or_default();
        if duration_s <= 0.0 || duration_s > LONGEST_S {
            return Err(fields.wrong("duration", "is not a time between 0 and a year, in seconds"));
        }
        let completed = fields.count("completed")?.unwrap_or_default();
        let num_prompts = fields.count("num_prompts")?;
        let failed = failed(&fields, details.as_ref(), completed, num_prompts)?;
        let (load, offered) = load(&fields, completed + failed)?;
        let mut result = Self {
            model: fields.text("model_id")?.unwrap_or_default().to_owned(),
            api: api(&fields)?,
            settings: settings(&fields),
            metadata: metadata(&fields),
            written_at: fields.text("date")?.and_then(written_at),
            duration_s,
            num_prompts: num_prompts.and_then(|n| u32::try_from(n).ok()),
            completed,
            failed,
            input_tokens: first_count(&fields, &["total_input_tokens", "total_input"])?,
            output_tokens: first_count(&fields, &["total_output_tokens", "total_output"])?,
            load,
            offered,
            reported: BTreeMap::new(),
            details,
            source: fields.source.clone(),
        };
        result.reported = result.figures(&fields)?;
        Ok(result)
    }

    /// What the tool says of the whole round, by our names.
    fn figures(&self, fields: &Fields) -> Result<BTreeMap<String, f64>> {
        let mut figures = BTreeMap::new();
        if self.completed > 0 {
            latencies(fields, &mut figures)?;
        }
        // vLLM's own definitions of its rates, for files that lack one.
        #[allow(clippy::cast_precision_loss)] // counts of tokens and requests
        let per_s = |count: u64| count as f64 / self.duration_s;
        let both = self.input_tokens.zip(self.output_tokens).map(|(i, o)| i + o);
        let rates = [
            ("request_throughput", ["request_throughput", "qps"], Some(self.completed)),
            ("output_throughput", ["output_throughput"; 2], self.output_tokens),
            ("total_token_throughput", ["total_token_throughput"; 2], both),
            ("goodput", ["request_goodput", "request_goodput:"], None),
        ];
        for (name, theirs, count) in rates {
            let said = fields.number(theirs[0])?.or(fields.number(theirs[1])?);
            if let Some(rate) = said.or_else(|| count.map(per_s)) {
                figures.insert(name.to_owned(), rate);
            }
        }
        let counts = [
            ("completed", Some(self.completed)),
            ("failed", Some(self.failed)),
            ("input_tokens", self.input_tokens),
            ("output_tokens", self.output_tokens),
        ];
        for (name, count) in counts {
            #[allow(clippy::cast_precision_loss)] // counts of tokens and requests
            figures.extend(count.map(|count| (name.to_owned(), count as f64)));
        }
        Ok(figures)
    }
}

/// vLLM writes 0 for a latency that does not exist: it is left out.
fn latencies(fields: &Fields, figures: &mut BTreeMap<String, f64>) -> Result<()> {
    for (theirs, ours) in LATENCIES {
        for (statistic, names) in STATISTICS {
            let mut found = None;
            for name in names {
                found = found.or(fields.number(&format!("{name}_{theirs}_ms"))?);
            }
            for name in ours {
                let value = found.filter(|ms| *ms > 0.0);
                figures.extend(value.map(|ms| (format!("{name}_{statistic}"), ms)));
            }
        }
    }
    Ok(())
}

fn first_count(fields: &Fields, names: &[&str]) -> Result<Option<u64>> {
    for name in names {
        if let Some(count) = fields.count(name)? {
            return Ok(Some(count));
        }
    }
    Ok(None)
}

/// Requests that failed: as said, else those asked for that did not complete, else by the share
/// that older files keep.
fn failed(
    fields: &Fields,
    details: Option<&Details>,
    completed: u64,
    num_prompts: Option<u64>,
) -> Result<u64> {
    let of_details = details.map(|details| details.requests as u64 - details.completed());
    let known = fields.count("failed")?.or(of_details);
    if let Some(failed) = known.or_else(|| num_prompts.map(|asked| asked.saturating_sub(completed)))
    {
        return Ok(failed);
    }
    let share = fields.number("error_rate")?.unwrap_or(0.0);
    if share >= 1.0 {
        return Err(
            fields.wrong("error_rate", "is not a share below 1, and `num_prompts` is missing")
        );
    }
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Ok((completed as f64 * share / (1.0 - share)).round() as u64)
}

fn load(fields: &Fields, requests: u64) -> Result<(Load, Offered)> {
    let cap = fields.count("max_concurrency")?.map(|cap| u32::try_from(cap).unwrap_or(u32::MAX));
    let ramp =
        if fields.has("ramp_up_strategy") { fields.number("ramp_up_end_rps")? } else { None };
    let endless = fields.text("request_rate").ok().flatten().map(str::trim) == Some("inf");
    let rate = if endless { None } else { fields.number("request_rate")? };
    let (load, offered) = match (ramp.or(rate), cap) {
        (Some(per_s), cap) => {
            let mut rate = Load::request_rate(per_s);
            rate.burstiness = fields.number("burstiness")?.unwrap_or(rate.burstiness);
            rate.max_concurrency = cap;
            let offered = if ramp.is_some() { Offered::Ramp } else { Offered::AsSaid };
            (rate.into(), offered)
        }
        (None, Some(cap)) => (Load::concurrency(cap), Offered::AsSaid),
        (None, None) => {
            let all = u32::try_from(requests).unwrap_or(u32::MAX);
            (Load::concurrency(all), Offered::AtOnce)
        }
    };
    load.check().map_err(|cause| {
        let field = if rate.is_some() { "request_rate" } else { "max_concurrency" };
        fields.wrong(field, "is not a load").with_cause(cause)
    })?;
    Ok((load, offered))
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
    given.map(|(name, text)| (name.to_owned(), text)).collect()
}

fn written_at(date: &str) -> Option<Timestamp> {
    let date = DateTime::strptime("%Y%m%d-%H%M%S", date).ok()?;
    TimeZone::UTC.to_timestamp(date).ok()
}
