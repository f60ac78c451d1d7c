//! Failed starts: those that did not get ready, died, or failed every request of a load point.

use std::collections::BTreeMap;

use super::runs::RunSet;
use crate::compare::exit::INVALID;
use crate::compare::gate_reason;
use crate::compare::side::ComparedSide;
use crate::compare::{GateCause, GateResult};
use crate::record::stored::RoundStatus;
use crate::settings::JudgeSettings;
use crate::summary::measured::MeasuredStart;

/// Fails the gate where a side of the judged run has more failed starts than are allowed. Those of
/// a stored baseline were reported when it was measured.
pub(super) fn gate(
    sets: &[RunSet],
    sides: &[ComparedSide],
    settings: &JudgeSettings,
    gate: &mut GateResult,
) {
    let Some(judged) = sets.last().filter(|_| !settings.no_fail) else { return };
    let same_run = |set: &RunSet| {
        set.runs.iter().all(|run| judged.runs.iter().any(|judged| judged.id == run.id))
    };
    for (set, side) in sets.iter().zip(sides).filter(|(set, _)| same_run(set)) {
        let (failed, all) = failed(set, side);
        // A single start that fails is reported by its figures: there is nothing else to show.
        let allowed = usize::try_from(settings.allow_failed_starts).unwrap_or(usize::MAX);
        if all < 2 || failed.len() <= allowed {
            continue;
        }
        if let Some(((_, ordinal), why)) = failed.first_key_value() {
            let first = format!("restart {ordinal}: {why}");
            let text = gate_reason::failed_starts(failed.len(), all, &side.label, &first);
            gate.fail(INVALID, GateCause::FailedStarts, text);
        }
    }
}

/// The failed starts of a side by run and number, each with its reason, and how many were tried.
fn failed(set: &RunSet, side: &ComparedSide) -> (BTreeMap<(String, u32), String>, usize) {
    let tried = set.runs.iter().flat_map(|run| {
        run.starts.iter().filter(|start| start.side == set.side).map(move |start| (run, start))
    });
    let mut failed = BTreeMap::new();
    let mut all = 0;
    for (run, start) in tried {
        all += 1;
        if let Some(why) = &start.failure {
            let first_line = why.lines().next().unwrap_or_default().to_owned();
            failed.insert((run.id.clone(), start.block + 1), first_line);
        }
    }
    for point in side.points.iter().filter(|point| point.phase.is_judged()) {
        // A round that is stopped early for its failures has none among its measured requests.
        let silent = |start: &&MeasuredStart| {
            let stopped = start.status == RoundStatus::Stopped;
            start.summary.completed == 0 && (start.summary.failed > 0 || stopped)
        };
        for start in point.starts.iter().filter(silent) {
            let why = format!("every request of {} failed", point.id);
            failed.entry((start.run.clone(), start.block + 1)).or_insert(why);
        }
    }
    (failed, all)
}
