//! Stored runs and baselines as sides of a comparison.

use std::time::Duration;

use inferometer::analysis::compare_stored;
use inferometer::compare::{Mode, Verdict};
use inferometer::metric::Measure;
use inferometer::settings::JudgeSettings;
use inferometer::store::Store;
use tempfile::TempDir;

use crate::inside::kept;

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
    let same = compare_stored(&store, &["main".into(), main_run.clone()], judge).unwrap();
    assert!(!comparison(&same).has_changed());
    assert_eq!(same.gate.exit_code, 0, "{:?}", same.gate);

    // A limit that any figure meets is missed where the client moved the figure.
    let required = JudgeSettings { require: vec!["ttft_p50<1h".to_owned()], ..judge.clone() };
    let required_of = || compare_stored(&store, &["main".into()], &required).unwrap().gate;
    assert_eq!(required_of().exit_code, 0);
    let mut late = store.load_run(&main_run).unwrap();
    late.rounds.iter_mut().for_each(|round| round.health.loop_lag_p50_ms = Some(900.0));
    store.resume_run(&late).unwrap().writer.update(&late).unwrap();
    let missed = required_of();
    assert_eq!(missed.exit_code, 1, "{missed:?}");
    assert!(missed.reasons[0].text.contains("not valid (the client's event loop"), "{missed:?}");
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

/// A file of requests that gives its content once: whoever opens it again waits for ever.
#[cfg(unix)]
fn readable_once(path: std::path::PathBuf) {
    let text = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    std::thread::spawn(move || std::fs::write(path, text));
}

#[cfg(unix)]
#[test]
fn the_runs_of_a_side_are_read_once_and_pooled() {
    let folder = TempDir::new().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let at = jiff::Timestamp::from_second(1_700_000_000).unwrap();
    for (place, ttft_ms) in [100, 200].into_iter().enumerate() {
        let mut run = kept::run(&format!("20260102T03040{place}Z-two"));
        run.rounds = vec![kept::round(0)];
        let sent = |n: u64| 10 * kept::S + n * kept::MS;
        let record = |n| kept::request(sent(n), sent(n + ttft_ms), sent(n + 1000), 8);
        let records: Vec<_> = (1..=40).map(record).collect();
        let (itl, icl) = (kept::gaps(&[7; 40]), kept::gaps(&[7; 40]));
        let writer = store.begin_run(&run).unwrap();
        writer.write_round(&run, &run.rounds[0], &records, &itl, &icl).unwrap();
        let id = writer.id();
        match place {
            0 => store.baselines().save("two", id, at).map(drop).unwrap(),
            _ => store.baselines().append("two", id, at).map(drop).unwrap(),
        }
        readable_once(store.layout().requests(id, "chat/short/c16"));
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let conclusion = compare_stored(&store, &["two".into()], &JudgeSettings::default());
        let _ = sender.send(conclusion);
    });
    // Half a minute is a hundred times what it takes; a second reading never ends.
    let conclusion =
        receiver.recv_timeout(Duration::from_secs(30)).expect("each file is read once");
    let report = conclusion.unwrap().report;
    let side = report.input().points[0].side(0).unwrap();
    assert_eq!((side.starts.len(), side.summary.completed), (2, 80));
    // The median over all requests of both runs, half of which took 100 ms.
    let median = side.summary.get(Measure::TTFT_P50).unwrap();
    assert!((100.0..=200.0).contains(&median), "{median}");
}
