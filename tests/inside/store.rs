//! The store: what is written is read back, whatever happens in between.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)] // a test may

use std::fs;
use std::path::{Path, PathBuf};

use inferometer::ErrorKind;
use inferometer::record::stored::RunStatus;
use inferometer::record::{GapHistogram, StoredRun};
use inferometer::store::baseline::Action;
use inferometer::store::{RunWriter, Store};
use jiff::Timestamp;
use serde_json::Value;
use tempfile::TempDir;

use crate::inside::kept::{self, MS, S, gaps, request, round};

struct Case {
    folder: TempDir,
    store: Store,
}

fn case() -> Case {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("target-reports")).unwrap();
    Case { folder, store }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_323_045 + second).unwrap()
}

/// Writes one round with two requests.
fn write(writer: &RunWriter, run: &mut StoredRun, start: u32) {
    let round = round(start);
    run.rounds.push(round.clone());
    let records: Vec<_> = (0..2)
        .map(|index| {
            let mut record = request(10 * S, 10 * S + 50 * MS, 11 * S, 128);
            (record.start, record.block, record.index) = (start, start, index);
            record
        })
        .collect();
    writer.write_round(run, &round, &records, &gaps(&[7, 8, 9]), &gaps(&[8])).unwrap();
}

fn complete(store: &Store, id: &str) -> StoredRun {
    let mut run = kept::run(id);
    let writer = store.begin_run(&run).unwrap();
    writer.id().clone_into(&mut run.id);
    write(&writer, &mut run, 0);
    run.status = RunStatus::Complete;
    writer.update(&run).unwrap();
    run
}

fn requests_file(store: &Store, id: &str) -> PathBuf {
    store.layout().requests(id, "chat/short/c16")
}

#[test]
fn a_run_comes_back_as_it_was_written() {
    let Case { store, .. } = case();
    let mut run = kept::run("20260102T030405Z-main");
    let writer = store.begin_run(&run).unwrap();
    write(&writer, &mut run, 0);
    write(&writer, &mut run, 1);
    assert_eq!(store.load_run(&run.id).unwrap(), run);
    for (start, stored) in run.rounds.iter().enumerate() {
        let data = store.load_round(&run.id, stored).unwrap();
        assert_eq!(data.records.len(), 2);
        assert!(data.records.iter().all(|record| record.start as usize == start));
        assert_eq!((data.itl.count(), data.icl.count()), (3, 1));
        let median = data.itl.quantile(0.5).unwrap();
        assert!((median / 8e6 - 1.0).abs() < GapHistogram::RESOLUTION, "{median}");
        assert!(data.notes.is_empty());
    }
    let both: Vec<_> = run.rounds.iter().rev().collect();
    let data = store.load_rounds(&run.id, &both).unwrap();
    assert_eq!(data.iter().map(|d| d.records[0].start).collect::<Vec<_>>(), [1, 0]);
}

#[test]
fn a_run_folder_is_never_written_twice() {
    let Case { store, .. } = case();
    let run = kept::run("20260102T030405Z-main");
    let ids: Vec<String> = (0..3).map(|_| store.begin_run(&run).unwrap().id().to_owned()).collect();
    assert_eq!(ids, [run.id.clone(), format!("{}-2", run.id), format!("{}-3", run.id)]);
    assert_eq!(store.load_run(&ids[2]).unwrap().id, ids[2]);
    let error = store.begin_run(&kept::run("../outside")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
}

#[test]
fn a_kill_in_a_round_loses_that_round_alone() {
    let Case { store, .. } = case();
    let mut run = kept::run("20260102T030405Z-main");
    let writer = store.begin_run(&run).unwrap();
    write(&writer, &mut run, 0);
    // The kill: half a line of the next round, and a temporary of run.json.
    let path = requests_file(&store, &run.id);
    let text = fs::read_to_string(&path).unwrap();
    let half = &text[..text.lines().next().unwrap().len() / 2];
    fs::write(&path, format!("{text}{half}")).unwrap();
    fs::write(store.layout().run(&run.id).join(".run.json.1-1.tmp"), "{\"sch").unwrap();

    let read = store.load_run(&run.id).unwrap();
    assert_eq!((read.rounds.len(), read.status), (1, RunStatus::Running));
    let data = store.load_round(&run.id, &read.rounds[0]).unwrap();
    assert_eq!(data.records.len(), 2);
    assert_eq!(data.notes.len(), 1);
    assert!(data.notes[0].contains("line 3") && data.notes[0].contains("cut"), "{:?}", data.notes);
}

#[test]
fn a_broken_line_in_the_middle_is_an_error_that_names_it() {
    let Case { store, .. } = case();
    let run = complete(&store, "20260102T030405Z-main");
    let path = requests_file(&store, &run.id);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{{\"side\":\n{text}")).unwrap();
    let error = store.load_round(&run.id, &run.rounds[0]).unwrap_err();
    assert!(error.to_string().contains("requests.jsonl` line 1"), "{error}");
    assert!(error.hint().is_some());
}

#[test]
fn errors_name_the_file_and_the_mend() {
    let Case { store, .. } = case();
    let missing = store.load_run("20990101T000000Z-none").unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert!(missing.hint().unwrap().contains("runs list"));

    let run = complete(&store, "20260102T030405Z-main");
    let path = store.layout().run_file(&run.id);
    let later = fs::read_to_string(&path).unwrap().replacen("\"schema\":1", "\"schema\":2", 1);
    fs::write(&path, later).unwrap();
    let error = store.load_run(&run.id).unwrap_err();
    assert!(error.to_string().contains("run.json` has schema 2"), "{error}");
    assert!(error.hint().unwrap().contains("update"));

    fs::write(&path, "{").unwrap();
    let error = store.load_run(&run.id).unwrap_err();
    assert!(error.to_string().contains("run.json"), "{error}");
    let list = store.runs().unwrap();
    assert_eq!((list.runs.len(), list.unreadable.len()), (0, 1));
}

#[test]
fn unsafe_names_stay_below_the_run() {
    let Case { folder, store } = case();
    let mut run = kept::run("20260102T030405Z-main");
    let writer = store.begin_run(&run).unwrap();
    let ids = [
        "../../up/c1".to_owned(),
        "对话/短/c1".to_owned(),
        "Chat/short/c1".to_owned(),
        "chat/short/c1".to_owned(),
        "con/nul/c1".to_owned(),
        format!("{}/s/c1", "g".repeat(300)),
    ];
    for id in &ids {
        let mut round = round(0);
        round.point.clone_from(id);
        run.rounds.push(round.clone());
        let record = request(10 * S, 11 * S, 12 * S, 4);
        writer.write_round(&run, &round, &[record], &gaps(&[1]), &gaps(&[1])).unwrap();
    }
    for round in &run.rounds {
        assert_eq!(store.load_round(&run.id, round).unwrap().records.len(), 1, "{}", round.point);
    }
    let outside: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(outside.len(), 1, "only the root");
}

#[test]
fn not_a_number_never_reaches_a_file() {
    let Case { store, .. } = case();
    let mut run = kept::run("20260102T030405Z-main");
    let mut round = round(0);
    round.telemetry.insert("bad".into(), f64::NAN);
    round.series.insert("worse".into(), vec![(1, f64::INFINITY), (2, 0.5)]);
    round.health.little = Some(f64::NEG_INFINITY);
    if let Some(warm_up) = &mut round.warm_up {
        (warm_up.seconds, warm_up.e2el_s) = (f64::NAN, Some(f64::NAN));
    }
    run.rounds.push(round);
    store.begin_run(&run).unwrap();
    let text = fs::read_to_string(store.layout().run_file(&run.id)).unwrap();
    assert!(!text.contains("NaN") && !text.contains("inf\""));
    let back = store.load_run(&run.id).unwrap().rounds.remove(0);
    assert!(!back.telemetry.contains_key("bad"));
    assert_eq!(back.series["worse"], [(2, 0.5)]);
    assert_eq!(back.health.little, None);
    assert_eq!(back.warm_up.map(|warm_up| (warm_up.seconds, warm_up.e2el_s)), Some((0.0, None)));
}

#[test]
fn runs_are_listed_newest_first_pruned_and_removed() {
    let Case { store, .. } = case();
    for day in 1..=4 {
        complete(&store, &format!("2026010{day}T000000Z-main"));
    }
    let mut other = complete(&store, "20260105T000000Z-other");
    other.workload_hash = "other".into();
    fs::write(store.layout().run_file(&other.id), serde_json::to_vec(&other).unwrap()).unwrap();
    assert_eq!(store.run_ids().unwrap()[0], other.id);
    store.baselines().save("main", "20260101T000000Z-main", at(0)).unwrap();
    let error = store.remove_run("20260101T000000Z-main").unwrap_err();
    assert!(error.to_string().contains("baseline `main`"), "{error}");
    let left = store.layout().runs().join(".import.1-1.tmp");
    fs::create_dir_all(left.join("half")).unwrap();
    let gone = store.prune_runs(2).unwrap();
    assert!(!left.exists(), "what a kill left behind goes too");
    assert_eq!(gone, ["20260103T000000Z-main", "20260102T000000Z-main"]);
    store.remove_run(&other.id).unwrap();
    assert_eq!(store.run_ids().unwrap(), ["20260104T000000Z-main", "20260101T000000Z-main"]);
    assert_eq!(store.remove_run("../..").unwrap_err().kind(), ErrorKind::Usage);
}

#[test]
fn what_was_written_last_is_not_pruned_though_its_clock_was_set_back() {
    let Case { store, .. } = case();
    for id in ["20260103T000000Z-a", "20260104T000000Z-b", "20260105T000000Z-c"] {
        complete(&store, id);
    }
    // Being written now, by a clock that is two years behind.
    let running = kept::run("20240101T000000Z-running");
    let writer = store.begin_run(&running).unwrap();
    // Written after all others, by a clock a year behind.
    complete(&store, "20250101T000000Z-last");
    assert_eq!(store.prune_runs(1).unwrap(), ["20260104T000000Z-b", "20260103T000000Z-a"]);
    let left = ["20260105T000000Z-c", "20250101T000000Z-last", "20240101T000000Z-running"];
    assert_eq!(store.run_ids().unwrap(), left);
    drop(writer);
}

#[test]
fn two_baselines_move_apart_and_remember() {
    let Case { store, .. } = case();
    let (a, b) = (complete(&store, "20260101T000000Z-a"), complete(&store, "20260102T000000Z-b"));
    let baselines = store.baselines();
    baselines.save("main", &a.id, at(0)).unwrap();
    baselines.append("main", &b.id, at(1)).unwrap();
    assert_eq!(baselines.append("main", &b.id, at(2)).unwrap().runs, [a.id.clone(), b.id.clone()]);
    baselines.save("Main", &b.id, at(3)).unwrap();
    assert_eq!(baselines.load("main").unwrap().runs.len(), 2);
    assert_eq!(baselines.load("Main").unwrap().runs, std::slice::from_ref(&b.id));

    assert_eq!(baselines.accept("main", &b.id, "  ", at(4)).unwrap_err().kind(), ErrorKind::Usage);
    let mut half = complete(&store, "20260103T000000Z-half");
    half.status = RunStatus::Interrupted;
    fs::write(store.layout().run_file(&half.id), serde_json::to_vec(&half).unwrap()).unwrap();
    let error = baselines.accept("main", &half.id, "new kernel", at(5)).unwrap_err();
    assert!(error.to_string().contains("did not end its plan"), "{error}");
    assert_eq!(baselines.load("main").unwrap().runs.len(), 2, "it keeps what it has");
    store.remove_run(&half.id).unwrap();
    let accepted = baselines.accept("main", &b.id, "new kernel", at(5)).unwrap();
    assert_eq!(accepted.runs, std::slice::from_ref(&b.id));
    let last = accepted.history.last().unwrap();
    assert_eq!((last.action, last.reason.as_deref()), (Action::Accepted, Some("new kernel")));
    assert_eq!(accepted.history.len(), 4);

    baselines.copy("main", "release", at(6)).unwrap();
    assert!(baselines.copy("main", "release", at(7)).is_err(), "nothing is overwritten unasked");
    baselines.remove("main").unwrap();
    let error = baselines.load("main").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.hint().unwrap().contains("`release`"), "{:?}", error.hint());
    assert!(baselines.save("x", "20990101T000000Z-none", at(8)).is_err(), "a run must exist");
    assert!(baselines.save("", &b.id, at(9)).is_err());
    fs::write(store.layout().baseline("release"), "{").unwrap();
    assert!(baselines.load("release").unwrap_err().to_string().contains("release.json"));
    baselines.remove("release").unwrap();
}

#[test]
fn a_bundle_carries_a_baseline_to_another_store() {
    let Case { folder, store } = case();
    let (a, b) = (complete(&store, "20260101T000000Z-a"), complete(&store, "20260102T000000Z-b"));
    store.baselines().save("main", &a.id, at(0)).unwrap();
    store.baselines().append("main", &b.id, at(1)).unwrap();
    let bundle = folder.path().join("main.bundle");
    store.baselines().export("main", &bundle).unwrap();

    let other = Store::open(folder.path().join("other")).unwrap();
    // The same id, another run: it must not be taken for `a`.
    let mut foreign = kept::run(&a.id);
    foreign.seed = inferometer::rng::Seed(1234);
    other.begin_run(&foreign).unwrap();
    let imported = other.baselines().import(&bundle, None, at(2)).unwrap();
    assert_eq!(imported.runs, [format!("{}-2", a.id), b.id.clone()]);
    assert_eq!(imported.history.last().unwrap().action, Action::Imported);
    for id in &imported.runs {
        let run = other.load_run(id).unwrap();
        assert_eq!(&run.id, id);
        assert_eq!(other.load_round(id, &run.rounds[0]).unwrap().records.len(), 2);
    }
    assert!(other.baselines().import(&bundle, None, at(3)).is_err(), "the name is taken");
    let again = other.baselines().import(&bundle, Some("again"), at(4)).unwrap();
    assert_eq!(again.runs[1], b.id, "an equal run is not stored twice");
}

#[test]
fn a_cut_or_hostile_bundle_changes_nothing() {
    let Case { folder, store } = case();
    let run = complete(&store, "20260101T000000Z-a");
    store.baselines().save("main", &run.id, at(0)).unwrap();
    let bundle = folder.path().join("main.bundle");
    store.baselines().export("main", &bundle).unwrap();
    let text = fs::read_to_string(&bundle).unwrap();
    let end = text.rfind("{\"end\"").unwrap();
    let hostile = text.replacen("\"file\":\"chat/short", "\"file\":\"../../chat/short", 1);
    assert_ne!(hostile, text);
    let other = Store::open(folder.path().join("other")).unwrap();
    for broken in [&text[..end], &text[..end / 2], hostile.as_str(), "", "{}\n"] {
        fs::write(&bundle, broken).unwrap();
        let error = other.baselines().import(&bundle, None, at(1)).unwrap_err();
        assert!(error.hint().is_some(), "{}", error.render());
        assert!(other.run_ids().unwrap().is_empty());
        assert!(other.baselines().list().unwrap().is_empty());
        let left = fs::read_dir(other.layout().runs()).map_or(0, Iterator::count);
        assert_eq!(left, 0, "nothing of the import is left");
    }
}

#[test]
fn two_writers_at_once_lose_nothing() {
    let Case { store, .. } = case();
    let ids: Vec<String> =
        (0..8).map(|n| complete(&store, &format!("2026010{n}T000000Z-m")).id).collect();
    std::thread::scope(|scope| {
        for id in &ids {
            scope.spawn(|| store.baselines().append("main", id, at(0)).unwrap());
        }
    });
    let baseline = store.baselines().load("main").unwrap();
    assert_eq!((baseline.runs.len(), baseline.history.len()), (8, 8));
}

#[test]
fn a_comparison_is_kept_beside_its_run() {
    let Case { store, .. } = case();
    let run = complete(&store, "20260101T000000Z-a");
    assert!(store.load_comparison::<Value>(&run.id).unwrap().is_none());
    let comparison = serde_json::json!({"mode": "saved"});
    store.save_comparison(&run.id, &comparison).unwrap();
    assert_eq!(store.load_comparison::<Value>(&run.id).unwrap(), Some(comparison));
}

fn repository(path: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = fs::read_to_string(&path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn schema_1_stays_readable() {
    let golden = repository("tests/golden/run-schema1.json");
    let run: StoredRun = serde_json::from_value(golden.clone()).unwrap();
    assert_eq!(run.id, "20260102T030405Z-main");
    assert_eq!(run.rounds.len(), 1);
    assert_eq!(serde_json::to_value(&run).unwrap(), golden, "what is written has not drifted");
}

#[test]
fn the_published_schema_says_what_is_written() {
    let schema = repository("docs/schema/run.schema.json");
    let golden = repository("tests/golden/run-schema1.json");
    crate::inside::json_schema::check(&schema, &golden).unwrap();
    let mut run = kept::run("20260102T030405Z-main");
    run.rounds.push(round(0));
    crate::inside::json_schema::check(&schema, &serde_json::to_value(&run).unwrap()).unwrap();

    let broken: [(&str, Value); 5] = [
        ("/schema", Value::from("1")),
        ("/status", Value::from("finished")),
        ("/rounds/0/window_open_ns", Value::from(-1)),
        ("/rounds/0/health/unheard_of", Value::from(1)),
        ("/sides/new/url", Value::Null),
    ];
    for (place, value) in broken {
        let mut document = golden.clone();
        let (parent, field) = place.rsplit_once('/').unwrap();
        document.pointer_mut(parent).unwrap()[field] = value;
        let found = crate::inside::json_schema::check(&schema, &document).unwrap_err();
        assert!(found.starts_with(place) || found.starts_with(parent), "{place}: {found}");
    }
}

#[test]
fn a_run_in_progress_is_not_taken_up_and_a_cut_record_does_not_ruin_the_next() {
    let Case { store, folder: _folder } = case();
    let mut run = kept::run("2026-01-02T030405Z-night");
    let writer = store.begin_run(&run).unwrap();
    write(&writer, &mut run, 0);
    assert!(store.is_in_progress(&run.id).unwrap());
    let refused = store.resume_run(&run).unwrap_err();
    assert!(refused.to_string().contains("still in progress"), "{refused}");
    drop(writer);
    assert!(!store.is_in_progress(&run.id).unwrap());

    let path = requests_file(&store, &run.id);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 40]).unwrap();
    store.save_comparison(&run.id, &Value::Null).unwrap();
    let reopened = store.resume_run(&run).unwrap();
    assert_eq!(reopened.cut_records, 1);
    write(&reopened.writer, &mut run, 1);
    let rounds: Vec<_> = run.rounds.iter().collect();
    let data = store.load_rounds(&run.id, &rounds).unwrap();
    assert_eq!((data[0].records.len(), data[1].records.len()), (1, 2));
    assert_eq!(store.load_comparison::<Value>(&run.id).unwrap(), None, "it judged fewer rounds");
}

#[test]
fn the_newest_run_is_not_passed_over_because_it_is_damaged() {
    let Case { store, folder: _folder } = case();
    complete(&store, "2026-01-02T030405Z-night");
    complete(&store, "2026-01-03T030405Z-night");
    fs::create_dir(store.layout().run("2026-01-04T030405Z-night")).unwrap();
    assert_eq!(store.newest_run().unwrap().unwrap().id, "2026-01-03T030405Z-night");
    fs::write(store.layout().run_file("2026-01-03T030405Z-night"), "{\"schema\":").unwrap();
    let error = store.newest_run().unwrap_err();
    assert!(error.render().contains("2026-01-03T030405Z-night"), "{}", error.render());
}
