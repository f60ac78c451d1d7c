//! A simulator in a process of its own, for tests that launch and kill servers: the test binary itself,
//! called with one ignored test.

use std::time::Duration;

use inferometer::rng::Seed;
use inferometer::sim::{Preset, SimConfig, SimServer};

/// The shell words that serve on `port`; `seed` may be a shell variable.
pub(crate) fn command(port: u16, slowdown: f64, seed: &str) -> String {
    let binary = std::env::current_exe().unwrap();
    format!(
        "env SIMULATOR_PORT={port} SIMULATOR_SLOWDOWN={slowdown} SIMULATOR_SEED={seed} '{}' --exact \
         inside::simulator_process::serves_until_it_is_killed --ignored",
        binary.display()
    )
}

fn setting<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(format!("SIMULATOR_{name}")).ok()?.parse().ok()
}

#[tokio::test]
#[ignore = "a server that other tests start as a process"]
async fn serves_until_it_is_killed() {
    let Some(port) = setting::<u16>("PORT") else { return };
    let mut config = SimConfig::preset(Preset::Demo);
    config.bind.set_port(port);
    config.profile.slowdown *= setting("SLOWDOWN").unwrap_or(1.0);
    config.seed = Seed(setting("SEED").unwrap_or(0));
    let _server = SimServer::start(config).unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await; // no test takes as long: an orphan ends
}
