//! A server's life against real processes: ready, dying, hanging, orphaned, in somebody's way.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // helpers outside `#[test]` functions

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use inferometer::record::FindingCode;
use inferometer::server::{Launcher, Limits, Running};
use inferometer::settings::{Launch, Target, Timeouts};
use inferometer::transport::ClientSettings;
use inferometer::transport::{BaseUrl, Client};
use tempfile::TempDir;

/// A server in a line of Python: answers 200 to everything, and starts a child that outlives it.
const PYTHON: &str = "import http.server, subprocess, sys
port, child, session = int(sys.argv[1]), sys.argv[2], sys.argv[3] == 'own-session'
if child != '-':
    p = subprocess.Popen(['sleep', '600'], start_new_session=session)
    open(child, 'w').write(str(p.pid))
print('non-default args: {\\'max_model_len\\': 4096}', flush=True)
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == '/health' else 404)
        self.send_header('Content-Length', '0')
        self.end_headers()
http.server.ThreadingHTTPServer(('127.0.0.1', port), H).serve_forever()
";

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn client(url: &str) -> Client {
    Client::new(ClientSettings {
        base_url: BaseUrl::parse(url).unwrap(),
        api_key: None,
        body_secrets: Vec::new(),
        headers: Vec::new(),
        timeouts: Timeouts::default(),
        ca_cert_pem: None,
        insecure: false,
        pool: 1,
        closes_unannounced: std::sync::Arc::default(),
    })
    .unwrap()
}

struct Bed {
    folder: TempDir,
    port: u16,
}

impl Bed {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap(), port: free_port() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn launcher_of(&self, launch: Launch) -> Launcher {
        let url = format!("http://127.0.0.1:{}", self.port);
        let limits = Limits {
            poll: Duration::from_millis(20),
            stop: Duration::from_millis(800),
            ..Limits::default()
        };
        let target = Target::new(url.clone(), launch);
        Launcher::new(&target, client(&url), self.path("server.log")).unwrap().with_limits(limits)
    }

    fn launcher(&self, command: &str, ready_timeout_s: f64) -> Launcher {
        self.launcher_of(Launch::Command {
            command: command.to_owned(),
            ready_path: "/health".to_owned(),
            ready_timeout_s,
        })
    }

    fn python(&self, child: &str, session: &str) -> String {
        let script = self.path("server.py");
        std::fs::write(&script, PYTHON).unwrap();
        format!("python3 '{}' {} {child} {session}", script.display(), self.port)
    }

    async fn start(&self, command: &str, ready_timeout_s: f64) -> inferometer::Result<Running> {
        self.launcher(command, ready_timeout_s).start(&BTreeMap::new()).await
    }
}

/// Whether a process lives (a zombie does not).
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit(')').next().and_then(|s| s.split_whitespace().next()).is_some_and(|s| s != "Z")
}

fn on_linux() -> bool {
    Path::new("/proc/self/stat").exists()
}

#[tokio::test]
async fn a_server_gets_ready_and_is_stopped_whole() {
    let bed = Bed::new();
    let child = bed.path("child");
    let command = bed.python(&child.display().to_string(), "same");
    let mut launcher = bed.launcher(&command, 60.0);
    let mut identities = Vec::new();
    for _ in 0..2 {
        let mut running = launcher.start(&BTreeMap::new()).await.unwrap();
        assert!(running.alive());
        assert!(running.death().is_none());
        assert!(running.ready_s.unwrap() > 0.0);
        assert_eq!(running.argv[0], "python3");
        assert_eq!(running.engine_settings["max_model_len"], "4096");
        identities.push(running.identity.clone().unwrap());
        let pids = [running.pid().unwrap().to_string(), std::fs::read_to_string(&child).unwrap()];
        assert!(!on_linux() || pids.iter().all(|pid| lives(pid)));
        assert_eq!(running.stop().await.unwrap(), Vec::new());
        assert!(!on_linux() || !pids.iter().any(|pid| lives(pid)));
    }
    assert_ne!(identities[0], identities[1]);
}

#[tokio::test]
async fn an_orphan_in_a_session_of_its_own_is_ended_too() {
    if !on_linux() {
        return;
    }
    let bed = Bed::new();
    let child = bed.path("child");
    let command = bed.python(&child.display().to_string(), "own-session");
    let running = bed.start(&command, 60.0).await.unwrap();
    let pid = std::fs::read_to_string(&child).unwrap();
    running.stop().await.unwrap();
    assert!(!lives(&pid));
}

#[tokio::test]
async fn a_server_killed_in_mid_run_is_told_and_its_orphans_are_ended() {
    let bed = Bed::new();
    let child = bed.path("child");
    let command = bed.python(&child.display().to_string(), "same");
    let mut running = bed.start(&command, 60.0).await.unwrap();
    let leader = i32::try_from(running.pid().unwrap()).unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(leader), nix::sys::signal::Signal::SIGKILL)
        .unwrap();
    while running.alive() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let death = running.death().unwrap().render();
    assert!(death.contains("signal: 9"), "{death}");
    assert!(death.contains("non-default args"), "{death}");
    let pid = std::fs::read_to_string(&child).unwrap();
    assert!(!on_linux() || lives(&pid));
    running.stop().await.unwrap();
    assert!(!on_linux() || !lives(&pid));
}

#[tokio::test]
async fn dropped_it_is_killed() {
    let bed = Bed::new();
    let child = bed.path("child");
    let command = bed.python(&child.display().to_string(), "same");
    let running = bed.start(&command, 60.0).await.unwrap();
    let leader = running.pid().unwrap().to_string();
    let pid = std::fs::read_to_string(&child).unwrap();
    drop(running);
    // The kill has been sent; the kernel may still be at it.
    for _ in 0..500 {
        if !lives(&pid) && !lives(&leader) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("still alive");
}

#[tokio::test]
async fn one_that_dies_at_once_says_why_without_its_key() {
    let bed = Bed::new();
    let command = "sh -c 'echo out of memory, key $0 $1 >&2; exit 3' --api-key s3cret-value";
    let error = bed.start(command, 60.0).await.unwrap_err().render();
    assert!(error.contains("exit status: 3"), "{error}");
    assert!(error.contains("out of memory, key --api-key [redacted]"), "{error}");
    assert!(!error.contains("s3cret"), "{error}");
}

#[tokio::test]
async fn one_that_never_gets_ready_is_ended() {
    let bed = Bed::new();
    let pid_file = bed.path("pid");
    let command = format!("sh -c 'echo $$ > {}; echo loading; exec sleep 600'", pid_file.display());
    let error = bed.start(&command, 0.4).await.unwrap_err().render();
    assert!(error.contains("not ready at `/health` within"), "{error}");
    assert!(error.contains("loading"), "{error}");
    assert!(!on_linux() || !lives(&std::fs::read_to_string(pid_file).unwrap()));
}

#[tokio::test]
async fn a_start_given_up_half_way_leaves_nothing_behind() {
    let bed = Bed::new();
    let pid_file = bed.path("pid");
    let command = format!("sh -c 'echo $$ > {}; exec sleep 600'", pid_file.display());
    let written = async {
        while !std::fs::read_to_string(&pid_file).is_ok_and(|pid| pid.ends_with('\n')) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        started = bed.start(&command, 60.0) => panic!("{started:?}"),
        () = written => {}
    }
    assert!(!on_linux() || !lives(&std::fs::read_to_string(pid_file).unwrap()));
}

#[tokio::test]
async fn one_that_ignores_the_request_to_end_is_killed() {
    let bed = Bed::new();
    let server = bed.python("-", "same");
    let command = format!("sh -c \"trap '' TERM; {}; true\"", server.replace('\'', ""));
    let running = bed.start(&command, 60.0).await.unwrap();
    let pid = running.pid().unwrap().to_string();
    running.stop().await.unwrap();
    assert!(!on_linux() || !lives(&pid));
}

#[tokio::test]
async fn a_taken_port_is_an_error_that_names_it() {
    let bed = Bed::new();
    let _taken = std::net::TcpListener::bind(("127.0.0.1", bed.port)).unwrap();
    let error = bed.start("true", 60.0).await.unwrap_err().render();
    assert!(error.contains("something already answers at `127.0.0.1:"), "{error}");
    assert!(error.contains("last week's server?"), "{error}");
    assert!(!bed.path("server.log").exists(), "nothing was launched");
}

#[tokio::test]
async fn another_process_that_answers_is_not_taken_for_ours() {
    if !on_linux() {
        return;
    }
    let bed = Bed::new();
    let begun = bed.path("begun");
    let command = format!("sh -c 'touch {}; exec sleep 600'", begun.display());
    let intruder = async {
        while !begun.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        answer(bed.port, || "{}".to_owned()).await;
    };
    let started = tokio::select! {
        started = bed.start(&command, 60.0) => started,
        () = intruder => unreachable!("it answers for ever"),
    };
    let error = started.unwrap_err().render();
    assert!(error.contains("is not the server that was launched"), "{error}");
}

#[tokio::test]
async fn a_program_that_is_missing_is_named() {
    let bed = Bed::new();
    let error = bed.start("no-such-server --port 1", 60.0).await.unwrap_err().render();
    assert!(error.contains("cannot launch `no-such-server`"), "{error}");
    assert!(error.contains("is it installed"), "{error}");
}

/// Answers every request with 200 and this body, for ever.
async fn answer(port: u16, body: impl Fn() -> String) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    loop {
        let Ok((mut socket, _)) = listener.accept().await else { continue };
        let mut request = [0_u8; 4096];
        let _ = socket.read(&mut request).await;
        let body = body();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let _ = socket.write_all(format!("{head}{body}").as_bytes()).await;
    }
}

fn hooks(restart: String, stop: Option<String>, ready_timeout_s: f64) -> Launch {
    Launch::Hooks { restart, stop, ready_path: "/health".to_owned(), ready_timeout_s }
}

#[tokio::test]
async fn a_restart_hook_must_restart() {
    let bed = Bed::new();
    let state = bed.path("state");
    std::fs::write(&state, "process_start_time_seconds 1\n").unwrap();
    let page = || std::fs::read_to_string(&state).unwrap_or_default();
    let server = answer(bed.port, page);
    let restart = format!("echo process_start_time_seconds 2 > {}", state.display());
    let stopped = bed.path("stopped");
    let stop = format!("touch {}", stopped.display());
    let mut good = bed.launcher_of(hooks(restart, Some(stop), 60.0));
    let mut idle = bed.launcher_of(hooks("true".to_owned(), None, 0.3));
    let work = async {
        let running = good.start(&BTreeMap::new()).await.unwrap();
        assert_eq!(running.identity.as_deref(), Some("process_start_time_seconds=2"));
        assert_eq!(running.findings, Vec::new());
        assert_eq!(running.stop().await.unwrap(), Vec::new());
        good.finish().await.unwrap();
        assert!(stopped.exists());
        idle.start(&BTreeMap::new()).await.unwrap_err().render()
    };
    let error = tokio::select! { error = work => error, () = server => unreachable!() };
    assert!(error.contains("still the process from before the restart"), "{error}");
}

#[tokio::test]
async fn a_restart_that_cannot_be_proven_is_a_finding() {
    let bed = Bed::new();
    let mut launcher = bed.launcher_of(hooks("true".to_owned(), None, 60.0));
    let none = BTreeMap::new();
    let running = tokio::select! {
        running = launcher.start(&none) => running.unwrap(),
        () = answer(bed.port, String::new) => unreachable!(),
    };
    assert_eq!(running.findings[0].code, FindingCode::RestartUnproven);
    assert!(running.identity.is_some());
}

#[tokio::test]
async fn a_hook_that_fails_or_hangs_says_so() {
    let bed = Bed::new();
    let mut fails = bed.launcher_of(hooks("echo no such container; exit 7".to_owned(), None, 60.0));
    let error = fails.start(&BTreeMap::new()).await.unwrap_err().render();
    assert!(error.contains("exit status: 7") && error.contains("no such container"), "{error}");
    let mut hangs = bed.launcher_of(hooks("sleep 600".to_owned(), None, 0.2));
    let error = hangs.start(&BTreeMap::new()).await.unwrap_err().render();
    assert!(error.contains("did not end within 200 ms"), "{error}");
}

#[test]
fn the_simulator_and_a_broken_command_are_refused() {
    let target = |launch| Target::new("http://127.0.0.1:1".to_owned(), launch);
    let new = |launch| {
        Launcher::new(&target(launch), client("http://127.0.0.1:1"), PathBuf::from("unused.log"))
    };
    assert!(new(Launch::Simulator { preset: "demo".to_owned(), slowdown: 1.0 }).is_err());
    let broken = Launch::Command {
        command: "vllm 'serve".to_owned(),
        ready_path: "/health".to_owned(),
        ready_timeout_s: 1.0,
    };
    assert!(new(broken).is_err());
}
