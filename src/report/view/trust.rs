//! The view of trust: modes, starts, requests, the gate's reasons, and how many findings there are.

use super::mode_sentence;
use crate::compare::gate_reason::NOTHING_MEASURED;
use crate::compare::{Cell, Comparison, GateCause, GateReason, Mode, Verdict};
use crate::record::Severity;
use crate::report::ReportInput;
use crate::units;
use crate::units::plural;

/// Longest words of a server.
const MESSAGE_LIMIT: usize = 160;

/// What was said at the first failure whose words were kept.
pub(super) fn first_failure(input: &ReportInput) -> Option<String> {
    let sides = input.points.iter().filter_map(|p| p.side(input.subject()));
    let mut failed = sides.flat_map(|side| &side.failed);
    let message = failed.find_map(|r| Some(r.evidence.as_deref()?.message.clone()))?;
    Some(super::shorten(&message, MESSAGE_LIMIT))
}

/// Whether the gate's reason is that of a number which is shown with its verdict anyway.
fn is_told_anyway(comparison: &Comparison, reason: &GateReason) -> bool {
    let mut cells = comparison.cells.iter().filter(|c| super::is_told(c) && c.gated);
    let cause = &reason.cause;
    (!cause.is_gain() && cells.any(|c| cause.is_of_cell(&c.point, c.measure)))
        || matches!(cause, GateCause::Suite(_))
}

/// Whether to believe it: mode, restarts, advice, findings.
#[must_use]
pub fn trust(input: &ReportInput) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(modes(input));
    let mut reasons: Vec<&GateReason> = Vec::new();
    for comparison in &input.comparisons {
        let of_gate = comparison.gate.reasons.iter().filter(|r| !is_told_anyway(comparison, r));
        let of_gate: Vec<&GateReason> = of_gate.take(3).collect();
        let more = comparison.advice.iter().chain(of_gate.iter().map(|reason| &reason.text));
        for line in more {
            if !lines.contains(line) {
                lines.push(line.clone());
            }
        }
        reasons.extend(of_gate);
    }
    if input.comparisons.is_empty() {
        let starts = input.run().map_or(0, |r| r.starts.len());
        lines.push(format!("{} of the server", plural(starts, "start")));
        reasons.extend(input.gate.reasons.iter().take(3));
        lines.extend(reasons.iter().map(|reason| reason.text.clone()));
    }
    let (completed, _) = super::requests(input);
    let known = reasons.iter().any(|reason| reason.cause == GateCause::NothingMeasured);
    lines.extend(measured(input).or((!known).then(|| NOTHING_MEASURED.to_owned())));
    if let Some(said) = first_failure(input).filter(|_| completed == 0) {
        lines.push(format!("the first failure: {said}"));
        return lines;
    }
    let findings = input.all_findings();
    // Counted as they are reported: those of a kind together.
    let mut findings = findings;
    findings.retain(|f| f.severity > Severity::Note);
    let grave = super::findings::findings(&findings).len();
    let silent =
        |c: &&Cell| c.gated && matches!(c.verdict, Verdict::Invalid | Verdict::Incomparable);
    let silent = input.comparisons.iter().flat_map(|c| &c.cells).filter(silent).count();
    lines.push(match grave {
        0 if silent > 0 => {
            format!("{} not valid; the table says why", plural(silent, "gated number"))
        }
        0 => "no errors or warnings".to_owned(),
        1 => "1 error or warning below".to_owned(),
        n => format!("{n} errors and warnings below"),
    });
    lines
}

/// Facts that trust rests on: modes or starts, and the requests.
#[must_use]
pub fn facts(input: &ReportInput) -> Vec<String> {
    let mut lines = modes(input);
    if input.comparisons.is_empty() {
        let starts = input.run().map_or(0, |r| r.starts.len());
        lines.push(plural(starts, "server start"));
    }
    lines.extend(measured(input));
    lines
}

/// How the comparisons came about; those that came about alike are reported together.
fn modes(input: &ReportInput) -> Vec<String> {
    let mut told: Vec<(String, Vec<&str>)> = Vec::new();
    for comparison in &input.comparisons {
        let each = match (comparison.mode, comparison.blocks) {
            (Mode::SingleStart, 0 | 1) | (_, 0) => String::new(), // the sentence says it
            (_, blocks) => format!("; {} a side", plural(blocks as usize, "restart")),
        };
        let sentence = format!("{}{each}", mode_sentence(comparison));
        match told.iter_mut().find(|(known, _)| *known == sentence) {
            Some((_, names)) => names.push(&comparison.new_label),
            None => told.push((sentence, vec![&comparison.new_label])),
        }
    }
    let alone = told.len() == 1;
    let line = |(sentence, names): (String, Vec<&str>)| match alone {
        true => sentence,
        false => format!("{}: {sentence}", names.join(", ")),
    };
    told.into_iter().map(line).collect()
}

/// The measured requests of all sides, and how many failed; `None` if there are none.
fn measured(input: &ReportInput) -> Option<String> {
    let sides = input.points.iter().flat_map(|p| p.sides.iter().flatten());
    let (completed, failed) = sides.fold((0, 0), |(completed, failed), side| {
        (completed + side.summary.completed, failed + side.summary.failed)
    });
    let all = units::count(completed + failed);
    let over = match input.sides.len() {
        0 | 1 => String::new(),
        n => format!(" of {n} sides"),
    };
    match failed {
        0 if completed == 0 => None,
        0 => Some(format!("{all} measured requests{over}, none failed")),
        n => Some(format!("{all} measured requests{over}, {} failed", units::count(n))),
    }
}
