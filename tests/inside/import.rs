//! Result files of `vllm bench serve`: what they hold is read right, what they lack is said, what is
//! wrong is named.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)] // a test may

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use inferometer::ErrorKind;
use inferometer::import::{self, Imported, Order};
use inferometer::metric::{Measure, Metric, Statistic};
use inferometer::record::Outcome;
use inferometer::record::stored::RoundStatus;
use inferometer::summary::{self, RoundInput, Series, Summary};
use inferometer::transport::FailureKind;
use serde_json::{Value, json};
use tempfile::TempDir;

fn results(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/results").join(file)
}

fn value(file: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(results(file)).unwrap()).unwrap()
}

fn read(files: &[PathBuf]) -> inferometer::Result<Imported> {
    import::read(&Order {
        files,
        name: "A",
        scenario: None,
        metadata: &BTreeMap::new(),
        command_line: vec!["inferometer".into()],
        at: "2026-01-02T03:04:05Z".parse().unwrap(),
    })
}

/// Imports one document.
fn document(text: &str) -> inferometer::Result<Imported> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("some.json");
    fs::write(&path, text).unwrap();
    read(&[path])
}

fn summary(imported: &Imported) -> Summary {
    let inputs: Vec<RoundInput<'_>> = imported.rounds.iter().map(input).collect();
    summary::summarise(&inputs, None)
}

fn input(round: &import::ImportedRound) -> RoundInput<'_> {
    RoundInput { round: &round.round, records: &round.records, itl: &round.itl, icl: &round.icl }
}

fn codes(imported: &Imported) -> Vec<&str> {
    imported.run.findings.iter().map(|finding| finding.code.name()).collect()
}

/// vLLM 0.32.0 leaves these two lists in a file without `--save-detailed`.
#[test]
fn latencies_without_first_tokens_are_no_failures() {
    let mut file = value("vllm-bench-cpu/completions-c8.json");
    let lists = ["input_lens", "output_lens", "ttfts", "itls", "start_times", "generated_texts"];
    for name in lists.into_iter().chain(["errors"]) {
        file.as_object_mut().unwrap().remove(name);
    }
    let imported = document(&file.to_string()).unwrap();
    let read = summary(&imported);
    assert_eq!((read.completed, read.failed), (100, 0));
    for (measure, field) in [
        ("ttft_p50", "median_ttft_ms"),
        ("tpot_mean", "mean_tpot_ms"),
        ("itl_p99", "p99_itl_ms"),
        ("e2el_mean", "mean_e2el_ms"),
        ("output_throughput", "output_throughput"),
    ] {
        let (got, right) = (read.get(measure.parse().unwrap()), file[field].as_f64().unwrap());
        let got = got.unwrap_or_else(|| panic!("{measure} is missing"));
        assert!((got / right - 1.0).abs() < 2e-3, "{measure}: {got} against {right}");
    }
}

/// Every statistic that a file holds, against what its import gives.
fn agrees(file: &str, tolerance: f64, only: &[&str]) {
    let (imported, said) = (read(&[results(file)]).unwrap(), value(file));
    let summary = summary(&imported);
    let mut checked = 0;
    for metric in only {
        for (ours, theirs) in [("mean", "mean"), ("p50", "median"), ("p90", "p90"), ("p99", "p99")]
        {
            let right = said[format!("{theirs}_{metric}_ms")].as_f64().unwrap();
            let measure: Measure = format!("{metric}_{ours}").parse().unwrap();
            let got = summary.get(measure).unwrap();
            assert!(
                (got / right - 1.0).abs() < tolerance,
                "{file} {measure}: {got} against {right}"
            );
            checked += 1;
        }
    }
    assert_eq!(checked, 4 * only.len());
    for name in ["request_throughput", "output_throughput", "total_token_throughput"] {
        let got = summary.get(name.parse().unwrap()).unwrap();
        let right = said[name].as_f64().unwrap();
        assert!((got / right - 1.0).abs() < 1e-9, "{file} {name}: {got} against {right}");
    }
    assert_eq!(summary.completed, said["completed"].as_u64().unwrap());
    assert_eq!(summary.failed, said["failed"].as_u64().unwrap());
    assert_eq!(summary.input_tokens, said["total_input_tokens"].as_u64().unwrap());
    assert_eq!(summary.output_tokens, said["total_output_tokens"].as_u64().unwrap());
}

#[test]
fn every_number_of_a_detailed_file_comes_from_its_requests() {
    for file in ["completions-c8", "completions-rate4", "chat-c8"] {
        let file = format!("vllm-bench-cpu/{file}.json");
        // To the ns of our clock; a gap to the four digits of the histogram.
        agrees(&file, 1e-6, &["ttft", "tpot", "e2el"]);
        agrees(&file, 2e-4, &["itl"]);
        let imported = read(&[results(&file)]).unwrap();
        let first = &imported.rounds[0].records[0];
        let said = value(&file);
        let worst = said["itls"][0].as_array().unwrap().iter().filter_map(Value::as_f64);
        let worst_ms = worst.fold(0.0, f64::max) * 1e3;
        assert!((first.worst_gap_ms().unwrap() - worst_ms).abs() < 1e-5);
        assert_eq!(first.events as usize, said["itls"][0].as_array().unwrap().len() + 1);
    }
}

#[test]
fn what_single_requests_do_not_tell_is_as_reported() {
    for file in ["A1-512x128-c64", "B1-512x128-c64", "C1-512x128-c64", "A1-4096x128-c16"] {
        let file = format!("h200-vllm/{file}.json");
        // TTFT comes from requests kept to the µs, the rest is the file's own word.
        agrees(&file, 1e-4, &["ttft"]);
        agrees(&file, 1e-12, &["tpot", "itl", "e2el"]);
        let imported = read(&[results(&file)]).unwrap();
        let codes = codes(&imported);
        assert!(codes.contains(&"no_ends") && codes.contains(&"no_gaps"), "{codes:?}");
        let summary = summary(&imported);
        assert_eq!(summary.concurrency_mean, None, "without ends nobody knows");
        assert_eq!(summary.tpot_undefined, 0);
        assert_eq!(summary.distributions[&Metric::Itl].count, 0);
        assert_eq!(summary.distributions[&Metric::WorstGap], Default::default());
    }
}

#[test]
fn lengths_and_load_name_the_load_point() {
    let ids = |files: &[&str]| -> Vec<String> {
        let files: Vec<PathBuf> = files.iter().map(|file| results(file)).collect();
        read(&files).unwrap().run.points.iter().map(|point| point.id.clone()).collect()
    };
    // By lengths, then by load, in whatever order the files are given.
    let h200 = ["A1-4096x128-c16", "A1-512x128-c128", "A1-512x128-c1", "A1-512x128-c64"];
    let h200: Vec<String> = h200.iter().map(|name| format!("h200-vllm/{name}.json")).collect();
    let h200: Vec<&str> = h200.iter().map(String::as_str).collect();
    let right = ["512x128/c1", "512x128/c64", "512x128/c128", "4096x128/c16"];
    assert_eq!(ids(&h200), right.map(|id| format!("import/{id}")));
    // 7 of 100 prompts have 129 tokens.
    assert_eq!(ids(&["vllm-bench-cpu/completions-c8.json"]), ["import/128x32/c8"]);
    assert_eq!(ids(&["vllm-bench-cpu/completions-rate4.json"]), ["import/128x32/r4"]);
    // The same load without its details is the same load point.
    let bare = document(&bare("h200-vllm/B1-512x128-c64.json").to_string()).unwrap();
    assert_eq!(bare.run.points[0].id, "import/512x128/c64");
}

/// A file as `vllm bench serve` writes it without `--save-detailed`.
fn bare(file: &str) -> Value {
    let mut document = value(file);
    document.as_object_mut().unwrap().retain(|_, value| !value.is_array());
    document
}

#[test]
fn figures_alone_still_show() {
    let said = bare("h200-vllm/B1-512x128-c64.json");
    let imported = document(&said.to_string()).unwrap();
    assert!(imported.rounds[0].records.is_empty());
    assert!(codes(&imported).contains(&"no_requests"));
    let summary = summary(&imported);
    for (measure, field) in [
        ("ttft_mean", "mean_ttft_ms"),
        ("ttft_p50", "median_ttft_ms"),
        ("ttft_p99", "p99_ttft_ms"),
        ("ttft_from_sent_p99", "p99_ttft_ms"),
        ("tpot_mean", "mean_tpot_ms"),
        ("itl_p99", "p99_itl_ms"),
        ("e2el_p90", "p90_e2el_ms"),
        ("output_throughput", "output_throughput"),
        ("qps", "request_throughput"),
    ] {
        assert_eq!(summary.get(measure.parse().unwrap()), said[field].as_f64(), "{measure}");
    }
    assert_eq!((summary.completed, summary.failed), (512, 0));
    assert_eq!(summary.error_rate(), Some(0.0));
    assert_eq!(summary.goodput, None);
    assert_eq!(summary.distributions[&Metric::Ttft].max, None, "no number is made up");
}

#[test]
fn several_results_of_one_load_point_are_rounds_of_one_start() {
    let files =
        [results("h200-vllm/A1-512x128-c64.json"), results("h200-vllm/B1-512x128-c64.json")];
    let imported = read(&files).unwrap();
    assert_eq!(imported.run.points.len(), 1);
    assert_eq!(imported.run.starts.len(), 1);
    let rounds: Vec<u32> = imported.rounds.iter().map(|round| round.round.round).collect();
    assert_eq!(rounds, [0, 1]);
    let (pooled, a, b) = (
        summary(&imported),
        value("h200-vllm/A1-512x128-c64.json"),
        value("h200-vllm/B1-512x128-c64.json"),
    );
    assert_eq!(pooled.completed, 1024);
    let mean = (a["mean_tpot_ms"].as_f64().unwrap() + b["mean_tpot_ms"].as_f64().unwrap()) / 2.0;
    assert!((pooled.get(Measure::TPOT_MEAN).unwrap() - mean).abs() < 1e-9, "equal counts");
    let p99 = Measure::of(Metric::Tpot, Statistic::P99);
    assert_eq!(pooled.get(p99), None, "percentiles of parts do not make the whole's");
    assert!(pooled.get(Measure::TTFT_P99).is_some(), "requests do");
    let time_s = a["duration"].as_f64().unwrap() + b["duration"].as_f64().unwrap();
    assert!((pooled.output_throughput.unwrap() / (2.0 * 65_536.0 / time_s) - 1.0).abs() < 1e-9);
}

#[test]
fn all_failed_is_a_run_with_failures_and_nulls() {
    let imported = read(&[results("vllm-bench-cpu/allfail.json")]).unwrap();
    let summary = summary(&imported);
    assert_eq!((summary.completed, summary.failed), (0, 5));
    assert_eq!(summary.error_rate(), Some(1.0));
    assert_eq!(summary.failures, BTreeMap::from([(FailureKind::NotFound, 5)]));
    assert_eq!(imported.rounds[0].records[0].evidence.as_ref().unwrap().message, "Not Found");
    for metric in Metric::DISTRIBUTIONS {
        assert_eq!(summary.distributions[&metric], Default::default(), "{metric}");
    }
    assert_eq!(summary.request_throughput, Some(0.0));
    assert!(
        summary.concurrency_mean.is_none_or(|mean| mean < 0.01),
        "{:?}",
        summary.concurrency_mean
    );
    // Nothing was overloaded: it refused every request.
    assert_eq!(imported.rounds[0].round.status, RoundStatus::Stopped);
    assert_eq!(imported.rounds[0].round.server.name(), "degraded");
    // No limit and no rate: five at once.
    assert_eq!(imported.run.points[0].id, "import/64xmixed/c5");
    assert!(codes(&imported).contains(&"at_once"));
}

#[test]
fn tokens_of_requests_without_lengths_are_those_of_the_whole() {
    let mut said = value("vllm-bench-cpu/completions-c8.json");
    said.as_object_mut()
        .unwrap()
        .retain(|name, value| !value.is_array() || name == "latencies" || name == "queue_times");
    let imported = document(&said.to_string()).unwrap();
    assert!(!imported.rounds[0].records.is_empty());
    let summary = summary(&imported);
    assert_eq!(Some(summary.input_tokens), said["total_input_tokens"].as_u64());
    assert_eq!(Some(summary.output_tokens), said["total_output_tokens"].as_u64());
}

#[test]
fn an_export_of_ours_keeps_the_definitions_of_who_measured() {
    let mut said = value("vllm-bench-cpu/completions-c8.json");
    for (definitions, right) in [
        ("guidellm-1", "guidellm-1"),
        ("sglang-bench-serving-1", "sglang-bench-serving-1"),
        ("vllm-client-1", "vllm-client-1"),
    ] {
        said["inferometer"] = serde_json::json!({"definitions": definitions});
        assert_eq!(document(&said.to_string()).unwrap().run.definitions, right);
    }
}

/// A small detailed file: two completed, one failed.
fn small() -> Value {
    json!({
        "date": "20260102-030405", "endpoint_type": "openai", "model_id": "m", "num_prompts": 3,
        "request_rate": "inf", "max_concurrency": 2, "duration": 2.0, "completed": 2, "failed": 1,
        "total_input_tokens": 20, "total_output_tokens": 6,
        "input_lens": [10, 10, 10], "output_lens": [3, 0, 3], "ttfts": [0.1, 0.0, 0.3],
        "itls": [[0.01, 0.03], [], [0.02, 0.02]], "errors": ["", "Service Unavailable", ""],
        "commit": "abc", "max_num_batched_tokens": "2048", "p99.9_ttft_ms": 300.0, "rtfx": 0.0
    })
}

#[test]
fn a_failed_request_is_a_failure_and_no_latency() {
    let imported = document(&small().to_string()).unwrap();
    let records = &imported.rounds[0].records;
    assert_eq!(records[1].outcome, Outcome::Failed);
    assert_eq!(records[1].failure, Some(FailureKind::Unavailable));
    assert_eq!(records[1].ttft_ms(), None);
    let summary = summary(&imported);
    assert_eq!(summary.get("ttft_mean".parse().unwrap()), Some(200.0));
    // No latencies are kept, but TTFT and gaps add up: 0.14 s and 0.34 s.
    assert_eq!(summary.get("e2el_mean".parse().unwrap()), Some(240.0));
    assert_eq!(summary.get("tpot_mean".parse().unwrap()), Some(20.0));
    assert_eq!((summary.completed, summary.failed), (2, 1));
    // Without a word of the file, its own definition: 6 tokens in 2 s.
    assert_eq!(summary.output_throughput, Some(3.0));
    // No send times: nothing over time, and it is said.
    assert!(codes(&imported).contains(&"no_sends"));
    assert_eq!(Series::of(&input(&imported.rounds[0])), Series::default());
}

#[test]
fn facts_at_the_top_level_are_metadata_and_the_tools_own_are_not() {
    let imported = document(&small().to_string()).unwrap();
    let facts: Vec<(&str, &str)> =
        imported.run.metadata.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(facts, [("commit", "abc"), ("max_num_batched_tokens", "2048")]);
    assert_eq!(imported.run.settings["num_prompts"], "3");
    assert_eq!(imported.run.definitions, "vllm-client-1");
    assert_eq!(imported.run.tool, "vllm bench serve");
    // Written at the end of its two seconds.
    assert_eq!(imported.run.started_at.to_string(), "2026-01-02T03:04:03Z");
}

#[test]
fn appended_results_are_load_points_of_one_run() {
    let mut other = small();
    other["max_concurrency"] = json!(4);
    other["commit"] = json!("def");
    let imported = document(&format!("{}\n{other}\n", small())).unwrap();
    let ids: Vec<&str> = imported.run.points.iter().map(|point| point.id.as_str()).collect();
    assert_eq!(ids, ["import/10x3/c2", "import/10x3/c4"]);
    assert!(codes(&imported).contains(&"mixed_metadata"));
    assert!(!imported.run.metadata.contains_key("commit"));
}

#[test]
fn older_files_say_qps_and_error_rate() {
    let old = json!({
        "model_id": "m", "request_rate": 4.0, "duration": 10.0, "completed": 30,
        "qps": 3.5, "error_rate": 0.25, "mean_ttft_ms": 12.5, "mean_tpot_ms": 0.0
    });
    let imported = document(&old.to_string()).unwrap();
    let summary = summary(&imported);
    assert_eq!(summary.request_throughput, Some(3.5));
    assert_eq!((summary.completed, summary.failed), (30, 10));
    assert_eq!(summary.get("ttft_mean".parse().unwrap()), Some(12.5));
    assert_eq!(summary.get("tpot_mean".parse().unwrap()), None, "0 is vLLM's word for none");
    assert_eq!(summary.output_throughput, None);
    assert!(codes(&imported).contains(&"no_date"));
}

#[test]
fn what_is_wrong_is_named() {
    let with = |field: &str, value: Value| {
        let mut document = small();
        document[field] = value;
        document.to_string()
    };
    let mut lacking = small();
    lacking.as_object_mut().unwrap().retain(|name, _| name != "duration" && name != "model_id");
    let cases = [
        (String::new(), "is empty"),
        ("duration: 3".into(), "it is not JSON"),
        ("[1, 2]".into(), "holds no JSON object"),
        (small().to_string()[..200].into(), "it is not JSON"),
        (lacking.to_string(), "it lacks `model_id`, `duration`"),
        (with("duration", json!(-1)), "`duration` is not a number"),
        (with("duration", json!(0)), "`duration` is not a time"),
        (with("completed", json!("two")), "`completed` is not a whole number"),
        (with("ttfts", json!([0.1])), "`errors` has 3 entries where `ttfts` has 1"),
        (with("itls", json!("none")), "`itls` is not the list"),
        (with("max_concurrency", json!(0)), "`max_concurrency` is not a load"),
        (with("request_rate", json!(0)), "`request_rate` is not a load"),
    ];
    for (text, right) in cases {
        let error = document(&text).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(right), "{message}: lacks {right}");
        assert!(message.contains("some.json"), "{message}: which file?");
        assert_eq!(error.kind(), ErrorKind::Store);
    }
    let missing = read(&[PathBuf::from("no/such/file.json")]).unwrap_err();
    assert!(missing.to_string().contains("no/such/file.json"));
    let two = [results("vllm-bench-cpu/chat-c8.json"), results("h200-vllm/A1-512x128-c1.json")];
    assert!(read(&two).unwrap_err().to_string().contains("differ in their model"));
}
