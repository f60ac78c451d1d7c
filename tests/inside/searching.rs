//! A search on the simulator over HTTP: found, stored, compared.

use inferometer::drive::Interrupt;
use inferometer::metric::Measure;
use inferometer::plan::{Phase, Side};
use inferometer::report::progress::Silent;
use inferometer::settings::{Launch, SearchAxis, Settings, Target};
use inferometer::store::Store;
use inferometer::{Harness, Load, Scenario, Slo};
use tempfile::TempDir;

fn harness(folder: &std::path::Path, slo: Option<Slo>) -> Harness {
    let launch = Launch::Simulator { preset: "demo".into(), slowdown: 10.0 };
    let mut settings = Settings::for_simulator("demo");
    settings.target.launch = launch.clone();
    settings.against = Some(Target::new(String::new(), launch));
    settings.skip.reference = true;
    settings.skip.warm_up = true;
    settings.starts = Some(2);
    settings.num_prompts = Some(24);
    settings.search = Some(SearchAxis::Declared);
    settings.output_dir = folder.to_path_buf();
    let mut harness = Harness::new(settings);
    let mut scenario = Scenario::new("short").input(32..=64).output(4..=12);
    scenario = scenario.sweep(Load::concurrency, [2]);
    scenario.slo = slo;
    harness.group("chat").scenario(scenario);
    harness
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_is_stored_load_by_load_and_its_capacity_is_a_cell() {
    let folder = TempDir::new().unwrap();
    // A decode step takes 4 ms and 0.4 ms a sequence, and prompts take their share.
    let harness = harness(folder.path(), Some(Slo::new().tpot_ms(9)));
    let conclusion = harness.run(&mut Silent, &Interrupt::new()).await.unwrap();
    let input = conclusion.report.input();
    assert_eq!(input.capacities.len(), 2, "a side each");
    for found in &input.capacities {
        assert_eq!(found.starts.len(), 2);
        for start in &found.starts {
            let at = start.value().unwrap();
            let met = start.tried.iter().filter(|t| t.met).map(|t| t.level).fold(0.0, f64::max);
            assert!(start.tried.len() >= 2 && at >= met / 1.35, "{start:?}");
            assert!(start.tried.windows(2).all(|pair| pair[0].level < pair[1].level));
        }
        assert!(found.words().contains("concurrent requests"), "{}", found.words());
    }
    let cells = &input.comparisons[0].cells;
    let of_capacity = cells.iter().find(|c| c.measure == Measure::SLO_CAPACITY).unwrap();
    assert_eq!((of_capacity.point.as_str(), of_capacity.gated), ("chat/short/capacity", true));
    let store = Store::open(folder.path()).unwrap();
    let run = store.load_run(&store.run_ids().unwrap()[0]).unwrap();
    assert!(run.points.iter().all(|point| point.phase == Phase::Search), "{:?}", run.points);
    assert!(run.rounds.iter().any(|round| round.side == Side::Base));
    // It is told from disk alone, too.
    let again = inferometer::analysis::rebuild_report(&store, Some(&run.id), &Default::default());
    assert_eq!(again.unwrap().report.input().capacities, input.capacities);
}

#[test]
fn a_search_without_limits_is_refused_before_anything_runs() {
    let folder = TempDir::new().unwrap();
    let error = harness(folder.path(), None).plan().unwrap_err();
    assert!(error.to_string().contains("`chat/short` has no SLO"), "{error}");
}
