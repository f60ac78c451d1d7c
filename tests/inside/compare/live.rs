//! Interleaved runs over HTTP, simulator against simulator.

use inferometer::compare::{Mode, Verdict};
use inferometer::drive::Interrupt;
use inferometer::metric::Measure;
use inferometer::record::stored::RunStatus;
use inferometer::report::progress::Silent;
use inferometer::settings::Launch;
use inferometer::store::Store;
use tempfile::TempDir;

use super::{against, at_ease, comparison, harness, newest_run, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unchanged_server_gets_no_verdict_of_change() {
    let folder = TempDir::new().unwrap();
    let settings = against(folder.path(), 5, 3, 1.0);
    run(&settings).await.unwrap();
    let conclusion = at_ease(&settings, &newest_run(&settings));
    let found = comparison(&conclusion);
    assert_eq!((found.mode, found.blocks, found.looks), (Mode::Interleaved, 5, 1));
    assert!(!found.has_changed(), "{:#?}", found.cells);
    assert_eq!(conclusion.gate.exit_code, 0, "{:?}", conclusion.gate);
    // Every undecided figure says what it would take.
    let undecided = found.cells.iter().filter(|c| c.verdict == Verdict::Inconclusive);
    for cell in undecided.filter(|c| c.gated && c.measure != Measure::ERROR_RATE) {
        assert!(cell.minimum_detectable.is_some(), "{cell:?}");
        assert!(cell.blocks_needed.is_none_or(|blocks| blocks >= 2), "{cell:?}");
    }
    let stored = Store::open(folder.path()).unwrap().load_run(&newest_run(&settings)).unwrap();
    assert_eq!((stored.status, stored.starts.len()), (RunStatus::Complete, 10));
    // ABBA: base, new, new, base, …
    let sides: Vec<_> = stored.starts.iter().map(|start| (start.block, start.side)).collect();
    assert_eq!(sides[1].1, sides[2].1);
    assert_ne!(sides[0].1, sides[1].1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_percent_slower_is_found_in_five_blocks_and_a_look_ends_the_run() {
    let folder = TempDir::new().unwrap();
    let mut settings = against(folder.path(), 5, 4, 1.10);
    // A look needs a client at ease, which a busy machine is not: it may go on to the end.
    settings.looks = vec![5, 6];
    run(&settings).await.unwrap();
    let id = newest_run(&settings);
    let blocks = Store::open(folder.path()).unwrap().load_run(&id).unwrap().starts.len() / 2;
    assert!((5..=6).contains(&blocks), "{blocks}");
    let conclusion = at_ease(&settings, &id);
    let found = comparison(&conclusion);
    let step = found.cells.iter().find(|c| c.measure == Measure::ITL_P50).unwrap();
    assert_eq!(step.verdict, Verdict::Regressed, "{:#?}", found.cells);
    assert!((0.06..0.14).contains(&step.change.unwrap()), "{step:?}");
    assert_eq!(conclusion.gate.exit_code, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_percent_slower_is_found_in_eight_blocks() {
    let folder = TempDir::new().unwrap();
    let mut settings = against(folder.path(), 8, 5, 1.05);
    // The quietest figure alone, so that it has the whole level.
    settings.judge.gate = Some(vec![Measure::ITL_P50]);
    run(&settings).await.unwrap();
    let conclusion = at_ease(&settings, &newest_run(&settings));
    let found = comparison(&conclusion);
    let step = found.cells.iter().find(|c| c.measure == Measure::ITL_P50).unwrap();
    assert_eq!(step.verdict, Verdict::Regressed, "{:#?}", found.cells);
    assert_eq!(conclusion.gate.exit_code, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calibrating_tells_the_spread_and_what_a_change_costs() {
    let folder = TempDir::new().unwrap();
    let mut settings = super::short(folder.path(), 1, 6);
    // What is told is tested, not how small the spread is: iterations of 5 ms are slow enough.
    settings.target.launch = Launch::Simulator { preset: "demo".into(), slowdown: 10.0 };
    let mut harness = harness(&settings);
    harness.settings().num_prompts = Some(30);
    let found = harness.calibrate(&mut Silent, &Interrupt::new()).await.unwrap();
    let time = found.calibration.times.last().unwrap();
    assert_eq!((time.blocks, time.rounds, found.calibration.days()), (8, 2, 1));
    assert!(time.block_s > 0.0);
    let known = Store::open(folder.path()).unwrap();
    let known: Vec<inferometer::compare::calibration::Calibration> =
        known.load_calibrations().unwrap();
    assert_eq!(known.len(), 1);
    assert_eq!((known[0].days(), &known[0].times[0].run), (1, &time.run));
    // On a machine at ease the decode step is there with its spread, near the simulator's own 1 %.
    if let Some(step) = time.cells.iter().find(|cell| cell.measure == Measure::ITL_P50) {
        assert!(step.pair_sd > 0.0 && step.pair_sd < 1.0, "{step:?}");
        assert!(step.start_sd.is_some() && step.within_sd.is_some());
        // `plan` speaks of it from now on.
        assert!(!harness.foresee().unwrap().is_empty());
    }
    assert_eq!(found.conclusion.gate.exit_code, 0);
}

#[tokio::test]
async fn a_url_that_nobody_restarts_cannot_be_calibrated() {
    let folder = TempDir::new().unwrap();
    let mut settings = inferometer::settings::Settings::for_url("http://127.0.0.1:9");
    settings.output_dir = folder.path().to_path_buf();
    let error = harness(&settings).calibrate(&mut Silent, &Interrupt::new()).await.unwrap_err();
    assert!(error.hint().unwrap().contains("--server-cmd"), "{error}");
}
