//! The search for the SLO capacity within a start: load after load, until it is known to a step.

use super::round::{RoundResult, in_flight};
use super::session::Session;
use crate::error::Result;
use crate::plan::search::Search;
use crate::plan::{Phase, Plan, RoundPlan, StartPlan, starts};
use crate::record::stored::{RoundStatus, StoredPoint};
use crate::report::progress::Event;
use crate::scenario::Slo;

impl Session<'_> {
    /// Searches from the planned load on. What was tried are rounds of the run like any others.
    pub(super) async fn search(&mut self, start: &StartPlan, begin: &RoundPlan) -> Result<()> {
        let Some(slo) = begin.point.slo else { return Ok(()) };
        let mut search = Search::from(begin.point.load);
        let first_prompt = Plan::first_prompt(start, begin);
        let mut sent = 0;
        while let Some(load) = search.next() {
            if sent > 0 {
                self.cool_down().await;
            }
            if self.is_interrupted() {
                return Ok(());
            }
            let mut round = starts::at_load(begin, load, self.settings, start.block);
            // Each load takes prompts of its own from a file: a prefix cache would serve the second asking.
            round.first_prompt = first_prompt + sent;
            self.list(&round);
            let Some(result) = self.round(start, &round).await? else { return Ok(()) };
            sent +=
                result.summary.completed + result.summary.failed + 2 * u64::from(in_flight(load));
            let met = result.summary.meets(&slo, result.status).unwrap_or(false);
            search.note(load, met);
            let text = told(&round, &result, &slo, met);
            self.reporter.event(&Event::Note { text: &text });
        }
        Ok(())
    }

    /// Adds a load to the points of the run, once.
    fn list(&mut self, round: &RoundPlan) {
        let id = round.point.id();
        if self.run.points.iter().all(|known| known.id != id) {
            let point = round.point.clone();
            self.run.points.push(StoredPoint { id, phase: Phase::Search, point });
        }
    }
}

/// `chat/short/c44: 97.2 % good, meets the SLO`.
fn told(round: &RoundPlan, result: &RoundResult, slo: &Slo, met: bool) -> String {
    let id = round.point.id();
    let share = result.summary.good_share().unwrap_or(0.0) * 100.0;
    let limit = result.summary.good.and_then(|counts| counts.limit());
    let why = match (met, limit) {
        (true, _) => "meets the SLO".to_owned(),
        (false, _) if result.status == RoundStatus::Saturated => {
            "misses the SLO: its backlog grows".to_owned()
        }
        (false, _) if share >= slo.least_share() * 100.0 => {
            "misses the SLO by failed requests".to_owned()
        }
        (false, Some(limit)) => format!("misses the SLO by {limit}"),
        (false, None) => "misses the SLO by failed requests".to_owned(),
    };
    format!("{id}: {share:.1} % good, {why}")
}
