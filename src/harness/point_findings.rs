//! Findings of each load point, gathered while a run goes on.

use super::session::Session;
use crate::diagnose::point::PointNotes;
use crate::drive::RoundOutcome;
use crate::plan::{RoundPlan, Side};
use crate::record::StoredRound;
use crate::record::stored::StoredSide;
use crate::summary::Summary;

impl Session<'_> {
    /// Notes what a round told.
    pub(super) fn note(
        &mut self,
        round: &StoredRound,
        outcome: &RoundOutcome,
        summary: &Summary,
        plan: &RoundPlan,
    ) {
        let key = (round.side, round.point.clone());
        let new = || PointNotes::new(plan, self.store.idle_lag_ms());
        let notes = self.notes.entry(key).or_insert_with(new);
        notes.add(round, outcome, summary);
    }

    /// Reports what the rounds of each load point said of the client and the load, once.
    pub(super) fn tell_health(&mut self) {
        let notes = std::mem::take(&mut self.notes);
        if let Some(missing) = self.proof.missing().filter(|_| !notes.is_empty()) {
            self.find(missing);
        }
        let two_sides = self.sides.len() > 1 || notes.keys().any(|(side, _)| *side == Side::Base);
        for stored in self.run.points.clone() {
            for side in [Side::Base, Side::New] {
                let Some(here) = notes.get(&(side, stored.id.clone())) else { continue };
                let lower = notes.iter().filter(|((s, _), n)| *s == side && n.is_below(here));
                let below = lower
                    .map(|(_, n)| n)
                    .max_by(|a, b| a.point.load.level().total_cmp(&b.point.load.level()));
                let slots = self.run.sides.get(&side).and_then(StoredSide::slots);
                for mut finding in here.findings(below, &self.proof, slots) {
                    if two_sides {
                        finding.text = format!("{}: {}", side.name(), finding.text);
                    }
                    self.find(finding.at(stored.id.clone()));
                }
            }
        }
    }
}
