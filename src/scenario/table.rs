//! A table of `scenarios.toml`, as written: the keys there are, and no others.

use std::path::PathBuf;

use serde::Deserialize;
use toml::Spanned;

use super::Slo;
use super::value::{LengthValue, OneOrMany};
use crate::settings::launch::LaunchSpec;
use crate::settings::overrides::{Overrides, ServerOverrides};
use crate::settings::value::DurationValue;

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileTable {
    pub(super) server: Option<Spanned<ServerOverrides>>,
    pub(super) against: Option<Spanned<LaunchSpec>>,
    #[serde(default)]
    pub(super) run: Overrides,
    #[serde(default)]
    pub(super) group: Vec<GroupTable>,
}

/// `[[group]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupTable {
    pub(super) name: String,
    #[serde(default)]
    pub(super) scenario: Vec<ScenarioTable>,
}

/// `[[group.scenario]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioTable {
    pub(super) name: Spanned<String>,
    pub(super) input: Option<OneOrMany<LengthValue>>,
    pub(super) output: Option<OneOrMany<LengthValue>>,
    pub(super) concurrency: Option<OneOrMany<u32>>,
    pub(super) request_rate: Option<OneOrMany<f64>>,
    pub(super) burstiness: Option<Spanned<f64>>,
    pub(super) max_concurrency: Option<Spanned<u32>>,
    pub(super) goodput: Option<Slo>,
    pub(super) prompts: Option<PathBuf>,
    pub(super) num_prompts: Option<u32>,
    pub(super) measurement_time: Option<DurationValue>,
}
