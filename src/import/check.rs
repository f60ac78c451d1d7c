//! Checks of a result against itself: figures that contradict one another are no measurement.

use super::result::{Offered, ToolResult};
use crate::record::stored::DEFINITIONS;
use crate::scenario::Load;
use crate::units::significant;

/// Figures that differ by less agree: files are rounded and clocks differ by a request, as a share.
const AGREE_WITHIN: f64 = 0.03;

/// More requests in flight than were allowed contradict the concurrency, as a share of it.
const OVER_CAP: f64 = 0.10;

/// Less than this share of the concurrency in flight means that it was not kept up.
const UNDER_CAP: f64 = 0.5;

/// The tokens after the first may seem to take this much longer than the whole answer, where lengths differ.
const PARTS_OVER_WHOLE: f64 = 1.5;

/// This many requests for each slot make the ramp and the drain small.
const REQUESTS_PER_SLOT: u64 = 8;

/// The contradictions of one result, a sentence each.
pub(super) fn contradictions(result: &ToolResult) -> Vec<String> {
    let mut found: Vec<String> = rates(result).into_iter().flatten().collect();
    found.extend(in_flight(result));
    found.extend(percentiles(result));
    found.extend(counts(result));
    found.extend(parts(result));
    found.extend(result.details.iter().flat_map(|d| d.disagreements(result.output_tokens)));
    found
}

/// More requests than were asked for.
fn counts(result: &ToolResult) -> Option<String> {
    let (asked, completed) = (result.num_prompts?, result.completed);
    (completed > u64::from(asked))
        .then(|| format!("{completed} requests completed, {asked} were asked for"))
}

/// The first token, and the tokens after it, take no longer than the whole answer.
fn parts(result: &ToolResult) -> Option<String> {
    let mean = |name: &str| result.reported.get(name).copied();
    let (whole, first) = (mean("e2el_mean")?, mean("ttft_mean")?);
    #[allow(clippy::cast_precision_loss)] // counts of tokens and requests
    let later = result
        .output_tokens
        .map_or(0.0, |tokens| (tokens as f64 / result.completed.max(1) as f64 - 1.0).max(0.0));
    let rest = mean("tpot_mean").map_or(0.0, |tpot| tpot * later);
    let said = |what: &str, ms: f64| {
        format!(
            "{what} of {} ms contradicts mean E2EL of {} ms",
            significant(ms),
            significant(whole)
        )
    };
    if first > whole * (1.0 + AGREE_WITHIN) {
        return Some(said("mean TTFT", first));
    }
    // Means of TPOT over requests of different lengths are no exact part of the whole.
    (rest > whole * PARTS_OVER_WHOLE)
        .then(|| said("mean TPOT over the tokens after the first", rest))
}

/// Rates against counts and time.
fn rates(result: &ToolResult) -> [Option<String>; 3] {
    if result.tool.definitions == DEFINITIONS {
        // Over a window, in which parts of requests lie that are not among those counted.
        return [None, None, None];
    }
    let both = result.input_tokens.zip(result.output_tokens).map(|(i, o)| i + o);
    let rows = [
        ("request_throughput", "request throughput", "req/s", "requests", Some(result.completed)),
        ("output_throughput", "output throughput", "tok/s", "output tokens", result.output_tokens),
        ("total_token_throughput", "total token throughput", "tok/s", "tokens", both),
    ];
    rows.map(|(name, label, unit, what, count)| {
        let (said, count) = (*result.reported.get(name)?, count?);
        #[allow(clippy::cast_precision_loss)] // counts of tokens and requests
        let derived = count as f64 / result.duration_s;
        let apart = (said - derived).abs();
        if apart <= AGREE_WITHIN * derived.max(said) + 0.006 {
            return None;
        }
        Some(format!(
            "{label} {} {unit} differs from {} {unit}, which is {count} {what} in {} s: one of them is wrong",
            significant(said),
            significant(derived),
            significant(result.duration_s)
        ))
    })
}

/// Little's law: throughput × latency is the mean number in flight, which no closed loop exceeds.
fn in_flight(result: &ToolResult) -> Option<String> {
    let (Load::Concurrency(cap), Offered::AsSaid) = (result.load, result.offered) else {
        return None;
    };
    let in_flight = result.reported.get("request_throughput")? * e2el_ms(result)? / 1e3;
    let cap_f = f64::from(cap);
    let said = format!(
        "QPS × mean E2EL is {} requests in flight, the stated concurrency is {cap}",
        significant(in_flight)
    );
    if in_flight > cap_f * (1.0 + OVER_CAP) + 0.5 {
        return Some(format!("{said}: no closed loop has more in flight than its concurrency"));
    }
    let enough = result.completed >= REQUESTS_PER_SLOT * u64::from(cap);
    (enough && in_flight < cap_f * UNDER_CAP)
        .then(|| format!("{said}: the client did not keep the concurrency up"))
}

/// Mean E2EL, ms: as reported, else TTFT and the tokens after the first.
#[allow(clippy::cast_precision_loss)] // counts of tokens and requests
fn e2el_ms(result: &ToolResult) -> Option<f64> {
    let figure = |name: &str| result.reported.get(name).copied();
    figure("e2el_mean").or_else(|| {
        let output = result.output_tokens? as f64 / result.completed.max(1) as f64;
        Some(figure("ttft_mean")? + figure("tpot_mean")? * (output - 1.0).max(0.0))
    })
}

/// Percentiles rise, and no mean lies above the largest value.
fn percentiles(result: &ToolResult) -> Vec<String> {
    let mut found = Vec::new();
    for (metric, label) in [("ttft", "TTFT"), ("tpot", "TPOT"), ("itl", "ITL"), ("e2el", "E2EL")] {
        let figure = |statistic: &'static str| {
            let value = result.reported.get(&format!("{metric}_{statistic}"))?;
            Some((statistic, *value))
        };
        let order: Vec<(&str, f64)> =
            ["min", "p50", "p90", "p95", "p99", "max"].into_iter().filter_map(figure).collect();
        let falls = order.windows(2).find(|pair| pair[0].1 > pair[1].1 * (1.0 + 1e-9));
        if let Some([(low, above), (high, below)]) = falls.map(|pair| [pair[0], pair[1]]) {
            found.push(format!(
                "{label} {low} of {} ms contradicts its {high} of {} ms: percentiles cannot fall",
                significant(above),
                significant(below)
            ));
        }
    }
    found
}
