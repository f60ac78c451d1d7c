//! `simulate`: the embedded server on a port.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use crate::compare::gate;
use crate::drive::{Interrupt, Urgency, raise_on_signals};
use crate::error::{Error, ErrorKind, Result};
use crate::report::terminal;
use crate::rng::Seed;
use crate::settings::ApiKey;
use crate::settings::value::duration;
use crate::sim::config::{Offer, Overload};
use crate::sim::fault::FaultSpec;
use crate::sim::profile::{Prefill, Scheduling};
use crate::sim::{Preset, SimConfig, SimServer};

/// The embedded server: an OpenAI-compatible API over a continuous-batching scheduler.
#[derive(Debug, Args)]
pub(super) struct SimulateCommand {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1", value_name = "HOST")]
    host: String,
    /// Port to listen on; 0 takes a free one
    #[arg(long, default_value_t = 8000, value_name = "PORT")]
    port: u16,
    /// Costs and noise: demo, h200-qwen2.5-7b or statistics
    #[arg(long, default_value_t = Preset::Demo, value_name = "PRESET")]
    preset: Preset,
    /// Served model name
    #[arg(long, default_value = "sim", value_name = "NAME")]
    served_model_name: String,
    /// Tokens that prompt and output may have together
    #[arg(long, value_name = "N")]
    max_model_len: Option<u32>,
    /// Environment variable that holds the key which `/v1` asks for
    #[arg(long, value_name = "NAME")]
    api_key_env: Option<String>,
    /// Token budget of an iteration
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_num_batched_tokens: Option<u32>,
    /// Most sequences in an iteration
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_num_seqs: Option<u32>,
    /// Whole prompts, where the rest of the budget holds them
    #[arg(long)]
    no_enable_chunked_prefill: bool,
    /// Put an iteration together when the one before it ended, not when it began
    #[arg(long)]
    no_async_scheduling: bool,
    /// Requests that may wait before others are refused
    #[arg(long, value_name = "N")]
    max_num_queued_reqs: Option<u32>,
    /// How long the first of them may wait before others are refused
    #[arg(long, value_name = "TIME", value_parser = duration)]
    max_queue_wait: Option<Duration>,
    /// Status of that refusal, with `Retry-After`
    #[arg(long, value_enum, value_name = "STATUS", default_value = "503")]
    overload_status: Overload,
    /// Flags of vLLM that the simulator has no use for: see argv.rs
    #[arg(long = "vllm-flag", value_name = "WORDS", hide = true)]
    vllm_flags: Vec<String>,
    /// Tokens in an event
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    stream_interval: u32,
    /// Server-side times in the usage chunk
    #[arg(long)]
    enable_per_request_metrics: bool,
    /// Serve repeated prompt heads from a cache
    #[arg(long)]
    enable_prefix_caching: bool,
    /// Factor on every iteration's time
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", env = "INFEROMETER_SIM_SLOWDOWN")]
    slowdown: f64,
    /// Seed of this start's noise
    #[arg(long, default_value_t = 0, value_name = "SEED")]
    seed: u64,
    /// A fault, `every=10,kind=stall:500ms`; repeatable
    #[arg(long, value_name = "FAULT")]
    fault: Vec<FaultSpec>,
}

impl SimulateCommand {
    pub(super) fn run(&self) -> Result<u8> {
        let runtime = super::run::runtime()?;
        let interrupt = Interrupt::new();
        let _guard = runtime.enter();
        raise_on_signals(&interrupt)?;
        let mut server = SimServer::start(self.config()?)?;
        if !self.vllm_flags.is_empty() {
            let flags = self.vllm_flags.join("`, `");
            terminal::print_message(&format!(
                "note: taken as flags of vLLM, without effect on the simulator: `{flags}`\n"
            ))?;
        }
        terminal::print(&format!(
            "simulator (preset {}) serving `{}` at {}\n",
            self.preset,
            self.served_model_name,
            server.url()
        ))?;
        runtime.block_on(interrupt.beyond(Urgency::None));
        server.stop();
        Ok(gate::FINE)
    }

    fn config(&self) -> Result<SimConfig> {
        let mut config = SimConfig::preset(self.preset);
        config.bind = self.address()?;
        config.model.clone_from(&self.served_model_name);
        config.max_model_len = self.max_model_len.unwrap_or(config.max_model_len);
        config.seed = Seed(self.seed);
        config.stream_interval = self.stream_interval;
        config.faults.clone_from(&self.fault);
        let on = |flag| if flag { Offer::On } else { Offer::Off };
        config.request_metrics = on(self.enable_per_request_metrics);
        config.prefix_cache = on(self.enable_prefix_caching);
        config.api_key = self.key()?.map(|key| key.expose().to_owned());
        let limits = &mut config.profile.limits;
        limits.max_num_batched_tokens =
            self.max_num_batched_tokens.unwrap_or(limits.max_num_batched_tokens);
        limits.max_num_seqs = self.max_num_seqs.unwrap_or(limits.max_num_seqs);
        if self.no_enable_chunked_prefill {
            limits.prefill = Prefill::Whole;
        }
        if self.no_async_scheduling {
            limits.scheduling = Scheduling::Sync;
        }
        config.max_queued = self.max_num_queued_reqs.unwrap_or(config.max_queued);
        config.max_queue_wait = self.max_queue_wait;
        config.overload = self.overload_status;
        if !(self.slowdown.is_finite() && self.slowdown > 0.0) {
            return Err(Error::usage("`--slowdown` must be above 0"));
        }
        config.profile.slowdown *= self.slowdown;
        Ok(config)
    }

    fn address(&self) -> Result<SocketAddr> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let host = if host == "localhost" { "127.0.0.1" } else { host };
        let address = host.parse().map_err(|cause: std::net::AddrParseError| {
            Error::usage(format!("`{host}` is not an address to listen on"))
                .with_cause(cause)
                .with_hint("write an IP address such as `127.0.0.1` or `0.0.0.0`")
        })?;
        Ok(SocketAddr::new(address, self.port))
    }

    fn key(&self) -> Result<Option<ApiKey>> {
        let Some(name) = &self.api_key_env else { return Ok(None) };
        let key = std::env::var(name).map_err(|_| {
            Error::new(ErrorKind::Usage, format!("the environment variable `{name}` is not set"))
        })?;
        Ok(Some(ApiKey::new(key)))
    }
}
