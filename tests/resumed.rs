//! A run whose client was killed is taken up where it stopped.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use inferometer::internals::analysis::{Conclusion, rebuild_report};
use inferometer::internals::compare::{Comparison, Mode};
use inferometer::internals::record::FindingCode;
use inferometer::internals::record::stored::RunStatus;
use inferometer::internals::record::stored::{Health, RoundStatus};
use inferometer::internals::store::Store;
use inferometer::{Measure, Settings};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_inferometer");

/// Iterations of 5 ms: a busy machine's milliseconds do not hide them.
const PRESET: &str = "h200-qwen2.5-7b";

/// The client's command line: the knob makes the new side 30 % slower.
fn client(out: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command
        .args(["run", "--simulate", PRESET, "--against-simulate", PRESET, "--starts", "5"])
        .args(["--no-reference", "--no-warm-up", "--num-prompts", "32", "--seed", "9"])
        .args(["--random-input-len", "64", "--random-output-len", "32"])
        .args(["--max-concurrency", "4", "--output-dir"])
        .arg(out)
        .args(more)
        .env("INFEROMETER_SIM_SLOWDOWN", "1.3")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

#[test]
fn a_killed_run_is_taken_up_where_it_stopped() {
    let folder = TempDir::new().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let mut killed = client(folder.path(), &[]).spawn().unwrap();
    let newest = || store.runs().unwrap().runs.into_iter().next();
    // At most a minute: two whole blocks and a part of the third.
    for _ in 0..1200 {
        if newest().is_some_and(|run| run.rounds.len() >= 5) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let before = newest().unwrap();
    assert_eq!(before.status, RunStatus::Running);
    let kept = 2 * (before.rounds.len() / 2);
    assert!((4..10).contains(&kept), "{kept}");

    let status = client(folder.path(), &["--resume", &before.id]).status().unwrap();
    assert!([0, 1, 4].contains(&status.code().unwrap()), "{status}");
    let after = store.load_run(&before.id).unwrap();
    assert_eq!(store.run_ids().unwrap().len(), 1);
    assert_eq!((after.status, after.rounds.len()), (RunStatus::Complete, 10));
    assert_eq!(after.rounds[..kept], before.rounds[..kept]);
    assert_eq!((after.salt, after.seed), (before.salt, before.seed));
    for block in 0..5 {
        let of_block: Vec<_> = after.rounds.iter().filter(|r| r.block == block).collect();
        assert_eq!(of_block.len(), 2);
        assert_eq!(of_block[0].seed, of_block[1].seed);
        let requests = store.load_round(&before.id, of_block[0]).unwrap().records.len();
        assert!(requests >= 32, "{requests}");
    }
    assert!(after.findings.iter().any(|finding| finding.code == FindingCode::Resumed));

    // It is judged over the same five pairs as a run that was never killed, and says the same. The
    // median: on a busy machine one pair may be far off.
    let mut settings = Settings::for_simulator(PRESET);
    settings.output_dir = folder.path().to_path_buf();
    let resumed = at_ease(&settings, &before.id);
    client(folder.path(), &[]).status().unwrap();
    let whole = at_ease(&settings, &newest_run(&settings));
    for conclusion in [&resumed, &whole] {
        let cells = &comparison(conclusion).cells;
        let step = cells.iter().find(|c| c.measure == Measure::ITL_P50).unwrap();
        let ratio = |pair: &(Option<f64>, Option<f64>)| pair.1.unwrap() / pair.0.unwrap();
        let mut ratios: Vec<f64> = step.pairs.iter().map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        assert_eq!((comparison(conclusion).mode, ratios.len()), (Mode::Interleaved, 5));
        assert!((1.15..1.5).contains(&ratios[2]), "{cells:#?}");
    }

    let again = client(folder.path(), &["--resume", &before.id]).status().unwrap();
    assert_eq!(again.code(), Some(2), "a complete run is not taken up");
    let mut other = client(folder.path(), &["--resume", &before.id, "--random-input-len", "32"]);
    assert_eq!(other.status().unwrap().code(), Some(2), "nor one that did other work");
}

/// Judges a run anew as if its client had been at ease: how busy this machine is, is not what is
/// tested here.
fn at_ease(settings: &Settings, run_id: &str) -> Conclusion {
    at_ease_of(&Store::open(&settings.output_dir).unwrap(), run_id)
}

pub(crate) fn at_ease_of(store: &Store, run_id: &str) -> Conclusion {
    forget_health(store, run_id);
    let _ = std::fs::remove_file(store.layout().comparison(run_id));
    rebuild_report(store, Some(run_id), &Settings::for_url("").judge).unwrap()
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
