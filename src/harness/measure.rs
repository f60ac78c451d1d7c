//! From stored runs to what they measured: one load point at a time, so that memory stays flat.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::plan::Side;
use crate::record::stored::RoundStatus;
use crate::record::{StoredRound, StoredRun};
use crate::report::{Lengths, Samples};
use crate::store::{RoundData, Store};
use crate::summary::measured::{MeasuredSide, MeasuredStart};
use crate::summary::{self, RoundInput, Summary};

/// The most latencies of single requests that a report draws from, per load point and side.
const MOST_SAMPLES: usize = 4000;
/// The most requests shown one by one.
const MOST_SHOWN: usize = 20;

/// One load point of one side of one run, with what only single requests can tell.
#[derive(Debug, Clone)]
pub(super) struct PointData {
    pub(super) side: MeasuredSide,
    pub(super) samples: Samples,
    pub(super) lengths: Lengths,
    pub(super) slowest: Vec<crate::record::RequestRecord>,
    pub(super) failed: Vec<crate::record::RequestRecord>,
    pub(super) series: BTreeMap<String, Vec<(f64, f64)>>,
}

/// What a run measured at one load point on one side; none where nothing was.
pub(super) fn point_data(
    store: &Store,
    run: &StoredRun,
    point_id: &str,
    side: Side,
) -> Result<Option<PointData>> {
    let rounds: Vec<&StoredRound> =
        run.rounds.iter().filter(|r| r.point == point_id && r.side == side).collect();
    if rounds.is_empty() {
        return Ok(None);
    }
    let slo = run.points.iter().find(|p| p.id == point_id).and_then(|p| p.point.slo);
    let data = store.load_rounds(&run.id, &rounds)?;
    let inputs: Vec<RoundInput<'_>> = rounds.iter().zip(&data).map(|(r, d)| input(r, d)).collect();
    let mut by_start: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
    for (place, round) in rounds.iter().enumerate() {
        by_start.entry((round.block, round.start)).or_default().push(place);
    }
    let starts = by_start
        .into_values()
        .map(|places| {
            let of_start: Vec<RoundInput<'_>> =
                places.iter().map(|place| inputs[*place].clone()).collect();
            measured_start(run, &of_start, summary::summarise(&of_start, slo))
        })
        .collect();
    let pooled = summary::summarise(&inputs, slo);
    let records = || data.iter().flat_map(|d| &d.records);
    Ok(Some(PointData {
        side: MeasuredSide { pooled, starts },
        samples: samples(&data),
        lengths: lengths(&data),
        slowest: slowest(records()),
        failed: records().filter(|r| r.evidence.is_some()).take(MOST_SHOWN).cloned().collect(),
        series: rounds.last().zip(data.last()).map(|(r, d)| series(r, d)).unwrap_or_default(),
    }))
}

fn input<'a>(round: &'a StoredRound, data: &'a RoundData) -> RoundInput<'a> {
    RoundInput { round, records: &data.records, itl: &data.itl, icl: &data.icl }
}

fn measured_start(run: &StoredRun, rounds: &[RoundInput<'_>], summary: Summary) -> MeasuredStart {
    let first = rounds[0].round;
    let identity = run
        .starts
        .iter()
        .find(|s| s.side == first.side && s.start == first.start)
        .and_then(|s| s.identity.clone());
    MeasuredStart {
        run: run.id.clone(),
        block: first.block,
        start: first.start,
        seed: first.seed,
        at: first.at,
        identity,
        status: worst(rounds.iter().map(|r| r.round.status)),
        health: rounds.iter().map(|r| r.round.health.clone()).collect(),
        warm_up: rounds.last().and_then(|r| r.round.warm_up),
        attempted: summary.completed + summary.failed,
        summary,
        ttft_trend: summary::steady::ttft_trend(rounds[0].records),
    }
}

/// The worst of several statuses.
pub(super) fn worst(statuses: impl Iterator<Item = RoundStatus>) -> RoundStatus {
    let rank = |status: &RoundStatus| match status {
        RoundStatus::Complete => 0,
        RoundStatus::Saturated => 1,
        RoundStatus::Overloaded => 2,
        RoundStatus::Stopped => 3,
        RoundStatus::Interrupted => 4,
    };
    statuses.max_by_key(rank).unwrap_or(RoundStatus::Complete)
}

/// Every n-th value, so that no more than `MOST_SAMPLES` are kept and all rounds speak.
fn samples(data: &[RoundData]) -> Samples {
    let measured: Vec<_> =
        data.iter().flat_map(|d| &d.records).filter(|r| r.is_measured_success()).collect();
    let step = measured.len().div_ceil(MOST_SAMPLES).max(1);
    let thinned = || measured.iter().step_by(step);
    Samples {
        ttft_ms: thinned().filter_map(|r| r.ttft_ms()).collect(),
        tpot_ms: thinned().filter_map(|r| r.tpot_ms()).collect(),
        e2el_ms: thinned().filter_map(|r| r.e2el_ms()).collect(),
    }
}

fn lengths(data: &[RoundData]) -> Lengths {
    let measured: Vec<_> =
        data.iter().flat_map(|d| &d.records).filter(|r| r.is_measured_success()).collect();
    let mean = |values: Vec<u32>| {
        #[allow(clippy::cast_precision_loss)]
        let n = values.len() as f64;
        (!values.is_empty()).then(|| values.iter().map(|v| f64::from(*v)).sum::<f64>() / n)
    };
    Lengths {
        input_asked: mean(measured.iter().map(|r| r.input_tokens_asked).collect()),
        input_got: mean(measured.iter().filter_map(|r| r.input_tokens).collect()),
        output_asked: mean(measured.iter().map(|r| r.output_tokens_asked).collect()),
        output_got: mean(measured.iter().filter_map(|r| r.output_tokens).collect()),
    }
}

fn slowest<'a>(
    records: impl Iterator<Item = &'a crate::record::RequestRecord>,
) -> Vec<crate::record::RequestRecord> {
    let mut completed: Vec<_> = records.filter(|r| r.is_measured_success()).collect();
    let e2el = |r: &crate::record::RequestRecord| r.e2el_ms().unwrap_or(0.0);
    completed.sort_by(|a, b| e2el(b).total_cmp(&e2el(a)));
    completed.into_iter().take(MOST_SHOWN).cloned().collect()
}

fn series(round: &StoredRound, data: &RoundData) -> BTreeMap<String, Vec<(f64, f64)>> {
    let mut series = summary::series::over_time(round, &data.records);
    for (name, points) in &round.series {
        let points = points.iter().map(|(at_ns, value)| {
            #[allow(clippy::cast_precision_loss)]
            let seconds = (*at_ns as f64 - round.window_open_ns as f64) / 1e9;
            (seconds, *value)
        });
        series.insert(name.clone(), points.collect());
    }
    series
}
