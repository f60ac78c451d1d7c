//! Searches: the loads that a side tried, gathered to the SLO capacity of each scenario.

use crate::compare::capacity::{self, SloCapacity, TriedLoad};
use crate::compare::side::ComparedPoint;
use crate::record::stored::StoredPoint;
use crate::summary::measured::MeasuredSide;

/// The loads tried on one side, each with what was measured there.
#[derive(Debug, Clone, Default)]
pub(super) struct Searched(Vec<(StoredPoint, MeasuredSide)>);

impl Searched {
    pub(super) fn add(&mut self, point: StoredPoint, measured: MeasuredSide) {
        self.0.push((point, measured));
    }

    /// What the search of each scenario found, in the order of the loads, and the load point that
    /// stands for it in comparisons.
    pub(super) fn capacities(&self, side: usize) -> Vec<(SloCapacity, ComparedPoint)> {
        let scenario =
            |point: &StoredPoint| (point.point.group.clone(), point.point.scenario.clone());
        let mut scenarios = Vec::new();
        for (point, _) in &self.0 {
            if !scenarios.contains(&scenario(point)) {
                scenarios.push(scenario(point));
            }
        }
        let found = scenarios.iter().filter_map(|wanted| {
            let here = self.0.iter().filter(|(point, _)| scenario(point) == *wanted);
            let loads: Vec<TriedLoad<'_>> =
                here.map(|(point, measured)| TriedLoad { point: &point.point, measured }).collect();
            capacity::capacity(&loads, side)
        });
        found.collect()
    }
}
