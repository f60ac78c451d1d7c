//! What counts as a start, and how starts meet.

use std::collections::BTreeSet;

use inferometer::compare::design::{DaySpread, Pairing};
use inferometer::compare::side::ComparedSide;
use inferometer::compare::{Mode, Verdict};
use inferometer::metric::Metric;
use inferometer::summary::measured::MeasuredStart;

use super::modes::{DAY_S, contender, judged, start, starts, step};

#[test]
fn six_runs_of_one_process_are_one_start_and_give_no_verdict() {
    let base = contender("main", starts(6, 0, 0, 1.0));
    // A plain URL that does not tell when its process began.
    let runs = (0..6).map(|run| start(run, DAY_S + i64::from(run) * 60, None, 11.0));
    let new = contender("new", runs.collect());
    assert_eq!((base.distinct_starts(), new.distinct_starts()), (6, 1));
    let found = judged(&base, &new, Pairing::PlainUrl, DaySpread::Unknown);
    assert!(found.advice.as_ref().unwrap().contains("one start against 6 starts"));
    assert!(
        found.cells.iter().all(|cell| !matches!(
            cell.verdict,
            Verdict::Regressed | Verdict::Improved | Verdict::Unchanged
        ) || cell.measure.metric == Metric::ErrorRate),
        "{:?}",
        found.cells
    );
    // Nor are six nights of it nights of a history.
    let nights = (0..6).map(|run| start(run, i64::from(run) * DAY_S, None, 10.0));
    let found =
        judged(&contender("main", nights.collect()), &new, Pairing::PlainUrl, DaySpread::Unknown);
    assert_eq!(found.mode, Mode::SingleStart);
}

#[test]
fn few_pairs_call_only_what_no_restart_makes() {
    let pairs = |count, factor| {
        let base = contender("a", starts(count, 0, 0, 1.0));
        judged(
            &base,
            &contender("b", starts(count, 1, 0, factor)),
            Pairing::Blocks,
            DaySpread::None,
        )
    };
    let found = pairs(4, 1.1);
    assert_eq!((found.mode, step(&found).verdict), (Mode::Interleaved, Verdict::Inconclusive));
    assert!(found.advice.as_ref().unwrap().contains("4 pairs of restarts"), "{:?}", found.advice);
    assert!(step(&found).blocks_needed.unwrap() >= 5);
    let found = pairs(1, 2.0);
    assert_eq!((step(&found).verdict, found.gate.exit_code), (Verdict::Regressed, 1));
    assert!(found.advice.as_ref().unwrap().contains("1 pair of restarts"), "{:?}", found.advice);
}

#[test]
fn the_order_within_pairs_takes_a_drift_out() {
    let ordinal = |block: u32, second: bool| 2 * block + u32::from(second);
    let side = |factor: f64, is_new: bool| -> Vec<MeasuredStart> {
        let place = |mut start: MeasuredStart| {
            let second = is_new == start.block.is_multiple_of(2);
            start.start = ordinal(start.block, second);
            // The second start of each pair is 3 % slower.
            let slower = if second { 1.03 } else { 1.0 };
            let ms = 10.0 * factor * slower * (1.0 + 0.0005 * f64::from((start.block * 5) % 3));
            MeasuredStart { start: start.start, ..super::modes::start(start.block, 0, None, ms) }
        };
        starts(8, 0, 0, 1.0).into_iter().map(place).collect()
    };
    let (base, new) = (contender("a", side(1.0, false)), contender("b", side(1.01, true)));
    let found = judged(&base, &new, Pairing::Blocks, DaySpread::None);
    assert_eq!(step(&found).verdict, Verdict::Regressed, "{:?}", step(&found));
    assert!((step(&found).change.unwrap() - 0.01).abs() < 0.001);
}

#[test]
fn another_client_machine_is_told() {
    let base = contender("a", starts(6, 0, 0, 1.0));
    let mut new = contender("b", starts(6, 1, 0, 1.0));
    let told = |base: &ComparedSide, new: &ComparedSide| {
        let found = judged(base, new, Pairing::Restarted, DaySpread::None);
        found.notes.iter().any(|note| note.text.contains("machines of the client differ"))
    };
    assert!(!told(&base, &new));
    let mut other = base.clone();
    other.facts.clients = BTreeSet::from(["A, 4 cores".into()]);
    assert!(!told(&other, &new), "not known on one side");
    new.facts.clients = BTreeSet::from(["B, 2 cores".into()]);
    assert!(told(&other, &new));
}
