//! The flags of a run.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::metric::Measure;
use crate::units;

/// Which server.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// Base URL of the server, with or without `/v1`
    #[arg(long, env = "INFEROMETER_URL", hide_env = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Model name; default: the first of `/v1/models`
    #[arg(long, env = "INFEROMETER_MODEL", hide_env = true, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Which API to use
    #[arg(long, value_enum, value_name = "API")]
    pub(crate) api: Option<ApiArg>,
    /// Environment variable that holds the API key
    #[arg(long, value_name = "NAME")]
    pub(crate) api_key_env: Option<String>,
    /// File that holds the API key
    #[arg(long, value_name = "PATH")]
    pub(crate) api_key_file: Option<PathBuf>,
    /// Refused: it would stand in the process list
    #[arg(long, value_name = "VALUE", hide = true)]
    pub(crate) api_key: Option<String>,
    /// Extra header, `K: V` or `K=V`; repeatable
    #[arg(long = "header", short = 'H', value_name = "K: V")]
    pub(crate) headers: Vec<String>,
    /// JSON object merged into every request body
    #[arg(long, value_name = "JSON")]
    pub(crate) extra_body: Option<String>,
    /// PEM file of a certificate authority to trust
    #[arg(long, value_name = "PATH")]
    pub(crate) ca_cert: Option<PathBuf>,
    /// Accept any certificate
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Command that starts the server; it is launched anew for every start
    #[arg(long, value_name = "COMMAND", conflicts_with = "restart_cmd")]
    pub(crate) server_cmd: Option<String>,
    /// Path that answers 200 once the server is ready
    #[arg(long, value_name = "PATH")]
    pub(crate) ready: Option<String>,
    /// Longest wait for the server to get ready
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) ready_timeout: Option<Duration>,
    /// Hook that restarts a server we do not own (container, unit, pod)
    #[arg(long, value_name = "COMMAND")]
    pub(crate) restart_cmd: Option<String>,
    /// Hook that stops it at the end
    #[arg(long, value_name = "COMMAND", requires = "restart_cmd")]
    pub(crate) stop_cmd: Option<String>,
    /// Command that starts the other side, the base: interleaved blocks
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["against_url", "against_restart_cmd"])]
    pub(crate) against_cmd: Option<String>,
    /// URL of the other side, the base: rounds alternate
    #[arg(long, value_name = "URL")]
    pub(crate) against_url: Option<String>,
    /// Hook that restarts the other side
    #[arg(long, value_name = "COMMAND")]
    pub(crate) against_restart_cmd: Option<String>,
    /// The other side is the embedded simulator with this preset (beside --simulate)
    #[arg(long, value_name = "PRESET", conflicts_with_all = ["against_cmd", "against_url", "against_restart_cmd"])]
    pub(crate) against_simulate: Option<String>,
    /// Run the embedded simulator with this preset, even where a URL is set
    #[arg(long, value_name = "PRESET")]
    pub(crate) simulate: Option<String>,
    /// Limit for TCP and TLS
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) connect_timeout: Option<Duration>,
    /// Limit from the send to the first byte
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) first_byte_timeout: Option<Duration>,
    /// Limit between two token events (comments do not count)
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) idle_timeout: Option<Duration>,
    /// Limit of a whole request; none by default
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) total_timeout: Option<Duration>,
}

/// What is sent, how much of it and how often.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct LoadArgs {
    /// Requests in flight; several values sweep. Beside --request-rate: a cap
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) max_concurrency: Vec<u32>,
    /// Arrivals per second; several values sweep
    #[arg(long, value_name = "R,…", value_delimiter = ',')]
    pub(crate) request_rate: Vec<f64>,
    /// Gamma shape of the arrivals: 1 = Poisson, < 1 burstier
    #[arg(long, value_name = "SHAPE")]
    pub(crate) burstiness: Option<f64>,
    /// Measured requests a round
    #[arg(long, visible_alias = "sample-size", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) num_prompts: Option<u32>,
    /// Least measured time a round
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) measurement_time: Option<Duration>,
    /// Seed of lengths and arrivals
    #[arg(long, value_name = "SEED")]
    pub(crate) seed: Option<u64>,
    /// Limits for goodput: `ttft:200 tpot:30 e2el:5000` (ms)
    #[arg(long, value_name = "METRIC:MS…")] // several words: see words.rs
    pub(crate) goodput: Vec<String>,
    /// Answers run to their full length: on, off or auto (where the server takes it)
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "on")]
    pub(crate) ignore_eos: Option<TriStateArg>,
    /// Prompt tokens; several values sweep
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) random_input_len: Vec<u32>,
    /// Output tokens; several values sweep
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) random_output_len: Vec<u32>,
    /// Prompts from a JSONL file: `{"prompt": "…"}` a line
    #[arg(long, value_name = "PATH")]
    pub(crate) prompts: Option<PathBuf>,
    /// How the slots of a closed loop begin
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) slot_start: Option<SlotStartArg>,
    /// Send the same prompt text in every run
    #[arg(long)]
    pub(crate) replay_prompts: bool,
}

/// Phases and repeats.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Run")]
pub(crate) struct PhaseArgs {
    /// Longest warm-up of a load point
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) warm_up_time: Option<Duration>,
    /// Requests of the rate-1 reference
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) reference_requests: Option<u32>,
    /// Pause between load points
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) cool_down: Option<Duration>,
    /// Launches of the server per side
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) starts: Option<u32>,
    /// Measured passes of a load point within a start
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: Option<u32>,
    /// Blocks after which a decision may end the run: `5,8,12`
    #[arg(long, value_name = "M,…", value_delimiter = ',')]
    pub(crate) looks: Vec<u32>,
    /// Shrink counts and starts to fit this time
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) budget: Option<Duration>,
    /// Leave out the preflight (said in the report)
    #[arg(long)]
    pub(crate) no_preflight: bool,
    /// Leave out the warm-up (said in the report)
    #[arg(long)]
    pub(crate) no_warm_up: bool,
    /// Leave out the rate-1 reference (said in the report)
    #[arg(long)]
    pub(crate) no_reference: bool,
    /// Share of failed requests above which a load point is stopped, as `0.5` or `50%`
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) max_error_rate: Option<f64>,
    /// End the sweep at the first saturated load point
    #[arg(long)]
    pub(crate) stop_when_saturated: bool,
    /// Fact to store with the run; repeatable
    #[arg(long, value_name = "K=V")]
    pub(crate) metadata: Vec<String>,
    /// Take up an interrupted run where it stopped: the same work, its whole restarts kept
    #[arg(long, value_name = "RUN")]
    pub(crate) resume: Option<String>,
    /// Name of the run, for its folder
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// Baselines, verdicts and the gate.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Comparison")]
pub(crate) struct JudgeArgs {
    /// Point this baseline at the run
    #[arg(long, value_name = "NAME")]
    pub(crate) save_baseline: Option<String>,
    /// Add the run to this baseline
    #[arg(long, value_name = "NAME")]
    pub(crate) append_baseline: Option<String>,
    /// Compare with this baseline; it must exist
    #[arg(long, value_name = "NAME", conflicts_with = "baseline_lenient")]
    pub(crate) baseline: Option<String>,
    /// Compare with this baseline where it exists
    #[arg(long, value_name = "NAME")]
    pub(crate) baseline_lenient: Option<String>,
    /// Judge this stored baseline in place of a fresh run
    #[arg(long, value_name = "NAME")]
    pub(crate) load_baseline: Option<String>,
    /// Store the run without touching any baseline (the default)
    #[arg(long, hide = true)]
    pub(crate) discard_baseline: bool,
    /// Family-wise significance level of the verdicts
    #[arg(long, value_name = "ALPHA")]
    pub(crate) significance_level: Option<f64>,
    /// Level of the shown intervals
    #[arg(long, value_name = "LEVEL")]
    pub(crate) confidence_level: Option<f64>,
    /// Smallest change of throughput and TPOT that counts
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) noise_threshold: Option<f64>,
    /// Measures that gate: `itl_p50,ttft_p50,throughput,tpot_mean`
    #[arg(long, value_name = "METRIC,…", value_delimiter = ',')]
    pub(crate) gate: Vec<Measure>,
    /// Absolute limits: `'ttft_p99<500ms' 'error_rate<1%'`
    #[arg(long, value_name = "LIMIT…")] // several words: see words.rs
    pub(crate) require: Vec<String>,
    /// What else fails: `inconclusive`
    #[arg(long, value_name = "VERDICT", value_enum)]
    pub(crate) fail_on: Option<FailOnArg>,
    /// Observe only: never fail on a verdict
    #[arg(long)]
    pub(crate) no_fail: bool,
    /// Take a latency halved or a throughput doubled for real
    #[arg(long)]
    pub(crate) accept_gain: bool,
    /// Refused: no resampling enters a verdict
    #[arg(long, value_name = "N", hide = true)]
    pub(crate) nresamples: Option<String>,
    /// Refused: profile the server with its own tools
    #[arg(long, value_name = "TIME", hide = true)]
    pub(crate) profile_time: Option<String>,
}

/// Where results go.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Root of runs, baselines and reports
    #[arg(long, value_name = "DIR", env = "INFEROMETER_OUTPUT_DIR", hide_env = true)]
    pub(crate) output_dir: Option<PathBuf>,
    /// What stdout carries
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "terminal")]
    pub(crate) output_format: OutputFormatArg,
    /// Only the result
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,
    /// Every metric and finding
    #[arg(long, short = 'v', conflicts_with = "quiet")]
    pub(crate) verbose: bool,
}

/// What stdout carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormatArg {
    /// Tables for people
    #[default]
    Terminal,
    /// One document, the same as report.json
    Json,
    /// The table for a pull request
    Markdown,
}

/// `--fail-on`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOnArg {
    /// Not enough data fails too.
    Inconclusive,
}

/// `--api`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ApiArg {
    /// Completions where a probe succeeds, else chat
    Auto,
    /// `/v1/completions`
    Completions,
    /// `/v1/chat/completions`
    Chat,
}

/// `--ignore-eos`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TriStateArg {
    /// Where the server takes it
    Auto,
    /// Always
    On,
    /// Never
    Off,
}

/// `--slot-start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SlotStartArg {
    /// Over about one expected E2E
    Spread,
    /// All at once, as vLLM's client
    Together,
}

/// A time with its unit; clap shows one line, so the hint joins it.
fn duration(text: &str) -> Result<Duration, String> {
    units::parse_duration(text).map_err(|error| match error.hint() {
        Some(hint) => format!("{error}: {hint}"),
        None => error.to_string(),
    })
}

/// A share written as `0.05` or `5%`.
fn share(text: &str) -> Result<f64, String> {
    let bad = || format!("`{text}` is not a share from 0 to 1: write `0.05` or `5%`");
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number, 0.01),
        None => (text, 1.0),
    };
    let share = number.trim().parse::<f64>().map_err(|_| bad())? * scale;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(bad()) }
}

/// All flags that shape a run.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    pub(crate) phases: PhaseArgs,
    #[command(flatten)]
    pub(crate) judge: JudgeArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
