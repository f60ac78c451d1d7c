//! The report of preflight: what a server accepts and reports, and what was found.

use std::collections::BTreeMap;

use crate::api::Offers;
use crate::error::{Error, ErrorKind};
use crate::record::{Finding, FindingCode, Severity};
use crate::scenario::prompt::TextCalibration;
use crate::settings::ApiChoice;
use crate::transport::TokenSource;

/// What preflight learned.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PreflightReport {
    /// The model's name, as it will be sent.
    pub model: String,
    /// The API that will be used: completions or chat once the probe has succeeded.
    pub api: ApiChoice,
    /// What the server accepts and reports.
    pub offers: Offers,
    /// Ids to make prompts of exact length from: ordinary tokens of this vocabulary, no specials.
    pub token_ids: Option<Vec<u32>>,
    /// How words become tokens, where prompts have to be text.
    pub text_calibration: Option<TextCalibration>,
    /// Tokens that the chat template (or a begin mark) adds to a prompt.
    pub template_tokens: Option<u32>,
    /// The longest context, tokens, where the server reports it.
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
        Some(match &finding.hint {
            Some(hint) => error.with_hint(hint.clone()),
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
            ApiChoice::Auto => "completions, unchecked",
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

    pub(super) fn find(
        &mut self,
        code: FindingCode,
        severity: Severity,
        text: impl Into<String>,
        hint: &str,
    ) {
        let finding = Finding::new(code, severity, text);
        self.findings.push(if hint.is_empty() { finding } else { finding.with_hint(hint) });
    }

    /// With all that the server said in it put through `clean`. A server may echo the key anywhere: as a
    /// model's name, as a version.
    pub(super) fn cleaned(mut self, clean: impl Fn(&str) -> String) -> Self {
        for finding in &mut self.findings {
            finding.text = clean(&finding.text);
            finding.hint = finding.hint.as_deref().map(&clean);
        }
        self.engine_version = self.engine_version.as_deref().map(&clean);
        let settings = std::mem::take(&mut self.engine_settings);
        self.engine_settings =
            settings.into_iter().map(|(name, value)| (clean(&name), clean(&value))).collect();
        self
    }

    pub(super) fn is_fatal(&self) -> bool {
        self.findings.iter().any(|f| f.severity == Severity::Fatal)
    }
}
