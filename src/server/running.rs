//! A running server: what it is, whether it lives, how it ends.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::limits::Limits;
use super::log::{self, tail, with_log};
use super::port::Address;
use super::process_group::ProcessGroup;
use super::secrets::Secrets;
use crate::error::{Error, Result};
use crate::record::{Finding, FindingCode, ServerState, Severity};
use crate::store::files;
use crate::telemetry::{Snapshot, nvidia};
use crate::units;

/// Bytes of a log read for the engine's settings: they stand in its first lines.
const LOG_BYTES: u64 = 4 * 1024 * 1024;

/// How long a port may take to fall silent after its server's end.
const SILENCE_LIMIT: Duration = Duration::from_secs(5);

/// One start of a server. Dropped, it kills what it launched.
pub struct Running {
    /// Where it answers.
    pub url: String,
    /// What distinguishes this start from another: `process_start_time_seconds`, else our own launch; none
    /// where somebody else started it and it does not tell.
    pub identity: Option<String>,
    /// Seconds from the launch until it was ready, where we launched it.
    pub ready_s: Option<f64>,
    /// The command or hook, secrets hidden; empty where we launched nothing.
    pub argv: Vec<String>,
    /// Names of the variables given to it.
    pub environment_names: Vec<String>,
    /// The engine's own effective settings, from its log and `/metrics`.
    pub engine_settings: BTreeMap<String, String>,
    /// What limits trust in this start.
    pub findings: Vec<Finding>,
    pub(super) group: Option<ProcessGroup>,
    pub(super) secrets: Secrets,
    /// Where the log of this start begins; none where we launched none.
    pub(super) log_start: Option<u64>,
    pub(super) gpu_idle_mib: Option<f64>,
    address: Address,
    log_path: PathBuf,
    limits: Limits,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running")
            .field("url", &self.url)
            .field("identity", &self.identity)
            .field("argv", &self.argv)
            .finish_non_exhaustive()
    }
}

impl Running {
    pub(super) fn new(url: String, address: Address, log_path: PathBuf, limits: Limits) -> Self {
        Self {
            url,
            identity: None,
            ready_s: None,
            argv: Vec::new(),
            environment_names: Vec::new(),
            engine_settings: BTreeMap::new(),
            findings: Vec::new(),
            group: None,
            secrets: Secrets::default(),
            log_start: None,
            gpu_idle_mib: None,
            address,
            log_path,
            limits,
        }
    }

    pub(super) fn take_settings(&mut self, snapshot: Option<Snapshot>) {
        if let Some(snapshot) = snapshot {
            self.engine_settings.extend(snapshot.engine_settings);
        }
    }

    /// The process we launched; `None` if we launched none.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.group.as_ref().map(ProcessGroup::pid)
    }

    /// Whether the process we launched lives. True where we launched none: its requests will tell.
    #[cfg(test)]
    pub fn alive(&mut self) -> bool {
        self.group.as_mut().is_none_or(|group| group.exit_status().is_none())
    }

    /// What to report where the process we launched has ended by itself: how, and its log's tail.
    pub fn death(&mut self) -> Option<Error> {
        let status = self.group.as_mut()?.exit_status()?;
        let error = Error::server(format!("the server ended while it was measured ({status})"));
        Some(with_log(error, &self.log_tail(), &self.log_path))
    }

    /// The state of the process we launched where it has ended by itself.
    pub fn died(&mut self) -> Option<ServerState> {
        if let Some(from) = self.log_start.filter(|from| log::is_too_long(&self.log_path, *from)) {
            log::keep(&self.log_path, from, &self.secrets);
        }
        let status = self.group.as_mut()?.exit_status()?;
        Some(ServerState::Died { how: status.to_string(), log_tail: self.log_tail() })
    }

    /// The last 20 lines of what this start has logged, secrets taken out.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.secrets.redact(&tail(&self.log_path, self.log_start.unwrap_or(0)))
    }

    /// What this start has logged, its last 4 MiB, secrets taken out.
    pub(super) fn log(&self) -> String {
        let text = files::read_tail(&self.log_path, self.log_start.unwrap_or(0), LOG_BYTES)
            .unwrap_or_default();
        self.secrets.redact(&text)
    }

    /// Stops the server with all its workers, and waits until its port is silent and the GPU's
    /// memory has come back. Does nothing where we launched no process.
    ///
    /// # Errors
    /// Where a process of it cannot be ended, or something still answers at its port.
    pub async fn stop(mut self) -> Result<Vec<Finding>> {
        let mut findings = std::mem::take(&mut self.findings);
        let Some(group) = self.group.take() else { return Ok(findings) };
        group.stop(self.limits.stop).await?;
        self.wait_for_silence().await?;
        findings.extend(self.wait_for_gpu().await);
        Ok(findings)
    }

    async fn wait_for_silence(&self) -> Result<()> {
        let wait = async {
            while self.address.answers().await {
                tokio::time::sleep(self.limits.poll).await;
            }
        };
        tokio::time::timeout(SILENCE_LIMIT, wait).await.map_err(|_| {
            Error::server(format!("something still answers at `{}` after the stop", self.address))
                .with_hint(
                    "the command started a process outside its own group; use `--restart-cmd` and \
                     `--stop-cmd` for containers and daemons",
                )
        })
    }

    async fn wait_for_gpu(&self) -> Option<Finding> {
        let idle_mib = self.gpu_idle_mib? + self.limits.gpu_slack_mib;
        let wait = async {
            while gpu_memory_mib().await.is_some_and(|used| used > idle_mib) {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        let waited = tokio::time::timeout(self.limits.gpu_idle, wait).await;
        let limit = units::duration(self.limits.gpu_idle.as_secs_f64());
        waited.err().map(|_| {
            Finding::new(
                FindingCode::GpuMemoryHeld,
                Severity::Warning,
                format!("the GPU's memory had not come back {limit} after the server's end"),
            )
            .with_hint("look with `nvidia-smi` for a process that holds it")
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.group.take());
        if let Some(from) = self.log_start {
            log::keep(&self.log_path, from, &self.secrets);
        }
    }
}

/// Memory in use on all GPUs, MiB; `None` without a visible GPU.
pub(super) async fn gpu_memory_mib() -> Option<f64> {
    let gpus = tokio::task::spawn_blocking(nvidia::query).await.ok()??;
    gpus.iter().map(|gpu| gpu.memory_used_mib).sum()
}
