//! One side's server, whoever starts it: the embedded simulator, a command, hooks or somebody else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::plan::Side;
use crate::record::{Finding, ServerState, StoredStart};
use crate::rng::Seed;
use crate::server::{Launcher, Running};
use crate::settings::launch::ReadyWait;
use crate::settings::{Launch, Settings, Target, extra_body};
use crate::sim::{Preset, SimConfig, SimServer, start_seed};
use crate::store::Store;
use crate::transport::base_url::BaseUrl;
use crate::transport::{Client, ClientSettings};
use crate::units;

/// A few connections of its own for checks and metrics, apart from the load's.
const CONTROL_POOL: usize = 4;

/// One side's server.
pub(super) struct SideServer {
    side: Side,
    target: Target,
    kind: Kind,
    seed: Seed,
}

enum Kind {
    Simulated {
        config: Box<SimConfig>,
        server: Option<Box<SimServer>>,
    },
    Launched {
        launcher: Box<Launcher>,
        running: Option<Box<Running>>,
        /// Who waits for the gateway, once the engine behind it is ready.
        gateway: Option<Box<Launcher>>,
    },
}

/// What a start told of itself.
#[derive(Debug, Clone, Default)]
pub(super) struct Started {
    pub(super) url: String,
    /// Where the engine answers; the same without a gateway.
    pub(super) engine_url: String,
    pub(super) identity: Option<String>,
    pub(super) ready_s: Option<f64>,
    pub(super) engine_settings: BTreeMap<String, String>,
    pub(super) argv: Vec<String>,
    pub(super) environment_names: Vec<String>,
    pub(super) findings: Vec<Finding>,
}

/// The servers of a run. A side that we launch and that names no address listens where the judged
/// server does: the two take turns.
pub(super) fn targets(settings: &Settings) -> Vec<(Side, Target)> {
    let mut targets = vec![(Side::New, settings.target.clone())];
    if let Some(mut against) = settings.against.clone() {
        if matches!(against.launch, Launch::Command { .. } | Launch::Hooks { .. })
            && against.url.is_empty()
        {
            against.url.clone_from(&settings.target.url);
            against.engine_url = against.engine_url.or_else(|| settings.target.engine_url.clone());
        }
        targets.push((Side::Base, against));
    }
    targets
}

impl SideServer {
    /// Nothing is started yet.
    pub(super) fn new(
        side: Side,
        target: &Target,
        settings: &Settings,
        store: &Store,
        run_id: &str,
    ) -> Result<Self> {
        let kind = match &target.launch {
            Launch::Simulator { preset, slowdown } => {
                Kind::Simulated { config: Box::new(simulator(preset, *slowdown)?), server: None }
            }
            _ => {
                let launcher = |target: &Target| -> Result<Launcher> {
                    let client = client(&target.url, settings, CONTROL_POOL)?;
                    let log = store.layout().server_log(run_id, side.name());
                    Ok(Launcher::new(target, client, log)?.with_api_key(settings.api_key.clone()))
                };
                let gateway = gateway(target).map(|gateway| launcher(&gateway)).transpose()?;
                Kind::Launched {
                    launcher: Box::new(launcher(&target.engine())?),
                    running: None,
                    gateway: gateway.map(Box::new),
                }
            }
        };
        Ok(Self { side, target: target.clone(), kind, seed: settings.seed })
    }

    /// Starts it anew (or finds it, where somebody else runs it).
    pub(super) async fn start(&mut self, block: u32, clock: Clock) -> Result<Started> {
        match &mut self.kind {
            Kind::Simulated { config, server } => {
                config.seed = start_seed(self.seed, self.side.name(), u64::from(block));
                config.clock = Some(clock);
                let started = SimServer::start((**config).clone())?;
                let url = started.url();
                *server = Some(Box::new(started));
                let identity = Some(StoredStart::simulator_identity(config.seed));
                let engine_url = url.clone();
                Ok(Started { url, engine_url, identity, ready_s: None, ..Started::default() })
            }
            Kind::Launched { launcher, running, gateway } => {
                let found = launcher.start(&BTreeMap::new()).await?;
                let started = Started {
                    url: self.target.url.clone(),
                    engine_url: found.url.clone(),
                    identity: found.identity.clone(),
                    ready_s: found.ready_s,
                    engine_settings: found.engine_settings.clone(),
                    argv: found.argv.clone(),
                    environment_names: found.environment_names.clone(),
                    findings: found.findings.clone(),
                };
                *running = Some(Box::new(found));
                if let Some(gateway) = gateway {
                    gateway.start(&BTreeMap::new()).await?;
                }
                Ok(started)
            }
        }
    }

    /// What shows that a start of it is over, in words; `None` if no start is waited for.
    pub(super) fn awaited(&self) -> Option<String> {
        let (Launch::Command { ready_path, ready_timeout_s, .. }
        | Launch::Hooks { ready_path, ready_timeout_s, .. }) = &self.target.launch
        else {
            return None;
        };
        let url = BaseUrl::parse(&self.target.engine().url).ok()?.below(ready_path);
        Some(format!("ready when {url} answers, within {}", units::duration(*ready_timeout_s)))
    }

    /// How it ended, and the error that says so, where we launched it and it died.
    pub(super) fn death(&mut self) -> Option<(ServerState, Error)> {
        match &mut self.kind {
            Kind::Launched { running: Some(running), .. } => {
                Some((running.died()?, running.death()?))
            }
            _ => None,
        }
    }

    /// Whether it is a process of ours, whose end can be seen.
    pub(super) fn is_ours(&self) -> bool {
        matches!(&self.kind, Kind::Launched { running: Some(running), .. } if running.pid().is_some())
    }

    /// Stops it whole, where we started it.
    pub(super) async fn stop(&mut self) -> Result<Vec<Finding>> {
        match &mut self.kind {
            Kind::Simulated { server, .. } => {
                *server = None;
                Ok(Vec::new())
            }
            Kind::Launched { running, .. } => match running.take() {
                Some(running) => running.stop().await,
                None => Ok(Vec::new()),
            },
        }
    }

    /// What comes after its last start: the stop hook.
    pub(super) async fn finish(mut self) -> Result<()> {
        self.stop().await?;
        match self.kind {
            Kind::Launched { launcher, .. } => launcher.finish().await,
            Kind::Simulated { .. } => Ok(()),
        }
    }

    /// What the side's server is called in reports.
    pub(super) fn label(&self) -> String {
        label(&self.target)
    }
}

/// The gateway before an engine that we start, as a server that somebody else runs: it may take as long
/// as the engine to answer.
fn gateway(target: &Target) -> Option<Target> {
    target.engine_url.as_ref()?;
    match target.launch {
        Launch::Command { ready_timeout_s, .. } | Launch::Hooks { ready_timeout_s, .. } => {
            let wait = Some(ReadyWait { path: None, timeout_s: ready_timeout_s });
            Some(Target { wait, ..Target::new(target.url.clone(), Launch::External) })
        }
        Launch::External | Launch::Simulator { .. } => None,
    }
}

/// What the server of a side is called in reports.
pub(super) fn label(target: &Target) -> String {
    match &target.launch {
        Launch::Simulator { preset, slowdown } => {
            #[allow(clippy::float_cmp)] // exactly the default, or not
            let slow = if *slowdown == 1.0 { String::new() } else { format!(", × {slowdown}") };
            format!("simulator ({preset}{slow})")
        }
        Launch::External => target.url.clone(),
        Launch::Command { command, .. } => crate::server::redact_command(command),
        Launch::Hooks { restart, .. } => crate::server::redact_command(restart),
    }
}

/// The simulator's configuration of a preset.
fn simulator(preset: &str, slowdown: f64) -> Result<SimConfig> {
    let preset: Preset = preset.parse()?;
    let mut config = SimConfig::preset(preset);
    config.profile.slowdown *= slowdown;
    Ok(config)
}

/// A client for `url` with the run's key, headers and limits.
pub(crate) fn client(url: &str, settings: &Settings, pool: usize) -> Result<Client> {
    load_client(url, settings, pool, Arc::default())
}

/// As [`client`], with what is known of how the server closes connections.
pub(super) fn load_client(
    url: &str,
    settings: &Settings,
    pool: usize,
    closes_unannounced: Arc<AtomicBool>,
) -> Result<Client> {
    let ca_cert_pem = match &settings.ca_cert {
        Some(path) => Some(crate::store::files::read_text(path)?.into_bytes()),
        None => None,
    };
    Client::new(ClientSettings {
        base_url: BaseUrl::parse(url)?,
        api_key: settings.api_key.clone(),
        headers: settings.headers.clone(),
        body_secrets: extra_body::secrets(&settings.extra_body),
        timeouts: settings.timeouts,
        ca_cert_pem,
        insecure: settings.insecure,
        pool,
        closes_unannounced,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launched_base_without_an_address_listens_where_the_judged_server_does() {
        let launch = |command: &str| Launch::Command {
            command: command.to_owned(),
            ready_path: "/health".to_owned(),
            ready_timeout_s: 1.0,
        };
        let at = "http://127.0.0.1:18100".to_owned();
        let mut settings = Settings::for_url(at.clone());
        settings.target.launch = launch("serve --new");
        settings.against = Some(Target::new(String::new(), launch("serve --base")));
        let urls = |settings: &Settings| -> Vec<(Side, String)> {
            targets(settings).into_iter().map(|(side, target)| (side, target.url)).collect()
        };
        assert_eq!(urls(&settings), [(Side::New, at.clone()), (Side::Base, at.clone())]);

        let own = "http://127.0.0.1:18200".to_owned();
        settings.against = Some(Target::new(own.clone(), launch("serve --base")));
        assert_eq!(urls(&settings), [(Side::New, at), (Side::Base, own)]);
    }
}
