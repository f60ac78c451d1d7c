//! The alias table: what each engine calls the same thing.

use serde::{Deserialize, Serialize};

use super::text::Sample;

/// How a signal behaves over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalKind {
    /// A level: sampled over the round.
    Gauge,
    /// It only grows: read before and after.
    Counter,
    /// Sum and count of observations in seconds: read before and after.
    Histogram,
}

/// What a server may tell of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// Requests in the batch.
    RequestsRunning,
    /// Requests in the queue.
    RequestsWaiting,
    /// Share of the KV cache in use, 0 to 1.
    KvCacheUsage,
    /// Prompt tokens looked up in the prefix cache.
    PrefixCacheQueries,
    /// Prompt tokens found there.
    PrefixCacheHits,
    /// Requests thrown out of the batch for want of KV cache.
    Preemptions,
    /// Prompt tokens processed.
    PromptTokens,
    /// Tokens generated.
    GenerationTokens,
    /// Requests that ended well.
    RequestsCompleted,
    /// TTFT as the server measured it.
    ServerTtft,
    /// Time per output token as the server measured it, per request.
    ServerTpot,
    /// Inter-token latency as the server measured it.
    ServerItl,
    /// End-to-end latency as the server measured it.
    ServerE2el,
    /// Time in the queue.
    ServerQueueTime,
}

use Signal::*;

/// Sum and count of a histogram: a mean over a round is the ratio of their differences.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Totals {
    /// Sum of all observations, in the signal's own unit.
    pub sum: f64,
    /// Observations.
    pub count: f64,
}

/// How the samples of one name, distinguished by labels, become one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fold {
    /// Engines (data parallel ranks) add up.
    Sum,
    /// The fullest engine is the one that preempts.
    Max,
}

/// One signal's names, the first present wins.
struct Alias {
    signal: Signal,
    fold: Fold,
    names: &'static [&'static str],
}

const fn sum(signal: Signal, names: &'static [&'static str]) -> Alias {
    Alias { signal, fold: Fold::Sum, names }
}

/// Names as printed by vLLM 0.32 (and older ones it renamed), SGLang, TGI 3 and llama.cpp.
const TABLE: &[Alias] = &[
    sum(
        RequestsRunning,
        &[
            "vllm:num_requests_running",
            "sglang:num_running_reqs",
            "tgi_batch_current_size",
            "llamacpp:requests_processing",
        ],
    ),
    sum(
        RequestsWaiting,
        &[
            "vllm:num_requests_waiting",
            "sglang:num_queue_reqs",
            "tgi_queue_size",
            "llamacpp:requests_deferred",
        ],
    ),
    Alias {
        signal: KvCacheUsage,
        fold: Fold::Max,
        names: &[
            "vllm:kv_cache_usage_perc",
            "vllm:gpu_cache_usage_perc",
            "sglang:token_usage",
            "llamacpp:kv_cache_usage_ratio",
        ],
    },
    sum(
        PrefixCacheQueries,
        &[
            "vllm:prefix_cache_queries_total",
            "vllm:prefix_cache_queries",
            "vllm:gpu_prefix_cache_queries_total",
            "vllm:gpu_prefix_cache_queries",
        ],
    ),
    sum(
        PrefixCacheHits,
        &[
            "vllm:prefix_cache_hits_total",
            "vllm:prefix_cache_hits",
            "vllm:gpu_prefix_cache_hits_total",
            "vllm:gpu_prefix_cache_hits",
            "sglang:cached_tokens_total",
            "llamacpp:prompt_tokens_cached_total",
        ],
    ),
    sum(Preemptions, &["vllm:num_preemptions_total", "vllm:num_preemptions"]),
    sum(
        PromptTokens,
        &[
            "vllm:prompt_tokens_total",
            "sglang:prompt_tokens_total",
            "tgi_request_input_length_sum",
            "llamacpp:prompt_tokens_total",
        ],
    ),
    sum(
        GenerationTokens,
        &[
            "vllm:generation_tokens_total",
            "sglang:generation_tokens_total",
            "tgi_request_generated_tokens_sum",
            "llamacpp:tokens_predicted_total",
        ],
    ),
    sum(
        RequestsCompleted,
        &["vllm:request_success_total", "sglang:num_requests_total", "tgi_request_success"],
    ),
    sum(ServerTtft, &["vllm:time_to_first_token_seconds", "sglang:time_to_first_token_seconds"]),
    sum(
        ServerTpot,
        &[
            "vllm:request_time_per_output_token_seconds",
            "sglang:request_time_per_output_token_seconds",
            "tgi_request_mean_time_per_token_duration",
        ],
    ),
    sum(
        ServerItl,
        &[
            "vllm:inter_token_latency_seconds",
            // Until vLLM 0.11 and SGLang 0.5 this name held the gaps between tokens.
            "vllm:time_per_output_token_seconds",
            "sglang:inter_token_latency_seconds",
            "sglang:time_per_output_token_seconds",
        ],
    ),
    sum(
        ServerE2el,
        &[
            "vllm:e2e_request_latency_seconds",
            "sglang:e2e_request_latency_seconds",
            "tgi_request_duration",
        ],
    ),
    sum(
        ServerQueueTime,
        &[
            "vllm:request_queue_time_seconds",
            "sglang:queue_time_seconds",
            "tgi_request_queue_duration",
        ],
    ),
];

impl Signal {
    /// Every signal.
    pub const ALL: &'static [Self] = &[
        RequestsRunning,
        RequestsWaiting,
        KvCacheUsage,
        PrefixCacheQueries,
        PrefixCacheHits,
        Preemptions,
        PromptTokens,
        GenerationTokens,
        RequestsCompleted,
        ServerTtft,
        ServerTpot,
        ServerItl,
        ServerE2el,
        ServerQueueTime,
    ];

    /// The canonical name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            RequestsRunning => "requests_running",
            RequestsWaiting => "requests_waiting",
            KvCacheUsage => "kv_cache_usage",
            PrefixCacheQueries => "prefix_cache_queries",
            PrefixCacheHits => "prefix_cache_hits",
            Preemptions => "preemptions",
            PromptTokens => "prompt_tokens",
            GenerationTokens => "generation_tokens",
            RequestsCompleted => "requests_completed",
            ServerTtft => "server_ttft",
            ServerTpot => "server_tpot",
            ServerItl => "server_itl",
            ServerE2el => "server_e2el",
            ServerQueueTime => "server_queue_time",
        }
    }

    /// How it behaves.
    #[must_use]
    pub const fn kind(self) -> SignalKind {
        match self {
            RequestsRunning | RequestsWaiting | KvCacheUsage => SignalKind::Gauge,
            PrefixCacheQueries | PrefixCacheHits | Preemptions | PromptTokens
            | GenerationTokens | RequestsCompleted => SignalKind::Counter,
            ServerTtft | ServerTpot | ServerItl | ServerE2el | ServerQueueTime => {
                SignalKind::Histogram
            }
        }
    }
}

fn alias(signal: Signal) -> Option<&'static Alias> {
    TABLE.iter().find(|alias| alias.signal == signal)
}

/// A gauge's or counter's value, by the first of its names that is present.
pub(super) fn value(samples: &[Sample<'_>], signal: Signal) -> Option<f64> {
    let alias = alias(signal)?;
    alias.names.iter().find_map(|name| fold(samples, name, "", alias.fold))
}

/// A histogram's sum and count, by the first of its names that is present.
pub(super) fn totals(samples: &[Sample<'_>], signal: Signal) -> Option<Totals> {
    alias(signal)?.names.iter().find_map(|name| {
        let sum = fold(samples, name, "_sum", Fold::Sum)?;
        let count = fold(samples, name, "_count", Fold::Sum)?;
        Some(Totals { sum, count })
    })
}

fn fold(samples: &[Sample<'_>], name: &str, suffix: &str, fold: Fold) -> Option<f64> {
    let named = samples.iter().filter(|s| s.name.strip_prefix(name) == Some(suffix));
    named.map(|s| s.value).filter(|v| v.is_finite()).reduce(|a, b| match fold {
        Fold::Sum => a + b,
        Fold::Max => a.max(b),
    })
}

/// The engine whose names these are.
pub(super) fn engine(samples: &[Sample<'_>]) -> Option<&'static str> {
    const PREFIXES: [(&str, &str); 4] =
        [("vllm:", "vllm"), ("sglang:", "sglang"), ("tgi_", "tgi"), ("llamacpp:", "llama.cpp")];
    let known = |s: &Sample<'_>| PREFIXES.iter().find(|(prefix, _)| s.name.starts_with(prefix));
    samples.iter().find_map(known).map(|(_, engine)| *engine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_has_a_row_and_a_name_of_its_own() {
        for signal in Signal::ALL {
            assert!(alias(*signal).is_some(), "{signal:?}");
        }
        let names: std::collections::BTreeSet<_> = Signal::ALL.iter().map(|s| s.name()).collect();
        assert_eq!(names.len(), Signal::ALL.len());
        assert_eq!(TABLE.len(), Signal::ALL.len());
    }
}
