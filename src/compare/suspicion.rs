//! Suspicion: a single night that alarms is called changed only when something confirms it.
//!
//! One night may be bad for reasons that no restart of it shares with the next (docs/statistics.md,
//! section 2). An alarm is confirmed by the median of five restarts of that night, by two new
//! nights or more, or by a change beyond what restarts are assumed to make at all.

use super::cell::Cell;
use super::decision::{CellResult, Decision, Flag, Reason, SuiteResult};
use super::options::{ErrorTerm, Levels, Options};
use super::verdict::Verdict;

/// The decision with what nothing confirms taken back.
/// `decide_once` decides without this rule.
pub(super) fn confirmed(
    cells: &[Cell],
    options: &Options,
    decision: Decision,
    decide_once: impl Fn(&[Cell], &Options) -> Decision,
) -> Decision {
    let nights = |side: fn(&Cell) -> &Vec<Option<f64>>| {
        cells.iter().map(|cell| side(cell).iter().flatten().count()).max().unwrap_or(0)
    };
    if nights(|cell| &cell.new) > 1 {
        return decision;
    }
    let medians: Vec<Cell> =
        cells.iter().map(|cell| Cell { new: vec![cell.night_median], ..cell.clone() }).collect();
    let by_median = decide_once(&medians, options);
    let base_days = nights(|cell| &cell.base);
    let bound = Options {
        levels: Levels::of_bound(options.levels.total()),
        error_term: ErrorTerm::Assumed { base_days, new_days: 1 },
        ..*options
    };
    let by_bound = decide_once(cells, &bound);
    let others = by_median.cells.iter().zip(&by_bound.cells);
    let cells = decision.cells.into_iter().zip(others).map(|(cell, (median, bound))| {
        let alarms = flags(&cell) != [Flag::None; 2];
        let beyond = cell.own != Flag::None && bound.own == cell.own;
        let holds = flags(&cell) == flags(median) || beyond;
        if alarms && !holds { suspected(cell) } else { cell }
    });
    let suite = decision.suite.into_iter().map(|suite| {
        let median = by_median.suite.iter().find(|other| other.measure == suite.measure);
        match median.is_some_and(|median| median.flag == suite.flag) {
            true => suite,
            false => SuiteResult { flag: Flag::None, ..suite },
        }
    });
    Decision { cells: cells.collect(), suite: suite.collect(), tested: decision.tested }
}

/// What a cell's own test and its deviation found.
fn flags(cell: &CellResult) -> [Flag; 2] {
    [cell.own, cell.deviation.map_or(Flag::None, |deviation| deviation.flag)]
}

fn suspected(mut cell: CellResult) -> CellResult {
    cell.own = Flag::None;
    if let Some(deviation) = &mut cell.deviation {
        deviation.flag = Flag::None;
    }
    CellResult { verdict: Verdict::Inconclusive, reason: Some(Reason::Suspected), ..cell }
}
