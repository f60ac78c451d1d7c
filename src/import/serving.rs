//! The fields that `benchmark_serving.py` gave its descendants: vLLM's client and SGLang's.

use std::collections::BTreeMap;

use super::details::Details;
use super::fields::Fields;
use super::json::INFINITY;
use super::result::{Asked, Offered, Tool, ToolResult};
use crate::error::Result;
use crate::scenario::Load;

/// Longer than a year is no benchmark, seconds.
const LONGEST_S: f64 = 366.0 * 86_400.0;

/// The latencies: their names there, then ours (their clock starts at the send, so both of ours
/// agree).
const LATENCIES: [(&[&str], &[&str]); 4] = [
    (&["ttft"], &["ttft", "ttft_from_sent"]),
    (&["tpot"], &["tpot"]),
    (&["itl"], &["itl"]),
    (&["e2el", "e2e_latency"], &["e2el", "e2el_from_sent"]),
];

/// Their statistics: ours, then theirs.
const STATISTICS: [(&str, &[&str]); 7] = [
    ("mean", &["mean"]),
    ("std", &["std"]),
    ("p50", &["median", "p50"]),
    ("p90", &["p90"]),
    ("p95", &["p95"]),
    ("p99", &["p99"]),
    ("max", &["max"]),
];

/// The rates: our name, then theirs.
const RATES: [(&str, &[&str]); 4] = [
    ("request_throughput", &["request_throughput", "qps"]),
    ("output_throughput", &["output_throughput"]),
    ("total_token_throughput", &["total_token_throughput", "total_throughput"]),
    ("goodput", &["request_goodput", "request_goodput:"]),
];

/// Reads what both clients write. The caller adds what only one of them has.
pub(super) fn read(tool: &'static Tool, mut fields: Fields) -> Result<(ToolResult, Fields)> {
    let details = Details::take(&mut fields)?;
    let duration_s = fields.number("duration")?.unwrap_or_default();
    if duration_s <= 0.0 || duration_s > LONGEST_S {
        return Err(fields.wrong("duration", "is not a time between 0 and a year, in seconds"));
    }
    let completed = fields.count("completed")?.unwrap_or_default();
    let num_prompts = fields.count("num_prompts")?;
    let failed = failed(&fields, details.as_ref(), completed, num_prompts)?;
    let (load, offered) = load(&fields, completed + failed.unwrap_or(0))?;
    let mut result = ToolResult {
        tool,
        model: String::new(),
        api: String::new(),
        settings: BTreeMap::new(),
        metadata: BTreeMap::new(),
        written_at: None,
        duration_s,
        num_prompts: num_prompts.and_then(|n| u32::try_from(n).ok()),
        completed,
        failed,
        input_tokens: first_count(&fields, &["total_input_tokens", "total_input"])?,
        output_tokens: first_count(&fields, &["total_output_tokens", "total_output"])?,
        asked: Asked::default(),
        load,
        offered,
        reported: BTreeMap::new(),
        details,
        notes: Vec::new(),
        source: fields.source.clone(),
    };
    if result.completed > 0 {
        latencies(&fields, &mut result.reported)?;
    }
    for (name, theirs) in RATES {
        if let Some(rate) = first_number(&fields, theirs)? {
            result.reported.insert(name.to_owned(), rate);
        }
    }
    Ok((result, fields))
}

/// These clients write 0 for a latency that does not exist: it is left out.
fn latencies(fields: &Fields, figures: &mut BTreeMap<String, f64>) -> Result<()> {
    for (theirs, ours) in LATENCIES {
        for (statistic, names) in STATISTICS {
            let keys = theirs
                .iter()
                .flat_map(|latency| names.iter().map(move |name| format!("{name}_{latency}_ms")));
            let keys: Vec<String> = keys.collect();
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            let value = first_number(fields, &keys)?.filter(|ms| *ms > 0.0);
            for name in ours {
                figures.extend(value.map(|ms| (format!("{name}_{statistic}"), ms)));
            }
        }
    }
    Ok(())
}

fn first_number(fields: &Fields, names: &[&str]) -> Result<Option<f64>> {
    for name in names {
        if let Some(number) = fields.number(name)? {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

fn first_count(fields: &Fields, names: &[&str]) -> Result<Option<u64>> {
    for name in names {
        if let Some(count) = fields.count(name)? {
            return Ok(Some(count));
        }
    }
    Ok(None)
}

/// Requests that failed: as said, else as the requests show, else those asked for that did not
/// complete, else by the share that older files keep. `None` if the file has none of these.
fn failed(
    fields: &Fields,
    details: Option<&Details>,
    completed: u64,
    num_prompts: Option<u64>,
) -> Result<Option<u64>> {
    let of_details = details.map(|details| details.requests as u64 - details.completed());
    let known = fields.count("failed")?.or(of_details);
    let known = known.or_else(|| num_prompts.map(|asked| asked.saturating_sub(completed)));
    let Some(share) = fields.number("error_rate")?.filter(|_| known.is_none()) else {
        return Ok(known);
    };
    if share >= 1.0 {
        return Err(
            fields.wrong("error_rate", "is not a share below 1, and `num_prompts` is missing")
        );
    }
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Ok(Some((completed as f64 * share / (1.0 - share)).round() as u64))
}

/// Equal gaps, as far as a finite shape of a gamma distribution gives them: they vary by a thousandth.
const EVEN_BURSTINESS: f64 = 1e6;

fn load(fields: &Fields, requests: u64) -> Result<(Load, Offered)> {
    let cap = fields.count("max_concurrency")?.map(|cap| u32::try_from(cap).unwrap_or(u32::MAX));
    let ramp =
        if fields.has("ramp_up_strategy") { fields.number("ramp_up_end_rps")? } else { None };
    let said = fields.text("request_rate").ok().flatten().map(str::trim);
    let endless = said.is_some_and(|said| said == "inf" || said == INFINITY);
    let rate = if endless { None } else { fields.number("request_rate")? };
    let (load, offered) = match (ramp.or(rate), cap) {
        (Some(per_s), cap) => {
            let mut rate = Load::request_rate(per_s);
            let even = fields.text("burstiness").ok().flatten() == Some("inf");
            rate.burstiness = match even {
                true => EVEN_BURSTINESS,
                false => fields.number("burstiness")?.unwrap_or(rate.burstiness),
            };
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
