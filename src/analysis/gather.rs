//! What stands on disk of all sides, load point by load point, gathered for a report.

use std::collections::BTreeMap;

use super::measure::{self, PointData};
use super::runs::{RunSet, contender_point};
use super::search::Searched;
use crate::compare::capacity::SloCapacity;
use crate::compare::knee::{self, Knee, LoadCurve};
use crate::compare::side::ComparedSide;
use crate::error::Result;
use crate::metric::Measure;
use crate::plan::Phase;
use crate::record::ServerState;
use crate::record::stored::StoredPoint;
use crate::report::{PointInput, PointSide, SideInput, StartSummary};
use crate::store::Store;
use crate::summary::measured::MeasuredSide;

/// Side, group and scenario → its load points with what was measured there.
pub(super) type Curves = BTreeMap<(usize, String, String), Vec<(StoredPoint, MeasuredSide)>>;

/// What stands on disk of all sides.
pub(super) struct Gathered {
    pub(super) points: Vec<PointInput>,
    pub(super) contenders: Vec<ComparedSide>,
    pub(super) curves: Curves,
    pub(super) capacities: Vec<SloCapacity>,
}

pub(super) fn gather(store: &Store, factions: &[RunSet]) -> Result<Gathered> {
    let mut points: Vec<PointInput> = Vec::new();
    let mut contenders: Vec<ComparedSide> = factions.iter().map(RunSet::contender).collect();
    let mut curves: Curves = BTreeMap::new();
    let mut searched = vec![Searched::default(); factions.len()];
    for listed in listed_points(factions) {
        let mut sides = Vec::new();
        for (place, faction) in factions.iter().enumerate() {
            let data = faction.pooled(store, &listed.id)?;
            if let Some(data) = &data {
                // Each side by its own word for the load point: the lengths may differ.
                let own = faction.points().into_iter().find(|point| point.id == listed.id);
                let own = own.unwrap_or_else(|| listed.clone());
                if own.phase == Phase::Search {
                    searched[place].add(own, data.side.clone());
                } else {
                    contenders[place].points.push(contender_point(&own, data));
                }
                let key = (place, listed.point.group.clone(), listed.point.scenario.clone());
                curves.entry(key).or_default().push((listed.clone(), data.side.clone()));
            }
            sides.push(data.map(point_side));
        }
        points.push(PointInput {
            id: listed.id.clone(),
            phase: listed.phase,
            point: listed.point.clone(),
            sides,
        });
    }
    let mut capacities = Vec::new();
    for (place, searched) in searched.iter().enumerate() {
        for (found, point) in searched.capacities(place) {
            capacities.push(found);
            contenders[place].points.push(point);
        }
    }
    Ok(Gathered { points, contenders, curves, capacities })
}

pub(super) fn side_input(faction: &RunSet) -> SideInput {
    SideInput { name: faction.name.clone(), side: faction.side, runs: faction.runs.clone() }
}

/// The load points of all sides, each once, those of the last side first in order.
fn listed_points(factions: &[RunSet]) -> Vec<StoredPoint> {
    let mut listed: Vec<StoredPoint> = Vec::new();
    for point in factions.iter().rev().flat_map(RunSet::points) {
        if !listed.iter().any(|known| known.id == point.id) {
            listed.push(point);
        }
    }
    run_up(&mut listed);
    listed
}

/// Orders the loads that a search tried upwards, scenario by scenario in the order they first came.
fn run_up(listed: &mut [StoredPoint]) {
    let scenario = |point: &StoredPoint| (point.point.group.clone(), point.point.scenario.clone());
    let mut scenarios = Vec::new();
    for point in listed.iter().filter(|point| point.phase == Phase::Search) {
        if !scenarios.contains(&scenario(point)) {
            scenarios.push(scenario(point));
        }
    }
    let searched = |point: &StoredPoint| point.phase == Phase::Search;
    for part in listed.chunk_by_mut(|a, b| searched(a) == searched(b)) {
        if part.first().is_some_and(searched) {
            part.sort_by(|a, b| {
                let place = |p: &StoredPoint| scenarios.iter().position(|s| *s == scenario(p));
                let (a_level, b_level) = (a.point.load.level(), b.point.load.level());
                place(a).cmp(&place(b)).then(a_level.total_cmp(&b_level))
            });
        }
    }
}

pub(super) fn knees(curves: &Curves) -> Vec<Knee> {
    let mut found = Vec::new();
    for ((side, _, _), members) in curves {
        let loads: Vec<_> = members.iter().filter(|(p, _)| p.phase == Phase::Load).collect();
        let Some((first, _)) = loads.first() else { continue };
        let reference =
            curves.iter().filter(|((s, _, _), _)| s == side).flat_map(|(_, members)| members).find(
                |(p, _)| {
                    p.phase == Phase::Reference
                        && p.point.input == first.point.input
                        && p.point.output == first.point.output
                        && p.point.prompt == first.point.prompt
                },
            );
        let curve = LoadCurve {
            reference: reference.map(|(_, measured)| measured),
            points: loads.iter().map(|(p, measured)| (&p.point, measured)).collect(),
            side: *side,
        };
        found.extend(knee::knee(&curve, Measure::E2EL_MEAN));
    }
    found
}

fn point_side(data: PointData) -> PointSide {
    let rounds = || data.side.starts.iter().flat_map(|s| &s.health);
    let lag = |h: &&crate::record::stored::Health| h.schedule_lag_p99_ms.unwrap_or(0.0);
    let health = rounds().max_by(|a, b| lag(a).total_cmp(&lag(b))).cloned().unwrap_or_default();
    PointSide {
        summary: data.side.pooled.clone(),
        starts: data
            .side
            .starts
            .iter()
            .map(|s| StartSummary { block: s.block, start: s.start, summary: s.summary.clone() })
            .collect(),
        status: measure::worst(data.side.starts.iter().map(|s| s.status)),
        server: data
            .side
            .starts
            .iter()
            .fold(ServerState::Ran, |worst, s| worst.worse(s.server.clone())),
        health,
        warm_up: data.side.starts.last().and_then(|s| s.warm_up),
        intervals: measure::intervals(&data.side.starts),
        samples: data.samples,
        series: data.series,
        slowest: data.slowest,
        failed: data.failed,
        lengths: data.lengths,
    }
}
