//! Watching a round: the server's own metrics before, during and after it, and the GPU's.

use std::collections::BTreeMap;
use std::time::Duration;

use super::side;
use crate::clock::Clock;
use crate::drive::RoundOutcome;
use crate::error::Result;
use crate::settings::Settings;
use crate::telemetry::{
    self, PrometheusSource, Scraper, Snapshot, TelemetrySource, nvidia::NvidiaSource,
};
use crate::transport::client::Client;

/// Connections for metrics.
const POOL: usize = 2;
/// A round's length is not known beforehand; samples beyond 600 are thinned.
const INTERVAL: Duration = Duration::from_secs(1);

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
}

impl Watch {
    /// Reads the metrics once and begins to sample them, where the server offers them.
    pub(super) async fn begin(url: &str, settings: &Settings, clock: Clock) -> Result<Self> {
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
            false => Some(Scraper::start(sources, clock, INTERVAL)?),
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
        if let Some(before) = self.before
            && let Some(after) = telemetry::snapshot(&self.client).await
        {
            seen.telemetry = telemetry::delta(&before, &after).values;
        }
        seen
    }
}
