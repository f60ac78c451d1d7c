//! From stored runs to what they measured: one load point at a time, so that memory stays flat.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::metric::{Measure, Metric, Statistic};
use crate::plan::{Design, Side};
use crate::record::stored::RoundStatus;
use crate::record::{FindingCode, Outcome, RequestRecord, ServerState, StoredRound, StoredRun};
use crate::report::{Lengths, Samples};
use crate::scenario::Slo;
use crate::store::{RoundData, Store};
use crate::summary::measured::{MeasuredSide, MeasuredStart};
use crate::summary::{self, RoundInput, Series, Summary};

/// The most latencies of single requests that a report draws from, per load point and side.
const MOST_SAMPLES: usize = 4000;
/// The most requests shown one by one.
const MOST_SHOWN: usize = 20;

/// One load point of one side of one run, with what only single requests can tell.
#[derive(Debug, Clone)]
pub(crate) struct PointData {
    pub(crate) side: MeasuredSide,
    pub(crate) samples: Samples,
    pub(crate) lengths: Lengths,
    pub(crate) slowest: Vec<RequestRecord>,
    pub(crate) failed: Vec<RequestRecord>,
    pub(crate) series: BTreeMap<String, Vec<(f64, f64)>>,
}

/// What counts as one start of a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A launch of the server, its rounds pooled.
    Start,
    /// A round: where two routes to one engine alternate, or for the spread within a start. Its
    /// number stands in the place of the block.
    Round,
}

impl Unit {
    /// What is compared in runs of this design.
    pub(crate) fn of(design: Design) -> Self {
        if design == Design::Routes { Self::Round } else { Self::Start }
    }
}

/// The rounds of one load point on one side of one run, as read from disk.
struct ReadPoint<'a> {
    run: &'a StoredRun,
    rounds: Vec<&'a StoredRound>,
    data: Vec<RoundData>,
    slo: Option<Slo>,
}

impl<'a> ReadPoint<'a> {
    /// `None` if the run measured nothing there.
    fn read(store: &Store, run: &'a StoredRun, point_id: &str, side: Side) -> Result<Option<Self>> {
        let rounds: Vec<&StoredRound> =
            run.rounds.iter().filter(|r| r.point == point_id && r.side == side).collect();
        if rounds.is_empty() {
            return Ok(None);
        }
        let data = store.load_rounds(&run.id, &rounds)?;
        Ok(Some(Self { run, rounds, data, slo: slo_of(run, point_id) }))
    }

    fn inputs(&self) -> Vec<RoundInput<'_>> {
        self.rounds.iter().zip(&self.data).map(|(r, d)| input(r, d)).collect()
    }

    fn point_data(&self, unit: Unit) -> PointData {
        let Self { run, rounds, data, slo } = self;
        let inputs = self.inputs();
        let mut by_start: BTreeMap<(u32, u32, u32), Vec<usize>> = BTreeMap::new();
        for (place, round) in rounds.iter().enumerate() {
            let pass = if unit == Unit::Round { round.round } else { 0 };
            by_start.entry((round.block, round.start, pass)).or_default().push(place);
        }
        let starts = by_start
            .into_values()
            .map(|places| {
                let of_start: Vec<RoundInput<'_>> =
                    places.iter().map(|place| inputs[*place]).collect();
                measured_start(run, &of_start, summary::summarise(&of_start, *slo), unit)
            })
            .collect();
        let pooled = summary::summarise(&inputs, *slo);
        let records = || data.iter().flat_map(|d| &d.records);
        PointData {
            side: MeasuredSide { pooled, starts },
            samples: samples(data),
            lengths: lengths(data),
            slowest: slowest(records()),
            failed: failed(records()),
            series: rounds.last().zip(data.last()).map(|(r, d)| series(r, d)).unwrap_or_default(),
        }
    }
}

fn slo_of(run: &StoredRun, point_id: &str) -> Option<Slo> {
    run.points.iter().find(|p| p.id == point_id).and_then(|p| p.point.slo)
}

/// What a run measured at one load point on one side; `None` if it measured nothing.
pub(crate) fn point_data(
    store: &Store,
    run: &StoredRun,
    point_id: &str,
    side: Side,
    unit: Unit,
) -> Result<Option<PointData>> {
    Ok(ReadPoint::read(store, run, point_id, side)?.map(|read| read.point_data(unit)))
}

/// What several runs measured at one load point, as one: starts side by side, samples together, the
/// summary over all rounds. Each run is read once.
pub(crate) fn pooled_data(
    store: &Store,
    runs: &[StoredRun],
    point_id: &str,
    side: Side,
) -> Result<Option<PointData>> {
    let mut all = Vec::new();
    for run in runs {
        all.extend(ReadPoint::read(store, run, point_id, side)?);
    }
    let parts = all.iter().map(|read| read.point_data(Unit::of(read.run.design)));
    let mut joined = joined(parts);
    if let Some(joined) = joined.as_mut().filter(|_| all.len() > 1) {
        let inputs: Vec<RoundInput<'_>> = all.iter().flat_map(ReadPoint::inputs).collect();
        let slo = runs.iter().find_map(|run| slo_of(run, point_id));
        joined.side.pooled = summary::summarise(&inputs, slo);
        joined.slowest = slowest(joined.slowest.iter());
        joined.failed.truncate(MOST_SHOWN);
    }
    Ok(joined)
}

/// The first that failed with evidence; what we stopped is no failure.
fn failed<'a>(records: impl Iterator<Item = &'a RequestRecord>) -> Vec<RequestRecord> {
    let with_evidence = |r: &&RequestRecord| r.outcome == Outcome::Failed && r.evidence.is_some();
    records.filter(with_evidence).take(MOST_SHOWN).cloned().collect()
}

fn input<'a>(round: &'a StoredRound, data: &'a RoundData) -> RoundInput<'a> {
    RoundInput { round, records: &data.records, itl: &data.itl, icl: &data.icl }
}

fn measured_start(
    run: &StoredRun,
    rounds: &[RoundInput<'_>],
    summary: Summary,
    unit: Unit,
) -> MeasuredStart {
    let first = rounds[0].round;
    let identity = run
        .starts
        .iter()
        .find(|s| s.side == first.side && s.start == first.start)
        .and_then(|s| s.identity.clone());
    MeasuredStart {
        run: run.id.clone(),
        block: if unit == Unit::Round { first.round } else { first.block },
        start: first.start,
        seed: first.seed,
        at: first.at,
        identity,
        status: worst(rounds.iter().map(|r| r.round.status)),
        server: rounds.iter().fold(ServerState::Ran, |w, r| w.worse(r.round.server.clone())),
        contradiction: contradiction(run, &first.point),
        health: rounds.iter().map(|r| r.round.health.clone()).collect(),
        warm_up: rounds.last().and_then(|r| r.round.warm_up),
        attempted: summary.completed + summary.failed,
        summary,
        ttft_trend: summary::steadiness::thirds_ratio(rounds[0].records),
    }
}

/// What an import found contradictory in the file of a load point.
fn contradiction(run: &StoredRun, point: &str) -> Option<String> {
    let found = run.findings.iter().find(|finding| {
        matches!(finding.code, FindingCode::Contradiction | FindingCode::CountsDiffer)
            && finding.point.as_deref() == Some(point)
    });
    found.map(|finding| finding.text.clone())
}

/// The worst of several statuses.
pub(crate) fn worst(statuses: impl Iterator<Item = RoundStatus>) -> RoundStatus {
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
    let measured: Vec<_> = data.iter().flat_map(|d| &d.records).filter(|r| r.is_sample()).collect();
    let step = measured.len().div_ceil(MOST_SAMPLES).max(1);
    let thinned = || measured.iter().step_by(step);
    Samples {
        ttft_ms: thinned().filter_map(|r| r.ttft_ms()).collect(),
        tpot_ms: thinned().filter_map(|r| r.tpot_ms()).collect(),
        e2el_ms: thinned().filter_map(|r| r.e2el_ms()).collect(),
    }
}

fn lengths(data: &[RoundData]) -> Lengths {
    let measured: Vec<_> = data.iter().flat_map(|d| &d.records).filter(|r| r.is_sample()).collect();
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

fn slowest<'a>(records: impl Iterator<Item = &'a RequestRecord>) -> Vec<RequestRecord> {
    // Without its end nobody knows how slow a request was.
    let timed = records.filter(|r| r.is_sample()).filter_map(|r| Some((r.e2el_ms()?, r)));
    let mut timed: Vec<_> = timed.collect();
    timed.sort_by(|a, b| b.0.total_cmp(&a.0));
    timed.into_iter().take(MOST_SHOWN).map(|(_, record)| record.clone()).collect()
}

fn series(round: &StoredRound, data: &RoundData) -> BTreeMap<String, Vec<(f64, f64)>> {
    let mut series = own_series(round, data);
    if !round.itl_by_position_ms.is_empty() {
        #[allow(clippy::cast_precision_loss)] // positions of tokens
        let points = round.itl_by_position_ms.iter().map(|(token, ms)| (*token as f64, *ms));
        series.insert("itl_by_position_ms".to_owned(), points.collect());
    }
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

/// The client's own view of a round over time, in seconds since the window opened.
fn own_series(round: &StoredRound, data: &RoundData) -> BTreeMap<String, Vec<(f64, f64)>> {
    let seen = Series::of(&input(round, data));
    let bin = |value: fn(&summary::series::Bin) -> f64| {
        seen.bins.iter().map(|b| (b.at_s - seen.open_s, value(b))).collect::<Vec<_>>()
    };
    let errors = |b: &summary::series::Bin| f64::from(b.failures);
    let dots = seen.dots.iter().map(|d| (d.at_s - seen.open_s, d.ttft_ms)).collect();
    BTreeMap::from([
        ("in_flight".to_owned(), bin(|b| b.in_flight)),
        ("request_rate".to_owned(), bin(|b| b.completions_per_s)),
        ("errors".to_owned(), bin(errors)),
        ("ttft_ms".to_owned(), dots),
    ])
}

/// Several runs of one load point as one, all but what has to be drawn from all of them again.
fn joined(mut parts: impl Iterator<Item = PointData>) -> Option<PointData> {
    let mut first = parts.next()?;
    for part in parts {
        first.side.starts.extend(part.side.starts);
        first.samples.ttft_ms.extend(part.samples.ttft_ms);
        first.samples.tpot_ms.extend(part.samples.tpot_ms);
        first.samples.e2el_ms.extend(part.samples.e2el_ms);
        first.slowest.extend(part.slowest);
        first.failed.extend(part.failed);
        first.series = part.series;
    }
    Some(first)
}

/// 95 % intervals of values over starts (t on logarithms), by the measure's name; where there are
/// at least three starts.
pub(crate) fn intervals(starts: &[MeasuredStart]) -> BTreeMap<String, (f64, f64)> {
    let mut found = BTreeMap::new();
    let distributions = Metric::DISTRIBUTIONS.into_iter().flat_map(|metric| {
        Statistic::ALL.into_iter().map(move |statistic| Measure::of(metric, statistic))
    });
    for measure in distributions.chain([Measure::QPS, Measure::THROUGHPUT]) {
        let logs: Vec<f64> = starts
            .iter()
            .filter_map(|s| s.summary.get(measure))
            .filter(|v| *v > 0.0)
            .map(f64::ln)
            .collect();
        if logs.len() < 3 || logs.len() < starts.len() {
            continue;
        }
        if let Some(estimate) = crate::stats::t_test::trimmed(&logs, 0) {
            let half = crate::stats::distribution::t_upper(0.025, estimate.df) * estimate.se;
            let ends = ((estimate.mean - half).exp(), (estimate.mean + half).exp());
            found.insert(measure.name(), ends);
        }
    }
    found
}
