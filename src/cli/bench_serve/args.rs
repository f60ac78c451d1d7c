//! The flags of `bench-serve`: vLLM's names, defaults and groups.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use crate::bench_serve::flags::{self, Handling, Values};
use crate::cli::args::ServerArgs;
use crate::error::{Error, Result};
use crate::settings::PromptForm;

/// The flags.
#[derive(Debug, Clone, Args)]
pub(super) struct BenchServeArgs {
    #[command(flatten)]
    pub(super) server: VllmServer,
    #[command(flatten)]
    pub(super) dataset: VllmDataset,
    #[command(flatten)]
    pub(super) load: VllmLoad,
    #[command(flatten)]
    pub(super) request: VllmRequest,
    #[command(flatten)]
    pub(super) result: VllmResultArgs,
    #[command(flatten)]
    pub(super) others: OtherFlags,
}

/// The server.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Server")]
pub(super) struct VllmServer {
    /// `openai`, `vllm` (completions) or `openai-chat`
    #[arg(long, value_name = "NAME", default_value = "openai")]
    pub(super) backend: String,
    /// Server, with or without `/v1`; in place of --host and --port
    #[arg(long, value_name = "URL")]
    pub(super) base_url: Option<String>,
    /// Host of the server
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    pub(super) host: String,
    /// Port of the server
    #[arg(long, value_name = "PORT", default_value_t = 8000)]
    pub(super) port: u16,
    /// API path; default: `/v1/completions`, for `openai-chat` `/v1/chat/completions`
    #[arg(long, value_name = "PATH")]
    pub(super) endpoint: Option<String>,
    /// Headers of every request
    #[arg(long, value_name = "K=V", num_args = 0..)]
    pub(super) header: Vec<String>,
    /// Accept any certificate
    #[arg(long)]
    pub(super) insecure: bool,
    /// Model; default: the first of `/v1/models`
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
    /// Name of the model in requests; default: --model
    #[arg(long, value_name = "NAME")]
    pub(super) served_model_name: Option<String>,
    /// Written to the result file; no tokenizer is loaded
    #[arg(long, value_name = "NAME", hide = true)]
    pub(super) tokenizer: Option<String>,
    /// Seconds to wait for the server to answer
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(super) ready_check_timeout_sec: u64,
    /// Environment variable that holds the API key; default: OPENAI_API_KEY
    #[arg(long, value_name = "NAME")]
    pub(super) api_key_env: Option<String>,
    /// File that holds the API key
    #[arg(long, value_name = "PATH")]
    pub(super) api_key_file: Option<PathBuf>,
    /// PEM file of a certificate authority to trust
    #[arg(long, value_name = "PATH")]
    pub(super) ca_cert: Option<PathBuf>,
}

/// The dataset.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Dataset")]
pub(super) struct VllmDataset {
    /// random, sharegpt, custom, prefix_repetition or burstgpt
    #[arg(long, value_name = "NAME", default_value = "random")]
    pub(super) dataset_name: String,
    /// File of the dataset
    #[arg(long, value_name = "PATH")]
    pub(super) dataset_path: Option<PathBuf>,
    /// Requests in all
    #[arg(long, value_name = "N", default_value_t = 1000, allow_hyphen_values = true)]
    pub(super) num_prompts: i64,
    /// Seed of lengths, prompts and arrivals
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub(super) seed: u64,
    /// Do not repeat a file that is too short
    #[arg(long)]
    pub(super) no_oversample: bool,
    /// Keep the order of the file
    #[arg(long)]
    pub(super) disable_shuffle: bool,
    /// Prompt tokens, of `random`
    #[arg(long, value_name = "N")]
    pub(super) input_len: Option<u32>,
    /// Answer tokens, of every dataset
    #[arg(long, value_name = "N")]
    pub(super) output_len: Option<u32>,
    /// Prompt tokens
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub(super) random_input_len: u32,
    /// Answer tokens
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub(super) random_output_len: u32,
    /// Spread of both lengths, 0 to below 1; or `{"input": r, "output": r}`
    #[arg(long, value_name = "R", default_value = "0.0")]
    pub(super) random_range_ratio: String,
    /// Tokens that all prompts share
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) random_prefix_len: u32,
    /// Answer tokens of `sharegpt`; default: as recorded
    #[arg(long, value_name = "N")]
    pub(super) sharegpt_output_len: Option<u32>,
    /// Answer tokens of `custom`; -1: `output_tokens` of each line
    #[arg(long, value_name = "N", default_value_t = 256, allow_hyphen_values = true)]
    pub(super) custom_output_len: i64,
    /// Tokens of a shared prefix
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(super) prefix_repetition_prefix_len: u32,
    /// Tokens that follow it
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(super) prefix_repetition_suffix_len: u32,
    /// How many prefixes there are
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(super) prefix_repetition_num_prefixes: u32,
    /// Answer tokens of `prefix_repetition`
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub(super) prefix_repetition_output_len: u32,
    /// Made prompts as text (as vLLM's client sends them) or as token ids
    #[arg(long, value_name = "FORM", value_enum, default_value = "text")]
    pub(super) prompt_form: PromptForm,
}

/// The load.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Load")]
pub(super) struct VllmLoad {
    /// Most requests in flight
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(super) max_concurrency: Option<u32>,
    /// Arrivals per second; `inf`: as fast as --max-concurrency lets it
    #[arg(long, value_name = "R", default_value = "inf", allow_negative_numbers = true)]
    pub(super) request_rate: f64,
    /// Gamma shape of the arrivals: 1 = Poisson, < 1 burstier
    #[arg(long, value_name = "SHAPE", default_value_t = 1.0, allow_negative_numbers = true)]
    pub(super) burstiness: f64,
    /// linear or exponential
    #[arg(long, value_name = "HOW")]
    pub(super) ramp_up_strategy: Option<String>,
    /// First rate of the ramp-up
    #[arg(long, value_name = "R")]
    pub(super) ramp_up_start_rps: Option<u32>,
    /// Last rate of the ramp-up
    #[arg(long, value_name = "R")]
    pub(super) ramp_up_end_rps: Option<u32>,
    /// Requests sent before the measured ones
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) num_warmups: u32,
}

/// What a request asks for.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Request")]
pub(super) struct VllmRequest {
    /// Answers run to their full length; always on for `random`
    #[arg(long)]
    pub(super) ignore_eos: bool,
    /// Logprobs a token
    #[arg(long, value_name = "N")]
    pub(super) logprobs: Option<u32>,
    /// Sampling parameter
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub(super) temperature: Option<f64>,
    /// Sampling parameter
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub(super) top_p: Option<f64>,
    /// Sampling parameter
    #[arg(long, value_name = "K", allow_hyphen_values = true)]
    pub(super) top_k: Option<i64>,
    /// Sampling parameter
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub(super) min_p: Option<f64>,
    /// Sampling parameter
    #[arg(long, value_name = "X", allow_hyphen_values = true, allow_negative_numbers = true)]
    pub(super) frequency_penalty: Option<f64>,
    /// Sampling parameter
    #[arg(long, value_name = "X", allow_hyphen_values = true, allow_negative_numbers = true)]
    pub(super) presence_penalty: Option<f64>,
    /// Sampling parameter
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub(super) repetition_penalty: Option<f64>,
    /// JSON object merged into every request body
    #[arg(long, value_name = "JSON")]
    pub(super) extra_body: Option<String>,
    /// Adapters, one a request
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub(super) lora_modules: Vec<String>,
    /// random or round-robin
    #[arg(long, value_name = "HOW", default_value = "random")]
    pub(super) lora_assignment: String,
}

/// What is shown and written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Result")]
pub(super) struct VllmResultArgs {
    /// Limits of a good request: `ttft:200 tpot:30 e2el:5000` (ms)
    #[arg(long, value_name = "METRIC:MS", num_args = 1..)]
    pub(super) goodput: Vec<String>,
    /// Which of ttft, tpot, itl, e2el are shown and written
    #[arg(long, value_name = "METRIC,…")]
    pub(super) percentile_metrics: Option<String>,
    /// Which percentiles
    #[arg(long, value_name = "P,…", default_value = "99")]
    pub(super) metric_percentiles: String,
    /// Write the result file
    #[arg(long)]
    pub(super) save_result: bool,
    /// With the figures of every request
    #[arg(long)]
    pub(super) save_detailed: bool,
    /// Add the result as a line to the file
    #[arg(long)]
    pub(super) append_result: bool,
    /// Folder of the result file
    #[arg(long, value_name = "DIR")]
    pub(super) result_dir: Option<PathBuf>,
    /// Name of the result file; default: `LABEL-RATEqps-concurrencyN-MODEL-DATE.json`
    #[arg(long, value_name = "NAME")]
    pub(super) result_filename: Option<PathBuf>,
    /// Facts written to the result file
    #[arg(long, value_name = "K=V", num_args = 0..)]
    pub(super) metadata: Vec<String>,
    /// First part of the file's name; default: the backend
    #[arg(long, value_name = "LABEL")]
    pub(super) label: Option<String>,
    /// No progress bar
    #[arg(long)]
    pub(super) disable_tqdm: bool,
}

/// The flags of vLLM's client that have no effect here, or are refused: hidden, but known.
#[derive(Debug, Clone, Default)]
pub(super) struct OtherFlags(Vec<flags::VllmFlag>);

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

impl BenchServeArgs {
    /// A sentence for each flag that has no effect.
    pub(super) fn notes(&self) -> Result<Vec<String>> {
        let refused = self.others.0.iter().find(|flag| flag.handling == Handling::Refused);
        if let Some(flag) = refused {
            return Err(Error::usage(format!("`{}` is not supported", flag.name))
                .with_hint(format!("leave it out: {}", flag.effect)));
        }
        let note = |flag: &flags::VllmFlag| format!("`{}`: {}", flag.name, flag.effect);
        let tokenizer = self.server.tokenizer.as_ref().and_then(|_| flags::find("--tokenizer"));
        Ok(tokenizer.iter().chain(&self.others.0).map(note).collect())
    }

    /// The server as `run` would be given it.
    pub(super) fn server_args(&self, url: String) -> ServerArgs {
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

    pub(super) fn ready_timeout(&self) -> Duration {
        Duration::from_secs(self.server.ready_check_timeout_sec)
    }
}
