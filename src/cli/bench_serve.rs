//! `bench-serve`: the command line of `vllm bench serve`, checked and handed on.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::args::ServerArgs;
use crate::bench_serve::flags::{self, Handling, Values};
use crate::bench_serve::options::Options;
use crate::bench_serve::{self, Event, Outcome};
use crate::compare::gate;
use crate::drive::{Interrupt, Urgency};
use crate::error::{Error, ErrorKind, Result};
use crate::report::terminal;
use crate::settings::PromptForm;

mod translate;

/// Kinds of failures that are shown; the rest is counted.
const SHOWN_FAILURES: usize = 10;

/// Run a command of `vllm bench serve` unchanged: same flags, same table, same result file.
///
/// docs/vllm.md lists every flag of vLLM's client and what becomes of it.
#[derive(Debug, Clone, Args)]
pub(super) struct BenchServeCommand {
    #[command(flatten)]
    server: VllmServer,
    #[command(flatten)]
    dataset: VllmDataset,
    #[command(flatten)]
    load: VllmLoad,
    #[command(flatten)]
    request: VllmRequest,
    #[command(flatten)]
    result: VllmResultArgs,
    #[command(flatten)]
    others: OtherFlags,
}

/// The server.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Server")]
struct VllmServer {
    /// `openai`, `vllm` (completions) or `openai-chat`
    #[arg(long, value_name = "NAME", default_value = "openai")]
    backend: String,
    /// Server, with or without `/v1`; in place of --host and --port
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Host of the server
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    host: String,
    /// Port of the server
    #[arg(long, value_name = "PORT", default_value_t = 8000)]
    port: u16,
    /// API path; default: `/v1/completions`, for `openai-chat` `/v1/chat/completions`
    #[arg(long, value_name = "PATH")]
    endpoint: Option<String>,
    /// Headers of every request
    #[arg(long, value_name = "K=V", num_args = 0..)]
    header: Vec<String>,
    /// Accept any certificate
    #[arg(long)]
    insecure: bool,
    /// Model; default: the first of `/v1/models`
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Name of the model in requests; default: --model
    #[arg(long, value_name = "NAME")]
    served_model_name: Option<String>,
    /// Written to the result file; no tokenizer is loaded
    #[arg(long, value_name = "NAME", hide = true)]
    tokenizer: Option<String>,
    /// Seconds to wait for the server to answer
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    ready_check_timeout_sec: u64,
    /// Environment variable that holds the API key; default: OPENAI_API_KEY
    #[arg(long, value_name = "NAME")]
    api_key_env: Option<String>,
    /// File that holds the API key
    #[arg(long, value_name = "PATH")]
    api_key_file: Option<PathBuf>,
    /// PEM file of a certificate authority to trust
    #[arg(long, value_name = "PATH")]
    ca_cert: Option<PathBuf>,
}

/// The dataset.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Dataset")]
struct VllmDataset {
    /// random, sharegpt, custom, prefix_repetition or burstgpt
    #[arg(long, value_name = "NAME", default_value = "random")]
    dataset_name: String,
    /// File of the dataset
    #[arg(long, value_name = "PATH")]
    dataset_path: Option<PathBuf>,
    /// Requests in all
    #[arg(long, value_name = "N", default_value_t = 1000, allow_hyphen_values = true)]
    num_prompts: i64,
    /// Seed of lengths, prompts and arrivals
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,
    /// Do not repeat a file that is too short
    #[arg(long)]
    no_oversample: bool,
    /// Keep the order of the file
    #[arg(long)]
    disable_shuffle: bool,
    /// Prompt tokens, of `random`
    #[arg(long, value_name = "N")]
    input_len: Option<u32>,
    /// Answer tokens, of every dataset
    #[arg(long, value_name = "N")]
    output_len: Option<u32>,
    /// Prompt tokens
    #[arg(long, value_name = "N", default_value_t = 1024)]
    random_input_len: u32,
    /// Answer tokens
    #[arg(long, value_name = "N", default_value_t = 128)]
    random_output_len: u32,
    /// Spread of both lengths, 0 to below 1; or `{"input": r, "output": r}`
    #[arg(long, value_name = "R", default_value = "0.0")]
    random_range_ratio: String,
    /// Tokens that all prompts share
    #[arg(long, value_name = "N", default_value_t = 0)]
    random_prefix_len: u32,
    /// Answer tokens of `sharegpt`; default: as recorded
    #[arg(long, value_name = "N")]
    sharegpt_output_len: Option<u32>,
    /// Answer tokens of `custom`; -1: `output_tokens` of each line
    #[arg(long, value_name = "N", default_value_t = 256, allow_hyphen_values = true)]
    custom_output_len: i64,
    /// Tokens of a shared prefix
    #[arg(long, value_name = "N", default_value_t = 256)]
    prefix_repetition_prefix_len: u32,
    /// Tokens that follow it
    #[arg(long, value_name = "N", default_value_t = 256)]
    prefix_repetition_suffix_len: u32,
    /// How many prefixes there are
    #[arg(long, value_name = "N", default_value_t = 10)]
    prefix_repetition_num_prefixes: u32,
    /// Answer tokens of `prefix_repetition`
    #[arg(long, value_name = "N", default_value_t = 128)]
    prefix_repetition_output_len: u32,
    /// Made prompts as text (as vLLM's client sends them) or as token ids
    #[arg(long, value_name = "FORM", value_enum, default_value = "text")]
    prompt_form: PromptForm,
}

/// The load.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Load")]
struct VllmLoad {
    /// Most requests in flight
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    max_concurrency: Option<u32>,
    /// Arrivals per second; `inf`: as fast as --max-concurrency lets it
    #[arg(long, value_name = "R", default_value = "inf")]
    request_rate: f64,
    /// Gamma shape of the arrivals: 1 = Poisson, < 1 burstier
    #[arg(long, value_name = "SHAPE", default_value_t = 1.0)]
    burstiness: f64,
    /// linear or exponential
    #[arg(long, value_name = "HOW")]
    ramp_up_strategy: Option<String>,
    /// First rate of the ramp-up
    #[arg(long, value_name = "R")]
    ramp_up_start_rps: Option<u32>,
    /// Last rate of the ramp-up
    #[arg(long, value_name = "R")]
    ramp_up_end_rps: Option<u32>,
    /// Requests sent before the measured ones
    #[arg(long, value_name = "N", default_value_t = 0)]
    num_warmups: u32,
}

/// What a request asks for.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Request")]
struct VllmRequest {
    /// Answers run to their full length; always on for `random`
    #[arg(long)]
    ignore_eos: bool,
    /// Logprobs a token
    #[arg(long, value_name = "N")]
    logprobs: Option<u32>,
    /// Sampling parameter
    #[arg(long, value_name = "T")]
    temperature: Option<f64>,
    /// Sampling parameter
    #[arg(long, value_name = "P")]
    top_p: Option<f64>,
    /// Sampling parameter
    #[arg(long, value_name = "K", allow_hyphen_values = true)]
    top_k: Option<i64>,
    /// Sampling parameter
    #[arg(long, value_name = "P")]
    min_p: Option<f64>,
    /// Sampling parameter
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    frequency_penalty: Option<f64>,
    /// Sampling parameter
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    presence_penalty: Option<f64>,
    /// Sampling parameter
    #[arg(long, value_name = "X")]
    repetition_penalty: Option<f64>,
    /// JSON object merged into every request body
    #[arg(long, value_name = "JSON")]
    extra_body: Option<String>,
    /// Adapters, one a request
    #[arg(long, value_name = "NAME", num_args = 1..)]
    lora_modules: Vec<String>,
    /// random or round-robin
    #[arg(long, value_name = "HOW", default_value = "random")]
    lora_assignment: String,
}

/// What is shown and written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Result")]
struct VllmResultArgs {
    /// Limits of a good request: `ttft:200 tpot:30 e2el:5000` (ms)
    #[arg(long, value_name = "METRIC:MS", num_args = 1..)]
    goodput: Vec<String>,
    /// Which of ttft, tpot, itl, e2el are shown and written
    #[arg(long, value_name = "METRIC,…")]
    percentile_metrics: Option<String>,
    /// Which percentiles
    #[arg(long, value_name = "P,…", default_value = "99")]
    metric_percentiles: String,
    /// Write the result file
    #[arg(long)]
    save_result: bool,
    /// With the figures of every request
    #[arg(long)]
    save_detailed: bool,
    /// Add the result as a line to the file
    #[arg(long)]
    append_result: bool,
    /// Folder of the result file
    #[arg(long, value_name = "DIR")]
    result_dir: Option<PathBuf>,
    /// Name of the result file; default: `LABEL-RATEqps-concurrencyN-MODEL-DATE.json`
    #[arg(long, value_name = "NAME")]
    result_filename: Option<PathBuf>,
    /// Facts written to the result file
    #[arg(long, value_name = "K=V", num_args = 0..)]
    metadata: Vec<String>,
    /// First part of the file's name; default: the backend
    #[arg(long, value_name = "LABEL")]
    label: Option<String>,
    /// No progress bar
    #[arg(long)]
    disable_tqdm: bool,
}

/// The flags of vLLM's client that have no effect here, or are refused: hidden, but known.
#[derive(Debug, Clone, Default)]
struct OtherFlags(Vec<flags::VllmFlag>);

impl OtherFlags {
    fn all() -> impl Iterator<Item = flags::VllmFlag> {
        // `--tokenizer` has no effect but on the file.
        flags::all().filter(|f| f.handling != Handling::Taken && f.name != "--tokenizer")
    }
}

impl Args for OtherFlags {
    fn augment_args(command: Command) -> Command {
        Self::all().fold(command, |command, flag| {
            let arg = Arg::new(flag.name).long(flag.name.trim_start_matches('-')).hide(true);
            command.arg(match flag.values {
                Values::None => arg.action(ArgAction::SetTrue),
                Values::One => arg.action(ArgAction::Set).allow_hyphen_values(true),
                Values::Many => arg.action(ArgAction::Append).num_args(0..),
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for OtherFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_given = |flag: &flags::VllmFlag| {
            matches.value_source(flag.name) == Some(clap::parser::ValueSource::CommandLine)
        };
        Ok(Self(Self::all().filter(is_given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl BenchServeCommand {
    pub(super) fn run(&self) -> Result<u8> {
        let notes = self.notes()?;
        let options = self.options()?;
        for note in notes {
            message(&format!("note: {note}"));
        }
        let bar = progress_bar(options.shows_progress);
        let mut listener = |event: Event<'_>| match event {
            Event::Note(text) => bar.suspend(|| message(text)),
            Event::Progress { ended, of } => {
                bar.set_length(of as u64);
                bar.set_position(ended as u64);
            }
        };
        let interrupt = Interrupt::new();
        let job = bench_serve::run(&options, &interrupt, &mut listener);
        let outcome = super::run::until_told_to_leave(&interrupt, Urgency::Drain, Box::pin(job));
        bar.finish_and_clear();
        match outcome {
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                Err(Error::new(ErrorKind::Interrupted, "interrupted: no result file is written"))
            }
            outcome => conclude(&outcome?),
        }
    }

    /// A sentence for each flag that has no effect.
    fn notes(&self) -> Result<Vec<String>> {
        let refused = self.others.0.iter().find(|flag| flag.handling == Handling::Refused);
        if let Some(flag) = refused {
            return Err(Error::usage(format!("`{}` is not supported", flag.name))
                .with_hint(format!("leave it out: {}", flag.effect)));
        }
        let note = |flag: &flags::VllmFlag| format!("`{}`: {}", flag.name, flag.effect);
        Ok(self.others.0.iter().map(note).collect())
    }

    fn options(&self) -> Result<Options> {
        translate::options(self)
    }

    /// The server as `run` would be given it.
    fn server_args(&self, url: String) -> ServerArgs {
        let server = &self.server;
        let mut args = ServerArgs {
            api_key_env: server.api_key_env.clone(),
            api_key_file: server.api_key_file.clone(),
            headers: server.header.clone(),
            ca_cert: server.ca_cert.clone(),
            insecure: server.insecure,
            ..ServerArgs::default()
        };
        args.server.url = Some(url);
        args.server.model = server.served_model_name.clone().or(server.model.clone());
        args
    }

    fn ready_timeout(&self) -> Duration {
        Duration::from_secs(self.server.ready_check_timeout_sec)
    }
}

fn message(text: &str) {
    // A closed stderr is no reason to lose a benchmark.
    let _ = terminal::print_message(&format!("{}\n", terminal::plain(text)));
}

fn progress_bar(is_shown: bool) -> ProgressBar {
    let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} requests  {elapsed}");
    ProgressBar::with_draw_target(Some(0), target)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Shows what came of it.
fn conclude(outcome: &Outcome) -> Result<u8> {
    for (text, count) in outcome.failures.iter().take(SHOWN_FAILURES) {
        let requests = crate::units::count(*count);
        message(&format!("warning: {requests} requests failed: {text}"));
    }
    terminal::print(&outcome.table)?;
    if let Some(path) = &outcome.saved {
        message(&format!("result: {}", path.display()));
    }
    if outcome.is_interrupted {
        message("interrupted: shown is what had ended; no result file is written");
        return Ok(gate::INTERRUPTED);
    }
    match outcome.failures.first_key_value() {
        Some((text, _)) if outcome.completed == 0 => {
            Err(Error::server("every request failed").with_cause(text.clone()).with_hint(
                "send one with `inferometer preflight --url URL`, which names what is wrong",
            ))
        }
        _ => Ok(gate::FINE),
    }
}

/// vLLM's parser takes underscores in the names of flags, and so does this command.
pub(super) fn with_dashes(word: &std::ffi::OsStr) -> std::ffi::OsString {
    let Some(text) = word.to_str().filter(|text| text.starts_with("--")) else {
        return word.to_owned();
    };
    let (name, value) = text.split_once('=').map_or((text, None), |(n, v)| (n, Some(v)));
    let name = name.replace('_', "-");
    value.map_or(name.clone(), |value| format!("{name}={value}")).into()
}
