//! The trend of a baseline over nights.

use inferometer::compare::side::ComparedSide;
use inferometer::compare::trend::Trend;
use inferometer::metric::Measure;
use inferometer::report::trend::render;
use inferometer::rng::Seed;

use super::modes::{DAY_S, contender, start};

/// Thirty nights of three starts; from the 21st on everything takes 5 % longer.
fn nights(shift: f64, seed: u64) -> ComparedSide {
    let starts = (0..30_u32).flat_map(|night| {
        (0..3_u32).map(move |of_night| {
            let seed = Seed(seed).nth(night.into());
            let noise =
                0.006 * (seed.unit() - 0.5) + 0.006 * (seed.nth(of_night.into()).unit() - 0.5);
            let level = if night >= 20 { shift } else { 1.0 };
            let at = i64::from(night) * DAY_S + 900 * i64::from(of_night);
            let identity = format!("boot {night} {of_night}");
            start(3 * night + of_night, at, Some(&identity), 10.0 * level * (1.0 + noise))
        })
    });
    contender("main", starts.collect())
}

#[test]
fn a_shift_of_five_percent_at_night_21_is_dated_and_measured() {
    for seed in 1..=5 {
        let trend = Trend::of(&nights(1.05, seed), 0.0);
        let series = trend.series.iter().find(|it| it.measure == Measure::TPOT_MEAN).unwrap();
        assert_eq!(series.nights.len(), 30);
        assert!(series.nights.iter().all(|night| night.starts == 3));
        let [change] = &series.changes[..] else { panic!("seed {seed}: {:?}", series.changes) };
        assert_eq!(change.night, 20, "seed {seed}");
        assert!(change.worse && (change.change - 0.05).abs() < 0.005, "seed {seed}: {change:?}");
        assert!(change.interval.0 < change.change && change.change < change.interval.1);
        assert!(change.found_after <= 24, "seed {seed}: {change:?}");
        let throughput = trend.series.iter().find(|it| it.measure == Measure::THROUGHPUT).unwrap();
        assert!(throughput.changes[0].worse && throughput.changes[0].change < 0.0);
    }
}

#[test]
fn the_date_and_the_size_are_printed() {
    let text = render(&Trend::of(&nights(1.05, 1), 0.0));
    // 1,700,000,000 s is 2023-11-14; the 21st night is twenty days later.
    assert!(text.contains("since 2023-12-04") && text.contains("(worse)"), "{text}");
    assert!(text.starts_with("Trend of main: 30 nights"), "{text}");
    let tpot = text.lines().find(|line| line.starts_with("TPOT mean")).unwrap();
    assert!(tpot.contains("+4.") || tpot.contains("+5."), "{tpot}");
}

#[test]
fn nights_without_a_shift_have_no_change_and_few_nights_say_so() {
    let calm = render(&Trend::of(&nights(1.0, 3), 0.0));
    assert!(calm.contains("No change of level found."), "{calm}");
    let mut few = nights(1.05, 1);
    few.points[0].starts.truncate(9);
    assert!(render(&Trend::of(&few, 0.0)).contains("Too few nights"));
}
