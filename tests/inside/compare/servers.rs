//! Servers that die, never get ready, or are killed with their client.

use std::path::{Path, PathBuf};
use std::time::Duration;

use inferometer::compare::{GateCause, GateReason, Verdict};
use inferometer::metric::Measure;
use inferometer::record::FindingCode;
use inferometer::record::stored::RunStatus;
use inferometer::settings::{Launch, Settings, Target};
use inferometer::store::Store;
use tempfile::TempDir;

use crate::inside::simulator_process;

use super::{at_ease, comparison, newest_run, run};

/// A launch script: counts its launches, and does what `faults` says of some of them.
fn script(folder: &Path, port: u16, faults: &str) -> PathBuf {
    let (path, count) = (folder.join("serve.sh"), folder.join("launches"));
    let count = count.display();
    let serve = simulator_process::command(port, 8.0, "$n");
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
    let launch = Launch::Command { command, ready_path: "/health".into(), ready_timeout_s: 3.0 };
    let target = Target::new(format!("http://127.0.0.1:{port}"), launch);
    let mut settings = Settings::for_url("");
    settings.target = target.clone();
    settings.against = Some(target);
    settings.skip.reference = true;
    settings.skip.warm_up = true;
    settings.skip.burn_in = true;
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
    let conclusion = run(&settings).await.unwrap();
    // The new side has two starts that failed, and that fails the gate.
    assert_eq!(conclusion.gate.exit_code, 4, "{:?}", conclusion.gate);
    let of_starts = |r: &&GateReason| r.cause == GateCause::FailedStarts;
    let failed: Vec<_> = conclusion.gate.reasons.iter().filter(of_starts).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].text.starts_with("2 of 4 restarts failed"), "{failed:?}");
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
    assert!(found.advice.as_ref().unwrap().contains("2 pairs of restarts"), "{:?}", found.advice);
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
