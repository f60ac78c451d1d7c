//! `calibrate`: the server against itself, in words.

use std::fmt::Write as _;

use crate::compare::Verdict;
use crate::compare::calibration::{CalibratedTime, PLANNED_BLOCKS, sentences};
use crate::compare::cell::Role;
use crate::harness::Calibrated;
use crate::metric::Measure;
use crate::units;

/// What a calibration found, as text for a terminal.
pub(super) fn describe(calibrated: &Calibrated) -> String {
    let mut text = String::new();
    let Some(time) = calibrated.calibration.times.last() else { return text };
    spread_table(&mut text, time);
    let _ =
        writeln!(text, "\nwhat it takes to find a change ({} gated figures):", calibrated.cells);
    for sentence in sentences(time, &time.cells, calibrated.budget) {
        let _ = writeln!(text, "  {sentence}");
    }
    quiet(&mut text, time);
    days(&mut text, calibrated);
    alarms(&mut text, calibrated);
    text
}

/// A line per load point and figure that can gate.
fn spread_table(text: &mut String, time: &CalibratedTime) {
    let _ = writeln!(
        text,
        "spread of the server against itself, {} pairs of restarts, {} rounds each",
        time.blocks, time.rounds
    );
    let _ = writeln!(
        text,
        "{:<28} {:<14} {:>8} {:>8} {:>8} {:>11} {:>7}",
        "load point", "figure", "rounds", "restarts", "pairs", "detectable", "rounds*"
    );
    let percent = |sd: Option<f64>| match sd {
        Some(sd) => format!("{:.2} %", sd * 100.0),
        None => "–".to_owned(),
    };
    for cell in &time.cells {
        let _ = writeln!(
            text,
            "{:<28} {:<14} {:>8} {:>8} {:>8} {:>11} {:>7}",
            cell.point,
            cell.measure.label(),
            percent(cell.within_sd),
            percent(cell.start_sd),
            percent(Some(cell.pair_sd)),
            units::change(cell.detectable),
            cell.best_rounds.map_or("–".to_owned(), |rounds| rounds.to_string()),
        );
    }
    let _ = writeln!(
        text,
        "detectable: what {PLANNED_BLOCKS} pairs find in 95 of 100 cases; rounds*: the best number of rounds a restart"
    );
}

/// Which figures a gate can rest on.
fn quiet(text: &mut String, time: &CalibratedTime) {
    let gates = [Measure::ITL_P50, Measure::TPOT_MEAN, Measure::THROUGHPUT, Measure::TTFT_P50];
    let can_gate = |cell: &&crate::compare::calibration::CellNoise| gates.contains(&cell.measure);
    let (quiet, noisy): (Vec<_>, Vec<_>) = time.cells.iter().filter(can_gate).partition(|cell| {
        Role::by_detectable(cell.detectable, cell.measure.floor()) == Role::Gated
    });
    let _ = writeln!(text, "\n{} figures are quiet enough to gate", quiet.len());
    for cell in noisy {
        let _ = writeln!(
            text,
            "  observed only: {} at {}: no change below {} is found",
            cell.measure.label(),
            cell.point,
            units::change(cell.detectable)
        );
    }
}

fn days(text: &mut String, calibrated: &Calibrated) {
    let days = calibrated.calibration.days();
    let _ = match days {
        0 | 1 => writeln!(
            text,
            "\ncalibrated on one day: repeat it on another, and saved baselines can be judged too"
        ),
        _ => writeln!(
            text,
            "\ncalibrated on {days} days: saved baselines are judged with the spread between them"
        ),
    };
}

/// Any change of a server against itself is a false alarm.
fn alarms(text: &mut String, calibrated: &Calibrated) {
    let changed = |verdict: Verdict| matches!(verdict, Verdict::Regressed | Verdict::Improved);
    let comparisons = || calibrated.conclusion.report.input().comparisons.iter();
    let cells = comparisons().flat_map(|c| &c.cells).filter(|c| c.gated && changed(c.verdict));
    let cells = cells.map(|c| format!("{} at {}", c.measure.label(), c.point));
    let suites = comparisons().flat_map(|c| &c.suite).filter(|s| changed(s.verdict));
    let suites = suites.map(|s| format!("{} over all load points", s.measure.label()));
    let found: Vec<String> = suites.chain(cells).collect();
    if found.is_empty() {
        let _ = writeln!(text, "no false alarm: the server against itself shows no change");
    }
    for alarm in found {
        let _ = writeln!(
            text,
            "warning: false alarm: {alarm} changed on an unchanged server; this machine is not fit for gating as it stands"
        );
    }
}
