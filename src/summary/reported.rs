//! Reported figures: what an imported tool says of a round that its requests cannot tell.

use super::{Distribution, RoundInput, Summary, values_ms};
use crate::metric::{Metric, Statistic};
use crate::record::{Outcome, RequestRecord, StoredRound, Window};
use crate::units::ns_to_s;

/// Lays reported figures over a summary: distributions that the requests cannot give, and counts of
/// rounds without requests. What requests can tell stays theirs.
pub(super) fn fill(summary: &mut Summary, rounds: &[RoundInput<'_>]) {
    if rounds.iter().all(|input| input.round.reported.is_empty()) {
        return; // our own rounds
    }
    for metric in Metric::DISTRIBUTIONS {
        if rounds.iter().any(|input| stands_in(input, metric)) {
            summary.distributions.insert(metric, pooled(rounds, metric));
            if metric == Metric::Tpot {
                // Its requests do not tell; that is another matter than a TPOT that does not exist.
                summary.tpot_undefined = 0;
            }
        }
    }
    for round in rounds.iter().filter(|input| input.records.is_empty()).map(|input| input.round) {
        summary.completed += count(round, "completed");
        summary.failed += count(round, "failed");
    }
    for input in rounds {
        let knows = |tokens: fn(&RequestRecord) -> bool| input.records.iter().any(tokens);
        if !knows(|r| r.input_tokens.is_some() || r.input_tokens_asked > 0) {
            summary.input_tokens += count(input.round, "input_tokens");
        }
        if !knows(|record| record.output_tokens.is_some()) {
            summary.output_tokens += count(input.round, "output_tokens");
        }
    }
}

/// Sum of the times that the requests were in flight, s; not a number where one has no end.
pub(super) fn in_flight_s(input: &RoundInput<'_>) -> f64 {
    let window = Window::of(input.round);
    let known = |record: &RequestRecord| {
        record.outcome != Outcome::Completed || record.ended_ns().is_some()
    };
    if input.records.is_empty() || !input.records.iter().all(known) {
        return f64::NAN;
    }
    input.records.iter().map(|record| ns_to_s(window.in_flight_ns(record))).sum()
}

/// Whether the tool reports it and the requests do not.
fn stands_in(input: &RoundInput<'_>, metric: Metric) -> bool {
    Statistic::ALL.iter().any(|statistic| figure(input.round, metric, statistic.name()).is_some())
        && own(input, metric).count == 0
}

/// What the requests of one round say.
fn own(input: &RoundInput<'_>, metric: Metric) -> Distribution {
    match metric {
        Metric::Itl => Distribution::of_gaps(input.itl),
        Metric::Icl => Distribution::of_gaps(input.icl),
        _ => Distribution::of(&values_ms(std::slice::from_ref(input), metric)),
    }
}

/// One round's distribution as it is; of several only the mean, since percentiles of parts do not
/// make the whole's.
fn pooled(rounds: &[RoundInput<'_>], metric: Metric) -> Distribution {
    let of = |input: &RoundInput<'_>| {
        if stands_in(input, metric) { said(input.round, metric) } else { own(input, metric) }
    };
    if let [only] = rounds {
        return of(only);
    }
    let parts: Vec<Distribution> = rounds.iter().map(of).collect();
    let count: u64 = parts.iter().map(|part| part.count).sum();
    #[allow(clippy::cast_precision_loss)] // counts of requests
    let weighted =
        parts.iter().map(|part| Some(part.mean? * part.count as f64)).sum::<Option<f64>>();
    #[allow(clippy::cast_precision_loss)]
    let mean = weighted.filter(|_| count > 0).map(|sum| sum / count as f64);
    Distribution { count, mean, ..Distribution::default() }
}

/// The tool's own numbers. Its count is that of the completed requests; of gaps it is 0, since the
/// tool does not say how many there were. The standard deviation is as the tool has it (vLLM: over
/// n, ours: over n − 1).
fn said(round: &StoredRound, metric: Metric) -> Distribution {
    let figure = |name: &str| figure(round, metric, name);
    let of_gaps = matches!(metric, Metric::Itl | Metric::Icl);
    Distribution {
        count: if of_gaps { 0 } else { count(round, "completed") },
        mean: figure("mean"),
        std: figure("std"),
        min: figure("min"),
        p50: figure("p50"),
        p90: figure("p90"),
        p95: figure("p95"),
        p99: figure("p99"),
        max: figure("max"),
    }
}

fn figure(round: &StoredRound, metric: Metric, statistic: &str) -> Option<f64> {
    round.reported.get(&format!("{}_{statistic}", metric.name())).copied()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // counts, which saturate
fn count(round: &StoredRound, name: &str) -> u64 {
    round.reported.get(name).map_or(0, |value| value.round() as u64)
}
