//! The budget: what a plan gives up so that it fits the time there is.

use std::time::Duration;

use super::{Design, Phase, Plan};
use crate::scenario::Load;
use crate::units;

/// Fewer measured requests than this give no mean worth a verdict (docs/statistics.md, section 5).
const LEAST_REQUESTS: u32 = 30;
/// Fewer requests at rate 1 leave the denominator of every multiple too rough.
const LEAST_REFERENCE_REQUESTS: u32 = 10;
/// Fewer pairs of restarts than this are not judged by their own spread.
const LEAST_PAIRS: u32 = 5;
/// 0.9 to the 60th is below 0.2 %: below every least count.
const MAX_STEPS: u32 = 60;

impl Plan {
    /// Shrinks the plan to fit `budget` if the server is as fast as expected, and lists in
    /// `given_up` what that took: first requests of each round (not below 30 and not below the concurrency), then of the
    /// reference (not below 10), then starts (not below one a side). What still does not fit is said.
    ///
    /// The workload hash follows the counts; the caller notes prompt files again.
    pub fn shrink(&mut self, budget: Duration) {
        let budget_s = budget.as_secs_f64();
        let fits = |plan: &Self| plan.estimate(&plan.expected).seconds <= budget_s;
        if fits(self) {
            return;
        }
        for (phase, what, least) in [
            (Phase::Load, "requests a round", LEAST_REQUESTS),
            (Phase::Search, "requests a load", LEAST_REQUESTS),
            (Phase::Reference, "requests of the reference", LEAST_REFERENCE_REQUESTS),
        ] {
            let before = self.requests(phase);
            for _ in 0..MAX_STEPS {
                if fits(self) || !self.cut_requests(phase, least) {
                    break;
                }
            }
            let after = self.requests(phase);
            if after < before {
                let (before, after) = (units::count(before), units::count(after));
                self.given_up.push(format!("{what}: {after} in place of {before} (first start)"));
            }
        }
        let blocks = self.blocks();
        let mut kept = blocks;
        while kept > 1 && !fits(self) {
            kept -= 1;
            self.starts.retain(|start| start.block < kept);
        }
        if kept < blocks {
            self.given_up.push(format!("restarts: {kept} in place of {blocks}"));
        }
        if self.design == Design::Interleaved && kept < LEAST_PAIRS {
            let pairs = if kept == 1 { "pair" } else { "pairs" };
            let text = format!(
                "fits {kept} {pairs} of restarts: fewer than {LEAST_PAIRS} decide only gross changes"
            );
            self.given_up.push(text);
        }
        let needed_s = self.estimate(&self.expected).seconds;
        if needed_s > budget_s {
            self.given_up.push(format!(
                "even so about {} are needed, not {}: choose fewer load points",
                units::duration(needed_s),
                units::duration(budget_s)
            ));
        }
        self.note_datasets(&std::collections::BTreeMap::new());
    }

    fn blocks(&self) -> u32 {
        self.starts.iter().map(|start| start.block + 1).max().unwrap_or(0)
    }

    /// The measured requests of the first start in this phase.
    fn requests(&self, phase: Phase) -> u64 {
        let rounds = self.starts.first().map(|start| start.rounds.as_slice()).unwrap_or_default();
        let of_phase = rounds.iter().filter(|round| round.phase == phase);
        of_phase.map(|round| u64::from(round.stop.requests)).sum()
    }

    /// Takes a tenth of the requests and of the time from every round of the phase; whether any
    /// round had something to give.
    fn cut_requests(&mut self, phase: Phase, least: u32) -> bool {
        let mut gave = false;
        for round in self.starts.iter_mut().flat_map(|start| &mut start.rounds) {
            if round.phase != phase {
                continue;
            }
            let stop = &mut round.stop;
            // In whole numbers, rounded down, so that it always falls.
            let requests = u32::try_from(u64::from(stop.requests) * 9 / 10).unwrap_or(0);
            // A window shorter than one refill of all slots would measure nothing steady.
            let least = match round.point.load {
                Load::Concurrency(n) => least.max(n),
                Load::RequestRate(_) => least,
            };
            if stop.requests > least {
                stop.requests = requests.max(least);
                gave = true;
            }
            if stop.min_time_s > 1.0 {
                stop.min_time_s = (stop.min_time_s * 0.9).max(1.0);
                stop.max_time_s = 2.0 * stop.min_time_s;
                gave = true;
            }
        }
        gave
    }
}
