//! A run as it is stored: `run.json`, schema 1.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Finding, ServerState};
use crate::plan::{Design, Phase, Side};
use crate::rng::Seed;
use crate::scenario::LoadPoint;

/// The schema this version writes. Older ones stay readable.
pub const SCHEMA: u32 = 1;

/// The definitions of TTFT and the rest that this version measures by. A comparison across
/// definitions is incomparable.
pub const DEFINITIONS: &str = "inferometer-1";

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredRun {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The folder's name: UTC time and name.
    pub id: String,
    /// What the user called it.
    pub name: Option<String>,
    /// When it began, UTC.
    pub started_at: jiff::Timestamp,
    /// When it ended; none while it runs or where it was killed.
    pub ended_at: Option<jiff::Timestamp>,
    /// How far it came.
    pub status: RunStatus,
    /// Who made it: `inferometer 0.1.0`, or an imported tool.
    pub tool: String,
    /// [`DEFINITIONS`], or the imported tool's.
    pub definitions: String,
    /// The command line, secrets redacted.
    pub command_line: Vec<String>,
    /// One side or two.
    pub design: Design,
    /// The root of lengths and arrivals.
    pub seed: Seed,
    /// The salt of this run's prompts.
    pub salt: Seed,
    /// The same hash: the same work.
    pub workload_hash: String,
    /// The servers.
    pub sides: BTreeMap<Side, StoredSide>,
    /// The client's machine and code.
    pub environment: BTreeMap<String, String>,
    /// Facts the user gave: `max_num_batched_tokens=2048`.
    pub metadata: BTreeMap<String, String>,
    /// Settings that shape the figures, as text.
    pub settings: BTreeMap<String, String>,
    /// The references and load points.
    pub points: Vec<StoredPoint>,
    /// The starts, in order.
    pub starts: Vec<StoredStart>,
    /// The rounds, in order.
    pub rounds: Vec<StoredRound>,
    /// What limits trust.
    pub findings: Vec<Finding>,
}

/// How far a run came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Under way, or killed.
    Running,
    /// To its end.
    Complete,
    /// Stopped by the user; what was measured is kept.
    Interrupted,
    /// Stopped by a fault of the server or the client.
    Failed,
}

impl RunStatus {
    /// The name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }
}

/// A server as it was found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredSide {
    /// What reports call it.
    pub label: String,
    /// Its base URL, without credentials.
    pub url: String,
    /// The model asked for.
    pub model: String,
    /// `completions` or `chat`.
    pub api: String,
    /// `vllm`, `llama.cpp`, `inferometer-sim`, …
    pub engine: Option<String>,
    /// Its version.
    pub engine_version: Option<String>,
    /// The launch command or hooks, secrets redacted.
    pub command: Option<String>,
    /// Names (never values) of the environment variables given to it.
    pub environment_names: Vec<String>,
    /// The engine's own effective settings, from its log or metrics.
    pub engine_settings: BTreeMap<String, String>,
    /// What the server accepts and reports, from preflight.
    pub offers: crate::api::Offers,
    /// Tokens that the chat template adds, learned in preflight.
    pub template_tokens: Option<u32>,
}

impl StoredSide {
    /// How many requests the server works on at once, if it reports that: llama-server's `total_slots`,
    /// vLLM's `max_num_seqs`.
    #[must_use]
    pub fn slots(&self) -> Option<u32> {
        let setting = |name: &str| self.engine_settings.get(name)?.parse().ok();
        setting("total_slots").or_else(|| setting("max_num_seqs")).filter(|slots| *slots > 0)
    }
}

/// A reference or load point, with its id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredPoint {
    /// `group/scenario/load`.
    pub id: String,
    /// Reference or load.
    pub phase: Phase,
    /// What it is.
    #[serde(flatten)]
    pub point: LoadPoint,
}

/// One start of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredStart {
    /// Whose server.
    pub side: Side,
    /// Which block.
    pub block: u32,
    /// Ordinal in the run.
    pub start: u32,
    /// When, UTC.
    pub at: jiff::Timestamp,
    /// What distinguishes it from other starts: the server's `process_start_time_seconds`, else our launch.
    pub identity: Option<String>,
    /// Seconds until it was ready, where we launched it.
    pub ready_s: Option<f64>,
    /// Why it gave no figures, where it did not.
    pub failure: Option<String>,
}

impl StoredStart {
    /// How the identity of an embedded simulator begins.
    const SIMULATED: &str = "simulator ";

    /// The identity of an embedded simulator, by the seed of this start.
    #[must_use]
    pub fn simulator_identity(seed: Seed) -> String {
        format!("{}{:016x}", Self::SIMULATED, seed.0)
    }

    /// Whether it was an embedded simulator.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.identity.as_ref().is_some_and(|identity| identity.starts_with(Self::SIMULATED))
    }
}

impl StoredRun {
    /// How a setting that holds the hash of a prompt file begins.
    const DATASET: &str = "dataset ";

    /// Keeps the hash of a prompt file: other prompts make a comparison incomparable.
    pub fn note_dataset(&mut self, path: &Path, hash: &str) {
        self.settings.insert(format!("{}{}", Self::DATASET, path.display()), hash.to_owned());
    }

    /// The prompt files by their paths, each with its hash.
    pub fn datasets(&self) -> impl Iterator<Item = (&str, &str)> {
        let dataset = |(name, hash)| Some((str::strip_prefix(name, Self::DATASET)?, hash));
        self.settings.iter().map(|(name, hash)| (name.as_str(), hash.as_str())).filter_map(dataset)
    }
}

/// How a round ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoundStatus {
    /// With all it was planned to measure.
    Complete,
    /// The server could not keep up with the offered rate.
    Saturated,
    /// Above 5 % of the requests failed: latencies are of survivors.
    Overloaded,
    /// Stopped early by the error limit.
    Stopped,
    /// Stopped by the user.
    Interrupted,
}

impl RoundStatus {
    /// Whether so much failed that no figure of the round is the server's best or its limit.
    #[must_use]
    pub const fn is_failing(self) -> bool {
        matches!(self, Self::Overloaded | Self::Stopped)
    }
}

/// One round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredRound {
    /// The load point's id.
    pub point: String,
    /// Reference or load.
    pub phase: Phase,
    /// Whose server.
    pub side: Side,
    /// Which block.
    pub block: u32,
    /// Which start.
    pub start: u32,
    /// Which pass within the start.
    pub round: u32,
    /// The root of its lengths and arrivals.
    pub seed: Seed,
    /// When it began, UTC.
    pub at: jiff::Timestamp,
    /// When the window opened, ns on the run's clock.
    pub window_open_ns: u64,
    /// When the window closed.
    pub window_close_ns: u64,
    /// How it ended.
    pub status: RoundStatus,
    /// What happened to the server.
    #[serde(default, skip_serializing_if = "ServerState::is_ran")]
    pub server: ServerState,
    /// The warm-up before it, where there was one.
    pub warm_up: Option<WarmUp>,
    /// How well the client and the load behaved.
    pub health: Health,
    /// The server's own word over the round, where offered: canonical name → value.
    /// Values that are not finite are left out of the file: JSON has no word for them.
    #[serde(default, serialize_with = "finite::values")]
    pub telemetry: BTreeMap<String, f64>,
    /// Samples over the round (queue, KV use, …): canonical name → (ns, value), at most 600 each.
    #[serde(default, serialize_with = "finite::series")]
    pub series: BTreeMap<String, Vec<(u64, f64)>>,
    /// What an imported tool reports of the whole round, by measure: `ttft_mean`, `tpot_p99`,
    /// `output_throughput`; `ttft_std`, and the counts `completed`, `failed`, `input_tokens` and
    /// `output_tokens`. Latencies in ms. Summaries read it where the requests cannot tell; empty
    /// for our own rounds, whose requests tell all.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        serialize_with = "finite::values"
    )]
    pub reported: BTreeMap<String, f64>,
    /// Mean ITL of the measured requests by token position, from 1, in ms; at most 128 places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub itl_by_position_ms: Vec<(u64, f64)>,
}

/// What a warm-up did.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    /// Completed requests.
    pub requests: u32,
    /// How long, seconds.
    #[serde(serialize_with = "finite::number")]
    pub seconds: f64,
    /// Whether the medians had settled (or the limit ended it).
    pub stable: bool,
    /// Median E2EL of its last window, seconds.
    pub e2el_s: Option<f64>,
}

/// How well the client and the load behaved in a round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// p50 and p99 of sent − due (open loop) or of refill delay (closed loop), ms.
    pub schedule_lag_p50_ms: Option<f64>,
    /// See above.
    pub schedule_lag_p99_ms: Option<f64>,
    /// Median of how late the client's own event loop ran a timer, ms.
    pub loop_lag_p50_ms: Option<f64>,
    /// p99 of the same, ms.
    pub loop_lag_p99_ms: Option<f64>,
    /// How long the client stood still at a stretch, ms: its event loop did not run, or the machine was
    /// suspended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_stall_ms: Option<f64>,
    /// The longest stall / the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled_share: Option<f64>,
    /// Client CPU over the window / (window × cores).
    pub client_cpu: Option<f64>,
    /// Time average of requests in flight inside the window.
    pub in_flight_mean: Option<f64>,
    /// QPS × mean E2EL (Little's law), for comparison with `in_flight_mean`.
    pub little: Option<f64>,
    /// Share of the window at the concurrency cap.
    pub at_cap_share: Option<f64>,
    /// |mean of exp(2πi·t/P)| of the send times, P = median E2EL: 0 even, 1 all at once.
    pub lockstep: Option<f64>,
    /// Events within 50 µs of the one before / events.
    pub coalesced_share: Option<f64>,
    /// Arrivals due in the window per second, as realised.
    pub offered_per_s: Option<f64>,
    /// Sends in the window per second.
    pub sent_per_s: Option<f64>,
    /// Completions / realised arrivals in the window.
    pub completion_ratio: Option<f64>,
    /// Requests sent a second time, because the server was closing their connection.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resent: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Keeps NaN and infinity out of files. An optional number needs no help: serde_json writes null.
mod finite {
    use std::collections::BTreeMap;

    use serde::{Serialize, Serializer};

    pub(super) fn number<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        let finite = if value.is_finite() { *value } else { 0.0 };
        finite.serialize(serializer)
    }

    pub(super) fn values<S: Serializer>(
        values: &BTreeMap<String, f64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(values.iter().filter(|(_, value)| value.is_finite()))
    }

    pub(super) fn series<S: Serializer>(
        series: &BTreeMap<String, Vec<(u64, f64)>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(series.iter().map(|(name, samples)| {
            let kept = samples.iter().filter(|(_, value)| value.is_finite());
            (name, kept.collect::<Vec<_>>())
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::RunStatus::{self, Complete, Failed, Interrupted, Running};

    #[test]
    fn a_status_has_one_name_in_files_and_on_the_terminal() {
        let all: [RunStatus; 4] = [Running, Complete, Interrupted, Failed];
        for status in all {
            assert_eq!(serde_json::to_value(status).unwrap(), status.name());
        }
    }
}
