//! Stored runs and baselines as sides of a comparison.

use inferometer::compare::{Mode, Verdict};
use inferometer::harness::compare_stored;
use inferometer::metric::Measure;
use inferometer::store::Store;
use tempfile::TempDir;

use super::{comparison, forget_health, newest_run, run, short, simulator};

/// One recording of each kind serves all that is asked of stored runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn baselines_are_saved_judged_in_place_of_a_run_and_shown_as_advice() {
    let folder = TempDir::new().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let mut settings = short(folder.path(), 5, 11);
    settings.baseline.save = Some("main".into());
    run(&settings).await.unwrap();
    let main_run = newest_run(&settings);

    // Without a baseline the last run of the same work is advice, whatever it shows.
    let mut slower = short(folder.path(), 5, 11);
    slower.target.launch = simulator(1.5);
    let advice = run(&slower).await.unwrap();
    let found = comparison(&advice);
    assert!(found.advice.as_ref().unwrap().contains("--baseline"), "{:?}", found.advice);
    assert_eq!(found.base_runs, std::slice::from_ref(&main_run));
    assert!(!found.has_changed() && advice.gate.exit_code == 0, "{:?}", advice.gate);
    let slow_run = newest_run(&slower);
    for id in [&main_run, &slow_run] {
        forget_health(&store, id);
    }

    // A stored baseline in place of a run: no server is started.
    let at = jiff::Timestamp::from_second(1_700_000_000).unwrap();
    store.baselines().save("slow", &slow_run, at).unwrap();
    let mut loaded = short(folder.path(), 5, 11);
    loaded.baseline.load = Some("slow".into());
    loaded.baseline.compare = Some("main".into());
    let verdict = run(&loaded).await.unwrap();
    let found = comparison(&verdict);
    assert_eq!((found.mode, found.blocks), (Mode::Saved, 5));
    let step = found.cells.iter().find(|c| c.measure == Measure::ITL_P50).unwrap();
    assert_eq!((step.verdict, verdict.gate.exit_code), (Verdict::Regressed, 1), "{step:?}");
    assert_eq!(store.run_ids().unwrap().len(), 2);

    // The same from `compare`, and against itself nothing.
    let judge = &settings.judge;
    let again = compare_stored(&store, &["main".into(), "slow".into()], judge).unwrap();
    assert_eq!(comparison(&again).cells, found.cells);
    let same = compare_stored(&store, &["main".into(), main_run], judge).unwrap();
    assert!(!comparison(&same).has_changed());
    assert_eq!(same.gate.exit_code, 0, "{:?}", same.gate);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_baseline_is_saved_and_compared_with_in_one_run() {
    let folder = TempDir::new().unwrap();
    let mut settings = short(folder.path(), 1, 12);
    settings.baseline.save = Some("first".into());
    run(&settings).await.unwrap();
    settings.baseline.compare = Some("first".into());
    settings.baseline.save = Some("second".into());
    let conclusion = run(&settings).await.unwrap();
    assert_eq!(comparison(&conclusion).base_label, "first");
    let store = Store::open(folder.path()).unwrap();
    let runs = store.run_ids().unwrap();
    assert_eq!(store.baselines().load("second").unwrap().runs, [runs[0].clone()]);
    assert_eq!(store.baselines().load("first").unwrap().runs, [runs[1].clone()]);

    settings.baseline.compare = Some("typo".into());
    let error = run(&settings).await.unwrap_err();
    assert_eq!(inferometer::compare::gate::exit_code(error.kind()), 2);
    settings.baseline.lenient = true;
    assert!(run(&settings).await.unwrap().report.input().comparisons.is_empty());
}
