//! The gate: what fails, with which code, and what comes first.

use inferometer::compare::design::{DaySpread, Pairing};
use inferometer::compare::gate::gate;
use inferometer::compare::{Comparison, Verdict};
use inferometer::metric::Measure;
use inferometer::settings::JudgeSettings;

use super::modes::{contender, judged, starts};

fn compared(factor: f64) -> Comparison {
    let base = contender("a", starts(6, 0, 0, 1.0));
    let new = contender("b", starts(6, 1, 0, factor));
    judged(&base, &new, Pairing::Blocks, DaySpread::None)
}

fn code(comparison: &Comparison, change: impl FnOnce(&mut JudgeSettings)) -> u8 {
    let mut settings = JudgeSettings::default();
    change(&mut settings);
    gate(comparison, &settings).exit_code
}

#[test]
fn a_regression_fails_and_observing_never_does() {
    let slower = compared(1.1);
    assert_eq!(code(&slower, |_| {}), 1);
    assert_eq!(code(&slower, |s| s.no_fail = true), 0);
    assert_eq!(code(&compared(1.0), |_| {}), 0);
    assert_eq!(code(&compared(0.9), |_| {}), 0, "an improvement is fine");
}

#[test]
fn inconclusive_fails_only_where_it_is_asked_to() {
    let mut unsure = compared(1.0);
    unsure.cells[0].verdict = Verdict::Inconclusive;
    assert!(unsure.cells[0].gated);
    assert_eq!(code(&unsure, |_| {}), 0);
    assert_eq!(code(&unsure, |s| s.fail_on_inconclusive = true), 1);
}

#[test]
fn a_gain_that_is_too_good_is_not_a_pass_unless_it_is_accepted() {
    let halved = compared(0.45);
    assert_eq!(code(&halved, |_| {}), 4);
    assert_eq!(code(&halved, |s| s.accept_gain = true), 0);
}

#[test]
fn a_regression_outranks_an_invalid_figure() {
    let mut mixed = compared(1.1);
    mixed.cells[0].verdict = Verdict::Invalid;
    assert_eq!(code(&mixed, |_| {}), 1);
    mixed.suite.clear();
    for cell in &mut mixed.cells[1..] {
        cell.verdict = Verdict::Unchanged;
    }
    assert_eq!(code(&mixed, |_| {}), 4);
}

#[test]
fn nothing_measured_is_not_a_pass() {
    let mut nothing = compared(1.0);
    nothing.cells.clear();
    assert_eq!(code(&nothing, |_| {}), 4);
}

#[test]
fn only_the_named_figures_gate() {
    let base = contender("a", starts(6, 0, 0, 1.0));
    let new = contender("b", starts(6, 1, 0, 1.1));
    let settings = JudgeSettings { gate: Some(vec![Measure::ITL_P99]), ..JudgeSettings::default() };
    let standing =
        inferometer::compare::design::standing(&base, &new, Pairing::Blocks, DaySpread::None, "");
    let judging = inferometer::compare::design::Judging {
        standing: &standing,
        settings: &settings,
        looks: 1,
        idle_lag_ms: 0.0,
        calibration: None,
    };
    let found = inferometer::compare::judge::judge(&base, &new, &judging);
    let gated: Vec<Measure> = found.cells.iter().filter(|c| c.gated).map(|c| c.measure).collect();
    assert_eq!(gated, [Measure::ITL_P99, Measure::ERROR_RATE]);
    // Just at 10 %, its floor: found or not, it decides alone.
    assert_eq!(found.gate.exit_code, u8::from(found.has_changed()));
}
