//! Exposition: the metrics page, with vLLM's names.

use std::fmt::Write;

use super::profile::Profile;
use super::scheduler::Gauges;

/// Bucket bounds in seconds or tokens, as vLLM prints them.
const TTFT: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
];
const PER_TOKEN: &[f64] = &[
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
];
const REQUEST: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
];
const TOKENS: &[f64] =
    &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0];

/// Tokens in a KV block: vLLM's default on GPUs.
const BLOCK_TOKENS: u64 = 16;

#[derive(Debug)]
struct Histogram {
    name: &'static str,
    help: &'static str,
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
    count: u64,
}

impl Histogram {
    fn new(name: &'static str, help: &'static str, bounds: &'static [f64]) -> Self {
        Self { name, help, bounds, counts: vec![0; bounds.len()], sum: 0.0, count: 0 }
    }

    fn observe(&mut self, value: f64) {
        // Cumulative, as the page wants them.
        for (count, bound) in self.counts.iter_mut().zip(self.bounds) {
            *count += u64::from(value <= *bound);
        }
        self.sum += value;
        self.count += 1;
    }
}

/// The times of a finished request as an engine sees them, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Finished {
    pub(crate) received_ns: u64,
    pub(crate) queued_ns: u64,
    pub(crate) scheduled_ns: u64,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) prompt_tokens: u32,
    pub(crate) output_tokens: u32,
    pub(crate) reason: FinishReason,
}

/// Why a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FinishReason {
    Length,
    Stop,
}

impl FinishReason {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Stop => "stop",
        }
    }
}

/// What the engine's player has observed.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) gauges: Gauges,
    finished_length: u64,
    finished_stop: u64,
    ttft: Histogram,
    inter_token: Histogram,
    per_request: Vec<Histogram>,
}

impl Observed {
    pub(crate) fn new() -> Self {
        let per_request = vec![
            Histogram::new(
                "request_time_per_output_token_seconds",
                "Histogram of time_per_output_token_seconds per request.",
                PER_TOKEN,
            ),
            Histogram::new(
                "e2e_request_latency_seconds",
                "Histogram of e2e request latency in seconds.",
                REQUEST,
            ),
            Histogram::new(
                "request_queue_time_seconds",
                "Histogram of time spent in WAITING phase for request.",
                REQUEST,
            ),
            Histogram::new(
                "request_inference_time_seconds",
                "Histogram of time spent in RUNNING phase for request.",
                REQUEST,
            ),
            Histogram::new(
                "request_prefill_time_seconds",
                "Histogram of time spent in PREFILL phase for request.",
                REQUEST,
            ),
            Histogram::new(
                "request_decode_time_seconds",
                "Histogram of time spent in DECODE phase for request.",
                REQUEST,
            ),
            Histogram::new("request_prompt_tokens", "Number of prefill tokens processed.", TOKENS),
            Histogram::new(
                "request_generation_tokens",
                "Number of generation tokens processed.",
                TOKENS,
            ),
        ];
        Self {
            gauges: Gauges::default(),
            finished_length: 0,
            finished_stop: 0,
            ttft: Histogram::new(
                "time_to_first_token_seconds",
                "Histogram of time to first token in seconds.",
                TTFT,
            ),
            inter_token: Histogram::new(
                "inter_token_latency_seconds",
                "Histogram of inter-token latency in seconds.",
                PER_TOKEN,
            ),
            per_request,
        }
    }

    pub(crate) fn first_token(&mut self, seconds: f64) {
        self.ttft.observe(seconds);
    }

    pub(crate) fn gap(&mut self, seconds: f64) {
        self.inter_token.observe(seconds);
    }

    pub(crate) fn finished(&mut self, times: Finished) {
        let span = |from: u64, to: u64| crate::units::ns_to_s(to.saturating_sub(from));
        let decode = span(times.first_ns, times.last_ns);
        let following = f64::from(times.output_tokens.saturating_sub(1).max(1));
        let values = [
            decode / following,
            span(times.received_ns, times.last_ns),
            span(times.queued_ns, times.scheduled_ns),
            span(times.scheduled_ns, times.last_ns),
            span(times.scheduled_ns, times.first_ns),
            decode,
            f64::from(times.prompt_tokens),
            f64::from(times.output_tokens),
        ];
        for (histogram, value) in self.per_request.iter_mut().zip(values) {
            histogram.observe(value);
        }
        match times.reason {
            FinishReason::Length => self.finished_length += 1,
            FinishReason::Stop => self.finished_stop += 1,
        }
    }

    /// The page. `started_s` is the start of this engine since the Unix epoch, in seconds.
    pub(crate) fn page(&self, model: &str, profile: &Profile, started_s: f64) -> String {
        let mut page = Page { text: String::with_capacity(16_384), model, started_s };
        page.text.push_str(
            "# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.\n\
             # TYPE process_start_time_seconds gauge\n",
        );
        let _ = writeln!(page.text, "process_start_time_seconds {started_s}");
        self.gauges_and_counters(&mut page);
        page.histogram(&self.ttft);
        page.histogram(&self.inter_token);
        for histogram in &self.per_request {
            page.histogram(histogram);
        }
        page.head("cache_config_info", "Information of the LLMEngine CacheConfig", "gauge");
        let blocks = profile.limits.kv_capacity_tokens / BLOCK_TOKENS;
        let _ = writeln!(
            page.text,
            "vllm:cache_config_info{{block_size=\"{BLOCK_TOKENS}\",cache_dtype=\"auto\",engine=\"0\",\
             kv_cache_size_tokens=\"{}\",num_gpu_blocks=\"{blocks}\"}} 1.0",
            profile.limits.kv_capacity_tokens
        );
        page.text
    }

    fn gauges_and_counters(&self, page: &mut Page<'_>) {
        let gauges = self.gauges;
        page.gauge(
            "num_requests_running",
            "Number of requests in model execution batches.",
            f64::from(gauges.running),
        );
        page.gauge(
            "num_requests_waiting",
            "Number of requests waiting to be processed.",
            f64::from(gauges.waiting),
        );
        page.gauge(
            "kv_cache_usage_perc",
            "KV-cache usage. 1 means 100 percent usage.",
            gauges.kv_usage,
        );
        let prefix = "Prefix cache queries, in terms of number of queried tokens.";
        page.counter("prefix_cache_queries", prefix, gauges.prompt_tokens);
        let prefix = "Prefix cache hits, in terms of number of cached tokens.";
        page.counter("prefix_cache_hits", prefix, gauges.cached_tokens);
        page.counter("num_preemptions", "Cumulative number of preemption from the engine.", 0);
        page.counter("prompt_tokens", "Number of prefill tokens processed.", gauges.prompt_tokens);
        let cached = "Number of cached prompt tokens (local + external).";
        page.counter("prompt_tokens_cached", cached, gauges.cached_tokens);
        let generated = "Number of generation tokens processed.";
        page.counter("generation_tokens", generated, gauges.generation_tokens);
        page.head("request_success_total", "Count of successfully processed requests.", "counter");
        let reasons = [
            ("stop", self.finished_stop),
            ("length", self.finished_length),
            ("abort", gauges.aborted),
            ("error", 0),
        ];
        for (reason, count) in reasons {
            let _ = writeln!(
                page.text,
                "vllm:request_success_total{{engine=\"0\",finished_reason=\"{reason}\",model_name=\"{}\"}} {count}.0",
                page.model
            );
        }
    }
}

struct Page<'a> {
    text: String,
    model: &'a str,
    started_s: f64,
}

impl Page<'_> {
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let _ = writeln!(self.text, "# HELP vllm:{name} {help}\n# TYPE vllm:{name} {kind}");
    }

    fn value(&mut self, name: &str, label: &str, value: f64) {
        // `{:?}` prints a whole number with its `.0`, as the real page does.
        let model = self.model;
        let _ = writeln!(
            self.text,
            "vllm:{name}{{engine=\"0\",{label}model_name=\"{model}\"}} {value:?}"
        );
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.head(name, help, "gauge");
        self.value(name, "", value);
    }

    fn created(&mut self, name: &str, help: &str) {
        self.gauge(&format!("{name}_created"), help, self.started_s);
    }

    #[allow(clippy::cast_precision_loss)]
    fn counter(&mut self, name: &str, help: &str, value: u64) {
        let total = format!("{name}_total");
        self.head(&total, help, "counter");
        self.value(&total, "", value as f64);
        self.created(name, help);
    }

    #[allow(clippy::cast_precision_loss)]
    fn histogram(&mut self, histogram: &Histogram) {
        let name = histogram.name;
        self.head(name, histogram.help, "histogram");
        for (bound, count) in histogram.bounds.iter().zip(&histogram.counts) {
            self.value(&format!("{name}_bucket"), &format!("le=\"{bound:?}\","), *count as f64);
        }
        self.value(&format!("{name}_bucket"), "le=\"+Inf\",", histogram.count as f64);
        self.value(&format!("{name}_count"), "", histogram.count as f64);
        self.value(&format!("{name}_sum"), "", histogram.sum);
        self.created(name, histogram.help);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::preset::Preset;

    #[test]
    fn buckets_are_cumulative_and_end_with_the_count() {
        let mut observed = Observed::new();
        for seconds in [0.0005, 0.03, 0.03, 5000.0] {
            observed.first_token(seconds);
        }
        let page = observed.page("sim", &Preset::Demo.profile(), 1.5e9);
        let bucket = |le: &str| {
            let name =
                format!("vllm:time_to_first_token_seconds_bucket{{engine=\"0\",le=\"{le}\",");
            let line = page.lines().find(|line| line.starts_with(&name)).unwrap();
            line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
        };
        assert_eq!([bucket("0.001"), bucket("0.02"), bucket("0.04")], [1.0, 1.0, 3.0]);
        assert_eq!([bucket("2560.0"), bucket("+Inf")], [3.0, 4.0]);
    }

    #[test]
    fn every_line_is_a_comment_or_a_sample() {
        let page = Observed::new().page("sim", &Preset::Demo.profile(), 1.5e9);
        for line in page.lines() {
            let value = line.rsplit(' ').next().unwrap();
            assert!(line.starts_with("# ") || value.parse::<f64>().is_ok(), "{line}");
        }
    }
}
