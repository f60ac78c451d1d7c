//! Preset: a named profile with its noise.

use std::fmt;
use std::str::FromStr;

use super::noise::Noise;
use super::profile::{Costs, FrontEnd, Limits, Prefill, Profile, Scheduling};
use crate::error::{Error, Result};

/// A named engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preset {
    /// Short iterations, so that a whole job takes well under a minute; quiet enough to show a gate at work.
    #[default]
    Demo,
    /// Constants fitted to vLLM 0.22 with Qwen2.5-7B on one H200.
    H200Qwen25Seven,
    /// The model behind the statistics: 6 ms + 0.020 ms a prompt token + 0.040 ms a decoding sequence.
    Statistics,
}

impl Preset {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Demo, Self::H200Qwen25Seven, Self::Statistics];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Demo => "demo",
            Self::H200Qwen25Seven => "h200-qwen2.5-7b",
            Self::Statistics => "statistics",
        }
    }

    /// What the engine costs and may do.
    #[must_use]
    pub fn profile(self) -> Profile {
        let limits = Limits {
            max_num_batched_tokens: 2048,
            max_num_seqs: 256,
            prefill: Prefill::Chunked,
            scheduling: match self {
                Self::H200Qwen25Seven => Scheduling::Async,
                Self::Demo | Self::Statistics => Scheduling::Sync,
            },
            kv_capacity_tokens: 1_600_000,
        };
        let (costs, front) = match self {
            // Chosen so that 512/128 takes 60 ms alone and 0.6 s at 64, and so that the 14 000 tokens a second
            // of the highest load leave a small machine's client and server time to breathe.
            Self::Demo => (
                Costs {
                    base_ms: 0.40,
                    prefill_ms: 0.0,
                    prefill_token_ms: 0.006,
                    decoding_ms: 0.040,
                    context_token_ms: 0.0,
                    position_ms: 0.0,
                },
                FrontEnd {
                    busy_at_512_ms: 0.20,
                    in_ms: 0.5,
                    in_sigma: 0.0,
                    out_ms: 0.1,
                    busy_token_ms: 0.0,
                },
            ),
            Self::H200Qwen25Seven => (
                Costs {
                    base_ms: 4.70,
                    prefill_ms: 3.0,
                    prefill_token_ms: 0.0200,
                    decoding_ms: 0.0055,
                    context_token_ms: 14e-6,
                    position_ms: 0.65e-6,
                },
                FrontEnd {
                    busy_at_512_ms: 2.4,
                    in_ms: 3.1,
                    in_sigma: 0.0,
                    out_ms: 1.0,
                    busy_token_ms: 0.05,
                },
            ),
            Self::Statistics => (
                Costs {
                    base_ms: 6.0,
                    prefill_ms: 0.0,
                    prefill_token_ms: 0.020,
                    decoding_ms: 0.040,
                    context_token_ms: 0.0,
                    position_ms: 0.0,
                },
                FrontEnd {
                    busy_at_512_ms: 0.0,
                    in_ms: 2.0,
                    in_sigma: 0.3,
                    out_ms: 0.0,
                    busy_token_ms: 0.0,
                },
            ),
        };
        Profile { limits, costs, front, slowdown: 1.0 }
    }

    /// How its times vary.
    #[must_use]
    pub fn noise(self) -> Noise {
        let quiet = Noise { start_sd: 0.01, drift_sd: 0.007, drift_memory_s: 60.0, ..Noise::OFF };
        match self {
            Self::Demo => Noise { iid_sd: 0.03, ..quiet },
            // About 1.5 % between starts, 0.9 % between the runs of one.
            Self::H200Qwen25Seven => {
                Noise { start_sd: 0.015, drift_sd: 0.009, iid_sd: 0.01, ..quiet }
            }
            Self::Statistics => {
                Noise { iid_sd: 0.03, pause_probability: 0.0005, pause_mean_ms: 40.0, ..quiet }
            }
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Preset {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(|preset| format!("`{preset}`")).join(", ");
            Error::usage(format!("unknown preset `{text}`")).with_hint(format!("presets: {names}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back_and_errors_list_them() {
        for preset in Preset::ALL {
            assert_eq!(preset.name().parse::<Preset>().unwrap(), preset);
        }
        let error = "fast".parse::<Preset>().unwrap_err();
        assert!(error.hint().unwrap().contains("`h200-qwen2.5-7b`"));
    }
}
