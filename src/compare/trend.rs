//! The trend of a baseline: each number of each load point over the nights, and where its level changed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use super::calibration::nights;
use super::side::{ComparedPoint, ComparedSide, first_seen, identity};
use crate::diagnose::validity;
use crate::metric::{Better, Measure};
use crate::plan::Phase;
use crate::record::stored::RoundStatus;
use crate::stats::change_points::{
    ChangePoint, LEAST_SEGMENT, LEAST_SEGMENT_OF_FEW_STARTS, change_points,
};
use crate::stats::moments::mean;
use crate::summary::measured::MeasuredStart;

/// Nights with fewer starts than this may be bad as a whole by one bad start.
const STARTS_OF_A_SOUND_NIGHT: usize = 3;

/// The numbers that are followed.
const FOLLOWED: [Measure; 5] = [
    Measure::SLO_CAPACITY,
    Measure::THROUGHPUT,
    Measure::TPOT_MEAN,
    Measure::ITL_P50,
    Measure::TTFT_P50,
];

/// What was measured of each start, with the log of its value.
type Starts<'a> = BTreeMap<&'a str, Vec<(&'a MeasuredStart, f64)>>;

/// What a baseline's nights show.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trend {
    /// The baseline's name.
    pub name: String,
    /// Each number of each load point.
    pub series: Vec<TrendSeries>,
}

/// One number of one load point, night by night.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrendSeries {
    /// The load point's id.
    pub point: String,
    /// The number.
    pub measure: Measure,
    /// The nights that have a value, in order.
    pub nights: Vec<Night>,
    /// Where the level changed.
    pub changes: Vec<LevelChange>,
}

/// A night: starts less than six hours apart.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Night {
    /// When its first start was measured, UTC.
    pub at: Timestamp,
    /// The geometric mean over its starts, in the measure's unit.
    pub value: f64,
    /// How many starts.
    pub starts: usize,
    /// Its runs.
    pub runs: Vec<String>,
}

/// The first night of a new level.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LevelChange {
    /// Index of that night in the series.
    pub night: usize,
    /// Its time.
    pub at: Timestamp,
    /// How many nights had been measured when the change was found.
    pub found_after: usize,
    /// The new level over the one before, minus one.
    pub change: f64,
    /// Its 95 % interval.
    pub interval: (f64, f64),
    /// Whether that is worse.
    pub worse: bool,
}

impl Trend {
    /// The trend of a side whose starts were gathered over nights. `idle_lag_ms` as in
    /// [`validity::faults`].
    #[must_use]
    pub fn of(side: &ComparedSide, idle_lag_ms: f64) -> Self {
        let points: Vec<&ComparedPoint> =
            side.points.iter().filter(|point| point.phase != Phase::Reference).collect();
        let mut series = Vec::new();
        for measure in FOLLOWED {
            let of_measure: Vec<(&str, Vec<Night>)> = points
                .iter()
                .map(|point| (point.id.as_str(), nights_of(point, measure, idle_lag_ms)))
                .filter(|(_, nights)| !nights.is_empty())
                .collect();
            let family = of_measure.len();
            series.extend(of_measure.into_iter().map(|(point, nights)| TrendSeries {
                point: point.to_owned(),
                measure,
                changes: changes(&nights, measure, family),
                nights,
            }));
        }
        Self { name: side.label.clone(), series }
    }

    /// Whether the newest level of any series is worse than the one before.
    #[must_use]
    pub fn is_worse(&self) -> bool {
        self.series.iter().filter_map(|series| series.changes.last()).any(|change| change.worse)
    }
}

/// The nights of one number; those without a valid start are missing.
fn nights_of(point: &ComparedPoint, measure: Measure, idle_lag_ms: f64) -> Vec<Night> {
    let seen = first_seen(point.starts.iter());
    let times: Vec<i64> = seen.values().copied().collect();
    let night: BTreeMap<&str, usize> = seen.into_keys().zip(nights(&times)).collect();
    let mut by_night: BTreeMap<usize, Starts<'_>> = BTreeMap::new();
    for start in &point.starts {
        let Some(value) = value(start, point, measure, idle_lag_ms) else { continue };
        let name = identity(start);
        let starts = by_night.entry(night.get(name).copied().unwrap_or(0)).or_default();
        starts.entry(name).or_default().push((start, value.ln()));
    }
    by_night.into_values().filter_map(|starts| one_night(&starts)).collect()
}

fn one_night(starts: &Starts<'_>) -> Option<Night> {
    let of_start = |measured: &Vec<(&MeasuredStart, f64)>| {
        mean(&measured.iter().map(|(_, log)| *log).collect::<Vec<_>>())
    };
    let logs: Vec<f64> = starts.values().filter_map(of_start).collect();
    let all = || starts.values().flatten().map(|(start, _)| start);
    let mut runs: Vec<String> = all().map(|start| start.run.clone()).collect();
    runs.sort();
    runs.dedup();
    Some(Night {
        at: all().map(|start| start.at).min()?,
        value: mean(&logs)?.exp(),
        starts: starts.len(),
        runs,
    })
}

fn value(
    start: &MeasuredStart,
    point: &ComparedPoint,
    measure: Measure,
    idle_lag_ms: f64,
) -> Option<f64> {
    let enough = start.summary.completed >= validity::least_requests(measure);
    let saturated = start.status == RoundStatus::Saturated;
    let faulty = || {
        validity::faults(start, &point.point, idle_lag_ms)
            .iter()
            .any(|fault| validity::touches(fault.reach, measure))
    };
    (enough && !saturated && !faulty()).then_some(())?;
    start.summary.get(measure).filter(|value| *value > 0.0 && value.is_finite())
}

/// The changes of level; `family` series of the measure are tested together.
fn changes(nights: &[Night], measure: Measure, family: usize) -> Vec<LevelChange> {
    let logs: Vec<f64> = nights.iter().map(|night| night.value.ln()).collect();
    let sound = nights.iter().all(|night| night.starts >= STARTS_OF_A_SOUND_NIGHT);
    let least = if sound { LEAST_SEGMENT } else { LEAST_SEGMENT_OF_FEW_STARTS };
    let worse_up = measure.metric.better() == Better::Lower;
    let change = |point: ChangePoint| LevelChange {
        night: point.at,
        at: nights[point.at].at,
        found_after: point.found_after,
        change: point.shift.exp_m1(),
        interval: (point.ci95.low.exp_m1(), point.ci95.high.exp_m1()),
        worse: (point.shift > 0.0) == worse_up,
    };
    change_points(&logs, least, family).into_iter().map(change).collect()
}
