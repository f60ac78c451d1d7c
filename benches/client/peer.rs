//! The peer: `vllm bench serve`, where it is on PATH, against the same server.

use std::process::{Command, Stdio};

use inferometer::internals::selftest::fidelity::Deviation;
use inferometer::internals::selftest::fidelity::Figures;
use inferometer::internals::selftest::fidelity::figures;
use serde_json::Value;

use crate::Outcome;
use crate::machine;
use crate::side::{Case, Cost, Errors, serve};
use crate::times;

/// CPU per event by the slope between a short and a long run: its start costs seconds of CPU.
pub(crate) fn cost(case: Case, tokenizer: Option<&str>) -> Outcome<Option<Cost>> {
    let mut points = Vec::new();
    for requests in [case.streams, case.requests.min(1_000).max(4 * case.streams)] {
        let (server, _) = serve(case, 0)?;
        let before_ns = machine::children_cpu_ns();
        if bench(Case { requests, ..case }, &server.url(), tokenizer)?.is_none() {
            return Ok(None);
        }
        points.push((requests, machine::children_cpu_ns() - before_ns));
    }
    let [(few, few_ns), (many, many_ns)] = points[..] else { return Ok(None) };
    let events = u64::from(many - few) * u64::from(case.tokens);
    let Some(cpu_ns) = many_ns.checked_sub(few_ns) else {
        println!(
            "(the CPU of its start varied by more than {events} events cost `vllm bench serve`)"
        );
        return Ok(None);
    };
    Ok(Some(Cost { cpu_ns, events }))
}

pub(crate) fn fidelity(case: Case, tokenizer: Option<&str>) -> Outcome<Option<Errors>> {
    let (server, _) = serve(case, 100_000)?;
    let Some(told) = bench(case, &server.url(), tokenizer)? else { return Ok(None) };
    let mut log = server.take_log();
    log.sort_by_key(|beats| beats.received_ns);
    // The first is its own test request.
    let log = log.get(1..).unwrap_or_default();
    let error = |name: &str, of: fn(u64, &[u64]) -> Vec<f64>| {
        let figure =
            |prefix: &str| told[format!("{prefix}_{name}_ms")].as_f64().unwrap_or(f64::NAN);
        let client =
            Figures { mean_ms: figure("mean"), p50_ms: figure("median"), p99_ms: figure("p99") };
        Deviation { server: figures(&times::truth(log, of)), client }.error()
    };
    let completed = told["completed"].as_u64().unwrap_or(0);
    Ok(Some(Errors {
        ttft: error("ttft", times::ttft),
        tpot: error("tpot", times::tpot),
        itl: error("itl", times::itl),
        unmatched: u64::from(case.requests).saturating_sub(completed),
    }))
}

/// Its own result file; none where it is not installed.
fn bench(case: Case, url: &str, tokenizer: Option<&str>) -> Outcome<Option<Value>> {
    let dir = tempfile::tempdir()?;
    let output = Command::new("vllm")
        .args(["bench", "serve", "--backend", "openai", "--base-url", url])
        .args(["--model", "reference", "--tokenizer", tokenizer.unwrap_or("gpt2")])
        .args(["--dataset-name", "random", "--random-input-len", "16", "--ignore-eos"])
        .args(["--random-output-len", &case.tokens.to_string()])
        .args(["--num-prompts", &case.requests.to_string()])
        .args(["--max-concurrency", &case.streams.to_string()])
        .args(["--percentile-metrics", "ttft,tpot,itl", "--metric-percentiles", "50,99"])
        .args(["--save-result", "--result-filename", "result.json", "--result-dir"])
        .arg(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("(no `vllm` on PATH)");
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last: Vec<&str> = said.lines().rev().take(3).collect();
        return Err(format!("`vllm bench serve` failed: {}", last.join(" | ")).into());
    }
    #[allow(clippy::disallowed_methods)] // a peer's file, not ours
    let text = std::fs::read_to_string(dir.path().join("result.json"))?;
    Ok(Some(serde_json::from_str(&text)?))
}
