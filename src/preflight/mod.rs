//! Preflight: whether a run against this server can give figures, and what the server accepts and reports.

use crate::clock::Clock;
use crate::record::{FindingCode, Severity};
use crate::scenario::{Load, LoadPoint};
use crate::settings::Settings;
use crate::telemetry;
use crate::transport::Client;
use os_limits::Ends;

mod context_fit;
mod diagnosis;
mod exact_prompts;
mod fields;
mod models;
mod os_limits;
mod probe;
mod report;

pub use report::PreflightReport;

/// The most that the plan will ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Demands {
    /// Longest prompt, tokens.
    pub longest_input: u32,
    /// Longest answer, tokens.
    pub longest_output: u32,
    /// Most requests in flight at once, as far as it is known.
    pub highest_concurrency: u32,
}

impl Demands {
    /// The demands of these points. An open loop without a cap counts with 30 s of arrivals in
    /// flight: beyond that it is saturated.
    #[must_use]
    pub fn of(points: &[LoadPoint]) -> Self {
        let mut demands = Self::default();
        for point in points {
            demands.longest_input = demands.longest_input.max(point.input.max());
            demands.longest_output = demands.longest_output.max(point.output.max());
            let concurrency = match point.load {
                Load::Concurrency(n) => n,
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
                Load::RequestRate(rate) => {
                    rate.max_concurrency.unwrap_or((rate.per_s * 30.0).ceil() as u32)
                }
            };
            demands.highest_concurrency = demands.highest_concurrency.max(concurrency);
        }
        demands
    }
}

/// Everything a check needs.
struct Examination<'a> {
    client: &'a Client,
    clock: Clock,
    settings: &'a Settings,
    demands: Demands,
    report: PreflightReport,
}

/// Checks the client's machine and the server, in an order in which each check can rely on those
/// before it; a fatal finding ends it. Sends about ten small requests, and one of full length where
/// the server does not tell its longest context.
pub async fn run(
    client: &Client,
    clock: Clock,
    settings: &Settings,
    demands: Demands,
) -> PreflightReport {
    let report = PreflightReport::default();
    let mut examination = Examination { client, clock, settings, demands, report };
    examination.all().await;
    examination.report.cleaned(|text| client.clean(text))
}

impl Examination<'_> {
    async fn all(&mut self) {
        let ends = if self.settings.is_simulated() { Ends::Both } else { Ends::Client };
        os_limits::check(self.demands.highest_concurrency, ends, &mut self.report);
        // Each step boxed: their futures are large and never needed at once.
        Box::pin(self.find_model()).await;
        if self.report.is_fatal() {
            return;
        }
        Box::pin(self.read_metrics()).await;
        Box::pin(self.choose_api()).await;
        if self.report.is_fatal() {
            return;
        }
        Box::pin(self.learn_offers()).await;
        Box::pin(self.learn_prompts()).await;
        if !self.report.is_fatal() {
            Box::pin(self.check_fit()).await;
        }
    }

    async fn read_metrics(&mut self) {
        let Some(snapshot) = telemetry::snapshot(self.client).await else {
            self.report.find(
                FindingCode::NoMetrics,
                Severity::Note,
                "the server offers no metrics: its own counters cannot be set beside the client's",
                "llama-server needs `--metrics`, SGLang `--enable-metrics`",
            );
            return;
        };
        if self.report.engine.is_none() {
            self.report.engine = snapshot.engine.map(str::to_owned);
        }
        self.report.engine_settings.extend(snapshot.engine_settings);
    }
}
