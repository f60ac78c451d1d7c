//! The flags of a run.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::lengths::{length, range_ratio};
use crate::metric::Measure;
use crate::scenario::Length;
use crate::settings::overrides::{Overrides, ServerOverrides};
use crate::settings::value::{duration, share};

/// Which server.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    #[command(flatten)]
    pub(crate) server: ServerOverrides,
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
    /// Command that starts the base to compare with
    ///
    /// Server starts of both sides are interleaved.
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
    /// Run the embedded simulator [presets: demo, h200-qwen2.5-7b]
    #[arg(long, value_name = "PRESET")]
    pub(crate) simulate: Option<String>,
    /// Time limit for TCP and TLS [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) connect_timeout: Option<Duration>,
    /// Time limit from sending to the first byte [default: 600s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) first_byte_timeout: Option<Duration>,
    /// Time limit between two token events [default: 120s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) idle_timeout: Option<Duration>,
    /// Time limit of a whole request [default: none]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) total_timeout: Option<Duration>,
}

/// What is sent, how much of it and how often.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct LoadArgs {
    /// Concurrent requests; several values sweep
    ///
    /// With --request-rate, it limits how many requests are in flight.
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) max_concurrency: Vec<u32>,
    /// Arrivals per second; several values sweep
    #[arg(long, value_name = "R,…", value_delimiter = ',')]
    pub(crate) request_rate: Vec<f64>,
    /// Gamma shape of the arrivals: 1 = Poisson, < 1 burstier
    #[arg(long, value_name = "SHAPE")]
    pub(crate) burstiness: Option<f64>,
    /// SLO, ms: `ttft:200 tpot:30 e2el:5000`
    #[arg(long, value_name = "METRIC:MS…")] // several words: see words.rs
    pub(crate) goodput: Vec<String>,
    /// Prompt tokens, or a range [default: 512]
    ///
    /// Several values sweep: `256,1024`. A range is `256-768`.
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = length)]
    pub(crate) random_input_len: Vec<Length>,
    /// Output tokens, or a range [default: 128]
    ///
    /// Several values sweep.
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = length)]
    pub(crate) random_output_len: Vec<Length>,
    /// Spread of both lengths, 0 to below 1: evenly over N·(1 ± R)
    #[arg(long, value_name = "R", value_parser = range_ratio)]
    pub(crate) random_range_ratio: Option<f64>,
    /// Prompts from a JSONL file: `{"prompt": "…"}` a line
    #[arg(long, value_name = "PATH")]
    pub(crate) prompts: Option<PathBuf>,
}

/// Phases and repeats.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Run")]
pub(crate) struct PhaseArgs {
    /// Skip the preflight checks; the report states it
    #[arg(long)]
    pub(crate) no_preflight: bool,
    /// Skip the warm-up; the report states it
    #[arg(long)]
    pub(crate) no_warm_up: bool,
    /// Skip the rate-1 reference; the report states it
    #[arg(long)]
    pub(crate) no_reference: bool,
    /// Skip the unmeasured start of each side before the first pair
    #[arg(long)]
    pub(crate) no_burn_in: bool,
    /// Resume an interrupted run
    ///
    /// Complete server starts are kept, and the work must be identical.
    #[arg(long, value_name = "RUN")]
    pub(crate) resume: Option<String>,
}

/// Baselines, verdicts and the gate.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Comparison")]
pub(crate) struct JudgeArgs {
    /// Save the run as this baseline
    #[arg(long, value_name = "NAME")]
    pub(crate) save_baseline: Option<String>,
    /// Add the run to this baseline
    #[arg(long, value_name = "NAME")]
    pub(crate) append_baseline: Option<String>,
    /// Compare with this baseline; it must exist
    #[arg(long, value_name = "NAME", conflicts_with = "baseline_lenient")]
    pub(crate) baseline: Option<String>,
    /// Compare with this baseline if it exists
    #[arg(long, value_name = "NAME")]
    pub(crate) baseline_lenient: Option<String>,
    /// Judge this stored baseline in place of a fresh run
    #[arg(long, value_name = "NAME")]
    pub(crate) load_baseline: Option<String>,
    /// Store the run without touching any baseline (the default)
    #[arg(long, hide = true)]
    pub(crate) discard_baseline: bool,
    /// Chance that a report calls an unchanged server changed [default: 0.01]
    #[arg(long, value_name = "ALPHA")]
    pub(crate) significance_level: Option<f64>,
    /// Level of the confidence intervals [default: 0.95]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) confidence_level: Option<f64>,
    /// Smallest change of throughput and TPOT that counts
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) noise_threshold: Option<f64>,
    /// Measures that gate: `itl_p50,ttft_p50,throughput,tpot_mean`
    #[arg(long, value_name = "METRIC,…", value_delimiter = ',')]
    pub(crate) gate: Vec<Measure>,
    /// Limits: `'ttft_p99<500ms' 'error_rate<1%'`
    #[arg(long, value_name = "LIMIT…")] // several words: see words.rs
    pub(crate) require: Vec<String>,
    /// What else fails: `inconclusive`
    #[arg(long, value_name = "VERDICT", value_enum)]
    pub(crate) fail_on: Option<FailOnArg>,
    /// Observe only: never fail on a verdict
    #[arg(long)]
    pub(crate) no_fail: bool,
    /// Server starts per side that may fail without failing the run [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) allow_failed_starts: Option<u32>,
    /// Accept an implausibly large improvement (a latency halved, a throughput doubled)
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
    /// Result lines only
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,
    /// Every round as it ends, and the notes
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

/// All flags that shape a run.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    pub(crate) overrides: Overrides,
    #[command(flatten)]
    pub(crate) phases: PhaseArgs,
    #[command(flatten)]
    pub(crate) judge: JudgeArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
