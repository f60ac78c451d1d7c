//! A target: a server's address and who starts it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::value;
use crate::error::{Error, Result};

/// Where a server that we launch listens unless a URL says otherwise.
pub const DEFAULT_URL: &str = "http://127.0.0.1:8000";
/// vLLM and SGLang answer here.
pub const DEFAULT_READY_PATH: &str = "/health";
/// A large model takes minutes to load and to compile.
pub const DEFAULT_READY_TIMEOUT: Duration = Duration::from_secs(1200);

/// Who starts the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Launch {
    /// The embedded simulator.
    Simulator {
        /// The preset's name.
        preset: String,
        /// A factor on every iteration's time: 1.1 is 10 % slower, to try the gate.
        slowdown: f64,
    },
    /// Somebody else; it just has a URL.
    External,
    /// We do, by a command run in its own process group.
    Command {
        /// The command line, split as a shell would.
        command: String,
        /// The path that answers 200 when the server is ready.
        ready_path: String,
        /// How long to wait for it, seconds.
        ready_timeout_s: f64,
    },
    /// Hooks that restart and stop it: containers, units, pods.
    Hooks {
        /// Restarts the server; returns when the restart is under way or done.
        restart: String,
        /// Stops it at the end, where given.
        stop: Option<String>,
        /// The path that answers 200 when the server is ready.
        ready_path: String,
        /// How long to wait for it, seconds.
        ready_timeout_s: f64,
    },
}

/// One side of a comparison: a server and how it comes up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The base URL. The simulator fills it in; empty for an other side that listens where the
    /// judged server does.
    pub url: String,
    /// Where the engine itself answers, where `url` is of a gateway before it: it is started, watched and
    /// read there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_url: Option<String>,
    /// Who starts it.
    pub launch: Launch,
    /// How long to wait for a server that somebody else starts; none: it has to be ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<ReadyWait>,
}

/// A wait for a server that somebody else starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReadyWait {
    /// The path that answers 200 when it is ready; none: its list of models.
    pub path: Option<String>,
    /// How long to wait, seconds.
    pub timeout_s: f64,
}

impl Target {
    /// A server at a base URL, and who starts it.
    #[must_use]
    pub fn new(url: impl Into<String>, launch: Launch) -> Self {
        Self { url: url.into(), engine_url: None, launch, wait: None }
    }

    /// The engine itself, where it is started, watched and read.
    #[must_use]
    pub(crate) fn engine(&self) -> Self {
        Self { url: self.engine_url.clone().unwrap_or_else(|| self.url.clone()), ..self.clone() }
    }

    /// The embedded simulator.
    #[must_use]
    pub fn simulator(preset: impl Into<String>) -> Self {
        Self::new("", Launch::Simulator { preset: preset.into(), slowdown: 1.0 })
    }
}

/// How a server comes up, as flags and files say it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LaunchSpec {
    /// The base URL; none: [`DEFAULT_URL`] where we launch it.
    pub url: Option<String>,
    /// Where the engine itself answers, where that is elsewhere.
    #[serde(alias = "metrics_url")]
    pub engine_url: Option<String>,
    /// The command that runs it.
    pub command: Option<String>,
    /// The path that answers 200 when it is ready; none: [`DEFAULT_READY_PATH`].
    #[serde(rename = "ready")]
    pub ready_path: Option<String>,
    /// How long to wait for that; none: [`DEFAULT_READY_TIMEOUT`].
    #[serde(deserialize_with = "value::some_duration")]
    pub ready_timeout: Option<Duration>,
    /// The hook that restarts it.
    pub restart: Option<String>,
    /// The hook that stops it.
    pub stop: Option<String>,
}

impl LaunchSpec {
    /// The server it describes; `None` if it gives no information.
    ///
    /// # Errors
    /// Where a command and hooks are both given, a stop hook without a launch, or a ready check without a
    /// server.
    pub fn target(&self) -> Result<Option<Target>> {
        self.target_at(DEFAULT_URL)
    }

    /// The other side it describes: without a URL it listens where the judged server does, since the
    /// two take turns.
    ///
    /// # Errors
    /// As [`Self::target`].
    pub fn against(&self) -> Result<Option<Target>> {
        self.target_at("")
    }

    fn target_at(&self, default_url: &str) -> Result<Option<Target>> {
        let ready_path = self.ready_path.clone().unwrap_or_else(|| DEFAULT_READY_PATH.to_owned());
        let ready_timeout_s = self.ready_timeout.unwrap_or(DEFAULT_READY_TIMEOUT).as_secs_f64();
        let launch = match (&self.command, &self.restart) {
            (Some(_), Some(_)) => {
                return Err(Error::usage("both a server command and a restart hook are given")
                    .with_hint(
                        "a command is restarted by the harness itself: leave the hook out",
                    ));
            }
            (Some(_), None) if self.stop.is_some() => {
                return Err(Error::usage("both a server command and a stop hook are given")
                    .with_hint("a command is stopped by the harness itself: leave the hook out"));
            }
            (Some(command), None) => {
                Launch::Command { command: command.clone(), ready_path, ready_timeout_s }
            }
            (None, Some(restart)) => Launch::Hooks {
                restart: restart.clone(),
                stop: self.stop.clone(),
                ready_path,
                ready_timeout_s,
            },
            (None, None) => {
                let waits = self.ready_path.is_some() || self.ready_timeout.is_some();
                if self.stop.is_some() || (waits && self.url.is_none()) {
                    return Err(Error::usage("a ready check or stop hook without a server")
                        .with_hint(
                            "give the URL, the command or the restart hook that goes with it",
                        ));
                }
                let wait = ReadyWait { path: self.ready_path.clone(), timeout_s: ready_timeout_s };
                let external = |url: &String| Target {
                    engine_url: self.engine_url.clone(),
                    wait: waits.then(|| wait.clone()),
                    ..Target::new(url.clone(), Launch::External)
                };
                return match (&self.url, &self.engine_url) {
                    (None, Some(engine)) => Err(Error::usage(format!(
                        "the engine's address `{engine}` is given, and none to send requests to"
                    ))
                    .with_hint(
                        "give the gateway's: `--url`; without a gateway it is `--url` alone",
                    )),
                    (url, _) => Ok(url.as_ref().map(external)),
                };
            }
        };
        let url = self.url.clone().unwrap_or_else(|| default_url.to_owned());
        Ok(Some(Target { engine_url: self.engine_url.clone(), ..Target::new(url, launch) }))
    }
}
