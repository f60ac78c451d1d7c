//! Why none of this is done on requests: criterion's rule on the pooled requests of one run a side.

use inferometer::rng::Seed;
use inferometer::sim::virtual_run::{SlotStart, closed_loop};
use inferometer::sim::{Engine, Preset, RequestSpec, start_seed};
use inferometer::stats::distribution::t_two_sided;
use inferometer::stats::t_test::welch;

const PAIRS: u64 = 50;
const WARM_UP: usize = 32;
const MEASURED: usize = 384;
const CONCURRENCY: usize = 16;
/// Criterion's default noise threshold.
const NOISE_THRESHOLD: f64 = 0.01;

/// TPOT of the measured requests of one start, ms.
fn tpots(side: &str, pair: u64) -> Vec<f64> {
    let lengths = Seed(71).nth(pair);
    let specs: Vec<RequestSpec> = (0..WARM_UP + MEASURED)
        .map(|i| {
            let draw = lengths.nth(i as u64).0;
            RequestSpec::new(200 + (draw % 400) as u32, 40 + (draw / 400 % 48) as u32)
        })
        .collect();
    let seed = start_seed(Seed(72).nth(pair), side, 0);
    let mut engine = Engine::new(Preset::Statistics.profile(), Preset::Statistics.noise(), seed);
    let spread = SlotStart::Spread { over_ns: 500_000_000 };
    let requests = closed_loop(&mut engine, 0, &specs, CONCURRENCY, spread);
    requests[WARM_UP..].iter().filter_map(|request| request.tpot_ms()).collect()
}

#[test]
fn criterions_rule_on_pooled_requests_calls_an_unchanged_server_changed() {
    let changed = (0..PAIRS).filter(|pair| {
        let (base, new) = (tpots("base", *pair), tpots("new", *pair));
        let test = welch(&base, &new).unwrap();
        let base_mean = base.iter().sum::<f64>() / base.len() as f64;
        let significant = t_two_sided(test.mean / test.se, test.df) < 0.05;
        let half = 1.96 * test.se;
        let beyond = (test.mean.abs() - half) / base_mean > NOISE_THRESHOLD;
        significant && beyond
    });
    let share = changed.count() as f64 / PAIRS as f64;
    println!("criterion's rule on pooled requests: {share:.2} of unchanged servers changed");
    assert!(share > 0.20, "{share}");
}
