//! Options: a checked command line of `bench-serve`.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

use super::dataset::Dataset;
use super::latency::Latency;
use super::vllm_arrivals::Arrivals;
use crate::settings::Settings;

/// Everything that a benchmark needs.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The server and how it is spoken to; its model is the name that is sent.
    pub(crate) settings: Settings,
    /// As given: `openai`, `vllm`, `openai-chat`.
    pub(crate) backend: String,
    /// `--model`, as the file names it; `None`: the first that the server lists.
    pub(crate) model_id: Option<String>,
    pub(crate) tokenizer_id: Option<String>,
    pub(crate) dataset: Dataset,
    pub(crate) num_prompts: u32,
    pub(crate) seed: u64,
    pub(crate) arrivals: Arrivals,
    pub(crate) max_concurrency: Option<u32>,
    pub(crate) body: BodyOptions,
    pub(crate) lora: Lora,
    pub(crate) num_warmups: u32,
    pub(crate) ready_timeout: Duration,
    pub(crate) goodput: Goodput,
    pub(crate) metrics: Vec<Latency>,
    /// Percentiles, 0 to 100.
    pub(crate) percentiles: Vec<f64>,
    pub(crate) result: ResultOptions,
    pub(crate) shows_progress: bool,
}

impl Options {
    /// Requests that may be in flight at once: without a limit, half a minute of arrivals, since
    /// beyond that a server is saturated; at an infinite rate all of them.
    pub(crate) fn most_in_flight(&self) -> u32 {
        /// Seconds of arrivals.
        const WAITING_S: f64 = 30.0;
        let ramp_up = self.arrivals.ramp_up.map(|ramp| f64::from(ramp.end_rps));
        let rate = ramp_up.unwrap_or(self.arrivals.rate);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
        let arrivals = (rate * WAITING_S).ceil() as u32;
        self.max_concurrency.unwrap_or(u32::MAX).min(arrivals).min(self.num_prompts).max(1)
    }
}

/// What every body carries beside model, prompt and length.
#[derive(Debug, Clone, Default)]
pub(crate) struct BodyOptions {
    pub(crate) ignore_eos: bool,
    pub(crate) logprobs: Option<u32>,
    /// Sampling parameters, then the fields of `--extra-body`.
    pub(crate) extra: Map<String, Value>,
}

/// Adapters, one a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lora {
    pub(crate) modules: Vec<String>,
    pub(crate) assignment: LoraAssignment,
}

/// How adapters are given to requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum LoraAssignment {
    #[default]
    Random,
    RoundRobin,
}

/// Limits of a good request, ms.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Goodput {
    pub(crate) ttft_ms: Option<f64>,
    pub(crate) tpot_ms: Option<f64>,
    pub(crate) e2el_ms: Option<f64>,
}

impl Goodput {
    /// Whether any limit is given.
    pub(crate) fn is_asked(self) -> bool {
        self.ttft_ms.or(self.tpot_ms).or(self.e2el_ms).is_some()
    }
}

/// Whether the result is written, and how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Saving {
    #[default]
    Nothing,
    /// A file of its own; one of that name is replaced.
    File,
    /// A line added to the file.
    Append,
}

/// The result file.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResultOptions {
    pub(crate) saving: Saving,
    /// With the figures of every request.
    pub(crate) detailed: bool,
    pub(crate) dir: Option<PathBuf>,
    pub(crate) filename: Option<PathBuf>,
    pub(crate) label: Option<String>,
    pub(crate) metadata: Vec<(String, String)>,
}
