//! Metrics as vLLM's client defines them, from the answers of a benchmark.
//!
//! TTFT is the time from the send to the first chunk, E2EL to the last, TPOT is their difference
//! over the output tokens less one, ITL the gaps between chunks; rates are over the whole time from
//! the first send to the last answer.

use super::latency::Latency;
use super::options::Goodput;
use super::send::{Answer, Sent};
use crate::stats::{moments, quantile};
use crate::transport::{FailureKind, TokenSource};
use crate::units::{ns_to_s, plural};

/// One request in vLLM's terms, seconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RequestFigures {
    /// Since the benchmark began.
    pub(crate) start_s: f64,
    /// 0 if no chunk came.
    pub(crate) ttft_s: f64,
    pub(crate) itls_s: Vec<f64>,
    pub(crate) latency_s: f64,
    /// The wait for a place below `--max-concurrency`.
    pub(crate) queue_s: f64,
    pub(crate) input_tokens: u32,
    /// 0 for a failed request.
    pub(crate) output_tokens: u32,
    pub(crate) text: String,
    /// Why it failed; empty if it did not.
    pub(crate) error: String,
}

impl RequestFigures {
    fn is_completed(&self) -> bool {
        self.error.is_empty()
    }

    /// Seconds a token after the first; `None` for one token.
    fn tpot_s(&self) -> Option<f64> {
        let later = self.output_tokens.checked_sub(1).filter(|later| *later > 0)?;
        Some((self.latency_s - self.ttft_s) / f64::from(later))
    }

    fn is_good(&self, goodput: Goodput) -> bool {
        let within = |limit: Option<f64>, seconds: f64| limit.is_none_or(|ms| seconds * 1e3 <= ms);
        within(goodput.ttft_ms, self.ttft_s)
            // vLLM takes the TPOT of a single token as 0.
            && within(goodput.tpot_ms, self.tpot_s().unwrap_or(0.0))
            && within(goodput.e2el_ms, self.latency_s)
    }

    fn of(answer: &Answer, begin_ns: u64, asked_input: u32) -> Self {
        let exchange = &answer.exchange;
        let since = |ns: u64| ns_to_s(ns.saturating_sub(answer.begun_ns));
        let chunks = &answer.chunks_ns;
        let gap = |pair: &[u64]| ns_to_s(pair[1].saturating_sub(pair[0]));
        let failed = exchange.failure.as_ref();
        Self {
            start_s: ns_to_s(answer.begun_ns.saturating_sub(begin_ns)),
            ttft_s: chunks.first().map_or(0.0, |ns| since(*ns)),
            itls_s: chunks.windows(2).map(gap).collect(),
            latency_s: chunks.last().map_or(0.0, |ns| since(*ns)),
            queue_s: ns_to_s(answer.begun_ns.saturating_sub(answer.arrived_ns)),
            input_tokens: exchange.input_tokens.unwrap_or(asked_input),
            output_tokens: match failed {
                Some(_) => 0,
                None => exchange.output_tokens.unwrap_or(1),
            },
            text: answer.text.clone(),
            error: failed.map(|failure| failure.message.clone()).unwrap_or_default(),
        }
    }
}

/// Mean, median, standard deviation (divisor n, as numpy's) and percentiles, ms; 0 of nothing, as
/// vLLM's client writes it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Statistics {
    pub(crate) latency: Latency,
    pub(crate) mean_ms: f64,
    pub(crate) median_ms: f64,
    pub(crate) std_ms: f64,
    /// (p, value).
    pub(crate) percentiles_ms: Vec<(f64, f64)>,
}

impl Statistics {
    fn of(latency: Latency, seconds: &[f64], percentiles: &[f64]) -> Self {
        let sorted = quantile::sorted(seconds);
        let at = |p: f64| quantile::of_sorted(&sorted, p / 100.0).unwrap_or(0.0) * 1e3;
        let mean = moments::mean(seconds).unwrap_or(0.0);
        let squares: Vec<f64> = seconds.iter().map(|s| (s - mean).powi(2)).collect();
        Self {
            latency,
            mean_ms: mean * 1e3,
            median_ms: at(50.0),
            std_ms: moments::mean(&squares).unwrap_or(0.0).sqrt() * 1e3,
            percentiles_ms: percentiles.iter().map(|p| (*p, at(*p))).collect(),
        }
    }
}

/// Everything that vLLM's client reports of a benchmark.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Metrics {
    pub(crate) duration_s: f64,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    pub(crate) total_input_tokens: u64,
    pub(crate) total_output_tokens: u64,
    pub(crate) request_throughput: f64,
    /// `None` if no limit is given.
    pub(crate) request_goodput: Option<f64>,
    pub(crate) output_throughput: f64,
    pub(crate) total_token_throughput: f64,
    /// Chunks in the busiest second.
    pub(crate) max_output_tokens_per_s: f64,
    /// Requests that lie in one second of the run, at most.
    pub(crate) max_concurrent_requests: u64,
    pub(crate) statistics: Vec<Statistics>,
    pub(crate) requests: Vec<RequestFigures>,
}

/// What is asked of the answers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) latencies: &'a [Latency],
    pub(super) percentiles: &'a [f64],
    pub(super) goodput: Goodput,
    /// Whether requests could wait for a place.
    pub(super) is_capped: bool,
    pub(super) has_rate: bool,
}

impl Metrics {
    /// The metrics of all answers. `asked_input` has the tokens that each prompt was meant to have.
    pub(super) fn of(sent: &Sent, asked_input: &[u32], asked: Asked<'_>) -> Self {
        let figures = |answer: &Answer| {
            let input = asked_input.get(answer.index).copied().unwrap_or(0);
            RequestFigures::of(answer, sent.begin_ns, input)
        };
        let requests: Vec<RequestFigures> = sent.answers.iter().map(figures).collect();
        let completed: Vec<&RequestFigures> =
            requests.iter().filter(|request| request.is_completed()).collect();
        let duration_s = ns_to_s(sent.end_ns.saturating_sub(sent.begin_ns)).max(f64::MIN_POSITIVE);
        let sum = |tokens: fn(&RequestFigures) -> u32| -> u64 {
            completed.iter().map(|request| u64::from(tokens(request))).sum()
        };
        let (input, output) = (sum(|r| r.input_tokens), sum(|r| r.output_tokens));
        #[allow(clippy::cast_precision_loss)]
        let per_s = |count: u64| count as f64 / duration_s;
        let good = completed.iter().filter(|request| request.is_good(asked.goodput)).count() as u64;
        let busiest = Busiest::of(&completed);
        let statistics = statistics(&completed, asked);
        Self {
            duration_s,
            completed: completed.len() as u64,
            failed: (requests.len() - completed.len()) as u64,
            total_input_tokens: input,
            total_output_tokens: output,
            request_throughput: per_s(completed.len() as u64),
            request_goodput: asked.goodput.is_asked().then(|| per_s(good)),
            output_throughput: per_s(output),
            total_token_throughput: per_s(input + output),
            max_output_tokens_per_s: busiest.chunks,
            max_concurrent_requests: busiest.requests,
            statistics,
            requests,
        }
    }
}

fn statistics(completed: &[&RequestFigures], asked: Asked<'_>) -> Vec<Statistics> {
    let is_shown = |latency: &Latency| {
        asked.latencies.contains(latency)
            && match latency {
                Latency::ClientQueueTime => asked.is_capped,
                Latency::E2elIncludingClientQueue => asked.is_capped && asked.has_rate,
                _ => true,
            }
    };
    let values = |latency: Latency| -> Vec<f64> {
        let each = |value: fn(&RequestFigures) -> f64| completed.iter().map(|r| value(r)).collect();
        match latency {
            Latency::Ttft => each(|r| r.ttft_s),
            Latency::Tpot => completed.iter().filter_map(|r| r.tpot_s()).collect(),
            Latency::Itl => completed.iter().flat_map(|r| r.itls_s.iter().copied()).collect(),
            Latency::E2el => each(|r| r.latency_s),
            Latency::ClientQueueTime => each(|r| r.queue_s),
            Latency::E2elIncludingClientQueue => each(|r| r.latency_s + r.queue_s),
        }
    };
    let of = |latency| Statistics::of(latency, &values(latency), asked.percentiles);
    Latency::ALL.into_iter().filter(is_shown).map(of).collect()
}

/// The busiest second, counted from the first send in whole seconds.
struct Busiest {
    chunks: f64,
    requests: u64,
}

impl Busiest {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // seconds of a benchmark
    fn of(completed: &[&RequestFigures]) -> Self {
        let begin = completed.iter().map(|r| r.start_s).fold(f64::INFINITY, f64::min);
        let end = completed.iter().map(|r| r.start_s + r.latency_s).fold(0.0, f64::max);
        let seconds = (end - begin).max(0.0).ceil() as usize + 1;
        let mut chunks = vec![0_u64; seconds];
        let mut requests = vec![0_u64; seconds];
        for request in completed {
            let from = request.start_s - begin;
            let mut at = from + request.ttft_s;
            for gap in std::iter::once(0.0).chain(request.itls_s.iter().copied()) {
                at += gap;
                if let Some(second) = chunks.get_mut(at as usize) {
                    *second += 1;
                }
            }
            let until = (from + request.latency_s) as usize + 1;
            let spanned = requests.iter_mut().take(until).skip(from as usize);
            spanned.for_each(|second| *second += 1);
        }
        #[allow(clippy::cast_precision_loss)]
        let most = chunks.iter().max().copied().unwrap_or(0) as f64;
        Self { chunks: most, requests: requests.into_iter().max().unwrap_or(0) }
    }
}

/// Where the answers make a figure differ from what vLLM's client would have given, a line each.
pub(super) fn differences(sent: &Sent) -> Vec<String> {
    let count = |is: &dyn Fn(&Answer) -> bool| sent.answers.iter().filter(|a| is(a)).count();
    let mut lines = Vec::new();
    let broken = count(&|a| {
        let failure = a.exchange.failure.as_ref().map(|failure| failure.kind);
        let broke_off = |kind| kind != FailureKind::Cancelled && !FailureKind::is_silence(kind);
        !a.chunks_ns.is_empty() && failure.is_some_and(broke_off)
    });
    if broken > 0 {
        lines.push(format!(
            "{} broke off: failed here, completed in vLLM's client",
            plural(broken, "answer")
        ));
    }
    let counted = count(&|a| {
        a.exchange.failure.is_none() && a.exchange.token_source == Some(TokenSource::Events)
    });
    if counted > 0 {
        lines.push(format!(
            "{} came without usage: output tokens are events here, tokenized text in vLLM's client",
            plural(counted, "answer")
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::files;

    /// Every figure of a file that `vllm bench serve` 0.32.0 wrote, made again from its details.
    #[test]
    fn figures_are_those_of_vllm() {
        for name in ["completions-c8", "chat-c8", "completions-rate4"] {
            let text =
                files::read_text(format!("tests/results/vllm-bench-cpu/{name}.json").as_ref())
                    .unwrap();
            let file: serde_json::Value = serde_json::from_str(&text).unwrap();
            let requests = requests(&file);
            let completed: Vec<&RequestFigures> = requests.iter().collect();
            let asked = Asked {
                latencies: &Latency::ALL,
                percentiles: &[50.0, 90.0, 95.0, 99.0],
                goodput: Goodput::default(),
                is_capped: false,
                has_rate: false,
            };
            for of in statistics(&completed, asked) {
                let field = of.latency.name();
                let check = |key: String, ours: f64| {
                    let theirs = file[&key].as_f64().unwrap();
                    assert!((ours - theirs).abs() <= 1e-9 * theirs.abs(), "{name} {key} {ours}");
                };
                check(format!("mean_{field}_ms"), of.mean_ms);
                check(format!("median_{field}_ms"), of.median_ms);
                check(format!("std_{field}_ms"), of.std_ms);
                for (p, value) in of.percentiles_ms {
                    check(format!("p{p}_{field}_ms"), value);
                }
            }
            let busiest = Busiest::of(&completed);
            assert_eq!(Some(busiest.requests), file["max_concurrent_requests"].as_u64(), "{name}");
            assert_eq!(Some(busiest.chunks), file["max_output_tokens_per_s"].as_f64(), "{name}");
        }
    }

    fn requests(file: &serde_json::Value) -> Vec<RequestFigures> {
        let list = |name: &str| file[name].as_array().unwrap().clone();
        let number = |value: &serde_json::Value| value.as_f64().unwrap();
        let (starts, ttfts, itls) = (list("start_times"), list("ttfts"), list("itls"));
        let (latencies, outputs) = (list("latencies"), list("output_lens"));
        (0..starts.len())
            .map(|i| RequestFigures {
                start_s: number(&starts[i]),
                ttft_s: number(&ttfts[i]),
                itls_s: itls[i].as_array().unwrap().iter().map(number).collect(),
                latency_s: number(&latencies[i]),
                queue_s: 0.0,
                input_tokens: 0,
                output_tokens: u32::try_from(outputs[i].as_u64().unwrap()).unwrap(),
                text: String::new(),
                error: String::new(),
            })
            .collect()
    }

    #[test]
    fn a_good_request_meets_every_limit() {
        let request = |output_tokens| RequestFigures {
            start_s: 0.0,
            ttft_s: 0.1,
            itls_s: vec![],
            latency_s: 0.5,
            queue_s: 9.0,
            input_tokens: 1,
            output_tokens,
            text: String::new(),
            error: String::new(),
        };
        let limits = |ttft_ms, tpot_ms, e2el_ms| Goodput {
            ttft_ms: Some(ttft_ms),
            tpot_ms: Some(tpot_ms),
            e2el_ms: Some(e2el_ms),
        };
        assert!(request(5).is_good(limits(100.0, 100.0, 500.0)));
        assert!(!request(5).is_good(limits(99.0, 100.0, 500.0)));
        assert!(!request(5).is_good(limits(100.0, 99.0, 500.0)));
        assert!(!request(5).is_good(limits(100.0, 100.0, 499.0)));
        assert!(request(1).is_good(limits(100.0, 0.1, 500.0)), "one token has no TPOT");
    }
}
