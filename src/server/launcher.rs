//! The launcher: starts one side's server, as often as the plan asks.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::command::CommandLine;
use super::limits::Limits;
use super::log::{self, tail, with_log};
use super::log_settings::engine_settings;
use super::port::Address;
use super::process_group::ProcessGroup;
use super::ready;
use super::redact::redact_command;
use super::running::{Running, gpu_memory_mib};
use super::secrets::Secrets;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::record::{Finding, FindingCode, Severity};
use crate::settings::{ApiKey, Launch, Target};
use crate::store::files;
use crate::telemetry::{self, Snapshot};
use crate::transport::Client;
use crate::units;

/// Starts one side's server, once or many times.
#[derive(Debug)]
pub struct Launcher {
    target: Target,
    address: Address,
    client: Client,
    log_path: PathBuf,
    api_key: Option<ApiKey>,
    limits: Limits,
    /// The GPU's memory before our first launch, MiB.
    gpu_idle_mib: Option<f64>,
}

impl Launcher {
    /// A launcher for this target. `client` asks its ready path and `/metrics` (its own pool, apart
    /// from the load's); servers and hooks write to `log_path`.
    ///
    /// # Errors
    /// Where the URL has no host, the command cannot be split, or the target is the simulator,
    /// which is not a process.
    pub fn new(target: &Target, client: Client, log_path: PathBuf) -> Result<Self> {
        match &target.launch {
            Launch::Simulator { .. } => {
                return Err(Error::usage("the simulator is embedded: it is not launched"));
            }
            Launch::Command { command, .. } => {
                CommandLine::parse(command)?;
            }
            Launch::External | Launch::Hooks { .. } => {}
        }
        Ok(Self {
            address: Address::of(&target.url)?,
            target: target.clone(),
            client,
            log_path,
            api_key: None,
            limits: Limits::default(),
            gpu_idle_mib: None,
        })
    }

    /// The client's key, so that it is taken out of what the server logs.
    #[must_use]
    pub fn with_api_key(mut self, api_key: Option<ApiKey>) -> Self {
        self.api_key = api_key;
        self
    }

    /// Other limits.
    #[must_use]
    #[cfg(test)]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Starts the server and waits until it is ready; `environment` is added to our own. Dropping
    /// the future, on an interrupt, kills what was launched.
    ///
    /// # Errors
    /// Where something answers at the address already, the launch fails, the server dies or does
    /// not get ready (with its log's tail), or a hook fails or restarts nothing.
    pub async fn start(&mut self, environment: &BTreeMap<String, String>) -> Result<Running> {
        match self.target.launch.clone() {
            Launch::Simulator { .. } => {
                Err(Error::usage("the simulator is embedded: it is not launched"))
            }
            Launch::External => {
                if let Some(wait) = &self.target.wait {
                    let path = wait.path.as_deref();
                    ready::wait_for(&self.client, path, seconds(wait.timeout_s), &self.limits)
                        .await?;
                }
                Ok(self.running(telemetry::snapshot(&self.client).await))
            }
            Launch::Command { command, ready_path, ready_timeout_s } => {
                let command = CommandLine::parse(&command)?;
                let timeout = seconds(ready_timeout_s);
                self.launch(command, environment, &ready_path, timeout).await
            }
            Launch::Hooks { restart, ready_path, ready_timeout_s, .. } => {
                let timeout = seconds(ready_timeout_s);
                self.restart(&restart, environment, &ready_path, timeout).await
            }
        }
    }

    /// Runs the stop hook, where there is one: once, at the end of a run.
    ///
    /// # Errors
    /// Where the hook fails or takes too long.
    pub async fn finish(self) -> Result<()> {
        let Launch::Hooks { stop: Some(stop), .. } = &self.target.launch else { return Ok(()) };
        self.hook("stop hook", stop, &BTreeMap::new(), self.limits.hook).await
    }

    async fn launch(
        &mut self,
        command: CommandLine,
        environment: &BTreeMap<String, String>,
        ready_path: &str,
        timeout: Duration,
    ) -> Result<Running> {
        if self.address.answers().await {
            return Err(Error::server(format!(
                "something already answers at `{}`: last week's server?",
                self.address
            ))
            .with_hint("stop it, or give this one another port with `--url` and in its command"));
        }
        if self.gpu_idle_mib.is_none() {
            self.gpu_idle_mib = gpu_memory_mib().await;
        }
        let clock = Clock::start();
        let log = self.open_log()?;
        let log_start = log.metadata().map_or(0, |meta| meta.len());
        let mut running = self.running(None);
        running.argv = command.redacted();
        running.environment_names =
            command.environment.keys().chain(environment.keys()).cloned().collect();
        running.secrets = Secrets::of(&command, environment, self.api_key.as_ref());
        running.log_start = Some(log_start);
        let mut group = ProcessGroup::spawn(&command, environment, log)?;
        let ready =
            ready::wait_for_group(&mut group, &self.client, ready_path, timeout, &self.limits);
        if let Err(error) = ready.await {
            let error = with_log(error, &running.log_tail(), &self.log_path);
            return Err(self.abandon(group, error).await);
        }
        if let Err(error) = ready::check_owner(&mut group, &self.address, &self.limits).await {
            return Err(self.abandon(group, error).await);
        }
        running.ready_s = Some(units::ns_to_s(clock.now_ns()));
        let snapshot = telemetry::snapshot(&self.client).await;
        let launched = || format!("launched {} as process {}", clock.wall_origin(), group.pid());
        running.identity =
            snapshot.as_ref().and_then(Snapshot::identity).or_else(|| Some(launched()));
        running.engine_settings = engine_settings(&running.log());
        running.take_settings(snapshot);
        running.group = Some(group);
        Ok(running)
    }

    /// Ends what did not get ready. The first error is the one to tell.
    async fn abandon(&self, group: ProcessGroup, error: Error) -> Error {
        // Half a start deserves no long farewell.
        let _ = group.stop(self.limits.stop.min(Duration::from_secs(5))).await;
        error
    }

    async fn restart(
        &mut self,
        hook: &str,
        environment: &BTreeMap<String, String>,
        ready_path: &str,
        timeout: Duration,
    ) -> Result<Running> {
        let before = telemetry::snapshot(&self.client).await.and_then(|s| s.identity());
        let clock = Clock::start();
        self.hook("restart hook", hook, environment, timeout).await?;
        let left = timeout.saturating_sub(Duration::from_nanos(clock.now_ns()));
        let snapshot = ready::wait_for_restart(
            &self.client,
            ready_path,
            left,
            before.as_deref(),
            &self.limits,
        )
        .await?;
        let mut running = self.running(snapshot);
        running.argv = vec![redact_command(hook)];
        running.environment_names = environment.keys().cloned().collect();
        running.ready_s = Some(units::ns_to_s(clock.now_ns()));
        if running.identity.is_none() {
            running.findings.push(
                Finding::new(
                    FindingCode::RestartUnproven,
                    Severity::Warning,
                    "the server does not tell when its process began: that the restart hook \
                     restarted it is taken on trust",
                )
                .with_hint("offer `process_start_time_seconds` at `/metrics`"),
            );
            running.identity = Some(format!("restarted {}", clock.wall_origin()));
        }
        Ok(running)
    }

    /// Runs a hook by the shell, since pipes and `&&` are what hooks are made of.
    async fn hook(
        &self,
        name: &str,
        hook: &str,
        environment: &BTreeMap<String, String>,
        limit: Duration,
    ) -> Result<()> {
        let argv = vec!["sh".to_owned(), "-c".to_owned(), hook.to_owned()];
        let command = CommandLine { argv, environment: BTreeMap::new() };
        let secrets = Secrets::of(&command, environment, self.api_key.as_ref());
        let log = self.open_log()?;
        let from = log.metadata().map_or(0, |meta| meta.len());
        let mut group = ProcessGroup::spawn(&command, environment, log)?;
        let poll = self.limits.poll;
        let wait = async {
            loop {
                if let Some(status) = group.exit_status() {
                    return status;
                }
                tokio::time::sleep(poll).await;
            }
        };
        let shown = redact_command(hook);
        let logged = || secrets.redact(&tail(&self.log_path, from));
        let ended = match tokio::time::timeout(limit, wait).await {
            Ok(status) if status.success() => {
                // What it has left running may be the server.
                group.release();
                Ok(())
            }
            Ok(status) => {
                let error = Error::server(format!("the {name} `{shown}` failed ({status})"));
                Err(with_log(error, &logged(), &self.log_path))
            }
            Err(_) => {
                let limit = units::duration(limit.as_secs_f64());
                let error =
                    Error::server(format!("the {name} `{shown}` did not end within {limit}"));
                Err(with_log(error, &logged(), &self.log_path))
            }
        };
        log::keep(&self.log_path, from, &secrets);
        ended
    }

    fn open_log(&self) -> Result<std::fs::File> {
        files::append_file(&self.log_path)
    }

    fn running(&self, snapshot: Option<Snapshot>) -> Running {
        let mut running = Running::new(
            self.target.url.clone(),
            self.address.clone(),
            self.log_path.clone(),
            self.limits,
        );
        running.gpu_idle_mib = self.gpu_idle_mib;
        running.identity = snapshot.as_ref().and_then(Snapshot::identity);
        running.take_settings(snapshot);
        running
    }
}

fn seconds(seconds: f64) -> Duration {
    // A year: beyond any model's loading time, and within what timers can hold.
    Duration::try_from_secs_f64(seconds.clamp(0.0, 3.2e7)).unwrap_or(Duration::from_secs(600))
}
