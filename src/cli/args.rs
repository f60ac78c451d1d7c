//! The flags of a run, and the settings they make.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::error::{Error, Result};
use crate::harness::{Action, Detail, OutputFormat, Surface};
use crate::metric::Measure;
use crate::rng::Seed;
use crate::scenario::file::LaunchSpec;
use crate::settings::{ApiChoice, ApiKey, Launch, Settings, SlotStart, Target, Timeouts, TriState};
use crate::units;

/// The preset of the embedded simulator that runs where no server is given.
pub(super) const DEFAULT_PRESET: &str = "demo";

/// Which server.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// Base URL of the server, with or without `/v1`
    #[arg(long, env = "INFEROMETER_URL", value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Model name; default: the first of `/v1/models`
    #[arg(long, env = "INFEROMETER_MODEL", value_name = "NAME")]
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
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
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
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    pub(crate) connect_timeout: Option<Duration>,
    /// Limit from the send to the first byte
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    pub(crate) first_byte_timeout: Option<Duration>,
    /// Limit between two token events (comments do not count)
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    pub(crate) idle_timeout: Option<Duration>,
    /// Limit of a whole request; none by default
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
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
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    pub(crate) measurement_time: Option<Duration>,
    /// Seed of lengths and arrivals
    #[arg(long, value_name = "SEED")]
    pub(crate) seed: Option<u64>,
    /// Limits for goodput: `ttft:200 tpot:30 e2el:5000` (ms)
    #[arg(long, value_name = "METRIC:MS", num_args = 1..)]
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
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    pub(crate) warm_up_time: Option<Duration>,
    /// Requests of the rate-1 reference
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) reference_requests: Option<u32>,
    /// Pause between load points
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
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
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
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
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
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
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub(crate) noise_threshold: Option<f64>,
    /// Measures that gate: `itl_p50,ttft_p50,throughput,tpot_mean`
    #[arg(long, value_name = "METRIC,…", value_delimiter = ',')]
    pub(crate) gate: Vec<Measure>,
    /// Absolute limits: `'ttft_p99<500ms' 'error_rate<1%'`
    #[arg(long, value_name = "LIMIT", num_args = 1..)]
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
    #[arg(long, value_name = "DIR", env = "INFEROMETER_OUTPUT_DIR")]
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

impl OutputArgs {
    /// What to show, with what to do.
    pub(crate) fn surface(&self, action: Action) -> Surface {
        let format = match self.output_format {
            OutputFormatArg::Terminal => OutputFormat::Terminal,
            OutputFormatArg::Json => OutputFormat::Json,
            OutputFormatArg::Markdown => OutputFormat::Markdown,
        };
        let detail = match (self.quiet, self.verbose) {
            (true, _) => Detail::Quiet,
            (_, true) => Detail::Verbose,
            _ => Detail::Normal,
        };
        Surface { action, format, detail }
    }

    /// Where results live.
    pub(crate) fn apply(&self, settings: &mut Settings) {
        set(&mut settings.output_dir, self.output_dir.clone());
    }
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

/// A share written as `0.05` or `5%`.
fn parse_share(text: &str) -> Result<f64> {
    let bad = || Error::usage(format!("`{text}` is not a share")).with_hint("write `0.05` or `5%`");
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number, 0.01),
        None => (text, 1.0),
    };
    let share = number.trim().parse::<f64>().map_err(|_| bad())? * scale;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(bad()) }
}

/// `K=V` or `K: V`, split once.
fn parse_pair(text: &str, what: &str) -> Result<(String, String)> {
    text.find([':', '='])
        .map(|at| (text[..at].trim().to_owned(), text[at + 1..].trim().to_owned()))
        .filter(|(key, _)| !key.is_empty())
        .ok_or_else(|| {
            Error::usage(format!("{what} `{text}` has no key")).with_hint("write `KEY=VALUE`")
        })
}

impl ServerArgs {
    /// Whether a server was named at all (else the simulator runs).
    pub(crate) fn names_a_server(&self) -> bool {
        self.simulate.is_none()
            && (self.url.is_some() || self.server_cmd.is_some() || self.restart_cmd.is_some())
    }

    /// What the flags say of one side.
    fn launch(&self, command: &Option<String>, restart: &Option<String>) -> LaunchSpec {
        LaunchSpec {
            url: self.url.clone(),
            command: command.clone(),
            ready_path: self.ready.clone(),
            ready_timeout: self.ready_timeout,
            restart: restart.clone(),
            stop: self.stop_cmd.clone().filter(|_| restart.is_some()),
        }
    }

    /// `INFEROMETER_SIM_SLOWDOWN=1.10`: a knob to try the gate.
    fn slow_down(&self, settings: &mut Settings) -> Result<()> {
        let Ok(text) = std::env::var("INFEROMETER_SIM_SLOWDOWN") else { return Ok(()) };
        let factor: Option<f64> = text.parse().ok().filter(|f: &f64| f.is_finite() && *f > 0.0);
        let factor = factor.ok_or_else(|| {
            Error::usage(format!("`INFEROMETER_SIM_SLOWDOWN={text}` is not a factor"))
                .with_hint("write `1.10` for 10 % slower")
        })?;
        if let Launch::Simulator { slowdown, .. } = &mut settings.target.launch {
            *slowdown = factor;
        }
        Ok(())
    }

    fn apply_target(&self, settings: &mut Settings) -> Result<()> {
        if let Some(preset) = &self.against_simulate {
            if !settings.is_simulated() || self.names_a_server() {
                return Err(Error::usage("`--against-simulate` compares simulators")
                    .with_hint("add `--simulate PRESET`, or give the other side by `--against-cmd`"));
            }
            // The knob for trying the gate slows the side that is judged, not its base.
            let launch = Launch::Simulator { preset: preset.clone(), slowdown: 1.0 };
            settings.against = Some(Target { url: String::new(), launch });
        }
        if !self.names_a_server() {
            if self.against_cmd.is_some() || self.against_url.is_some() {
                return Err(Error::usage("the other side is given, but not the server to judge")
                    .with_hint("add `--url URL` or `--server-cmd COMMAND`"));
            }
            return Ok(());
        }
        let target = self.launch(&self.server_cmd, &self.restart_cmd).target()?;
        settings.target = target.unwrap_or_else(|| settings.target.clone());
        if let Some(url) = &self.against_url {
            settings.against = Some(Target { url: url.clone(), launch: Launch::External });
        } else if self.against_cmd.is_some() || self.against_restart_cmd.is_some() {
            let spec = self.launch(&self.against_cmd, &self.against_restart_cmd);
            settings.against = spec.target()?;
        }
        Ok(())
    }

    /// The key: from a named variable, a file, `INFEROMETER_API_KEY`, or `OPENAI_API_KEY` where a
    /// URL was given on purpose.
    fn key(&self, read: &dyn Fn(&std::path::Path) -> Result<String>) -> Result<Option<ApiKey>> {
        if self.api_key.is_some() {
            return Err(Error::usage("`--api-key` would show the key in the process list")
                .with_hint("use `--api-key-env NAME` or `--api-key-file PATH`"));
        }
        if let Some(name) = &self.api_key_env {
            let key = std::env::var(name).map_err(|_| {
                Error::usage(format!("the environment variable `{name}` is not set"))
                    .with_hint("`--api-key-env` takes the name of a variable, not the key")
            })?;
            return Ok(Some(ApiKey::new(key)));
        }
        if let Some(path) = &self.api_key_file {
            let key = read(path)?;
            return Ok(Some(ApiKey::new(key.trim_end_matches(['\r', '\n']))));
        }
        if let Ok(key) = std::env::var("INFEROMETER_API_KEY") {
            return Ok(Some(ApiKey::new(key)));
        }
        // A bench must not send a key to a server that was not named on purpose.
        let on_purpose = self.url.is_some();
        Ok(std::env::var("OPENAI_API_KEY").ok().filter(|_| on_purpose).map(ApiKey::new))
    }

    fn apply(
        &self,
        settings: &mut Settings,
        read: &dyn Fn(&std::path::Path) -> Result<String>,
    ) -> Result<()> {
        self.apply_target(settings)?;
        set_some(&mut settings.model, self.model.clone());
        if let Some(api) = self.api {
            settings.api = match api {
                ApiArg::Auto => ApiChoice::Auto,
                ApiArg::Completions => ApiChoice::Completions,
                ApiArg::Chat => ApiChoice::Chat,
            };
        }
        if !settings.is_simulated() {
            settings.api_key = self.key(read)?;
        } else if self.api_key.is_some() {
            self.key(read)?;
        }
        for header in &self.headers {
            settings.headers.push(parse_pair(header, "header")?);
        }
        if let Some(extra) = &self.extra_body {
            settings.extra_body = serde_json::from_str(extra)
                .map_err(|e| Error::usage("`--extra-body` is not a JSON object").with_cause(e))?;
        }
        set_some(&mut settings.ca_cert, self.ca_cert.clone());
        settings.insecure |= self.insecure;
        let defaults = settings.timeouts;
        settings.timeouts = Timeouts {
            connect: self.connect_timeout.unwrap_or(defaults.connect),
            first_byte: self.first_byte_timeout.unwrap_or(defaults.first_byte),
            idle: self.idle_timeout.unwrap_or(defaults.idle),
            total: self.total_timeout.or(defaults.total),
        };
        Ok(())
    }
}

impl LoadArgs {
    fn apply(&self, settings: &mut Settings) {
        set_some(&mut settings.num_prompts, self.num_prompts);
        set_some(&mut settings.measurement_time, self.measurement_time);
        if let Some(seed) = self.seed {
            settings.seed = Seed(seed);
        }
        if let Some(ignore_eos) = self.ignore_eos {
            settings.ignore_eos = match ignore_eos {
                TriStateArg::Auto => TriState::Auto,
                TriStateArg::On => TriState::On,
                TriStateArg::Off => TriState::Off,
            };
        }
        if let Some(slot_start) = self.slot_start {
            settings.slot_start = match slot_start {
                SlotStartArg::Spread => SlotStart::Spread,
                SlotStartArg::Together => SlotStart::Together,
            };
        }
        settings.replay_prompts |= self.replay_prompts;
    }
}

impl PhaseArgs {
    fn apply(&self, settings: &mut Settings) -> Result<()> {
        set(&mut settings.warm_up_time, self.warm_up_time);
        set(&mut settings.reference_requests, self.reference_requests);
        set(&mut settings.cool_down, self.cool_down);
        set(&mut settings.starts, self.starts);
        set(&mut settings.rounds, self.rounds);
        if !self.looks.is_empty() {
            settings.looks.clone_from(&self.looks);
        }
        set_some(&mut settings.budget, self.budget);
        settings.skip.preflight |= self.no_preflight;
        settings.skip.warm_up |= self.no_warm_up;
        settings.skip.reference |= self.no_reference;
        set(&mut settings.max_error_rate, self.max_error_rate);
        settings.stop_when_saturated |= self.stop_when_saturated;
        for pair in &self.metadata {
            let (key, value) = parse_pair(pair, "metadata")?;
            settings.metadata.insert(key, value);
        }
        set_some(&mut settings.resume, self.resume.clone());
        set_some(&mut settings.name, self.name.clone());
        Ok(())
    }
}

impl JudgeArgs {
    pub(super) fn apply(&self, settings: &mut Settings) -> Result<()> {
        if self.nresamples.is_some() {
            return Err(Error::usage("`--nresamples` has no meaning here").with_hint(
                "no resampling enters a verdict: the replicate is the server start, set by `--starts`",
            ));
        }
        if self.profile_time.is_some() {
            return Err(Error::usage("`--profile-time` has no meaning here")
                .with_hint("hold a load with `--measurement-time` and profile the server itself"));
        }
        let baseline = &mut settings.baseline;
        set_some(&mut baseline.save, self.save_baseline.clone());
        set_some(&mut baseline.append, self.append_baseline.clone());
        set_some(&mut baseline.compare, self.baseline.clone());
        set_some(&mut baseline.load, self.load_baseline.clone());
        if self.baseline_lenient.is_some() {
            baseline.compare.clone_from(&self.baseline_lenient);
            baseline.lenient = true;
        }
        let judge = &mut settings.judge;
        set(&mut judge.significance_level, self.significance_level);
        set(&mut judge.confidence_level, self.confidence_level);
        set_some(&mut judge.noise_threshold, self.noise_threshold);
        if !self.gate.is_empty() {
            judge.gate = Some(self.gate.clone());
        }
        judge.require.extend(self.require.iter().cloned());
        judge.fail_on_inconclusive |= self.fail_on == Some(FailOnArg::Inconclusive);
        judge.no_fail |= self.no_fail;
        judge.accept_gain |= self.accept_gain;
        for (name, level) in [
            ("--significance-level", judge.significance_level),
            ("--confidence-level", judge.confidence_level),
        ] {
            if !(level > 0.0 && level < 1.0) {
                return Err(Error::usage(format!("`{name}` must lie between 0 and 1")));
            }
        }
        Ok(())
    }
}

/// Overrides a setting where a flag was given.
fn set<T>(setting: &mut T, flag: Option<T>) {
    if let Some(value) = flag {
        *setting = value;
    }
}

/// Overrides an optional setting where a flag was given.
fn set_some<T>(setting: &mut Option<T>, flag: Option<T>) {
    if flag.is_some() {
        *setting = flag;
    }
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

impl RunArgs {
    /// Lays the flags over `settings` (defaults, or what a file said).
    pub(crate) fn apply(
        &self,
        settings: &mut Settings,
        read: &dyn Fn(&std::path::Path) -> Result<String>,
    ) -> Result<()> {
        self.server.apply(settings, read)?;
        self.load.apply(settings);
        self.phases.apply(settings)?;
        self.judge.apply(settings)?;
        self.output.apply(settings);
        Ok(())
    }

    /// The settings of these flags alone: the simulator's profile where no server is named.
    pub(crate) fn settings(
        &self,
        read: &dyn Fn(&std::path::Path) -> Result<String>,
    ) -> Result<Settings> {
        let mut settings = if self.server.names_a_server() {
            Settings::for_url("")
        } else {
            let preset = self.server.simulate.as_deref().unwrap_or(DEFAULT_PRESET);
            let mut settings = Settings::for_simulator(preset);
            self.server.slow_down(&mut settings)?;
            settings
        };
        self.apply(&mut settings, read)?;
        Ok(settings)
    }
}
