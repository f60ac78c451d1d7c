//! Watching a round: the server's own metrics before, during and after it, and the GPU's.

use std::collections::BTreeMap;
use std::time::Duration;

use super::server_handle;
use crate::clock::Clock;
use crate::diagnose::server_metrics;
use crate::drive::RoundOutcome;
use crate::error::Result;
use crate::record::{Finding, FindingCode, Severity};
use crate::server;
use crate::settings::{Launch, Settings, Target};
use crate::telemetry::{
    self, PrometheusSource, Scraper, Snapshot, TelemetrySource, nvidia::NvidiaSource,
};
use crate::transport::client::Client;

/// Connections for metrics.
const POOL: usize = 2;
/// Between samples at most: a queue shorter than this would be missed. Samples beyond 600 are thinned.
const INTERVAL: Duration = Duration::from_secs(1);
/// Further readings of the metrics, once, to see whether several processes take turns.
const READINGS: usize = 5;
/// Samples that a round should have at least, as far as its length is known: a mean and a trend.
const SAMPLES: u32 = 12;

/// Who watches the rounds of a side: its connections are opened once, and stay.
pub(super) struct RoundTelemetry {
    url: String,
    client: Client,
    clock: Clock,
    gpu: Gpu,
    /// `None` if nothing offers samples.
    scraper: Option<Scraper>,
    /// Whether the server's metrics are among what is sampled.
    samples_server: bool,
    /// The server's metrics before the round.
    before: Option<Snapshot>,
    /// The GPUs that the server may use, as `CUDA_VISIBLE_DEVICES` names them; all where it is not set.
    devices: Option<String>,
    /// Whose metrics these are; `None` until they were read.
    processes: Option<Processes>,
}

/// Whose metrics an address gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Processes {
    One,
    /// Of several that take turns: neither their counters nor their starts are one server's.
    Several {
        told: bool,
    },
}

/// The GPUs that a target's server may use: those that its command names, else those of the environment,
/// which it inherits. `None`: all; an empty text: none.
pub(super) fn visible_devices(target: &Target) -> Option<String> {
    const NAME: &str = "CUDA_VISIBLE_DEVICES";
    let named = match &target.launch {
        Launch::Command { command, .. } | Launch::Hooks { restart: command, .. } => command
            .split_whitespace()
            .filter_map(|word| word.trim_matches(['"', '\'']).split_once('='))
            .find_map(|(name, devices)| (name == NAME).then(|| devices.to_owned())),
        Launch::Simulator { .. } | Launch::External => None,
    };
    let devices = named.or_else(|| std::env::var(NAME).ok())?;
    let is_list = |c: char| c.is_ascii_alphanumeric() || matches!(c, ',' | '-');
    match devices.is_empty() || devices.starts_with('-') {
        true => Some(String::new()),
        false => devices.chars().all(is_list).then_some(devices),
    }
}

/// Whether the GPU of this machine says anything of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gpu {
    Sampled,
    /// There is none, or the server runs elsewhere or needs none.
    Ignored,
}

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Observed {
    pub(super) telemetry: BTreeMap<String, f64>,
    pub(super) series: telemetry::Series,
    pub(super) findings: Vec<Finding>,
}

impl RoundTelemetry {
    /// Someone who watches the server at `url`. `machine_has_gpu` was found when the run began.
    pub(super) async fn over(
        url: &str,
        settings: &Settings,
        clock: Clock,
        machine_has_gpu: bool,
        devices: Option<String>,
    ) -> Result<Self> {
        // The GPU beside a client gives no information about a server elsewhere, nor of a simulator.
        let allowed = devices.as_deref() != Some("");
        let tells =
            machine_has_gpu && allowed && !settings.is_simulated() && server::is_here(url).await;
        Ok(Self {
            url: url.to_owned(),
            client: server_handle::client(url, settings, POOL)?,
            clock,
            gpu: if tells { Gpu::Sampled } else { Gpu::Ignored },
            scraper: None,
            samples_server: false,
            before: None,
            devices,
            processes: None,
        })
    }

    /// Whether it watches the server at `url`.
    pub(super) fn is_over(&self, url: &str) -> bool {
        self.url == url
    }

    /// Reads the metrics once and begins to sample them, where the server offers them.
    /// `expected` is about how long the round will take, zero where that is not known.
    pub(super) async fn begin(&mut self, settings: &Settings, expected: Duration) -> Result<()> {
        self.before = telemetry::snapshot(&self.client).await;
        if let (Some(before), None) = (&self.before, self.processes) {
            self.processes = Some(self.processes_behind(before).await);
        }
        if self.has_replicas() {
            self.before = None;
        }
        let offers_more = self.before.is_some() && !self.samples_server;
        if self.scraper.is_none() || offers_more {
            self.open(settings)?;
        }
        if let Some(scraper) = &mut self.scraper {
            scraper.begin((expected / SAMPLES).min(INTERVAL));
        }
        Ok(())
    }

    fn has_replicas(&self) -> bool {
        matches!(self.processes, Some(Processes::Several { .. }))
    }

    /// Reads the metrics again and again: a start that comes back after another is no restart.
    async fn processes_behind(&self, first: &Snapshot) -> Processes {
        let mut starts = vec![first.process_start_s];
        for _ in 0..READINGS {
            if first.process_start_s.is_none() {
                break;
            }
            let reading = telemetry::snapshot(&self.client).await;
            starts.extend(reading.map(|snapshot| snapshot.process_start_s));
        }
        // A restart in between is followed by the new start alone.
        let came_back = (2..starts.len())
            .any(|i| starts[i] != starts[i - 1] && starts[..i - 1].contains(&starts[i]));
        if came_back { Processes::Several { told: false } } else { Processes::One }
    }

    /// That the metrics cannot be used, once.
    fn replicas(&mut self) -> Option<Finding> {
        if self.processes != Some(Processes::Several { told: false }) {
            return None;
        }
        self.processes = Some(Processes::Several { told: true });
        let text = "several processes answer behind this address and take turns (replicas): their metrics \
                    are not one server's, and are not used";
        let hint = "measure one replica alone to see its queue and cache";
        Some(Finding::new(FindingCode::Replicas, Severity::Warning, text).with_hint(hint))
    }

    /// Opens what can be sampled, as far as it is known now.
    fn open(&mut self, settings: &Settings) -> Result<()> {
        let mut sources: Vec<Box<dyn TelemetrySource>> = Vec::new();
        self.samples_server = self.before.is_some();
        if self.samples_server {
            let own = server_handle::client(&self.url, settings, POOL)?;
            sources.push(Box::new(PrometheusSource::new(own)));
        }
        if self.gpu == Gpu::Sampled {
            sources.push(Box::new(NvidiaSource::start(self.devices.as_deref())));
        }
        if !sources.is_empty() {
            self.scraper = Some(Scraper::start(sources, self.clock)?);
        }
        Ok(())
    }

    /// Ends the sampling and reads the metrics again.
    pub(super) async fn end(&mut self, outcome: &RoundOutcome) -> Observed {
        let mut seen = Observed::default();
        if let Some(scraper) = &mut self.scraper {
            let series = scraper.end().await;
            let (open, close) = (outcome.window_open_ns, outcome.window_close_ns);
            seen.series = telemetry::within(&series, open, close);
        }
        seen.findings.extend(self.replicas());
        let Some(before) = self.before.take() else { return seen };
        let Some(after) = telemetry::snapshot(&self.client).await else {
            let text = "the server's metrics were gone after the round: its own word is missing";
            seen.findings.push(Finding::new(FindingCode::MetricsGone, Severity::Warning, text));
            return seen;
        };
        let delta = telemetry::delta(&before, &after);
        if delta.restarted {
            let text = "the server restarted during the round: its figures are of two starts";
            let hint = "look at the server's log, or who restarts it";
            let finding =
                Finding::new(FindingCode::Restarted, Severity::Invalid, text).with_hint(hint);
            seen.findings.push(finding);
        }
        seen.telemetry = delta.values;
        if let Some(rate) = before.prefix_cache_hit_rate() {
            seen.telemetry.insert("prefix_cache_hit_rate_before".to_owned(), rate);
        }
        server_metrics::set_beside(&mut seen.telemetry, &outcome.records);
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gpus_are_those_that_the_command_names() {
        let of = |command: &str| {
            let launch = Launch::Command {
                command: command.to_owned(),
                ready_path: "/health".to_owned(),
                ready_timeout_s: 1.0,
            };
            visible_devices(&Target::new(String::new(), launch))
        };
        assert_eq!(of("env CUDA_VISIBLE_DEVICES=2,3 vllm serve m").as_deref(), Some("2,3"));
        assert_eq!(of("CUDA_VISIBLE_DEVICES=GPU-5a vllm serve m").as_deref(), Some("GPU-5a"));
        for none in ["CUDA_VISIBLE_DEVICES= serve", "CUDA_VISIBLE_DEVICES=-1 serve"] {
            assert_eq!(of(none).as_deref(), Some(""), "{none}");
        }
        assert_eq!(of("CUDA_VISIBLE_DEVICES=$(x) y"), None);
    }
}
