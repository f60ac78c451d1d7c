//! Every setting of a run, with its default and the reason for it.
//!
//! What is set last wins: the defaults here, code (a bench file), a scenario file, the environment, flags.

pub mod extra_body;
pub mod launch;
pub mod overrides;
pub(crate) mod value;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::metric::Measure;
use crate::rng::Seed;

pub use launch::{Launch, Target};

/// A key that never shows: not in logs, files, errors or `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Wraps a key. Stray spaces are kept: preflight says so, since a server would refuse it.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    /// The key itself: for the `Authorization` header and for redaction only.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// `text` with every occurrence of the key replaced, also of its base64 forms.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        let key = self.0.trim();
        if key.len() < 4 {
            return text.to_owned();
        }
        let mut text = text.replace(key, "[redacted]");
        // Shorter ones have forms of a few letters, which stand in ordinary words.
        if key.len() >= 8 {
            for form in [STANDARD_NO_PAD.encode(key), URL_SAFE_NO_PAD.encode(key)] {
                text = text.replace(&form, "[redacted]");
            }
            for before in 0..3 {
                for form in base64_forms(key, before) {
                    text = text.replace(&form, "[redacted]");
                }
            }
        }
        text
    }
}

/// The letters that base64 makes of `key` alone where `before` bytes (of three) stand before it, as in
/// `user:key`: letters that its neighbours share in are left out.
fn base64_forms(key: &str, before: usize) -> [String; 2] {
    let padded = [&[0; 2][..before.min(2)], key.as_bytes()].concat();
    // A letter holds 6 bits: the first whole one of the key, and the last.
    let (first, last) = ((before * 8).div_ceil(6), padded.len() * 8 / 6);
    [STANDARD_NO_PAD.encode(&padded), URL_SAFE_NO_PAD.encode(&padded)]
        .map(|form| form[first..last].to_owned())
}

/// Whether the last part of a name is that of a secret: `--api-key`, `HF_TOKEN`, `db.password`, but not
/// `--max-num-batched-tokens` or `--long-prefill-token-threshold`.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let last = name.rsplit(['-', '_', '.']).next().unwrap_or(name).to_ascii_lowercase();
    // `PGPASSWORD` has no separator; `monkey` is no key.
    const ENDS: [&str; 8] = [
        "password",
        "passwd",
        "passphrase",
        "secret",
        "apikey",
        "token",
        "credential",
        "credentials",
    ];
    matches!(last.as_str(), "key" | "keys") || ENDS.iter().any(|end| last.ends_with(end))
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey([redacted])")
    }
}

/// Which API the requests use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum ApiChoice {
    /// Completions where a probe succeeds (exact lengths by token ids), else chat.
    #[default]
    Auto,
    /// `/v1/completions`.
    Completions,
    /// `/v1/chat/completions`.
    Chat,
}

/// How made prompts are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum PromptForm {
    /// Token ids where the server takes them, else text.
    #[default]
    Auto,
    /// Text: the server tokenizes it, and its length is approximate.
    Text,
    /// Token ids: a server that does not take them is refused.
    Ids,
}

/// A parameter that some servers refuse.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum TriState {
    /// Sent where preflight finds it accepted.
    #[default]
    Auto,
    /// Always sent.
    On,
    /// Never sent.
    Off,
}

/// What happens to baselines (criterion's four).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BaselineChoice {
    /// Points this name at the run, replacing what it pointed at.
    pub save: Option<String>,
    /// Adds the run to this name.
    pub append: Option<String>,
    /// Compares with this name.
    pub compare: Option<String>,
    /// A missing baseline (or a point missing in it) is not an error.
    pub lenient: bool,
    /// Judges this stored baseline in place of a fresh run.
    pub load: Option<String>,
}

/// The four limits of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP and TLS.
    pub connect: Duration,
    /// Sent to the first byte of the answer's body; where that carried no token (a role, a
    /// keep-alive), to the first token.
    pub first_byte: Duration,
    /// Between two events that carry tokens: comments do not count, since servers send
    /// keep-alives while the engine hangs.
    pub idle: Duration,
    /// The whole request; none by default, since answers may be long.
    pub total: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            // A long prompt in a full queue waits minutes on real servers.
            first_byte: Duration::from_secs(600),
            idle: Duration::from_secs(120),
            total: None,
        }
    }
}

/// Everything that shapes a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The server to measure.
    pub target: Target,
    /// Whether no server was named, so that the embedded simulator stands in.
    pub no_server_given: bool,
    /// The other side (its base), measured in interleaved blocks or rounds.
    pub against: Option<Target>,
    /// The model's name; none: the first of `/v1/models`.
    pub model: Option<String>,
    /// Completions or chat.
    pub api: ApiChoice,
    /// The key for `Authorization: Bearer`.
    pub api_key: Option<ApiKey>,
    /// Headers sent with every request.
    pub headers: Vec<(String, String)>,
    /// Fields merged into every request body.
    pub extra_body: serde_json::Map<String, serde_json::Value>,
    /// A PEM file of an authority to trust.
    pub ca_cert: Option<PathBuf>,
    /// Accepts any certificate.
    pub insecure: bool,
    /// Limits of a request.
    pub timeouts: Timeouts,
    /// How made prompts are sent.
    pub prompt_form: PromptForm,
    /// Whether answers run to their full length.
    pub ignore_eos: TriState,
    /// The root of lengths, arrivals and prompts.
    pub seed: Seed,
    /// Sends the same prompt text in every run (a prefix cache may then answer).
    pub replay_prompts: bool,
    /// Measured requests a round, for every load point.
    pub num_prompts: Option<u32>,
    /// Minimum measured time a round.
    pub measurement_time: Option<Duration>,
    /// Longest warm-up of a load point.
    pub warm_up_time: Duration,
    /// Requests of the rate-1 reference.
    pub reference_requests: u32,
    /// Pause between load points.
    pub cool_down: Duration,
    /// Launches per side; `None` for what the layout of the sides needs.
    pub starts: Option<u32>,
    /// The user's word that a server that we do not start was restarted for this run.
    pub restarted: bool,
    /// Measured passes of a load point within a start.
    pub rounds: u32,
    /// Blocks after which a decision may end the run.
    pub looks: Vec<u32>,
    /// Wall-clock budget; counts and starts shrink to fit.
    pub budget: Option<Duration>,
    /// How the slots of a closed loop begin.
    pub slot_start: SlotStart,
    /// Search for the highest load that meets the SLO, in place of the declared loads.
    pub search: Option<SearchAxis>,
    /// Which phases are left out.
    pub skip: Skip,
    /// Failed / attempted above which a load point is stopped.
    pub max_error_rate: f64,
    /// Stops the sweep at the first saturated or overloaded point.
    pub stop_when_saturated: bool,
    /// Facts to store with the run: `max_num_batched_tokens=2048`.
    pub metadata: BTreeMap<String, String>,
    /// Baselines read and written.
    pub baseline: BaselineChoice,
    /// How a comparison is judged.
    pub judge: JudgeSettings,
    /// Where runs, baselines and reports live.
    pub output_dir: PathBuf,
    /// The id of a run to take up where it was interrupted.
    pub resume: Option<String>,
    /// The run's name, for its folder; none: the plan's hash.
    pub name: Option<String>,
}

/// What is searched for the SLO capacity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum SearchAxis {
    /// What the scenario declares.
    #[default]
    Declared,
    /// Requests in flight.
    Concurrency,
    /// Requests per second.
    Rate,
}

/// How the slots of a closed loop send their first requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum SlotStart {
    /// Spread over about one expected E2E, so that fixed lengths do not run in lockstep.
    #[default]
    Spread,
    /// All at once, as vLLM's client does.
    Together,
}

/// Phases left out for a quick look; the report states it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skip {
    /// No preflight.
    pub preflight: bool,
    /// No warm-up.
    pub warm_up: bool,
    /// No rate-1 reference.
    pub reference: bool,
    /// No unmeasured start of each side before the first pair.
    pub burn_in: bool,
}

/// The error that a whole report may make: the chance that anything is called changed of a server
/// that is not.
pub const REPORT_BUDGET: f64 = 0.01;

/// Pairs of restarts where both sides can be restarted: enough to find 5 % at one load point of
/// five, 3 % at all of them.
pub const PAIRED_STARTS: u32 = 8;
/// Starts of the embedded simulator: the fewest that a gate accepts.
const SIMULATED_STARTS: u32 = 5;

/// How a comparison is judged (docs/statistics.md, sections 3 and 4).
#[derive(Debug, Clone, PartialEq)]
pub struct JudgeSettings {
    /// The error of a whole report: how often anything is called changed of an unchanged server.
    pub significance_level: f64,
    /// Level of the shown intervals.
    pub confidence_level: f64,
    /// Floor of throughput and TPOT, where set.
    pub noise_threshold: Option<f64>,
    /// The gated measures; none: the contract's defaults.
    pub gate: Option<Vec<Measure>>,
    /// Absolute limits: `ttft_p99<500ms`.
    pub require: Vec<String>,
    /// Makes `inconclusive` fail.
    pub fail_on_inconclusive: bool,
    /// Observes only: never fails.
    pub no_fail: bool,
    /// Accepts an implausibly large improvement: a latency halved or a throughput doubled.
    pub accept_gain: bool,
    /// Starts of a side that may fail without failing the gate.
    pub allow_failed_starts: u32,
}

impl Default for JudgeSettings {
    fn default() -> Self {
        Self {
            significance_level: REPORT_BUDGET,
            confidence_level: 0.95,
            noise_threshold: None,
            gate: None,
            require: Vec::new(),
            fail_on_inconclusive: false,
            no_fail: false,
            accept_gain: false,
            allow_failed_starts: 0,
        }
    }
}

impl Settings {
    /// The defaults for a real server at `url`, started by somebody else.
    #[must_use]
    pub fn for_url(url: impl Into<String>) -> Self {
        Self {
            target: Target::new(url.into(), Launch::External),
            no_server_given: false,
            against: None,
            model: None,
            api: ApiChoice::Auto,
            api_key: None,
            headers: Vec::new(),
            extra_body: serde_json::Map::new(),
            ca_cert: None,
            insecure: false,
            timeouts: Timeouts::default(),
            prompt_form: PromptForm::Auto,
            ignore_eos: TriState::Auto,
            seed: Seed(0),
            replay_prompts: false,
            num_prompts: None,
            measurement_time: None,
            warm_up_time: Duration::from_secs(60),
            reference_requests: 60,
            // The card's heat and the server's queues settle; real servers only.
            cool_down: Duration::from_secs(10),
            starts: None,
            restarted: false,
            rounds: 1,
            looks: Vec::new(),
            budget: None,
            slot_start: SlotStart::Spread,
            search: None,
            skip: Skip::default(),
            max_error_rate: 0.5,
            stop_when_saturated: false,
            metadata: BTreeMap::new(),
            baseline: BaselineChoice::default(),
            judge: JudgeSettings::default(),
            output_dir: PathBuf::from("target-reports"),
            resume: None,
            name: None,
        }
    }

    /// Launches per side: as many as were asked for, else what the layout of the sides needs.
    #[must_use]
    pub fn planned_starts(&self) -> u32 {
        let restarts = |target: &Target| !matches!(target.launch, Launch::External);
        let both = self
            .against
            .as_ref()
            .is_some_and(|against| restarts(against) && restarts(&self.target));
        match self.starts {
            Some(starts) => starts.max(1),
            None if both => PAIRED_STARTS,
            None if self.is_simulated() => SIMULATED_STARTS,
            None => 1,
        }
    }

    /// The defaults for the embedded simulator: short rounds, five starts, no cool-down.
    #[must_use]
    pub fn for_simulator(preset: impl Into<String>) -> Self {
        let mut settings = Self::for_url(String::new());
        settings.target = Target::simulator(preset);
        settings.reference_requests = 10;
        settings.cool_down = Duration::ZERO;
        // Nothing compiles or fills in a simulator: its first window is as good as its last.
        settings.warm_up_time = Duration::from_millis(1500);
        settings
    }

    /// Whether the server is the embedded simulator.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        matches!(self.target.launch, Launch::Simulator { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_never_shows() {
        let key = ApiKey::new("sk-secret");
        assert!(!format!("{key:?}").contains("secret"));
        assert_eq!(key.redact("bad key sk-secret."), "bad key [redacted].");
        assert_eq!(key.redact("c2stc2VjcmV0 was sent"), "[redacted] was sent");
        for user in ["", "u", "me", "you", "user"] {
            for encoded in
                [STANDARD_NO_PAD, URL_SAFE_NO_PAD].map(|e| e.encode(format!("{user}:sk-secret?")))
            {
                let shown = key.redact(&encoded);
                assert!(
                    shown.contains("[redacted]") && shown.len() <= encoded.len() + 1,
                    "{encoded} {shown}"
                );
            }
        }
    }
}
