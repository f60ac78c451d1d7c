//! Preflight: whether a run against this server can give figures, and what the server takes and tells.

use std::collections::BTreeMap;

use crate::api::Offers;
use crate::clock::Clock;
use crate::error::{Error, ErrorKind};
use crate::record::{Finding, FindingCode, Severity};
use crate::scenario::prompt::TextCalibration;
use crate::scenario::{Load, LoadPoint};
use crate::settings::{ApiChoice, Settings};
use crate::telemetry;
use crate::transport::{Client, TokenSource};
use os_limits::Ends;

mod context_fit;
mod diagnosis;
mod exact_prompts;
mod models;
mod os_limits;
mod probe;

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

/// What preflight learned.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PreflightReport {
    /// The model's name, as it will be sent.
    pub model: String,
    /// The API that will be used: completions or chat once the probe has succeeded.
    pub api: ApiChoice,
    /// What the server takes and tells.
    pub offers: Offers,
    /// Ids to make prompts of exact length from: ordinary tokens of this vocabulary, no specials.
    pub token_ids: Option<Vec<u32>>,
    /// How words become tokens, where prompts have to be text.
    pub text_calibration: Option<TextCalibration>,
    /// Tokens that the chat template (or a begin mark) adds to a prompt.
    pub template_tokens: Option<u32>,
    /// The longest context, tokens, where the server tells it.
    pub max_model_len: Option<u32>,
    /// `vllm`, `llama.cpp`, …
    pub engine: Option<String>,
    /// Its version.
    pub engine_version: Option<String>,
    /// The engine's own effective settings, as far as it tells them over HTTP.
    pub engine_settings: BTreeMap<String, String>,
    /// What was found.
    pub findings: Vec<Finding>,
}

impl PreflightReport {
    /// The error that ends the run, where a finding forbids it.
    #[must_use]
    pub fn fatal(&self) -> Option<Error> {
        let finding = self.findings.iter().find(|f| f.severity == Severity::Fatal)?;
        let error = Error::new(ErrorKind::Preflight, finding.text.clone());
        Some(match &finding.mend {
            Some(mend) => error.with_hint(mend.clone()),
            None => error,
        })
    }

    /// One line of what will be measured: model, engine, API and how tokens are counted.
    #[must_use]
    pub fn summary(&self) -> String {
        let engine = match (&self.engine, &self.engine_version) {
            (Some(engine), Some(version)) => format!("{engine} {version}"),
            (Some(engine), None) => engine.clone(),
            (None, _) => "an unknown engine".to_owned(),
        };
        let api = match self.api {
            ApiChoice::Chat => "chat",
            ApiChoice::Completions => "completions",
            ApiChoice::Auto => "no API yet",
        };
        let prompts = if self.offers.token_prompts { "token ids" } else { "text" };
        let counts = match (self.offers.continuous_usage, self.offers.token_ids) {
            (true, _) => TokenSource::EventUsage,
            (_, true) => TokenSource::TokenIds,
            _ if self.offers.include_usage => TokenSource::FinalUsage,
            _ => TokenSource::Events,
        };
        let counts = counts.words();
        // The name is sent as the server gave it, and shown without what would move a cursor.
        let model: String = self.model.chars().filter(|letter| !letter.is_control()).collect();
        format!("`{model}` on {engine}: {api}, prompts of {prompts}, tokens counted by {counts}")
    }

    fn find(&mut self, code: FindingCode, severity: Severity, text: impl Into<String>, mend: &str) {
        let finding = Finding::new(code, severity, text);
        self.findings.push(if mend.is_empty() { finding } else { finding.with_mend(mend) });
    }

    /// With all that the server said in it put through `clean`. A server may echo the key anywhere: as a
    /// model's name, as a version.
    fn cleaned(mut self, clean: impl Fn(&str) -> String) -> Self {
        for finding in &mut self.findings {
            finding.text = clean(&finding.text);
            finding.mend = finding.mend.as_deref().map(&clean);
        }
        self.engine_version = self.engine_version.as_deref().map(&clean);
        let settings = std::mem::take(&mut self.engine_settings);
        self.engine_settings =
            settings.into_iter().map(|(name, value)| (clean(&name), clean(&value))).collect();
        self
    }

    fn is_fatal(&self) -> bool {
        self.findings.iter().any(|f| f.severity == Severity::Fatal)
    }
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
