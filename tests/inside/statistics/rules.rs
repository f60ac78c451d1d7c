//! The rules of the decision, one by one.

use crate::inside::acceptance::world::{Effect, Starts, World};
use inferometer::compare::cell::{Cell, Role};
use inferometer::compare::decide::decide;
use inferometer::compare::decision::{Decision, Flag, Reason};
use inferometer::compare::options::{DeviationTest, ErrorTerm, Levels, Options};
use inferometer::compare::verdict::Verdict;
use inferometer::metric::Measure;
use inferometer::rng::Seed;

const SAME: Effect = Effect::Everywhere(0.0);

fn sides(base: &[f64], new: &[f64]) -> Cell {
    let some = |values: &[f64]| values.iter().copied().map(Some).collect();
    Cell::gated(0, Measure::ITL_P50, some(base), some(new))
}

#[test]
fn equal_pairs_are_no_change() {
    let values = [10.0, 10.1, 10.2, 9.9, 10.0];
    let cell = Cell { resolution: 1e-4, ..sides(&values, &values) };
    let decision = decide(&[cell], &Options::default());
    assert_eq!(decision.cells[0].verdict, Verdict::Unchanged);
    assert_eq!(decision.cells[0].change(), Some(0.0));
}

#[test]
fn a_constant_shift_is_invalid_unless_the_resolution_explains_it() {
    let (base, new) = ([10.0; 6], [10.2; 6]);
    let raw = decide(&[sides(&base, &new)], &Options::default());
    assert_eq!(raw.cells[0].verdict, Verdict::Invalid);
    assert_eq!(raw.cells[0].reason, Some(Reason::NoVariation));
    assert_eq!(raw.tested, 0);
    let cell = Cell { resolution: 1e-4, ..sides(&base, &new) };
    let resolved = decide(&[cell], &Options::default());
    assert_eq!(resolved.cells[0].verdict, Verdict::Regressed);
    assert!(resolved.regressed());
}

#[test]
fn what_cannot_be_judged_is_said_and_never_gates() {
    let mut cell = sides(&[10.0, 10.1, 9.9, 10.0, 10.05], &[20.0, 20.3, 19.9, 20.1, 20.0]);
    cell.new[1] = None;
    let decision = decide(std::slice::from_ref(&cell), &Options::default());
    assert_eq!(decision.cells[0].verdict, Verdict::Inconclusive);
    assert_eq!(decision.cells[0].reason, Some(Reason::TooFewBlocks { have: 4, need: 5 }));
    assert!(!decision.changed());
    let advice = Options { error_term: ErrorTerm::Advice, ..Options::default() };
    let decision = decide(std::slice::from_ref(&cell), &advice);
    assert_eq!(decision.cells[0].reason, Some(Reason::AdviceOnly));
    assert!(decision.cells[0].change().unwrap() > 0.9 && !decision.changed());
    cell.new.fill(None);
    let decision = decide(&[cell], &Options::default());
    assert_eq!(decision.cells[0].verdict, Verdict::Invalid);
    assert_eq!(decision.cells[0].reason, Some(Reason::NoValues));
    assert_eq!(decide(&[], &Options::default()).cells.len(), 0);
}

#[test]
fn observed_cells_are_judged_but_do_not_gate() {
    let slower =
        sides(&[10.0, 10.1, 9.9, 10.0, 10.05, 10.1], &[20.0, 20.3, 19.9, 20.1, 20.0, 20.2]);
    let cell = Cell { role: Role::Observed, ..slower };
    let decision = decide(&[cell], &Options::default());
    assert_eq!(decision.cells[0].verdict, Verdict::Regressed);
    assert!(!decision.regressed() && !decision.changed());
    assert_eq!(decision.tested, 0);
}

#[test]
fn the_same_cells_give_the_same_decision() {
    let cells = World::simulated(8).report(Starts::blocks(8), SAME, Seed(6));
    assert_eq!(decide(&cells, &Options::default()), decide(&cells, &Options::default()));
    let blocks = decide(&cells, &Options::default()).cells[8].blocks_needed();
    // TPOT: a pair spread of 1.85 % finds 3 % among 32 cells in about 16 blocks.
    assert!((8..=30).contains(&blocks.unwrap()), "{blocks:?}");
}

/// Nine load points with little noise, the first of them `slower` on the new side.
fn nine_points(starts: Starts, slower: f64) -> Vec<Cell> {
    let mut world = World::simulated(9);
    world.cells.retain(|cell| cell.measure == Measure::TPOT_MEAN);
    world.report(starts, Effect::OneScenario(slower), Seed(8))
}

#[test]
fn one_bad_load_point_deviates_in_the_unpaired_mode_too() {
    let unpaired = ErrorTerm::Unpaired { day_sd: 0.02 };
    let options = Options { error_term: unpaired, ..Options::default() };
    let decision = decide(&nine_points(Starts { base: 12, new: 10 }, 0.10), &options);
    // A spread of 2 % between days hides 10 % from the cell's own test, but not from this one:
    // the day is common to all load points.
    assert_eq!(decision.cells[0].own, Flag::None);
    assert_eq!(decision.cells[0].deviation.unwrap().flag, Flag::Regressed);
    assert_eq!(decision.cells[0].verdict, Verdict::Regressed);
    assert!(decision.regressed());
    assert!(decision.cells[1..].iter().all(|cell| cell.verdict != Verdict::Regressed));
    let off = Options { deviation: DeviationTest::Off, ..options };
    let decision = decide(&nine_points(Starts { base: 12, new: 10 }, 0.10), &off);
    assert!(!decision.regressed() && decision.cells[0].deviation.is_none());
}

#[test]
fn a_missing_start_leaves_its_block_out_of_the_mean_over_load_points() {
    let mut cells = nine_points(Starts::blocks(8), 0.0);
    let whole = decide(&cells, &Options::default());
    assert_eq!(whole.suite[0].estimate.df, 6.0);
    cells[3].new[2] = None;
    let decision = decide(&cells, &Options::default());
    assert_eq!((decision.cells[3].blocks, decision.cells[0].blocks), (7, 8));
    assert_eq!(decision.suite[0].estimate.df, 6.0);
    assert!(!decision.changed());
}

#[test]
fn more_throughput_is_better() {
    let worse = |measure| {
        let base: Vec<_> = [10.0, 10.1, 9.9, 10.0, 10.05, 10.1].map(Some).to_vec();
        let new = base.iter().map(|v| v.map(|v| v * 1.5)).rev().collect();
        let decision = decide(&[Cell::gated(0, measure, base, new)], &Options::default());
        let cell = &decision.cells[0];
        let range = cell.change_ci95().unwrap();
        assert!(range.low < 0.5 && 0.5 < range.high, "{range:?}");
        assert!((cell.change().unwrap() - 0.5).abs() < 1e-9);
        cell.verdict
    };
    assert_eq!(worse(Measure::THROUGHPUT), Verdict::Improved);
    assert_eq!(worse(Measure::TPOT_MEAN), Verdict::Regressed);
}

#[test]
fn looks_share_the_error() {
    let cells = World::simulated(6).report(Starts::blocks(8), SAME, Seed(9));
    let once = decide(&cells, &Options::default());
    let thrice = decide(&cells, &Options { looks: 3, ..Options::default() });
    let levels = Levels { cells: 0.005 / 3.0, suite: 0.002 / 3.0, deviation: 0.002 / 3.0 };
    let direct = Options { levels, ..Options::default() };
    assert_eq!(thrice, decide(&cells, &direct));
    let detectable = |decision: &Decision| decision.cells[0].test.unwrap().detectable;
    assert!(detectable(&thrice) > detectable(&once));
}
