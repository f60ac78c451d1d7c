//! How often the verdict is right on made-up starts.

use crate::inside::acceptance::world::{Effect, Starts, World};
use crate::inside::acceptance::{Counted, Trial, share, shares, table};
use inferometer::compare::cell::Role;
use inferometer::compare::decide::decide;
use inferometer::compare::options::{ErrorTerm, Options};
use inferometer::metric::Measure;
use inferometer::rng::Seed;

const REPORTS: u32 = 400;
const SAME: Effect = Effect::Everywhere(0.0);

#[test]
fn the_acceptance_table_holds() {
    let outside: Vec<_> = table(REPORTS, Seed(1))
        .into_iter()
        .filter(|figure| !figure.is_accepted() && !figure.is_near_accepted())
        .collect();
    assert!(outside.is_empty(), "{outside:#?}");
}

/// The cells of the H200 that a calibration leaves gated.
fn gated_h200() -> World {
    let mut world = World::h200();
    let calibration = world.report(Starts::blocks(8), SAME, Seed(2));
    let decision = decide(&calibration, &Options::default());
    let gated: Vec<bool> = decision
        .cells
        .iter()
        .map(|cell| Role::by_detectable(cell.test.unwrap().detectable, cell.floor) == Role::Gated)
        .collect();
    let mut gated = gated.into_iter();
    world.cells.retain(|_| gated.next().unwrap());
    world
}

#[test]
fn a_calibration_gates_the_quiet_cells_only() {
    let world = gated_h200();
    let gated = |measure| world.cells.iter().filter(|cell| cell.measure == measure).count();
    assert_eq!(gated(Measure::ITL_P50), 6);
    // The open-loop cells, of 8 and 25 % between starts, are shown and do not gate.
    assert!(world.cells.iter().all(|cell| cell.own_sd < 0.1), "{:?}", world.cells);
}

#[test]
fn an_unchanged_h200_fails_no_gate_in_any_mode() {
    let world = gated_h200();
    let days = World { day_sd: 0.005, ..world.clone() };
    let modes = [
        ("interleaved", &world, Starts::blocks(8), ErrorTerm::Paired),
        ("interleaved, least", &world, Starts::blocks(5), ErrorTerm::Paired),
        ("saved", &days, Starts::blocks(8), ErrorTerm::PairedAcrossDays { day_sd: 0.005 }),
        ("saved, unpaired", &days, Starts::blocks(8), ErrorTerm::Unpaired { day_sd: 0.005 }),
        ("apart", &world, Starts { base: 12, new: 6 }, ErrorTerm::Unpaired { day_sd: 0.0 }),
        ("apart, few", &world, Starts { base: 12, new: 2 }, ErrorTerm::Unpaired { day_sd: 0.0 }),
        ("history", &world, Starts { base: 12, new: 6 }, ErrorTerm::Nights),
        ("history, one night", &world, Starts { base: 10, new: 1 }, ErrorTerm::Nights),
        ("history, least", &world, Starts { base: 3, new: 1 }, ErrorTerm::Nights),
        ("single start", &world, Starts { base: 1, new: 1 }, ErrorTerm::Advice),
    ];
    for (mode, world, starts, error_term) in modes {
        let options = Options { error_term, ..Options::default() };
        // At a true rate of 0.7 % four hundred reports would still pass a bar of 1 % by luck.
        let trial = Trial { starts, effect: SAME, counted: Counted::GateFails, options };
        let counted = [Counted::GateFails, Counted::AnyFlag];
        let [alarms, changes] = shares(world, &trial, counted, 2_000, Seed(3).named(mode));
        println!("{mode}: gate fails {alarms}, any flag {changes}");
        assert!(alarms <= 0.01, "{mode}: {alarms}");
        // Where the spread is far above the floor nothing but the errors of the two families of
        // tests holds back a flag of either direction; their sum bounds both together.
        assert!(changes <= options.levels.total(), "{mode}: {changes}");
    }
}

#[test]
fn a_decode_step_1_percent_slower_is_found_in_nine_blocks() {
    let mut world = World::h200();
    world.cells.retain(|cell| cell.measure == Measure::ITL_P50);
    assert!((world.cells[0].own_sd - 0.0028).abs() < 1e-4);
    let trial = |effect, counted| Trial::paired(9, effect, counted);
    let found = trial(Effect::Everywhere(0.01), Counted::GateFails);
    let found = share(&world, &found, REPORTS, Seed(4));
    assert!(found >= 0.95, "{found}");
    let alarms = share(&world, &trial(SAME, Counted::AnyFlag), REPORTS, Seed(5));
    assert!(alarms <= 0.01, "{alarms}");
}
