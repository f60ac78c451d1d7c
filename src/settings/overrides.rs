//! What flags and scenario files may change: each setting once, with its flag, its key and its effect.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::launch::LaunchSpec;
use super::{ApiChoice, PromptForm, SearchAxis, Settings, SlotStart, TriState, value};
use crate::rng::Seed;

/// The settings of `[run]` and of the flags of the same names. What is not given is left as it is.
#[derive(Debug, Clone, Default, PartialEq, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Overrides {
    /// Name of the run, for its folder
    #[arg(long, value_name = "NAME", help_heading = "Run")]
    pub name: Option<String>,
    /// Server starts per side [default: 1]
    ///
    /// The default is 5 on the simulator, and 8 if both sides of a comparison can be started.
    #[arg(long, value_name = "M", value_parser = value::repeats, help_heading = "Run")]
    #[serde(deserialize_with = "value::some_repeats")]
    pub starts: Option<NonZeroU32>,
    /// Record that the server was restarted for this run (it cannot report this itself)
    #[arg(long, num_args = 0, default_missing_value = "true", help_heading = "Run")]
    pub restarted: Option<bool>,
    /// Measured rounds of a load point per server start [default: 1]
    #[arg(long, value_name = "J", value_parser = value::repeats, help_heading = "Run")]
    #[serde(deserialize_with = "value::some_repeats")]
    pub rounds: Option<NonZeroU32>,
    /// Seed of lengths and arrivals [default: 0]
    #[arg(long, value_name = "SEED", help_heading = "Load")]
    pub seed: Option<u64>,
    /// Requests per round [default: by load]
    #[arg(long, visible_alias = "sample-size", value_name = "N", value_parser = value::count, help_heading = "Load")]
    #[serde(deserialize_with = "value::some_count")]
    pub num_prompts: Option<NonZeroU32>,
    /// Minimum measured time per round
    #[arg(long, value_name = "TIME", value_parser = value::duration, help_heading = "Load")]
    #[serde(deserialize_with = "value::some_duration")]
    pub measurement_time: Option<Duration>,
    /// Longest warm-up of a load point [default: 60s; simulator: 1.5s]
    #[arg(long, value_name = "TIME", value_parser = value::duration, help_heading = "Run")]
    #[serde(deserialize_with = "value::some_duration")]
    pub warm_up_time: Option<Duration>,
    /// Requests of the rate-1 reference [default: 60; simulator: 10]
    #[arg(long, value_name = "N", value_parser = value::count, help_heading = "Run")]
    #[serde(deserialize_with = "value::some_count")]
    pub reference_requests: Option<NonZeroU32>,
    /// Pause between load points [default: 10s; simulator: none]
    #[arg(long, value_name = "TIME", value_parser = value::duration, help_heading = "Run")]
    #[serde(deserialize_with = "value::some_duration")]
    pub cool_down: Option<Duration>,
    /// Shrink counts and starts to fit this time
    #[arg(long, value_name = "TIME", value_parser = value::duration, help_heading = "Run")]
    #[serde(deserialize_with = "value::some_duration")]
    pub budget: Option<Duration>,
    /// Blocks after which a decision may end the run: `5,8,12`
    #[arg(long, value_name = "M,…", value_delimiter = ',', help_heading = "Run")]
    pub looks: Option<Vec<u32>>,
    /// How the slots of a closed loop begin
    #[arg(long, value_enum, value_name = "HOW", help_heading = "Load")]
    pub slot_start: Option<SlotStart>,
    /// Search for the highest load that meets the SLO, from the declared ones on
    #[arg(long, value_enum, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "declared", help_heading = "Load")]
    pub search: Option<SearchAxis>,
    /// Whether answers run to their full length; auto: if the server accepts it
    #[arg(long, value_enum, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "on", help_heading = "Load")]
    pub ignore_eos: Option<TriState>,
    /// Made prompts as text, as token ids, or auto: ids where the server takes them
    #[arg(long, value_enum, value_name = "FORM", help_heading = "Load")]
    pub prompt_form: Option<PromptForm>,
    /// Send the same prompt text in every run
    #[arg(long, num_args = 0, default_missing_value = "true", help_heading = "Load")]
    pub replay_prompts: Option<bool>,
    /// Share of failed requests above which a load point stops [default: 50%]
    #[arg(long, value_name = "SHARE", value_parser = value::share, help_heading = "Run")]
    #[serde(deserialize_with = "value::some_error_rate")]
    pub max_error_rate: Option<f64>,
    /// End the sweep at the first saturated load point
    #[arg(long, num_args = 0, default_missing_value = "true", help_heading = "Run")]
    pub stop_when_saturated: Option<bool>,
    /// Root of runs, baselines and reports. Its flag stands with the commands that have no run, too.
    #[arg(skip)]
    pub output_dir: Option<PathBuf>,
    /// Fact to store with the run; repeatable
    #[arg(long, value_name = "K=V", value_parser = value::fact, help_heading = "Run")]
    #[serde(deserialize_with = "value::facts")]
    pub metadata: Vec<(String, String)>,
}

impl Overrides {
    /// Lays what is given over the settings.
    pub fn apply(&self, settings: &mut Settings) {
        let count = |given: Option<NonZeroU32>| given.map(NonZeroU32::get);
        set_some(&mut settings.name, &self.name);
        set_some(&mut settings.starts, &count(self.starts));
        set(&mut settings.restarted, &self.restarted);
        set(&mut settings.rounds, &count(self.rounds));
        set(&mut settings.seed, &self.seed.map(Seed));
        set_some(&mut settings.num_prompts, &count(self.num_prompts));
        set_some(&mut settings.measurement_time, &self.measurement_time);
        set(&mut settings.warm_up_time, &self.warm_up_time);
        set(&mut settings.reference_requests, &count(self.reference_requests));
        set(&mut settings.cool_down, &self.cool_down);
        set_some(&mut settings.budget, &self.budget);
        set(&mut settings.looks, &self.looks);
        set(&mut settings.slot_start, &self.slot_start);
        set_some(&mut settings.search, &self.search);
        set(&mut settings.ignore_eos, &self.ignore_eos);
        set(&mut settings.prompt_form, &self.prompt_form);
        set(&mut settings.replay_prompts, &self.replay_prompts);
        set(&mut settings.max_error_rate, &self.max_error_rate);
        set(&mut settings.stop_when_saturated, &self.stop_when_saturated);
        set(&mut settings.output_dir, &self.output_dir);
        settings.metadata.extend(self.metadata.iter().cloned());
    }
}

/// The settings of `[server]` and of their flags: the server and how it is spoken to.
#[derive(Debug, Clone, Default, PartialEq, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[command(next_help_heading = "Server")]
pub struct ServerOverrides {
    /// Base URL of the server, with or without `/v1`
    #[arg(long, env = "INFEROMETER_URL", hide_env = true, value_name = "URL")]
    pub url: Option<String>,
    /// Where the engine itself answers, where --url is of a gateway: it is started and watched there
    #[arg(long, visible_alias = "metrics-url", value_name = "URL")]
    #[serde(alias = "metrics_url")]
    pub engine_url: Option<String>,
    /// Command that starts the server
    ///
    /// It runs once for each server start.
    #[arg(long = "server-cmd", value_name = "COMMAND", conflicts_with = "restart")]
    pub command: Option<String>,
    /// Path that answers 200 once the server is ready
    #[arg(long, value_name = "PATH")]
    pub ready: Option<String>,
    /// Longest wait for the server to get ready
    #[arg(long, value_name = "TIME", value_parser = value::duration)]
    #[serde(deserialize_with = "value::some_duration")]
    pub ready_timeout: Option<Duration>,
    /// Hook that restarts a server we do not own (container, unit, pod)
    #[arg(long = "restart-cmd", value_name = "COMMAND")]
    pub restart: Option<String>,
    /// Hook that stops it at the end
    #[arg(long = "stop-cmd", value_name = "COMMAND", requires = "restart")]
    pub stop: Option<String>,
    /// Model [default: first of `/v1/models`]
    #[arg(long, env = "INFEROMETER_MODEL", hide_env = true, value_name = "NAME")]
    pub model: Option<String>,
    /// Which API to use
    #[arg(long, value_enum, value_name = "API")]
    pub api: Option<ApiChoice>,
    /// Headers of every request. A flag that is wrong must not be shown, so clap does not read it.
    #[arg(skip)]
    #[serde(deserialize_with = "value::headers")]
    pub headers: Vec<(String, String)>,
    /// Fields merged into every request body; as above.
    #[arg(skip)]
    pub extra_body: Map<String, Value>,
}

impl ServerOverrides {
    /// How the server comes up. A variable that is set to nothing names no URL.
    #[must_use]
    pub fn launch(&self) -> LaunchSpec {
        LaunchSpec {
            url: self.url.clone().filter(|url| !url.trim().is_empty()),
            engine_url: self.engine_url.clone(),
            command: self.command.clone(),
            ready_path: self.ready.clone(),
            ready_timeout: self.ready_timeout,
            restart: self.restart.clone(),
            stop: self.stop.clone(),
        }
    }

    /// Lays how the server is spoken to over the settings; which server it is, is the caller's.
    pub fn apply(&self, settings: &mut Settings) {
        set_some(&mut settings.model, &self.model.clone().filter(|model| !model.is_empty()));
        set(&mut settings.api, &self.api);
        set_headers(settings, &self.headers);
        settings.extra_body.extend(self.extra_body.clone());
    }
}

/// Sets headers: those of the same names go.
pub(crate) fn set_headers(settings: &mut Settings, given: &[(String, String)]) {
    let is_given = |name: &str| given.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    settings.headers.retain(|(name, _)| !is_given(name));
    settings.headers.extend(given.iter().cloned());
}

/// Changes a setting where it is given.
pub(crate) fn set<T: Clone>(setting: &mut T, given: &Option<T>) {
    if let Some(value) = given {
        setting.clone_from(value);
    }
}

/// Changes an optional setting where it is given.
pub(crate) fn set_some<T: Clone>(setting: &mut Option<T>, given: &Option<T>) {
    if given.is_some() {
        setting.clone_from(given);
    }
}
