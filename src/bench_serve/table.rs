//! The table that vLLM's client prints, and below it what differs and what else is known.

use super::metrics::Metrics;
use super::own::OwnFigures;

/// The width of headings.
const WIDTH: usize = 50;

/// What the table names beside the figures.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heading {
    pub(super) max_concurrency: Option<u32>,
    /// `None`: infinite.
    pub(super) request_rate: Option<f64>,
}

/// The table, line for line as vLLM's client prints it.
pub(super) fn render(metrics: &Metrics, heading: Heading) -> String {
    let mut table = Table(banner(" Serving Benchmark Result ", '='));
    table.count("Successful requests:", metrics.completed);
    table.count("Failed requests:", metrics.failed);
    if let Some(limit) = heading.max_concurrency {
        table.count("Maximum request concurrency:", u64::from(limit));
    }
    if let Some(rate) = heading.request_rate {
        table.figure("Request rate configured (RPS):", rate);
    }
    table.figure("Benchmark duration (s):", metrics.duration_s);
    table.count("Total input tokens:", metrics.total_input_tokens);
    table.count("Total generated tokens:", metrics.total_output_tokens);
    table.figure("Request throughput (req/s):", metrics.request_throughput);
    if let Some(goodput) = metrics.request_goodput {
        table.figure("Request goodput (req/s):", goodput);
    }
    table.figure("Output token throughput (tok/s):", metrics.output_throughput);
    table.figure("Peak output token throughput (tok/s):", metrics.max_output_tokens_per_s);
    #[allow(clippy::cast_precision_loss)]
    table.figure("Peak concurrent requests:", metrics.max_concurrent_requests as f64);
    table.figure("Total token throughput (tok/s):", metrics.total_token_throughput);
    for of in &metrics.statistics {
        let (name, heading) = of.latency.heading();
        table.0.push_str(&banner(heading, '-'));
        table.figure(&format!("Mean {name} (ms):"), of.mean_ms);
        table.figure(&format!("Median {name} (ms):"), of.median_ms);
        for (p, value) in &of.percentiles_ms {
            table.figure(&format!("P{p} {name} (ms):"), *value);
        }
    }
    table.0.push_str(&banner("", '='));
    table.0
}

/// What inferometer measures beside it, and a line for each figure that differs from vLLM's.
pub(super) fn render_own(own: &OwnFigures, differences: &[String]) -> String {
    let mut table = Table(banner(" inferometer ", '-'));
    for (label, _, value) in own.rows() {
        if let Some(value) = value {
            table.figure(label, value);
        }
    }
    for line in differences {
        table.0.push_str(&format!("Differs: {line}\n"));
    }
    table.0.push_str(&banner("", '='));
    table.0
}

struct Table(String);

impl Table {
    fn count(&mut self, label: &str, count: u64) {
        self.0.push_str(&format!("{label:<40} {count:<10}\n"));
    }

    fn figure(&mut self, label: &str, value: f64) {
        self.0.push_str(&format!("{label:<40} {value:<10.2}\n"));
    }
}

fn banner(text: &str, fill: char) -> String {
    let room = WIDTH.saturating_sub(text.chars().count());
    let left = room / 2;
    let fill = |count: usize| fill.to_string().repeat(count);
    format!("{}{text}{}\n", fill(left), fill(room - left))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_serve::latency::Latency;
    use crate::bench_serve::metrics::Statistics;

    #[test]
    fn lines_are_those_of_vllm() {
        let metrics = Metrics {
            duration_s: 2.846,
            completed: 100,
            failed: 0,
            total_input_tokens: 12807,
            total_output_tokens: 3200,
            request_throughput: 35.135,
            request_goodput: None,
            output_throughput: 1124.328,
            total_token_throughput: 5624.098,
            max_output_tokens_per_s: 1155.0,
            max_concurrent_requests: 40,
            statistics: vec![Statistics {
                latency: Latency::Ttft,
                mean_ms: 44.119,
                median_ms: 41.443,
                std_ms: 16.69,
                percentiles_ms: vec![(99.0, 86.458), (99.9, 86.9)],
            }],
            requests: Vec::new(),
        };
        let heading = Heading { max_concurrency: Some(8), request_rate: None };
        let table = render(&metrics, heading);
        let lines: Vec<&str> = table.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            [
                "============ Serving Benchmark Result ============",
                "Successful requests:                     100",
                "Failed requests:                         0",
                "Maximum request concurrency:             8",
                "Benchmark duration (s):                  2.85",
                "Total input tokens:                      12807",
                "Total generated tokens:                  3200",
                "Request throughput (req/s):              35.13",
                "Output token throughput (tok/s):         1124.33",
                "Peak output token throughput (tok/s):    1155.00",
                "Peak concurrent requests:                40.00",
                "Total token throughput (tok/s):          5624.10",
                "---------------Time to First Token----------------",
                "Mean TTFT (ms):                          44.12",
                "Median TTFT (ms):                        41.44",
                "P99 TTFT (ms):                           86.46",
                "P99.9 TTFT (ms):                         86.90",
                "==================================================",
            ]
        );
    }
}
