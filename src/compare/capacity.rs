//! The SLO capacity of a scenario: the highest load that meets its SLO, searched for within each start.

use std::collections::BTreeMap;

use super::side::ComparedPoint;
use crate::metric::Measure;
use crate::plan::Phase;
use crate::plan::search::{self, Tried};
use crate::record::stored::RoundStatus;
use crate::scenario::{Load, LoadPoint, Slo};
use crate::stats::Interval;
use crate::stats::distribution::t_upper;
use crate::stats::moments::{mean, sd};
use crate::summary::good::GoodCounts;
use crate::summary::measured::{MeasuredSide, MeasuredStart};
use crate::units::significant;

/// What a search found on one side.
#[derive(Debug, Clone, PartialEq)]
pub struct SloCapacity {
    /// The group's name.
    pub group: String,
    /// The scenario's name.
    pub scenario: String,
    /// Which side, by its place in the report.
    pub side: usize,
    /// What was raised.
    pub axis: Axis,
    /// The SLO.
    pub slo: Slo,
    /// Each start with what was tried there.
    pub starts: Vec<SearchedStart>,
    /// The geometric mean over the starts that found one.
    pub value: Option<f64>,
    /// Its 95 % interval, from two starts on.
    pub interval: Option<Interval>,
    /// What stopped most requests just above it.
    pub limited_by: Option<&'static str>,
}

/// What a search raises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Requests in flight.
    Concurrency,
    /// Requests per second.
    Rate,
}

impl Axis {
    /// What its numbers count.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Concurrency => "concurrent requests",
            Self::Rate => "req/s",
        }
    }
}

/// One start of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchedStart {
    /// Which block.
    pub block: u32,
    /// Its loads, from the lowest to the highest.
    pub tried: Vec<Tried>,
    /// What they come to.
    pub capacity: Option<search::Capacity>,
}

/// A load that was tried, on one side.
#[derive(Debug, Clone, Copy)]
pub struct TriedLoad<'a> {
    /// The load point.
    pub point: &'a LoadPoint,
    /// What was measured there.
    pub measured: &'a MeasuredSide,
}

/// One start at one load.
struct Row<'a> {
    tried: Tried,
    at: jiff::Timestamp,
    start: &'a MeasuredStart,
}

/// The capacity of one scenario on one side, and the load point that stands for it in comparisons;
/// `None` without loads or SLO.
#[must_use]
pub fn capacity(loads: &[TriedLoad<'_>], side: usize) -> Option<(SloCapacity, ComparedPoint)> {
    let first = loads.first()?.point;
    let slo = first.slo?;
    let by_start = rows(loads, &slo);
    let (mut starts, mut points, mut stops) = (Vec::new(), Vec::new(), Vec::new());
    for rows in by_start.values() {
        let tried: Vec<Tried> = rows.iter().map(|row| row.tried).collect();
        let capacity = search::capacity(&tried);
        stops.extend(rows.iter().find(|row| !row.tried.met).map(|row| row.start));
        let value = match capacity {
            Some(search::Capacity::At(value)) => Some(value),
            _ => None,
        };
        points.extend(as_start(rows, value));
        let block = rows.first().map_or(0, |row| row.start.block);
        starts.push(SearchedStart { block, tried, capacity });
    }
    let axis = match first.load {
        Load::Concurrency(_) => Axis::Concurrency,
        Load::RequestRate(_) => Axis::Rate,
    };
    let logs: Vec<f64> = starts.iter().filter_map(SearchedStart::value).map(f64::ln).collect();
    let found = SloCapacity {
        group: first.group.clone(),
        scenario: first.scenario.clone(),
        side,
        axis,
        slo,
        starts,
        value: mean(&logs).map(f64::exp),
        interval: interval(&logs),
        limited_by: limited_by(&stops),
    };
    let point = ComparedPoint {
        id: found.id(),
        phase: Phase::Search,
        point: LoadPoint { load: standing_in(axis), ..first.clone() },
        starts: points,
    };
    Some((found, point))
}

/// The load of the load point that stands for a capacity: the same in every run.
fn standing_in(axis: Axis) -> Load {
    match axis {
        Axis::Concurrency => Load::concurrency(1),
        Axis::Rate => Load::request_rate(1.0).into(),
    }
}

/// The loads of each start, from the lowest to the highest.
fn rows<'a>(loads: &[TriedLoad<'a>], slo: &Slo) -> BTreeMap<(String, u32, u32), Vec<Row<'a>>> {
    let mut by_start: BTreeMap<_, Vec<Row<'a>>> = BTreeMap::new();
    for load in loads {
        for start in &load.measured.starts {
            let tried = Tried {
                level: load.point.load.level(),
                good_share: start.summary.good_share().unwrap_or(0.0),
                excess: start.summary.slo_excess.unwrap_or(f64::INFINITY),
                met: start.summary.meets(slo, start.status).unwrap_or(false),
            };
            let row = Row { tried, at: start.at, start };
            by_start.entry((start.run.clone(), start.block, start.start)).or_default().push(row);
        }
    }
    for rows in by_start.values_mut() {
        rows.sort_by(|a, b| a.tried.level.total_cmp(&b.tried.level));
    }
    by_start
}

/// The highest load that met the SLO below the lowest that missed it, and that one.
fn about<'a, 'b>(rows: &'b [Row<'a>]) -> impl Iterator<Item = &'b Row<'a>> {
    let missed = rows.iter().position(|row| !row.tried.met).unwrap_or(rows.len());
    rows.iter().skip(missed.saturating_sub(1)).take(2)
}

/// A start of the load point that stands for the capacity: what was measured first there, with the
/// health of the rounds that decide it.
fn as_start(rows: &[Row<'_>], value: Option<f64>) -> Option<MeasuredStart> {
    let first = rows.iter().min_by_key(|row| row.at)?.start;
    let mut start = first.clone();
    start.status = RoundStatus::Complete;
    start.health = about(rows).flat_map(|row| row.start.health.clone()).collect();
    let summary = &mut start.summary;
    // Failures above the capacity are what a search looks for.
    summary.failed = 0;
    summary.failures.clear();
    summary.completed = rows.iter().map(|row| row.start.summary.completed).sum();
    (summary.input_tokens, summary.output_tokens) = (0, 0);
    summary.slo_capacity = value;
    Some(start)
}

/// The 95 % interval of a geometric mean, by t.
#[must_use]
#[allow(clippy::cast_precision_loss)] // a few starts
pub fn interval(logs: &[f64]) -> Option<Interval> {
    let (centre, spread) = (mean(logs)?, sd(logs)?);
    let n = logs.len() as f64;
    let half_width = t_upper(0.025, n - 1.0) * spread / n.sqrt();
    Some(Interval::around(centre, half_width).map(f64::exp))
}

/// What stopped most requests at the lowest load that was missed, over the starts.
fn limited_by(stops: &[&MeasuredStart]) -> Option<&'static str> {
    let all = stops.iter().filter_map(|start| start.summary.good);
    let sum = all.fold(GoodCounts::default(), GoodCounts::plus);
    let failed: u64 = stops.iter().map(|start| start.summary.failed).sum();
    let largest = sum.late.max(sum.slow).max(sum.long);
    match sum.limit() {
        Some(limit) if failed <= largest => Some(limit),
        _ if failed > 0 => Some("failed requests"),
        _ if stops.iter().any(|start| start.status == RoundStatus::Saturated) => {
            Some("a backlog that grows")
        }
        _ => None,
    }
}

impl SearchedStart {
    /// The capacity, where both a load that met the SLO and one that missed it were tried.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        match self.capacity {
            Some(search::Capacity::At(value)) => Some(value),
            _ => None,
        }
    }
}

impl SloCapacity {
    /// The id under which it is compared: `chat/short/capacity`.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}/{}/capacity", self.group, self.scenario)
    }

    /// `SLO met up to 44.1 concurrent requests [41.0, 47.2], limited by TTFT`.
    #[must_use]
    pub fn words(&self) -> String {
        let unit = self.axis.unit();
        let Some(value) = self.value else { return self.bound_words() };
        let interval = match self.interval {
            Some(ci) => format!(" [{}, {}]", significant(ci.low), significant(ci.high)),
            None => " (one start: no interval)".to_owned(),
        };
        let limit = self.limited_by.map(|limit| format!(", limited by {limit}"));
        let without = self.starts.iter().filter(|start| start.value().is_none()).count();
        let without = match without {
            0 => String::new(),
            n => format!("; {n} of {} starts found none", self.starts.len()),
        };
        let limit = limit.unwrap_or_default();
        format!("SLO met up to {} {unit}{interval}{limit}{without}", significant(value))
    }

    fn bound_words(&self) -> String {
        let unit = self.axis.unit();
        let limit = self.limited_by.map(|limit| format!(", by {limit}")).unwrap_or_default();
        match self.starts.iter().find_map(|start| start.capacity) {
            Some(search::Capacity::Below(level)) => {
                format!("SLO missed down to {} {unit}{limit}", significant(level))
            }
            Some(search::Capacity::AtLeast(level)) => {
                format!("SLO met at every load tried, up to {} {unit}", significant(level))
            }
            _ => "no load was tried to its end".to_owned(),
        }
    }
}

impl ComparedPoint {
    /// The measure that stands for a load point that only one side has.
    pub(super) fn shown_measure(&self) -> Measure {
        if self.phase == Phase::Search { Measure::SLO_CAPACITY } else { Measure::TPOT_MEAN }
    }
}
