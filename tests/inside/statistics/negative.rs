//! Why none of this is done on requests: criterion's rule on the pooled requests of one run a side.

use crate::inside::acceptance::criterion::of_unchanged;
use crate::inside::acceptance::server::Load;
use inferometer::rng::Seed;

/// Published: p < 0.05 in 67–82 %, "regressed" or "improved" in 34–49 %. A hundred pairs tell a share
/// of 0.4 to 0.05.
#[test]
fn criterions_rule_on_pooled_requests_calls_an_unchanged_server_changed() {
    for (load, seed) in [(Load::Closed(16), Seed(71)), (Load::Poisson(28.0), Seed(72))] {
        let shares = of_unchanged(load, 512, 100, seed);
        println!("criterion's rule on requests of an unchanged server, {load:?}: {shares:?}");
        assert!(shares.significant > 0.50 && shares.changed > 0.20, "{load:?}: {shares:?}");
    }
}
