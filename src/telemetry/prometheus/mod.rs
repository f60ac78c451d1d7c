//! The server's own counters: Prometheus text to canonical signals, and what they did over a round.

use std::collections::BTreeMap;

mod alias;
mod text;

pub use alias::{Signal, SignalKind, Totals};
#[cfg(test)]
pub use text::Sample;
pub use text::parse;

/// One reading of a server's `/metrics`. What the server does not offer is absent, never 0.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// Gauges and counters.
    pub values: BTreeMap<Signal, f64>,
    /// Histograms.
    pub totals: BTreeMap<Signal, Totals>,
    /// `process_start_time_seconds`: what distinguishes one start of a server from another.
    pub process_start_s: Option<f64>,
    /// Labels of the engine's info metrics: its effective cache settings.
    pub engine_settings: BTreeMap<String, String>,
    /// The engine that these names belong to.
    pub engine: Option<&'static str>,
}

/// What the counters did between two readings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Delta {
    /// Canonical name → value: increases of counters, means and counts of histograms.
    pub values: BTreeMap<String, f64>,
    /// A counter went backwards or the process changed: the server restarted in between.
    pub restarted: bool,
}

impl Snapshot {
    /// Reads a page of Prometheus text. A page that holds none of the known names gives an empty
    /// snapshot.
    #[must_use]
    pub fn read(page: &str) -> Self {
        let samples = parse(page);
        let mut snapshot = Self { engine: alias::engine(&samples), ..Self::default() };
        for signal in Signal::ALL {
            match signal.kind() {
                SignalKind::Gauge | SignalKind::Counter => {
                    if let Some(value) = alias::value(&samples, *signal) {
                        snapshot.values.insert(*signal, value);
                    }
                }
                SignalKind::Histogram => {
                    if let Some(totals) = alias::totals(&samples, *signal) {
                        snapshot.totals.insert(*signal, totals);
                    }
                }
            }
        }
        for sample in &samples {
            if sample.name == "process_start_time_seconds" {
                // Several processes behind one page (prometheus_client's multiprocess mode): the
                // youngest reports the last restart.
                let latest = snapshot.process_start_s.map_or(sample.value, |s| s.max(sample.value));
                snapshot.process_start_s = Some(latest);
            }
            if sample.name == "vllm:cache_config_info" || sample.name == "sglang:cache_config_info"
            {
                for (label, value) in &sample.labels {
                    snapshot.engine_settings.insert(label.to_string(), value.clone());
                }
            }
        }
        snapshot
    }

    /// The gauges, for a series.
    #[must_use]
    pub fn gauges(&self) -> BTreeMap<String, f64> {
        let gauges = self.values.iter().filter(|(signal, _)| signal.kind() == SignalKind::Gauge);
        gauges.map(|(signal, value)| (signal.name().to_owned(), *value)).collect()
    }

    /// Hits / queries of the prefix cache since the server started; `None` if it tells neither, or
    /// nobody asked yet.
    #[must_use]
    pub fn prefix_cache_hit_rate(&self) -> Option<f64> {
        let queries = self.values.get(&Signal::PrefixCacheQueries).filter(|n| **n > 0.0)?;
        Some((self.values.get(&Signal::PrefixCacheHits)? / queries).clamp(0.0, 1.0))
    }

    /// What identifies this start of the server; `None` if it does not report it.
    #[must_use]
    pub fn identity(&self) -> Option<String> {
        self.process_start_s.map(|seconds| format!("process_start_time_seconds={seconds}"))
    }
}

/// What happened between `before` and `after`.
///
/// A counter that went backwards began again at 0, as Prometheus's own `increase` takes it. A
/// counter absent before and present after began at 0: engines add some names with their first
/// request. One absent after is not offered, and stays absent.
#[must_use]
pub fn delta(before: &Snapshot, after: &Snapshot) -> Delta {
    let other_process = matches!(
        (before.process_start_s, after.process_start_s),
        (Some(old), Some(new)) if (old - new).abs() > 1e-3
    );
    let mut delta = Delta { values: BTreeMap::new(), restarted: other_process };
    for (signal, value) in &after.values {
        if signal.kind() == SignalKind::Counter {
            let old = before.values.get(signal).copied().unwrap_or(0.0);
            let increase = delta.increase(old, *value, other_process);
            delta.values.insert(signal.name().to_owned(), increase);
        }
    }
    for (signal, totals) in &after.totals {
        let old = before.totals.get(signal).copied().unwrap_or_default();
        let reset = other_process || totals.count < old.count;
        let count = delta.increase(old.count, totals.count, reset);
        let sum = if reset { totals.sum } else { totals.sum - old.sum };
        delta.values.insert(format!("{}_count", signal.name()), count);
        if count > 0.0 && sum.is_finite() {
            delta.values.insert(format!("{}_mean_ms", signal.name()), sum / count * 1e3);
        }
    }
    delta.add_hit_rate();
    delta
}

impl Delta {
    fn increase(&mut self, old: f64, new: f64, reset: bool) -> f64 {
        if reset || new < old {
            self.restarted = true;
            new
        } else {
            new - old
        }
    }

    /// Hits over queries, both in the engine's own unit (tokens in vLLM since 0.8).
    fn add_hit_rate(&mut self) {
        let queries = self.values.get(Signal::PrefixCacheQueries.name()).copied();
        let hits = self.values.get(Signal::PrefixCacheHits.name()).copied();
        if let (Some(queries), Some(hits)) = (queries, hits)
            && queries > 0.0
        {
            self.values
                .insert("prefix_cache_hit_rate".to_owned(), (hits / queries).clamp(0.0, 1.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VLLM: &str = include_str!("../../../tests/captures/vllm.metrics.txt");
    const LLAMA: &str = include_str!("../../../tests/captures/llama-server.metrics.txt");

    fn value(snapshot: &Snapshot, signal: Signal) -> Option<f64> {
        snapshot.values.get(&signal).copied()
    }

    #[test]
    fn vllm_tells_all_of_it() {
        let snapshot = Snapshot::read(VLLM);
        assert_eq!(snapshot.engine, Some("vllm"));
        assert_eq!(value(&snapshot, Signal::PromptTokens), Some(66.0));
        assert_eq!(value(&snapshot, Signal::GenerationTokens), Some(53.0));
        assert_eq!(value(&snapshot, Signal::PrefixCacheQueries), Some(66.0));
        assert_eq!(value(&snapshot, Signal::PrefixCacheHits), Some(0.0));
        assert_eq!(value(&snapshot, Signal::RequestsRunning), Some(0.0));
        assert_eq!(value(&snapshot, Signal::RequestsCompleted), Some(11.0));
        assert_eq!(snapshot.process_start_s, Some(1_795_977_524.53));
        let ttft = snapshot.totals[&Signal::ServerTtft];
        assert_eq!((ttft.count, ttft.sum), (11.0, 41.061_431_169_509_89));
        assert_eq!(snapshot.totals[&Signal::ServerItl].count, 42.0);
        assert_eq!(snapshot.engine_settings["enable_prefix_caching"], "True");
        assert_eq!(
            snapshot.identity().as_deref(),
            Some("process_start_time_seconds=1795977524.53")
        );
    }

    #[test]
    fn what_llama_server_does_not_offer_is_absent() {
        let snapshot = Snapshot::read(LLAMA);
        assert_eq!(snapshot.engine, Some("llama.cpp"));
        assert_eq!(value(&snapshot, Signal::PromptTokens), Some(47.0));
        assert_eq!(value(&snapshot, Signal::GenerationTokens), Some(337.0));
        assert_eq!(value(&snapshot, Signal::RequestsWaiting), Some(0.0));
        assert_eq!(value(&snapshot, Signal::Preemptions), None);
        assert_eq!(value(&snapshot, Signal::KvCacheUsage), None);
        assert!(snapshot.totals.is_empty());
        assert_eq!(snapshot.identity(), None);
    }

    #[test]
    fn sglang_and_tgi_map_to_the_same_names() {
        let sglang = Snapshot::read(
            "sglang:num_running_reqs{tp_rank=\"0\"} 3\nsglang:num_queue_reqs 2\n\
             sglang:token_usage 0.25\nsglang:cached_tokens_total 10\nsglang:prompt_tokens_total 40\n\
             sglang:time_to_first_token_seconds_sum 4\nsglang:time_to_first_token_seconds_count 2\n",
        );
        assert_eq!(sglang.engine, Some("sglang"));
        assert_eq!(value(&sglang, Signal::RequestsRunning), Some(3.0));
        assert_eq!(value(&sglang, Signal::KvCacheUsage), Some(0.25));
        assert_eq!(sglang.totals[&Signal::ServerTtft], Totals { sum: 4.0, count: 2.0 });
        let tgi = Snapshot::read("tgi_queue_size 4\ntgi_request_generated_tokens_sum 99\n");
        assert_eq!(value(&tgi, Signal::RequestsWaiting), Some(4.0));
        assert_eq!(value(&tgi, Signal::GenerationTokens), Some(99.0));
        assert_eq!(value(&tgi, Signal::PromptTokens), None);
    }

    #[test]
    fn engines_of_one_page_add_up_but_shares_do_not() {
        let page = "vllm:num_requests_running{engine=\"0\"} 3\n\
                    vllm:num_requests_running{engine=\"1\"} 4\n\
                    vllm:kv_cache_usage_perc{engine=\"0\"} 0.5\n\
                    vllm:kv_cache_usage_perc{engine=\"1\"} 0.75\n";
        let snapshot = Snapshot::read(page);
        assert_eq!(value(&snapshot, Signal::RequestsRunning), Some(7.0));
        assert_eq!(value(&snapshot, Signal::KvCacheUsage), Some(0.75), "the fullest engine");
    }

    fn page(prompt: u32, ttft_sum: f64, ttft_count: u32) -> Snapshot {
        Snapshot::read(&format!(
            "vllm:prompt_tokens_total {prompt}\nvllm:prefix_cache_queries_total {prompt}\n\
             vllm:prefix_cache_hits_total {}\n\
             vllm:time_to_first_token_seconds_sum {ttft_sum}\n\
             vllm:time_to_first_token_seconds_count {ttft_count}\n",
            prompt / 4
        ))
    }

    #[test]
    fn a_delta_is_what_happened_in_between() {
        let delta = delta(&page(100, 2.0, 10), &page(500, 5.0, 16));
        assert!(!delta.restarted);
        assert_eq!(delta.values["prompt_tokens"], 400.0);
        assert_eq!(delta.values["server_ttft_count"], 6.0);
        assert_eq!(delta.values["server_ttft_mean_ms"], 500.0);
        assert_eq!(delta.values["prefix_cache_hit_rate"], 0.25);
        assert!(!delta.values.contains_key("preemptions"));
    }

    #[test]
    fn a_counter_that_went_back_began_again() {
        let delta = delta(&page(500, 5.0, 16), &page(80, 1.0, 4));
        assert!(delta.restarted);
        assert_eq!(delta.values["prompt_tokens"], 80.0);
        assert_eq!(delta.values["server_ttft_mean_ms"], 250.0);
    }

    #[test]
    fn an_idle_histogram_has_no_mean() {
        let delta = delta(&page(100, 2.0, 10), &page(100, 2.0, 10));
        assert_eq!(delta.values["server_ttft_count"], 0.0);
        assert!(!delta.values.contains_key("server_ttft_mean_ms"));
        assert!(!delta.values.contains_key("prefix_cache_hit_rate"));
    }
}
