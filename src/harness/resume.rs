//! Taking up a run that was interrupted or killed: what is whole is kept, the rest runs again.
//!
//! A block is kept whole or not at all: half a block would pair a start with one of another hour.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::plan::{Plan, StartPlan};
use crate::record::stored::{RoundStatus, RunStatus};
use crate::record::{Finding, FindingCode, Severity, StoredRun};
use crate::store::Store;

/// How often a run was taken up, among its settings.
const RESUMED: &str = "resumed";

/// The stored run without its unfinished blocks; `plan` keeps the blocks that are missing. Seeds
/// are the plan's and so the same; so is the salt of the prompts.
pub(super) fn take_up(
    store: &Store,
    run_id: &str,
    plan: &mut Plan,
    fresh: &StoredRun,
) -> Result<StoredRun> {
    if plan.searches() {
        return Err(Error::usage("a search cannot be taken up again")
            .with_hint("leave `--resume` out: what it tried so far is no part of a new search"));
    }
    let mut run = store.load_run(run_id)?;
    if run.status == RunStatus::Complete {
        return Err(Error::usage(format!("run `{run_id}` is complete"))
            .with_hint("leave `--resume` out to measure anew"));
    }
    if (&run.workload_hash, run.design, run.seed)
        != (&fresh.workload_hash, fresh.design, fresh.seed)
    {
        return Err(Error::usage(format!("run `{run_id}` did other work than is asked for now"))
            .with_hint("give the same scenarios, loads, counts and seed as then"));
    }
    let whole = whole_blocks(&run, &plan.starts);
    run.rounds.retain(|round| whole.contains(&round.block));
    run.starts.retain(|start| whole.contains(&start.block));
    let planned = u32::try_from(plan.starts.len()).unwrap_or(u32::MAX);
    plan.starts.retain(|start| !whole.contains(&start.block));
    let times = run.settings.get(RESUMED).and_then(|text| text.parse().ok()).unwrap_or(0_u32) + 1;
    // Requests of the unfinished starts are still on disk: what runs again needs names of its own.
    for start in &mut plan.starts {
        start.start += planned.saturating_mul(times);
    }
    run.settings.insert(RESUMED.to_owned(), times.to_string());
    run.status = RunStatus::Running;
    run.ended_at = None;
    let text = format!(
        "taken up at {} after an interruption: {} whole restarts were kept",
        fresh.started_at,
        whole.len()
    );
    run.findings.push(Finding::new(FindingCode::Resumed, Severity::Note, text));
    Ok(run)
}

/// That records of which only a part was stored were removed.
pub(super) fn cut(records: usize) -> Option<Finding> {
    let what = if records == 1 { "1 record was" } else { &format!("{records} records were") };
    let text = format!("{what} cut short on disk by a kill or a full disk, and removed");
    (records > 0).then(|| Finding::new(FindingCode::Resumed, Severity::Note, text))
}

/// The blocks of which every planned round is there.
fn whole_blocks(run: &StoredRun, starts: &[StartPlan]) -> BTreeSet<u32> {
    let is_whole = |start: &StartPlan| {
        let of_start = |block, side| block == start.block && side == start.side;
        let failed = run.starts.iter().any(|s| of_start(s.block, s.side) && s.failure.is_some());
        // A sweep that stops at saturation leaves rounds out: it went on to a later block.
        let went_on = run.starts.iter().any(|s| s.block > start.block);
        let all_there = start.rounds.iter().all(|planned| {
            run.rounds.iter().any(|round| {
                of_start(round.block, round.side)
                    && round.point == planned.point.id()
                    && round.round == planned.round
                    && round.status != RoundStatus::Interrupted
            })
        });
        !failed && (all_there || went_on)
    };
    let blocks: BTreeSet<u32> = starts.iter().map(|start| start.block).collect();
    let of_block = |block: u32| starts.iter().filter(move |start| start.block == block);
    blocks.into_iter().filter(|block| of_block(*block).all(is_whole)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inside::kept;
    use crate::plan::{Phase, RoundPlan, StopRule};

    /// Three blocks of one start with one round each.
    fn planned(run: &StoredRun) -> Vec<StartPlan> {
        let stop = StopRule { requests: 4, min_time_s: 0.0, max_time_s: 60.0 };
        let point = run.points[0].point.clone();
        let round = kept::round(0);
        let (seed, side) = (round.seed, round.side);
        let plan = RoundPlan { phase: Phase::Load, point, round: 0, seed, stop, first_prompt: 0 };
        let start = |block| StartPlan { side, block, start: block, rounds: vec![plan.clone()] };
        (0..3).map(start).collect()
    }

    #[test]
    fn a_block_is_kept_only_where_its_rounds_are_there_and_its_start_did_not_fail() {
        let mut run = kept::run("20260102T030405Z-x");
        let starts = planned(&run);
        assert_eq!(whole_blocks(&run, &starts), BTreeSet::new());
        let begun = run.starts[0].clone();
        run.starts =
            (0..3).map(|block| crate::record::StoredStart { block, ..begun.clone() }).collect();
        run.rounds = (0..3).map(kept::round).collect();
        assert_eq!(whole_blocks(&run, &starts), BTreeSet::from([0, 1, 2]));
        // A round that was cut, and a start that failed after its rounds.
        run.rounds[2].status = RoundStatus::Interrupted;
        run.starts[1].failure = Some("it died".to_owned());
        assert_eq!(whole_blocks(&run, &starts), BTreeSet::from([0]));
        // A sweep that stopped at saturation leaves its later rounds out and goes on.
        run.rounds.retain(|round| round.block != 0);
        assert_eq!(whole_blocks(&run, &starts), BTreeSet::from([0]));
    }
}
