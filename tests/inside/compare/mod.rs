//! Comparisons: what may be said, of runs on the simulator and of made-up contenders.

#![allow(clippy::unwrap_used)] // helpers outside `#[test]` functions

mod explained;
mod gate;
mod gateway;
mod live;
mod modes;
mod servers;
mod starts;
mod stored;
mod trend;

use std::path::Path;

use inferometer::analysis::{Conclusion, rebuild_report};
use inferometer::compare::Comparison;
use inferometer::drive::Interrupt;
use inferometer::record::stored::{Health, RoundStatus};
use inferometer::report::progress::Silent;
use inferometer::rng::Seed;
use inferometer::settings::{Launch, Settings, Target};
use inferometer::store::Store;
use inferometer::{Harness, Load, Scenario};

/// Iterations of 20 ms, so that a busy machine's milliseconds do not hide them.
const SLOW_ENOUGH: f64 = 40.0;

fn simulator(slowdown: f64) -> Launch {
    Launch::Simulator { preset: "demo".into(), slowdown: SLOW_ENOUGH * slowdown }
}

/// A short profile: one load point, no reference, no warm-up.
fn short(folder: &Path, starts: u32, seed: u64) -> Settings {
    let mut settings = Settings::for_simulator("demo");
    settings.target.launch = simulator(1.0);
    settings.skip.reference = true;
    settings.skip.warm_up = true;
    settings.starts = Some(starts);
    settings.num_prompts = Some(32);
    settings.seed = Seed(seed);
    settings.output_dir = folder.to_path_buf();
    settings
}

/// The same with a new side that is `slower` times as slow as its base.
fn against(folder: &Path, starts: u32, seed: u64, slower: f64) -> Settings {
    let mut settings = short(folder, starts, seed);
    settings.target.launch = simulator(slower);
    settings.against = Some(Target::new(String::new(), simulator(1.0)));
    settings
}

fn harness(settings: &Settings) -> Harness {
    let mut harness = Harness::new(settings.clone());
    harness
        .group("chat")
        .scenario(Scenario::new("short").input(32).output(8).sweep(Load::concurrency, [4]));
    harness
}

async fn run(settings: &Settings) -> inferometer::Result<Conclusion> {
    harness(settings).run(&mut Silent, &Interrupt::new()).await
}

/// Judges a run anew as if its client had been at ease: how busy this machine is, is not what is
/// tested here.
fn at_ease(settings: &Settings, run_id: &str) -> Conclusion {
    let store = Store::open(&settings.output_dir).unwrap();
    forget_health(&store, run_id);
    let _ = std::fs::remove_file(store.layout().comparison(run_id));
    rebuild_report(&store, Some(run_id), &settings.judge).unwrap()
}

fn forget_health(store: &Store, run_id: &str) {
    let mut run = store.load_run(run_id).unwrap();
    for round in &mut run.rounds {
        round.health = Health::default();
        round.status = RoundStatus::Complete;
    }
    store.resume_run(&run).unwrap().writer.update(&run).unwrap();
}

fn newest_run(settings: &Settings) -> String {
    Store::open(&settings.output_dir).unwrap().run_ids().unwrap()[0].clone()
}

fn comparison(conclusion: &Conclusion) -> &Comparison {
    &conclusion.report.input().comparisons[0]
}
