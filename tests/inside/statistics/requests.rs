//! How often the verdict and its intervals are right on simulated requests, in virtual time.

use crate::inside::acceptance::Figure;
use crate::inside::acceptance::capacity::{Axis, gate_figures, search_figures};
use crate::inside::acceptance::requests::{Amount, crossover_figure, hull_coverage, tail_figures};
use crate::inside::acceptance::server::{Load, Round, Start};
use inferometer::rng::Seed;
use inferometer::stats::moments::mean;
use inferometer::stats::quantile::quantile;

/// Few reports, so that the tests end soon; `examples/calibration.rs` has the full number.
fn hold(figures: &[Figure]) {
    println!("{figures:#?}");
    let outside: Vec<_> = figures.iter().filter(|figure| !figure.is_near_accepted()).collect();
    assert!(outside.is_empty(), "{outside:#?}");
}

#[test]
fn the_simulated_server_is_the_published_one() {
    // TPOT, TTFT p50 and p99 in ms; requests per second where they are reported.
    let published = [
        (Load::Closed(1), &[6.1, 16.0, 67.0][..]),
        (Load::Closed(16), &[7.8, 17.0, 73.0]),
        (Load::Closed(64), &[13.3, 22.0, 91.0, 33.0]),
        (Load::Poisson(28.0), &[11.5, 29.0, 126.0, 28.0]),
    ];
    for (load, theirs) in published {
        let rounds: Vec<Round> =
            (0..8).map(|start| Start::new(Seed(61), "base", start, 1.0).round(load, 512)).collect();
        let pooled = |of: fn(&Round) -> Vec<f64>| rounds.iter().flat_map(of).collect::<Vec<_>>();
        let ttfts = pooled(Round::ttfts_ms);
        let of = |q| quantile(&ttfts, q).unwrap();
        let qps = mean(&rounds.iter().map(|round| round.qps).collect::<Vec<_>>()).unwrap();
        let ours = [mean(&pooled(Round::tpots_ms)).unwrap(), of(0.5), of(0.99), qps];
        println!("{load:?}: {ours:.1?}, published {theirs:?}");
        for ((ours, theirs), within) in ours.into_iter().zip(theirs).zip([0.05, 0.06, 0.08, 0.05]) {
            assert!((ours / theirs - 1.0).abs() < within, "{load:?}: {ours}, not {theirs}");
        }
    }
}

#[test]
fn ten_percent_at_the_tail_is_found_in_twelve_blocks_of_512() {
    hold(&tail_figures(20, Seed(63)));
}

#[test]
fn the_hull_holds_the_true_quantile_where_order_statistics_do_not() {
    let amount = Amount { reports: 80, truth_starts: 120 };
    // Of p50, p90 and p99, over 1000 reports (docs/statistics.md, section 9).
    for (load, expected) in
        [(Load::Closed(16), [0.963, 0.956, 0.974]), (Load::Poisson(28.0), [0.960, 0.948, 0.897])]
    {
        let coverage = hull_coverage(load, amount, Seed(64));
        println!("{load:?}: {coverage:?}");
        for (coverage, expected) in coverage.iter().zip(expected) {
            let error = f64::sqrt(expected * (1.0 - expected) / f64::from(amount.reports));
            assert!(coverage.hull >= expected - 3.0 * error, "{load:?}: {coverage:?}");
        }
        // Requests that wait in one queue are not independent.
        let queued = matches!(load, Load::Poisson(_));
        assert!(!queued || coverage[0].order < 0.80, "{coverage:?}");
    }
}

#[test]
fn the_jackknife_holds_the_true_crossover() {
    hold(&[crossover_figure(Amount { reports: 30, truth_starts: 30 }, Seed(65))]);
}

#[test]
fn a_search_finds_the_true_capacity_within_5_percent() {
    let amount = Amount { reports: 20, truth_starts: 16 };
    hold(&search_figures(Axis::Concurrency, amount, Seed(66)));
    hold(&search_figures(Axis::Rate, amount, Seed(67)));
}

#[test]
fn a_capacity_that_is_5_percent_smaller_fails_the_gate() {
    hold(&gate_figures(Amount { reports: 10, truth_starts: 12 }, Seed(68)));
}
