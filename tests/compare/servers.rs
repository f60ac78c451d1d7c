//! Servers that die, never get ready, or are killed with their client.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use inferometer::compare::{GateCause, Mode, Verdict};
use inferometer::metric::Measure;
use inferometer::record::FindingCode;
use inferometer::record::stored::RunStatus;
use inferometer::settings::{Launch, Settings, Target};
use inferometer::store::Store;
use tempfile::TempDir;

use super::{at_ease, comparison, newest_run, run};

const BINARY: &str = env!("CARGO_BIN_EXE_inferometer");

/// A launch script: counts its launches, and does what `faults` says of some of them.
fn script(folder: &Path, port: u16, faults: &str) -> PathBuf {
    let (path, count) = (folder.join("serve.sh"), folder.join("launches"));
    let count = count.display();
    let serve = format!("'{BINARY}' simulate --port {port} --slowdown 8 --seed $n");
    let text = format!(
        "#!/bin/sh\nn=$(cat '{count}' 2>/dev/null || echo 0); n=$((n+1)); echo $n > '{count}'\n\
         serve() {{ exec {serve}; }}\ndying() {{ exec timeout -s KILL 1 {serve}; }}\n\
         {faults}\nserve\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn settings(folder: &Path, starts: u32, faults: &str) -> Settings {
    let port = free_port();
    let command = format!("sh '{}'", script(folder, port, faults).display());
    let launch = Launch::Command { command, ready_path: "/health".into(), ready_timeout_s: 5.0 };
    let target = Target { url: format!("http://127.0.0.1:{port}"), launch };
    let mut settings = Settings::for_url("");
    settings.target = target.clone();
    settings.against = Some(target);
    settings.skip.reference = true;
    settings.skip.warm_up = true;
    settings.cool_down = Duration::ZERO;
    settings.num_prompts = Some(40);
    settings.starts = Some(starts);
    settings.output_dir = folder.join("out");
    settings
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_or_never_gets_ready_costs_its_pair_and_no_more() {
    let folder = TempDir::new().unwrap();
    // The third launch is killed after a second, the sixth never listens.
    let faults = "[ $n = 3 ] && dying\n[ $n = 6 ] && exec sleep 60";
    let settings = settings(folder.path(), 4, faults);
    run(&settings).await.unwrap();
    let id = newest_run(&settings);
    let stored = Store::open(&settings.output_dir).unwrap().load_run(&id).unwrap();
    assert_eq!(stored.status, RunStatus::Complete);
    let failed: Vec<_> = stored.starts.iter().filter(|s| s.failure.is_some()).collect();
    assert_eq!(failed.iter().map(|s| s.block).collect::<Vec<_>>(), [1, 2], "{failed:?}");
    let said = stored.findings.iter().filter(|f| f.code == FindingCode::StartFailed).count();
    assert_eq!(said, 2, "{:?}", stored.findings);
    let conclusion = at_ease(&settings, &id);
    let found = comparison(&conclusion);
    assert_eq!(found.blocks, 2);
    let step = found.cells.iter().find(|c| c.measure == Measure::ITL_P50).unwrap();
    assert_eq!(step.verdict, Verdict::Inconclusive);
    assert!(step.reason_text().contains("2 valid restarts, 5 are needed"), "{step:?}");
    assert!(step.blocks_needed.unwrap() >= 5 && step.minimum_detectable.is_some(), "{step:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_fails_for_good_ends_the_run_with_4_and_its_report() {
    let folder = TempDir::new().unwrap();
    let settings = settings(folder.path(), 8, "[ $n -gt 2 ] && exit 1");
    let conclusion = run(&settings).await.unwrap();
    assert_eq!(conclusion.gate.exit_code, 4, "{:?}", conclusion.gate);
    let reasons = &conclusion.gate.reasons;
    assert!(reasons.iter().any(|r| r.cause == GateCause::EndedEarly), "{reasons:?}");
    let stored =
        Store::open(&settings.output_dir).unwrap().load_run(&newest_run(&settings)).unwrap();
    assert_eq!(stored.status, RunStatus::Failed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_came_up_is_an_error_of_the_server() {
    let folder = TempDir::new().unwrap();
    let settings = settings(folder.path(), 8, "exit 1");
    let error = run(&settings).await.unwrap_err();
    assert_eq!(inferometer::compare::gate::exit_code(error.kind()), 3, "{error}");
}

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
