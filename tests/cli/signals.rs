//! Ctrl-C, a second one, a kill, and a pipe that closes.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Place, SMALL, end_of, simulator, within_limit};

/// A run of very many short rounds, after `lines` lines that contain `text`.
fn started(place: &Place, more: &[&str], text: &str, lines: usize) -> (Child, Vec<String>) {
    let args = [&["run"], &SMALL[..], more].concat();
    let mut command = place.command(&args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut read = Vec::new();
    let mut seen = 0;
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    while seen < lines {
        let mut line = String::new();
        assert!(stdout.read_line(&mut line).unwrap() > 0, "it ended too early: {read:?}");
        seen += usize::from(line.contains(text));
        read.push(line);
    }
    // Nothing of the rest may block the child.
    std::thread::spawn(move || stdout.lines().map_while(Result::ok).for_each(drop));
    (child, read)
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
}

const ENDLESS: [&str; 3] = ["--starts=1", "--rounds=1000", "--verbose"];

#[test]
fn an_interrupted_run_is_kept_and_reported() {
    let place = Place::new();
    let save = [&ENDLESS[..], &["--save-baseline=main"]].concat();
    let (child, _) = started(&place, &save, "req/s", 3);
    send(&child, Signal::SIGINT);
    let output = within_limit(child);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    let report = place.path().join("target-reports/report/report.json");
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    assert_eq!(report["gate"]["exit_code"], 130, "the gate and the exit code agree");
    assert!(stderr.contains("Ctrl-C again leaves at once"), "{stderr}");
    assert!(stderr.contains("reported is what was measured until then"), "{stderr}");
    assert!(place.path().join("target-reports/report/index.html").is_file());
    assert!(!place.path().join("target-reports/baselines/main.json").exists());
    let stored = place.run_json();
    assert_eq!(stored["status"], "interrupted");
    assert!(stored["rounds"].as_array().unwrap().len() >= 3);
}

#[test]
fn a_second_interrupt_leaves_at_once() {
    let place = Place::new();
    // Far longer than the test may take.
    let faults = vec!["every=1,kind=stall:300s".parse().unwrap()];
    let server = simulator(|config| config.faults = faults);
    let url = server.url();
    let stuck = ["--url", &url, "--no-preflight", "--no-warm-up", "--model=sim"];
    let (mut child, _) = started(&place, &stuck, "measuring", 1);
    send(&child, Signal::SIGINT);
    // The first must have been seen, or both count as one.
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("again leaves at once"), "{line}");
    send(&child, Signal::SIGINT);
    assert_eq!(end_of(&mut child).code(), Some(130));
}

#[test]
fn a_kill_loses_at_most_the_round_in_flight() {
    let place = Place::new();
    let (mut child, _) = started(&place, &ENDLESS, "req/s", 3);
    child.kill().unwrap();
    end_of(&mut child);
    let stored = place.run_json();
    assert!(stored["rounds"].as_array().unwrap().len() >= 3, "what was told is on disk");
    let said = place.run(&["report"]).ended_with(0);
    assert!(said.stdout.starts_with("run/16x4 "), "{}", said.stdout);
    let listed = place.run(&["runs"]).ended_with(0);
    assert!(listed.stdout.contains("  aborted, "), "{}", listed.stdout);
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let place = Place::new();
    let args = [&["run", "--starts=1"], &SMALL[..]].concat();
    let mut command = place.command(&args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("no server given"), "{line}");
    let output = within_limit(child);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

/// Whether somebody listens at the port, asked until it is as `wanted` or the limit is over.
fn listens(port: u16, wanted: bool) -> bool {
    let is_open = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    for _ in 0..600 {
        if is_open() == wanted {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    is_open()
}

#[test]
fn no_end_of_the_harness_leaves_its_server_behind() {
    for signal in [Signal::SIGKILL, Signal::SIGHUP, Signal::SIGQUIT] {
        let place = Place::new();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let program = env!("CARGO_BIN_EXE_inferometer");
        let launch = format!("--server-cmd={program} simulate --port {port}");
        let url = format!("--url=http://127.0.0.1:{port}");
        let (mut child, _) =
            started(&place, &[&ENDLESS[..], &[&launch, &url]].concat(), "req/s", 1);
        assert!(listens(port, true), "the server runs while it is measured");
        send(&child, signal);
        end_of(&mut child);
        assert!(!listens(port, false), "{signal}: the server is left behind");
    }
}

/// A server that takes connections and says nothing.
fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

#[test]
fn an_interrupt_before_anything_is_measured_says_so_and_reports_nothing() {
    let (_listener, url) = silent();
    let never = "--server-cmd=sleep 1000";
    let nobody = "--url=http://127.0.0.1:1";
    for (phase, more, seen) in [
        ("preflight", vec!["--url", url.as_str()], "plan:"),
        ("waiting for a launched server", vec![never, nobody], "plan:"),
        ("waiting for a server", vec![nobody, "--ready-timeout=50s"], "plan:"),
    ] {
        let place = Place::new();
        let (child, _) = started(&place, &more, seen, 1);
        std::thread::sleep(Duration::from_millis(200));
        send(&child, Signal::SIGINT);
        let output = within_limit(child);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(130), "{phase}: {stderr}");
        assert!(stderr.contains("interrupted"), "{phase}: {stderr}");
        assert!(!place.path().join("target-reports/report").exists(), "{phase}");
    }
}
