//! Result files of other benchmark clients: each reader against small real files, and what happens to
//! files that are damaged, foreign, packed or in a folder.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use inferometer::import::{self, Imported, Order};
use inferometer::record::Severity;
use inferometer::summary::{self, RoundInput, Summary};
use serde_json::{Value, json};
use tempfile::TempDir;

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/results").join(name)
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

/// The summary of one load point.
fn at(imported: &Imported, point: &str) -> Summary {
    let rounds = imported.rounds.iter().filter(|round| round.round.point == point);
    let inputs: Vec<RoundInput<'_>> = rounds
        .map(|r| RoundInput { round: &r.round, records: &r.records, itl: &r.itl, icl: &r.icl })
        .collect();
    assert!(!inputs.is_empty(), "no {point} among {:?}", ids(imported));
    summary::summarise(&inputs, None)
}

fn ids(imported: &Imported) -> Vec<&str> {
    imported.run.points.iter().map(|point| point.id.as_str()).collect()
}

/// One figure: `ttft_p50`.
fn figure(summary: &Summary, measure: &str) -> Option<f64> {
    // A rate passes through a sum over rounds: to twelve digits it is the file's own.
    summary.get(measure.parse().unwrap()).map(|value| (value * 1e9).round() / 1e9)
}

/// The texts of the findings with this code.
fn found(imported: &Imported, code: &str) -> Vec<(Severity, String)> {
    let findings = imported.run.findings.iter().filter(|finding| finding.code.name() == code);
    findings.map(|finding| (finding.severity, finding.text.clone())).collect()
}

/// A plain result of vLLM's client at 8 in flight.
fn plain() -> Value {
    json!({
        "date": "20260826-064255", "backend": "openai", "label": "step1", "model_id": "m",
        "tokenizer_id": "m", "num_prompts": 64, "request_rate": "inf", "burstiness": 1.0,
        "max_concurrency": 8, "duration": 2.25, "completed": 64, "failed": 0,
        "total_input_tokens": 32768, "total_output_tokens": 8192, "request_throughput": 28.44,
        "request_goodput": null, "output_throughput": 3640.9, "total_token_throughput": 18204.4,
        "mean_ttft_ms": 47.0, "median_ttft_ms": 44.0, "std_ttft_ms": 10.4, "p99_ttft_ms": 94.9,
        "mean_tpot_ms": 1.81, "median_tpot_ms": 1.91, "std_tpot_ms": 0.34, "p99_tpot_ms": 2.0,
        "mean_itl_ms": 1.86, "median_itl_ms": 1.8, "std_itl_ms": 6.4, "p99_itl_ms": 34.8
    })
}

fn with(changes: Value) -> Value {
    let mut document = plain();
    let fields = document.as_object_mut().unwrap();
    fields.extend(changes.as_object().unwrap().clone());
    document
}

fn write(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    path
}

fn packed(text: &str) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(text.as_bytes()).unwrap();
    packer.finish().unwrap()
}

/// The same result in every dress in which it is found.
#[test]
fn a_result_is_read_whatever_its_dress() {
    let folder = TempDir::new().unwrap();
    let text = plain().to_string();
    let python = text.replace("\"request_rate\":\"inf\"", "\"request_rate\":Infinity");
    assert_ne!(python, text);
    let nan = text.replace("\"std_itl_ms\":6.4", "\"std_itl_ms\":NaN");
    assert_ne!(nan, text);
    let floats = text.replace("\"completed\":64", "\"completed\":64.0");
    for (name, bytes) in [
        ("plain.json", text.clone().into_bytes()),
        ("python.json", python.into_bytes()),
        ("nan.json", nan.into_bytes()),
        ("floats.json", floats.into_bytes()),
        ("bom.json", format!("\u{feff}{text}").into_bytes()),
        ("list.json", format!("[{text}]").into_bytes()),
        ("packed.json.gz", packed(&text)),
    ] {
        let imported = read(&[write(folder.path(), name, bytes)]).unwrap();
        assert_eq!(ids(&imported), ["import/512x128/c8"], "{name}");
        let summary = at(&imported, "import/512x128/c8");
        assert_eq!(figure(&summary, "ttft_p50"), Some(44.0), "{name}");
        assert_eq!(figure(&summary, "output_throughput"), Some(3640.9), "{name}");
        assert_eq!(found(&imported, "contradiction"), [], "{name}");
    }
}

#[test]
fn a_damaged_gzip_file_is_named() {
    let folder = TempDir::new().unwrap();
    let mut bytes = packed(&plain().to_string());
    bytes.truncate(40);
    let error = read(&[write(folder.path(), "cut.json.gz", bytes)]).unwrap_err();
    assert!(error.to_string().contains("cannot unpack"), "{error}");
    assert!(error.to_string().contains("cut.json.gz"), "{error}");
}

#[test]
fn a_folder_gives_its_results_and_a_reason_for_every_other_file() {
    let folder = TempDir::new().unwrap();
    let place = folder.path();
    write(place, "c8.json", plain().to_string());
    write(place, "deeper/c16.json", with(json!({"max_concurrency": 16, "duration": 2.0, "request_throughput": 32.0, "output_throughput": 4096.0, "total_token_throughput": 20480.0, "mean_ttft_ms": 200.0})).to_string());
    let record = json!([{"benchmark": {"name": "vLLM benchmark"}, "model": {"name": "m"},
                         "metric": {"name": "mean_ttft_ms", "benchmark_values": [47.0]}}]);
    write(place, "c8.pytorch.json", record.to_string());
    write(place, "config.json", "{\"architectures\": [\"X\"]}");
    write(place, "cut.json", &plain().to_string()[..80]);
    write(place, "empty.json", "");
    write(place, "plot.png", [0_u8; 8]);
    let imported = read(&[place.to_owned()]).unwrap();
    assert_eq!(ids(&imported), ["import/512x128/c8", "import/512x128/c16"]);
    let passed = found(&imported, "passed_over");
    let about = |name: &str| {
        let of = passed.iter().filter(|(_, text)| text.contains(name)).collect::<Vec<_>>();
        assert_eq!(of.len(), 1, "{name} in {passed:?}");
        (of[0].0, of[0].1.clone())
    };
    for (name, severity, reason) in [
        ("c8.pytorch.json`", Severity::Note, "PyTorch's benchmark database"),
        ("config.json`", Severity::Note, "not a result file of a known client"),
        ("cut.json`", Severity::Warning, "is not JSON"),
        ("empty.json`", Severity::Warning, "is empty"),
        ("plot.png`", Severity::Note, "does not end in"),
    ] {
        let (found, text) = about(name);
        assert_eq!(found, severity, "{text}");
        assert!(text.contains(reason), "{text}");
    }
    // A pattern that no shell expanded, and one that matches nothing.
    let imported = read(&[place.join("c*.json")]).unwrap();
    assert_eq!(ids(&imported), ["import/512x128/c8"]);
    let nothing = read(&[place.join("z*.json")]).unwrap_err();
    assert!(nothing.to_string().contains("no file matches"), "{nothing}");
    // Only foreign files: nothing to import, and it is said what they are.
    let foreign = read(&[place.join("c8.pytorch.json")]).unwrap_err();
    assert!(foreign.to_string().contains("PyTorch's benchmark database"), "{foreign}");
    assert!(foreign.hint().unwrap().contains("vllm bench serve"), "{foreign}");
}

#[test]
fn a_file_that_contradicts_itself_is_invalid() {
    let folder = TempDir::new().unwrap();
    for (changes, right) in [
        (
            json!({"output_throughput": 455.1}),
            "output throughput 455 tok/s differs from 3641 tok/s, which is 8192 output tokens in 2.25 s",
        ),
        (json!({"request_throughput": 30.0}), "differs from 28.4 req/s, which is 64 requests"),
        (json!({"total_token_throughput": 3640.9}), "differs from 18204 tok/s"),
        // 28.44 × (0.047 + 127 × 0.00181) s = 7.9 in flight.
        (json!({"max_concurrency": 4}), "7.87 requests in flight, the stated concurrency is 4"),
        (json!({"mean_e2el_ms": 900.0}), "25.6 requests in flight, the stated concurrency is 8"),
        (json!({"mean_ttft_ms": 4.7, "mean_tpot_ms": 0.181}), "did not keep the concurrency up"),
        (
            json!({"mean_ttft_ms": 900.0, "mean_e2el_ms": 277.0}),
            "mean TTFT of 900 ms contradicts mean E2EL",
        ),
        (
            json!({"mean_tpot_ms": 80.0, "mean_e2el_ms": 277.0}),
            "mean TPOT over the tokens after the first of 10160 ms contradicts mean E2EL",
        ),
        (json!({"num_prompts": 5}), "64 requests completed, 5 were asked for"),
        (json!({"median_ttft_ms": 95.0}), "TTFT p50 of 95.0 ms contradicts its p99 of 94.9 ms"),
    ] {
        let path = write(folder.path(), "one.json", with(changes.clone()).to_string());
        let told = found(&read(&[path]).unwrap(), "contradiction");
        assert!(
            told.iter()
                .any(|(severity, text)| *severity == Severity::Invalid && text.contains(right)),
            "{changes}: {told:?}"
        );
    }
    // Requests that contradict one another, or the whole.
    let detailed: Value = serde_json::from_str(
        &fs::read_to_string(sample("vllm-bench-cpu/completions-c8.json")).unwrap(),
    )
    .unwrap();
    let scaled = |name: &str, factor: f64| {
        let mut file = detailed.clone();
        for entry in file[name].as_array_mut().unwrap() {
            *entry = match entry.as_array() {
                Some(list) => list.iter().map(|v| v.as_f64().unwrap() * factor).collect(),
                None if entry.is_u64() => (entry.as_u64().unwrap() * factor as u64).into(),
                None => (entry.as_f64().unwrap() * factor).into(),
            };
        }
        file
    };
    for (file, right) in [
        (scaled("itls", 100.0), "do not add up to their latency"),
        (scaled("latencies", 0.05), "end before their first token"),
        (scaled("output_lens", 3.0), "tokens, the total is 3200"),
    ] {
        let path = write(folder.path(), "detailed.json", file.to_string());
        let told = found(&read(&[path]).unwrap(), "contradiction");
        assert!(told.iter().any(|(_, text)| text.contains(right)), "{right}: {told:?}");
    }
    // Open loop: throughput × latency may be anything below the cap that was never reached.
    let open = with(json!({"request_rate": 28.0, "max_concurrency": null}));
    let path = write(folder.path(), "open.json", open.to_string());
    assert_eq!(found(&read(&[path]).unwrap(), "contradiction"), []);
}

#[test]
fn real_files_do_not_contradict_themselves() {
    for folder in ["h200-vllm", "vllm-bench-cpu"] {
        for entry in fs::read_dir(sample(folder)).unwrap() {
            let path = entry.unwrap().path();
            let imported = read(std::slice::from_ref(&path)).unwrap();
            assert_eq!(found(&imported, "contradiction"), [], "{}", path.display());
        }
    }
}

#[test]
fn sglang_writes_a_load_point_a_line() {
    let imported = read(&[sample("sglang/two-loads.jsonl")]).unwrap();
    assert_eq!(ids(&imported), ["import/512x128/c8", "import/512x128/c16"]);
    assert_eq!(imported.run.tool, "sglang.bench_serving");
    assert_ne!(imported.run.definitions, "vllm-client-1", "their ITL is another");
    let summary = at(&imported, "import/512x128/c8");
    for (measure, right) in [
        ("e2el_p50", 282.1),
        ("e2el_mean", 277.4),
        ("ttft_p99", 94.9),
        ("tpot_mean", 1.81),
        ("itl_p50", 1.8),
        ("total_token_throughput", 18204.4),
    ] {
        assert_eq!(figure(&summary, measure), Some(right), "{measure}");
    }
    assert_eq!(found(&imported, "no_failures").len(), 1, "the file does not count failures");
    // As the client wrote it, with its requests: E2EL is TTFT and the gaps, 0.05 % less than its own.
    let real = read(&[sample("sglang/details.jsonl")]).unwrap();
    assert_eq!(ids(&real), ["import/32x16/c2", "import/32x16/c4"]);
    let lines = fs::read_to_string(sample("sglang/details.jsonl")).unwrap();
    let said = lines.lines().next().unwrap().replace("Infinity", "\"inf\"");
    let said: Value = serde_json::from_str(&said).unwrap();
    let detailed = at(&real, "import/32x16/c2");
    for (measure, name, within) in [
        ("ttft_p99", "p99_ttft_ms", 1e-6),
        ("tpot_mean", "mean_tpot_ms", 2e-3),
        ("itl_mean", "mean_itl_ms", 1e-3),
        ("e2el_p50", "median_e2e_latency_ms", 1e-3),
    ] {
        near(figure(&detailed, measure), said[name].as_f64().unwrap(), within);
    }
    assert_eq!((detailed.completed, detailed.failed), (12, 0));
    assert_eq!(found(&real, "contradiction"), []);
    // 28.44 × 0.2774 s = 7.9 in flight where 16 were stated: the second line was copied.
    let told = found(&imported, "contradiction");
    assert!(told.is_empty(), "64 requests are too few for 16 slots to tell: {told:?}");
    let vllm = sample("vllm-bench-cpu/completions-c8.json");
    let error = read(&[sample("sglang/two-loads.jsonl"), vllm]).unwrap_err();
    assert!(error.to_string().contains("differ in their client"), "{error}");
}

#[test]
fn guidellm_keeps_several_load_points_in_a_file() {
    let imported = read(&[sample("guidellm/benchmarks.json")]).unwrap();
    assert_eq!(ids(&imported), ["import/64x16/c2", "import/64x16/c4"]);
    assert_eq!(imported.run.tool, "guidellm");
    let report = json_file("guidellm/benchmarks.json");
    for (index, point) in ["import/64x16/c2", "import/64x16/c4"].into_iter().enumerate() {
        let summary = at(&imported, point);
        let metrics = &report["benchmarks"][index]["metrics"];
        let said = |name: &str| metrics[name]["successful"]["mean"].as_f64().unwrap();
        assert_eq!((summary.completed, summary.failed), (8, 0));
        near(figure(&summary, "ttft_mean"), said("time_to_first_token_ms"), 1e-6);
        // Equal answers: the mean over requests is the mean over tokens that it reports.
        near(figure(&summary, "tpot_mean"), said("inter_token_latency_ms"), 1e-6);
        near(figure(&summary, "qps"), said("requests_per_second"), 1e-9);
        near(figure(&summary, "output_throughput"), said("output_tokens_per_second"), 1e-9);
        // Its E2EL runs to the end of the answer, ours to the last token.
        let e2el = figure(&summary, "e2el_mean").unwrap();
        let theirs = said("request_latency") * 1e3;
        assert!(e2el < theirs && e2el > 0.8 * theirs, "{e2el} against {theirs}");
        assert!(summary.concurrency_mean.unwrap() > 0.5, "send times are known");
    }
    // Without requests the figures of the file stand in.
    let mut bare = report;
    for benchmark in bare["benchmarks"].as_array_mut().unwrap() {
        benchmark.as_object_mut().unwrap().remove("requests");
    }
    let folder = TempDir::new().unwrap();
    let imported = read(&[write(folder.path(), "b.json", bare.to_string())]).unwrap();
    let summary = at(&imported, "import/64x16/c4");
    let said = &bare["benchmarks"][1]["metrics"]["request_latency"]["successful"];
    near(figure(&summary, "e2el_p99"), said["percentiles"]["p99"].as_f64().unwrap() * 1e3, 1e-9);
    assert_eq!(found(&imported, "no_requests").len(), 1);
}

#[test]
fn aiperf_joins_figures_and_requests_of_a_folder() {
    let imported = read(&[sample("aiperf")]).unwrap();
    let said = json_file("aiperf/profile_export_aiperf.json");
    assert_eq!(ids(&imported), ["import/64x16/c4"], "as asked, however its tokenizer counts");
    let summary = at(&imported, "import/64x16/c4");
    assert_eq!(summary.completed, 12, "two warm-up requests are left out");
    assert_eq!(found(&imported, "contradiction"), []);
    for (measure, name, statistic) in [
        ("ttft_mean", "time_to_first_token", "avg"),
        ("ttft_p50", "time_to_first_token", "p50"),
        ("ttft_p99", "time_to_first_token", "p99"),
        ("tpot_mean", "inter_token_latency", "avg"),
        ("e2el_p90", "request_latency", "p90"),
    ] {
        near(figure(&summary, measure), said[name][statistic].as_f64().unwrap(), 1e-4);
    }
    assert_eq!(figure(&summary, "itl_p50"), None, "its gaps are between chunks");
    let icl = said["inter_chunk_latency"]["avg"].as_f64().unwrap();
    near(figure(&summary, "icl_mean"), icl, 1e-2);
    // Its folder holds the phases once more; the warm-up is no measurement.
    let folder = TempDir::new().unwrap();
    let figures = fs::read_to_string(sample("aiperf/profile_export_aiperf.json")).unwrap();
    for place in ["", "phases/profiling/", "phases/warmup/"] {
        write(folder.path(), &format!("{place}profile_export_aiperf.json"), &figures);
    }
    let imported = read(&[folder.path().to_owned()]).unwrap();
    assert_eq!(imported.rounds.len(), 1);
    let passed = format!("{:?}", found(&imported, "passed_over"));
    assert!(passed.contains("of the warm-up") && passed.contains("repeats the result"), "{passed}");
    // The figures alone give the percentiles that the client reports.
    let bare = read(&[sample("aiperf/profile_export_aiperf.json")]).unwrap();
    let summary = at(&bare, "import/64x16/c4");
    assert_eq!(figure(&summary, "e2el_p90"), said["request_latency"]["p90"].as_f64());
    assert!(found(&bare, "no_requests")[0].1.contains("no times of single requests"));
    // The requests alone name no load.
    let error = read(&[sample("aiperf/profile_export.jsonl")]).unwrap_err();
    assert!(error.to_string().contains("without their load"), "{error}");
}

#[test]
fn inference_perf_gives_each_stage_its_requests() {
    let imported = read(&[sample("inference-perf")]).unwrap();
    let mut points = ids(&imported);
    // Its tokenizer counts other lengths in each stage, so the names differ in them too.
    points.sort_by_key(|id| id.ends_with("/r16"));
    assert!(points[0].ends_with("/r8") && points[1].ends_with("/r16"), "{points:?}");
    let passed = found(&imported, "passed_over");
    assert_eq!(passed.len(), 1, "{passed:?}");
    assert!(passed[0].1.contains("summary_lifecycle_metrics.json`: it sums up all stages"));
    for (stage, point) in ["stage_0", "stage_1"].iter().zip(points) {
        let said = json_file(&format!("inference-perf/{stage}_lifecycle_metrics.json"));
        let latency = &said["successes"]["latency"];
        let summary = at(&imported, point);
        assert_eq!(Some(summary.completed), said["successes"]["count"].as_u64());
        let ms = |name: &str, statistic: &str| latency[name][statistic].as_f64().unwrap() * 1e3;
        near(figure(&summary, "ttft_p99"), ms("time_to_first_token", "p99"), 1e-6);
        near(figure(&summary, "tpot_mean"), ms("time_per_output_token", "mean"), 1e-4);
    }
    // The sum of all stages alone names no load.
    let error = read(&[sample("inference-perf/summary_lifecycle_metrics.json")]).unwrap_err();
    assert!(error.to_string().contains("names no load"), "{error}");
    // Requests of another run are not taken for those of these stages.
    let folder = TempDir::new().unwrap();
    let name = "stage_0_lifecycle_metrics.json";
    fs::copy(sample("inference-perf").join(name), folder.path().join(name)).unwrap();
    let requests = "per_request_lifecycle_metrics.json";
    fs::copy(sample("inference-perf").join(requests), folder.path().join(requests)).unwrap();
    let imported = read(&[folder.path().to_owned()]).unwrap();
    assert!(found(&imported, "passed_over")[0].1.contains("as many requests as the stages"));
    assert!(imported.rounds[0].records.is_empty());
}

#[test]
fn llm_d_reports_carry_figures_of_any_client() {
    let vllm = read(&[sample("llm-d/vllm.json")]).unwrap();
    assert_eq!(ids(&vllm), ["import/512x128/c64"]);
    let summary = at(&vllm, "import/512x128/c64");
    let native = read(&[sample("h200-vllm/B1-512x128-c64.json")]).unwrap();
    let native = at(&native, "import/512x128/c64");
    for measure in ["tpot_mean", "tpot_p99", "itl_p50", "itl_p99", "e2el_mean", "output_throughput"]
    {
        near(figure(&summary, measure), figure(&native, measure).unwrap(), 1e-9);
    }
    // What guidellm calls ITL is a mean of each request.
    let imported = read(&[sample("llm-d/guidellm.json")]).unwrap();
    let summary = at(&imported, ids(&imported)[0]);
    let place = "/benchmarks/1/metrics/inter_token_latency_ms/successful/mean";
    let said = json_file("guidellm/benchmarks.json").pointer(place).unwrap().as_f64().unwrap();
    near(figure(&summary, "tpot_mean"), said, 1e-9);
    assert_eq!(figure(&summary, "itl_mean"), None);
    assert_eq!(found(&imported, "llm_d").len(), 1);
    // The converter of llm-d finds no load in a file of aiperf 0.13.
    let error = read(&[sample("llm-d/aiperf.json")]).unwrap_err();
    assert!(error.to_string().contains("the load is not known"), "{error}");
    let rate = read(&[sample("llm-d/inference-perf.json")]).unwrap();
    assert!(ids(&rate)[0].ends_with("/r16"), "{:?}", ids(&rate));
    // A report beside the file that it was made of is not counted twice.
    let both = [sample("llm-d/vllm.json"), sample("h200-vllm/B1-512x128-c64.json")];
    let imported = read(&both).unwrap();
    assert_eq!(imported.rounds.len(), 1);
    assert!(found(&imported, "passed_over")[0].1.contains("sums up results that are read"));
}

fn json_file(name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(sample(name)).unwrap()).unwrap()
}

fn near(got: Option<f64>, right: f64, within: f64) {
    let got = got.unwrap();
    assert!((got / right - 1.0).abs() <= within, "{got} against {right}");
}
