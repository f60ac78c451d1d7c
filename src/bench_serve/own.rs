//! Own figures: inferometer's definitions beside vLLM's, under their own names.

use super::dataset::Sample;
use super::send::{Answer, Sent};
use crate::plan::{Phase, PlannedRequest, Side};
use crate::record::request::Part;
use crate::record::{RequestIdent, RequestRecord};
use crate::rng::Seed;
use crate::stats::moments;
use crate::units::ns_to_s;

/// Figures that vLLM's client does not have, or defines in another way.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct OwnFigures {
    /// To the first event that carries a token, without connecting.
    ttft_mean_ms: Option<f64>,
    /// A token after those of the first event.
    tpot_mean_ms: Option<f64>,
    /// Requests in flight at one moment, at most.
    peak_in_flight: Option<f64>,
    /// Answers a second while requests were still being sent: without the drain.
    qps_without_drain: Option<f64>,
}

impl OwnFigures {
    pub(super) fn of(sent: &Sent, samples: &[Sample]) -> Self {
        let records: Vec<RequestRecord> = sent
            .answers
            .iter()
            .filter(|answer| answer.exchange.failure.is_none())
            .filter_map(|answer| Some(record(answer, samples.get(answer.index)?)))
            .collect();
        let mean = |value: fn(&RequestRecord) -> Option<f64>| {
            moments::mean(&records.iter().filter_map(value).collect::<Vec<f64>>())
        };
        Self {
            ttft_mean_ms: mean(RequestRecord::ttft_from_sent_ms),
            tpot_mean_ms: mean(RequestRecord::tpot_ms),
            peak_in_flight: peak_in_flight(&sent.answers),
            qps_without_drain: qps_without_drain(sent),
        }
    }

    /// Label in the table, name in the file, value.
    pub(super) fn rows(&self) -> [(&'static str, &'static str, Option<f64>); 4] {
        [
            ("Mean TTFT, first event with text (ms):", "ttft_mean_ms", self.ttft_mean_ms),
            ("Mean TPOT, after the first event (ms):", "tpot_mean_ms", self.tpot_mean_ms),
            ("Peak requests in flight:", "peak_in_flight", self.peak_in_flight),
            ("QPS without drain (req/s):", "qps_without_drain", self.qps_without_drain),
        ]
    }
}

fn record(answer: &Answer, sample: &Sample) -> RequestRecord {
    let ident = RequestIdent {
        side: Side::New,
        block: 0,
        start: 0,
        round: 0,
        phase: Phase::Load,
        part: Part::Measured,
    };
    let planned = PlannedRequest {
        index: answer.index as u64,
        due_ns: None,
        input_tokens: sample.input_tokens,
        output_tokens: sample.output_tokens,
        seed: Seed(0),
    };
    RequestRecord::from_exchange(ident, &planned, &answer.exchange, (0, u64::MAX))
}

/// A request that ends at the moment another begins makes room for it.
fn peak_in_flight(answers: &[Answer]) -> Option<f64> {
    let mut changes: Vec<(u64, i64)> = answers
        .iter()
        .filter_map(|a| Some((a.begun_ns, a.exchange.timeline.end_ns?)))
        .flat_map(|(begun, ended)| [(begun, 1), (ended, -1)])
        .collect();
    changes.sort_unstable();
    let in_flight = changes.iter().scan(0, |now, (_, change)| {
        *now += change;
        Some(*now)
    });
    #[allow(clippy::cast_precision_loss)]
    in_flight.max().map(|most| most as f64)
}

/// Answers between the first end and the last send; `None` if that is no time in which load was
/// kept up.
#[allow(clippy::cast_precision_loss)]
fn qps_without_drain(sent: &Sent) -> Option<f64> {
    let ends: Vec<u64> = sent
        .answers
        .iter()
        .filter(|a| a.exchange.failure.is_none())
        .filter_map(|a| a.exchange.timeline.end_ns)
        .collect();
    let open = *ends.iter().min()?;
    let close = sent.answers.iter().map(|a| a.begun_ns).max()?;
    let length_s = ns_to_s(close.checked_sub(open)?);
    let inside = ends.iter().filter(|ns| (open..=close).contains(ns)).count();
    // The window opens with an end, which is its edge and no part of it.
    (inside >= 16).then(|| (inside - 1) as f64 / length_s)
}
