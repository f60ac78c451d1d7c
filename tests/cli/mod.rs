//! The surface as a user meets it: the binary, its words, exit codes, signals and secrets.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers outside `#[test]` functions

mod bench_serve;
mod exits;
mod flags;
#[cfg(target_os = "linux")]
mod lost_server;
mod machine;
mod planted;
mod secrets;
mod signals;
mod texts;

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use inferometer::internals::sim::{Preset, SimConfig, SimServer};
use tempfile::TempDir;

/// Longer than anything here takes on a busy machine; a hang ends the test, not the suite.
const LIMIT: Duration = Duration::from_secs(60);

/// A few requests of a few tokens: what a run does, in a second.
pub(crate) const SMALL: [&str; 9] = [
    "--random-input-len=16",
    "--random-output-len=4",
    "--max-concurrency=1,2",
    "--num-prompts=4",
    "--warm-up-time=50ms",
    "--cool-down=0s",
    "--no-reference",
    "--metadata=purpose=test",
    "--seed=3",
];

/// An empty folder to call the binary in.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The binary, with nothing of the caller's environment that it reads.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_inferometer"));
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if ["INFEROMETER_", "OPENAI_", "NO_COLOR"].iter().any(|start| text.starts_with(start)) {
                command.env_remove(&name);
            }
        }
        command.env("COLUMNS", "80");
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Said {
        Said::of(self.command(args))
    }

    /// A small run, with more flags.
    pub(crate) fn small(&self, args: &[&str]) -> Said {
        self.run(&[&["run"], &SMALL[..], args].concat())
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    /// Every byte below the folder, file by file.
    pub(crate) fn files(&self) -> Vec<(std::path::PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        let mut folders = vec![self.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let bytes = std::fs::read(&path).unwrap();
                    found.push((path, bytes));
                }
            }
        }
        found
    }

    /// The record of the only run.
    pub(crate) fn run_json(&self) -> serde_json::Value {
        let files = self.files();
        let mut runs = files.iter().filter(|(path, _)| path.ends_with("run.json"));
        let (_, bytes) = runs.next().expect("a run is stored");
        serde_json::from_slice(bytes).unwrap()
    }
}

/// What a command said and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    pub(crate) fn of(mut command: Command) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let Output { status, stdout, stderr } = within_limit(child);
        Self {
            code: status.code(),
            stdout: String::from_utf8(stdout).unwrap(),
            stderr: String::from_utf8(stderr).unwrap(),
        }
    }

    #[track_caller]
    pub(crate) fn ended_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }

    /// What a person reads fits a terminal of 80 columns, without control codes.
    #[track_caller]
    pub(crate) fn fit_to_read(self) -> Self {
        for line in self.stdout.lines().chain(self.stderr.lines()) {
            let is_path = line.starts_with("report: ");
            assert!(is_path || line.chars().count() <= 80, "wide: {line}");
            assert!(!line.contains(char::is_control), "control codes: {line:?}");
        }
        self
    }
}

/// Waits for a child whose streams are read to their ends; a hang kills it.
pub(crate) fn within_limit(mut child: Child) -> Output {
    let reader = |stream: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut stream) = stream {
                stream.read_to_end(&mut bytes).unwrap();
            }
            bytes
        })
    };
    let stdout = reader(child.stdout.take().map(|s| Box::new(s) as _));
    let stderr = reader(child.stderr.take().map(|s| Box::new(s) as _));
    let status = end_of(&mut child);
    Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

#[allow(clippy::disallowed_methods)] // a limit on a child, not a measurement
pub(crate) fn end_of(child: &mut Child) -> ExitStatus {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begin.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("still running after {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A simulator in this process, with quick answers.
pub(crate) fn simulator(change: impl FnOnce(&mut SimConfig)) -> SimServer {
    let mut config = SimConfig::preset(Preset::Demo);
    change(&mut config);
    SimServer::start(config).unwrap()
}
