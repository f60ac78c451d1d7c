//! Config: everything that may be chosen about the embedded server.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::fault::FaultSpec;
use super::noise::Noise;
use super::preset::Preset;
use super::profile::Profile;
use crate::clock::Clock;
use crate::rng::Seed;

/// A thing that is offered or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Offer {
    /// It is offered.
    On,
    /// It is not.
    #[default]
    Off,
}

/// How an overloaded server refuses, with `Retry-After`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Overload {
    /// 503, as vLLM does.
    #[default]
    #[value(name = "503")]
    Unavailable,
    /// 429, as gateways do.
    #[value(name = "429")]
    TooManyRequests,
}

/// How to run a [`super::SimServer`]. Start from `SimConfig::default()` or [`SimConfig::preset`].
#[derive(Clone)]
pub struct SimConfig {
    /// Where to listen; port 0 takes a free one. Default: loopback, port 0.
    pub bind: SocketAddr,
    /// The model's served name. Default `sim`.
    pub model: String,
    /// Tokens that prompt and output may have together. Default 8192.
    pub max_model_len: u32,
    /// The key that `/v1` asks for; none by default. Never logged.
    pub api_key: Option<String>,
    /// What the engine costs and may do. Default: [`Preset::Demo`].
    pub profile: Profile,
    /// How its times vary. Default: as the preset.
    pub noise: Noise,
    /// The seed of this start: see [`super::start_seed`].
    pub seed: Seed,
    /// Tokens in an event (vLLM's `--stream-interval`); at least 1. Default 1.
    pub stream_interval: u32,
    /// Server-side times in the usage chunk (vLLM's `--enable-per-request-metrics`). Default off.
    pub request_metrics: Offer,
    /// Serve repeated prompt heads from a cache. Default off.
    pub prefix_cache: Offer,
    /// Where the model ends by itself unless `ignore_eos` or `min_tokens` forbid it. Default: never.
    pub stop_after_tokens: Option<u32>,
    /// Requests that may wait before 503 (vLLM's `--max-num-queued-reqs`). Default: no limit but 100 000.
    pub max_queued: u32,
    /// How long the first of them may wait before others are refused. Default: no limit.
    pub max_queue_wait: Option<Duration>,
    /// How they are refused. Default 503.
    pub overload: Overload,
    /// What goes wrong on purpose. Default nothing.
    pub faults: Vec<FaultSpec>,
    /// Requests that the truth log keeps; later ones are counted only. Default 1 000 000.
    pub log_limit: usize,
    /// A clock to share with the client, so that both sides' times compare. Default: one of its own.
    pub clock: Option<Clock>,
}

impl SimConfig {
    /// The defaults with the profile and the noise of a preset.
    #[must_use]
    pub fn preset(preset: Preset) -> Self {
        Self {
            bind: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            model: "sim".into(),
            max_model_len: 8192,
            api_key: None,
            profile: preset.profile(),
            noise: preset.noise(),
            seed: Seed(0),
            stream_interval: 1,
            request_metrics: Offer::Off,
            prefix_cache: Offer::Off,
            stop_after_tokens: None,
            max_queued: 100_000,
            max_queue_wait: None,
            overload: Overload::default(),
            faults: Vec::new(),
            log_limit: 1_000_000,
            clock: None,
        }
    }
}

impl Default for SimConfig {
    fn default() -> Self {
        Self::preset(Preset::Demo)
    }
}

impl fmt::Debug for SimConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimConfig")
            .field("bind", &self.bind)
            .field("model", &self.model)
            .field("max_model_len", &self.max_model_len)
            .field("api_key", &self.api_key.as_ref().map(|_| "<redacted>"))
            .field("profile", &self.profile)
            .field("noise", &self.noise)
            .field("seed", &self.seed)
            .field("faults", &self.faults)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_hides_the_key() {
        let config = SimConfig { api_key: Some("s3cret".into()), ..SimConfig::default() };
        assert!(!format!("{config:?}").contains("s3cret"));
    }
}
