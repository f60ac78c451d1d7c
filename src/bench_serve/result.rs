//! The result file: its name, its fields, its place.

use std::io::Write;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use super::metrics::{Metrics, RequestFigures};
use super::options::{Options, Saving};
use super::own::OwnFigures;
use super::send::Sent;
use super::vllm_arrivals::RampUp;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::export::vllm::{FileName, Header, VllmResult};
use crate::store::files;

/// What the file is written from, beside the figures.
pub(super) struct Writing<'a> {
    pub(super) options: &'a Options,
    pub(super) model_id: &'a str,
    pub(super) clock: Clock,
}

/// The flags that say where the result goes.
fn elsewhere(error: Error) -> Error {
    error.with_hint("choose another place by `--result-dir` and `--result-filename`")
}

impl Writing<'_> {
    /// Writes the result; where it now is.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub(super) fn save(&self, metrics: &Metrics, own: &OwnFigures, sent: &Sent) -> Result<PathBuf> {
        let date = local(self.clock.wall(self.clock.now_ns()), "%Y%m%d-%H%M%S");
        let path = self.path(&date);
        let line = self.result(&date, metrics, own, sent).to_json()?;
        if self.options.result.saving == Saving::Append {
            append(&path, &line).map_err(elsewhere)?;
        } else {
            files::write_atomic(&path, line).map_err(elsewhere)?;
        }
        Ok(path)
    }

    /// Makes the folder of the result, so that a wrong path is told before anything is measured.
    pub(super) fn make_folder(&self) -> Result<()> {
        match self.path("").parent() {
            Some(folder) if folder != Path::new("") => files::make_folder(folder),
            _ => Ok(()),
        }
        .map_err(elsewhere)
    }

    fn path(&self, date: &str) -> PathBuf {
        let options = self.options;
        let ramp_up = options.arrivals.ramp_up.map(ramp_name);
        let name = FileName {
            label: options.result.label.as_deref().unwrap_or(&options.backend),
            request_rate: options.arrivals.rate,
            ramp_up: ramp_up.as_deref(),
            max_concurrency: options.max_concurrency,
            model_id: self.model_id,
            date,
        };
        let name = options.result.filename.clone().unwrap_or_else(|| name.render().into());
        options.result.dir.clone().unwrap_or_default().join(name)
    }

    fn result(&self, date: &str, metrics: &Metrics, own: &OwnFigures, sent: &Sent) -> VllmResult {
        let options = self.options;
        let mut result = VllmResult::new(Header {
            date,
            backend: &options.backend,
            label: options.result.label.as_deref(),
            model_id: self.model_id,
            tokenizer_id: options.tokenizer_id.as_deref().unwrap_or(self.model_id),
            num_prompts: options.num_prompts,
            metadata: &options.result.metadata,
            request_rate: options.arrivals.rate,
            burstiness: options.arrivals.burstiness,
            max_concurrency: options.max_concurrency,
        });
        if let Some(ramp) = options.arrivals.ramp_up {
            result.set("ramp_up_strategy", json!(ramp.strategy.name()));
            result.set("ramp_up_start_rps", json!(ramp.start_rps));
            result.set("ramp_up_end_rps", json!(ramp.end_rps));
        }
        totals(&mut result, metrics);
        details(&mut result, &metrics.requests, options.result.detailed);
        result.set("max_output_tokens_per_s", json!(metrics.max_output_tokens_per_s));
        result.set("max_concurrent_requests", json!(metrics.max_concurrent_requests));
        result.set("rtfx", json!(0.0)); // audio only
        if let Some(ramp) = options.arrivals.ramp_up {
            result.set("rps_change_events", self.rate_changes(ramp, sent));
        }
        statistics(&mut result, metrics);
        result.set("inferometer", own_fields(own));
        result
    }

    /// When the rate reached each whole number.
    fn rate_changes(&self, ramp: RampUp, sent: &Sent) -> Value {
        let change = |rps: u32, ns: u64| {
            let timestamp = local(self.clock.wall(ns), "%Y-%m-%dT%H:%M:%S.%6f");
            json!({"rps": rps, "timestamp": timestamp})
        };
        let mut reached = ramp.start_rps;
        let mut changes = vec![change(reached, sent.begin_ns)];
        for answer in &sent.answers {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
            let now = ramp.rate(answer.index, sent.answers.len()) as u32;
            changes.extend((reached + 1..=now).map(|rps| change(rps, answer.arrived_ns)));
            reached = reached.max(now);
        }
        Value::Array(changes)
    }
}

fn ramp_name(ramp: RampUp) -> String {
    format!("{}-{}qps-{}qps", ramp.strategy.name(), ramp.start_rps, ramp.end_rps)
}

/// A time by the clock on the wall, as vLLM's client writes it.
fn local(at: Timestamp, format: &str) -> String {
    at.to_zoned_datetime(TimeZone::system()).strftime(format).to_string()
}

fn totals(result: &mut VllmResult, metrics: &Metrics) {
    result.set("duration", json!(metrics.duration_s));
    result.set("completed", json!(metrics.completed));
    result.set("failed", json!(metrics.failed));
    result.set("total_input_tokens", json!(metrics.total_input_tokens));
    result.set("total_output_tokens", json!(metrics.total_output_tokens));
    result.set("request_throughput", json!(metrics.request_throughput));
    result.set("request_goodput", json!(metrics.request_goodput));
    result.set("output_throughput", json!(metrics.output_throughput));
    result.set("total_token_throughput", json!(metrics.total_token_throughput));
}

/// A list with an entry for every request. `latencies` and `queue_times` stand in every file.
fn details(result: &mut VllmResult, requests: &[RequestFigures], all: bool) {
    let list = |value: fn(&RequestFigures) -> Value| -> Value {
        Value::Array(requests.iter().map(value).collect())
    };
    let lists: [(&str, bool, Value); 9] = [
        ("input_lens", all, list(|r| json!(r.input_tokens))),
        ("output_lens", all, list(|r| json!(r.output_tokens))),
        ("ttfts", all, list(|r| json!(r.ttft_s))),
        ("itls", all, list(|r| json!(r.itls_s))),
        ("latencies", true, list(|r| json!(r.latency_s))),
        ("start_times", all, list(|r| json!(r.start_s))),
        ("queue_times", true, list(|r| json!(r.queue_s))),
        ("generated_texts", all, list(|r| json!(r.text))),
        ("errors", all, list(|r| json!(r.error))),
    ];
    for (name, is_written, list) in lists {
        if is_written {
            result.set(name, list);
        }
    }
}

fn statistics(result: &mut VllmResult, metrics: &Metrics) {
    for of in &metrics.statistics {
        let name = of.latency.name();
        result.set(&format!("mean_{name}_ms"), json!(of.mean_ms));
        result.set(&format!("median_{name}_ms"), json!(of.median_ms));
        result.set(&format!("std_{name}_ms"), json!(of.std_ms));
        for (p, value) in &of.percentiles_ms {
            result.set(&format!("p{p}_{name}_ms"), json!(value));
        }
    }
}

/// Our figures, apart from vLLM's.
fn own_fields(own: &OwnFigures) -> Value {
    let version = ("version".to_owned(), json!(env!("CARGO_PKG_VERSION")));
    let figures = own.rows().map(|(_, name, value)| (name.to_owned(), json!(value)));
    Value::Object(std::iter::once(version).chain(figures).collect::<Map<_, _>>())
}

/// Adds a line to a file whose last line has no end.
fn append(path: &std::path::Path, line: &str) -> Result<()> {
    let failed = |cause: std::io::Error| {
        Error::store(format!("cannot add the result to `{}`", path.display()))
            .with_cause(cause)
            .with_hint("check `--result-dir` and who may write there")
    };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        files::make_folder(folder)?;
    }
    let mut file = files::append_file(path)?;
    let is_empty = file.metadata().map_err(failed)?.len() == 0;
    let start = if is_empty { "" } else { "\n" };
    file.write_all(format!("{start}{line}").as_bytes()).map_err(failed)
}
