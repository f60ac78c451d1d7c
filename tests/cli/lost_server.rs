//! A server that is killed at random moments: state, exit code and data kept.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Place, SMALL, within_limit};

/// The run lasts far longer than any moment, so that every kill falls into it.
const ENDLESS: [&str; 3] = ["--starts=1", "--rounds=1000", "--verbose"];
/// The latest moment after the start was told.
const LATEST: Duration = Duration::from_millis(1500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// Somebody else runs it.
    Url,
    /// The harness launched it.
    Command,
}

#[test]
fn a_server_killed_at_any_moment_is_told_and_what_was_measured_is_kept() {
    killed_at(3);
}

/// The long form: `cargo test --test main lost_server -- --ignored --nocapture` prints its table.
#[test]
#[ignore = "a minute"]
fn a_server_killed_at_twenty_moments() {
    killed_at(20);
}

fn killed_at(moments: u64) {
    println!("{:<8} {:>7} {:<18} {:>4} {:>11}", "whose", "at ms", "state", "exit", "rounds kept");
    for whose in [Whose::Url, Whose::Command] {
        for moment in 0..moments {
            // Spread without a period, by the golden ratio.
            let at = LATEST.mul_f64((0.37 + moment as f64 * 0.618_034) % 1.0);
            let (state, rounds) = check(whose, at);
            println!(
                "{:<8} {:>7} {state:<18} {:>4} {rounds:>11}",
                format!("{whose:?}"),
                at.as_millis(),
                3
            );
        }
    }
}

/// The server's last state in the stored run, and the rounds that were kept whole.
fn check(whose: Whose, at: Duration) -> (String, usize) {
    let place = Place::new();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let program = env!("CARGO_BIN_EXE_inferometer");
    let serve = format!("{program} simulate --port {port}");
    let (url, launch) = (format!("--url=http://127.0.0.1:{port}"), format!("--server-cmd={serve}"));
    let mut server = (whose == Whose::Url).then(|| simulate(port));
    let mut args = [&["run"], &SMALL[..], &ENDLESS, &[url.as_str()]].concat();
    if whose == Whose::Command {
        args.push(&launch);
    }
    let mut child =
        place.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut told = String::new();
    while !told.contains("serving `sim`") {
        assert!(stdout.read_line(&mut told).unwrap() > 0, "{whose:?}: ended too early: {told}");
    }
    let reader = std::thread::spawn(move || {
        let rest = stdout.lines().map_while(Result::ok).collect::<Vec<_>>();
        (told, rest.join("\n"))
    });
    std::thread::sleep(at);
    match &mut server {
        Some(server) => server.kill().unwrap(),
        None => kill(launched(&serve), Signal::SIGKILL).unwrap(),
    }
    let output = within_limit(child);
    if let Some(mut server) = server {
        server.wait().unwrap();
    }
    let (begun, rest) = reader.join().unwrap();
    let all = format!("{begun}{rest}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(3), "{whose:?} at {at:?}: {all}");
    let run = place.run_json();
    let rounds = run["rounds"].as_array().unwrap();
    let finished = rest.matches("req/s  TTFT").count();
    assert!(rounds.len() >= finished, "{whose:?} at {at:?}: {} of {finished}: {all}", rounds.len());
    let state = rounds.last().map_or("none", |round| round["server"]["state"].as_str().unwrap());
    match whose {
        // Killed between two rounds, a server that we launched is found dead by the next start of one.
        Whose::Command => {
            assert!(all.contains("signal 9") || all.contains("SIGKILL"), "{at:?}: {all}")
        }
        Whose::Url => assert!(all.contains("the server stopped answering"), "{at:?}: {all}"),
    }
    assert!(!all.contains("overloaded") && !all.contains("beyond capacity"), "{at:?}: {all}");
    (state.to_owned(), rounds.len())
}

fn simulate(port: u16) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inferometer"));
    command.args(["simulate", "--port", &port.to_string()]);
    let server = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
    server
}

/// The process that the harness launched by this command.
fn launched(command: &str) -> Pid {
    let is_it = |entry: &std::fs::DirEntry| {
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        words.trim_end() == command
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let found = all.filter(is_it).find_map(|entry| entry.file_name().to_str()?.parse().ok());
    Pid::from_raw(found.expect("the launched server runs"))
}
