//! A table of `scenarios.toml`, as written: the keys there are, and no others.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use toml::Spanned;

use super::Slo;
use super::value::{DurationValue, LengthValue, OneOrMany};
use crate::settings::{ApiChoice, SlotStart, TriState};

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileTable {
    pub(super) server: Option<Spanned<ServerTable>>,
    pub(super) against: Option<Spanned<AgainstTable>>,
    pub(super) run: Option<RunTable>,
    #[serde(default)]
    pub(super) group: Vec<GroupTable>,
}

/// `[server]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerTable {
    pub(super) url: Option<String>,
    pub(super) command: Option<String>,
    pub(super) ready: Option<String>,
    pub(super) ready_timeout: Option<DurationValue>,
    pub(super) restart: Option<String>,
    pub(super) stop: Option<String>,
    pub(super) model: Option<String>,
    pub(super) api: Option<ApiChoice>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) extra_body: serde_json::Map<String, serde_json::Value>,
}

/// `[against]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AgainstTable {
    pub(super) url: Option<String>,
    pub(super) command: Option<String>,
    pub(super) ready: Option<String>,
    pub(super) ready_timeout: Option<DurationValue>,
    pub(super) restart: Option<String>,
    pub(super) stop: Option<String>,
}

/// `[run]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunTable {
    pub(super) name: Option<String>,
    pub(super) starts: Option<Spanned<u32>>,
    pub(super) rounds: Option<Spanned<u32>>,
    pub(super) seed: Option<u64>,
    pub(super) num_prompts: Option<Spanned<u32>>,
    pub(super) measurement_time: Option<DurationValue>,
    pub(super) warm_up_time: Option<DurationValue>,
    pub(super) reference_requests: Option<Spanned<u32>>,
    pub(super) cool_down: Option<DurationValue>,
    pub(super) budget: Option<DurationValue>,
    pub(super) looks: Option<Vec<u32>>,
    pub(super) slot_start: Option<SlotStart>,
    pub(super) ignore_eos: Option<TriState>,
    pub(super) replay_prompts: Option<bool>,
    pub(super) max_error_rate: Option<Spanned<f64>>,
    pub(super) stop_when_saturated: Option<bool>,
    pub(super) output_dir: Option<PathBuf>,
    #[serde(default)]
    pub(super) metadata: BTreeMap<String, Spanned<toml::Value>>,
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
