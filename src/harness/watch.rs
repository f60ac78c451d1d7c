//! Watching a round: the server's own metrics before, during and after it, and the GPU's.

use std::collections::BTreeMap;
use std::time::Duration;

use super::side;
use crate::clock::Clock;
use crate::drive::RoundOutcome;
use crate::error::Result;
use crate::record::{Finding, Severity};
use crate::settings::Settings;
use crate::summary;
use crate::telemetry::{
    self, PrometheusSource, Scraper, Snapshot, TelemetrySource, nvidia::NvidiaSource,
};
use crate::transport::client::Client;

/// Connections for metrics.
const POOL: usize = 2;
/// Between samples at most: a queue shorter than this would be missed. Samples beyond 600 are thinned.
const INTERVAL: Duration = Duration::from_secs(1);
/// Samples that a round should have at least, as far as its length is known: a mean and a trend.
const SAMPLES: u32 = 12;

/// A round being watched.
pub(super) struct Watch {
    client: Client,
    before: Option<Snapshot>,
    scraper: Option<Scraper>,
}

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) telemetry: BTreeMap<String, f64>,
    pub(super) series: telemetry::Series,
    pub(super) findings: Vec<Finding>,
}

impl Watch {
    /// Reads the metrics once and begins to sample them, where the server offers them.
    /// `expected` is about how long the round will take, zero where that is not known.
    pub(super) async fn begin(
        url: &str,
        settings: &Settings,
        clock: Clock,
        expected: Duration,
    ) -> Result<Self> {
        let client = side::client(url, settings, POOL)?;
        let before = telemetry::snapshot(&client).await;
        let mut sources: Vec<Box<dyn TelemetrySource>> = Vec::new();
        if before.is_some() {
            let own = side::client(url, settings, POOL)?;
            sources.push(Box::new(PrometheusSource::new(own)));
        }
        if telemetry::nvidia::query().is_some() {
            sources.push(Box::new(NvidiaSource::new()));
        }
        let scraper = match sources.is_empty() {
            true => None,
            false => Some(Scraper::start(sources, clock, (expected / SAMPLES).min(INTERVAL))?),
        };
        Ok(Self { client, before, scraper })
    }

    /// Ends the sampling and reads the metrics again.
    pub(super) async fn end(self, outcome: &RoundOutcome) -> Seen {
        let mut seen = Seen::default();
        if let Some(scraper) = self.scraper {
            let series = scraper.finish().await;
            let (open, close) = (outcome.window_open_ns, outcome.window_close_ns);
            seen.series = telemetry::within(&series, open, close);
        }
        let Some(before) = self.before else { return seen };
        let Some(after) = telemetry::snapshot(&self.client).await else {
            let text = "the server's metrics were gone after the round: its own word is missing";
            seen.findings.push(Finding::new("metrics_gone", Severity::Warning, text));
            return seen;
        };
        let delta = telemetry::delta(&before, &after);
        if delta.restarted {
            let text = "the server restarted during the round: its figures are of two starts";
            let mend = "look at the server's log, or who restarts it";
            let finding = Finding::new("restarted", Severity::Invalid, text).with_mend(mend);
            seen.findings.push(finding);
        }
        seen.telemetry = delta.values;
        if let Some(rate) = before.prefix_cache_hit_rate() {
            seen.telemetry.insert("prefix_cache_hit_rate_before".to_owned(), rate);
        }
        summary::server_word::set_beside(&mut seen.telemetry, &outcome.records);
        seen
    }
}
