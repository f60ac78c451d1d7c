//! Exports: what other tools read is what was measured, in their units and names.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

use crate::imported::{inferometer, text};

/// Files that stand for three starts of one server.
const STARTS: [&str; 3] = ["A1", "B1", "C1"];

/// One load point of three starts, under the name `B`.
fn three_starts(folder: &Path) {
    for start in STARTS {
        let path = format!("tests/results/h200-vllm/{start}-512x128-c64.json");
        text(&inferometer(folder, &["import", &path, "--as", "B", "--append"]));
    }
}

fn export(folder: &Path, arguments: &[&str]) -> String {
    text(&inferometer(folder, &[&["export"], arguments].concat()))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn read(path: &Path) -> Value {
    json(&fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// What the files say of the three starts.
fn said(field: &str) -> Vec<f64> {
    STARTS
        .iter()
        .map(|start| {
            let file = format!("tests/results/h200-vllm/{start}-512x128-c64.json");
            read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(file))[field].as_f64().unwrap()
        })
        .collect()
}

fn near(got: f64, right: f64, within: f64) {
    assert!((got / right - 1.0).abs() <= within, "{got} against {right}");
}

#[test]
fn bencher_gets_values_with_their_bounds() {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Metric {
        value: f64,
        lower_value: Option<f64>,
        upper_value: Option<f64>,
    }
    let folder = TempDir::new().unwrap();
    three_starts(folder.path());
    let text = export(folder.path(), &["B", "--format", "bencher"]);
    let report: BTreeMap<String, BTreeMap<String, Metric>> = serde_json::from_str(&text).unwrap();
    let point = &report["import/512x128/c64"];
    let tpot = &point["tpot_mean_ms"];
    let starts = said("mean_tpot_ms");
    near(tpot.value, starts.iter().sum::<f64>() / 3.0, 1e-9);
    let (low, high) = (tpot.lower_value.unwrap(), tpot.upper_value.unwrap());
    assert!(low < tpot.value && tpot.value < high, "{low} {} {high}", tpot.value);
    assert_eq!(point["error_rate_share"].value, 0.0);
    let tokens = 3.0 * 65_536.0 / said("duration").iter().sum::<f64>();
    near(point["output_throughput_tok_per_s"].value, tokens, 1e-9);
}

#[test]
fn vllm_gets_a_file_for_each_load_point_and_it_is_read_back() {
    let folder = TempDir::new().unwrap();
    three_starts(folder.path());
    let out = folder.path().join("out");
    let told = export(folder.path(), &["B", "--format", "vllm", "-o", out.to_str().unwrap()]);
    assert!(told.starts_with("wrote 1 file to "), "{told}");
    let file = read(&out.join("import-512x128-c64.json"));
    assert_eq!((&file["request_rate"], &file["max_concurrency"]), (&json("\"inf\""), &json("64")));
    let starts = said("mean_tpot_ms");
    near(file["mean_tpot_ms"].as_f64().unwrap(), starts.iter().sum::<f64>() / 3.0, 1e-9);
    let requests = file["completed"].as_f64().unwrap();
    near(requests, said("completed").iter().sum(), 1e-9);
    text(&inferometer(folder.path(), &["import", out.to_str().unwrap(), "--as", "again"]));
    let text = export(folder.path(), &["again", "--format", "bencher"]);
    let again = &json(&text)["import/512x128/c64"]["tpot_mean_ms"]["value"];
    near(again.as_f64().unwrap(), file["mean_tpot_ms"].as_f64().unwrap(), 1e-9);
}

#[test]
fn github_action_benchmark_gets_a_file_for_each_direction() {
    let folder = TempDir::new().unwrap();
    three_starts(folder.path());
    let out = folder.path().join("bench");
    let told =
        export(folder.path(), &["B", "--format", "github-action", "-o", out.to_str().unwrap()]);
    assert!(told.starts_with("wrote 2 files to "), "{told}");
    for (file, has, lacks) in
        [("smaller.json", "TTFT", "throughput"), ("bigger.json", "throughput", "TTFT")]
    {
        let entries = read(&out.join(file));
        let entries = entries.as_array().unwrap();
        let named = |part: &str| entries.iter().any(|e| e["name"].as_str().unwrap().contains(part));
        assert!(named(has) || named("QPS"), "{file}: {entries:?}");
        assert!(!named(lacks), "{file}");
        for entry in entries {
            assert!(entry["value"].is_number() && entry["unit"].is_string(), "{entry}");
        }
    }
}

/// The structures of critcmp 0.1.8.
mod critcmp {
    use super::Deserialize;

    #[derive(Deserialize)]
    pub(super) struct Benchmark {
        pub(super) full_id: String,
        #[serde(rename = "group_id")]
        pub(super) _group_id: String,
        #[serde(rename = "directory_name")]
        pub(super) _directory_name: String,
        pub(super) throughput: Option<Throughput>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    pub(super) struct Throughput {
        pub(super) elements: Option<u64>,
    }

    #[derive(Deserialize)]
    pub(super) struct Estimates {
        pub(super) mean: Stats,
        #[serde(rename = "median")]
        pub(super) _median: Stats,
        #[serde(rename = "median_abs_dev")]
        pub(super) _median_abs_dev: Stats,
        pub(super) std_dev: Stats,
    }

    #[derive(Deserialize)]
    pub(super) struct Stats {
        pub(super) confidence_interval: Interval,
        pub(super) point_estimate: f64,
        pub(super) standard_error: f64,
    }

    #[derive(Deserialize)]
    pub(super) struct Interval {
        pub(super) lower_bound: f64,
        pub(super) upper_bound: f64,
    }
}

#[test]
fn critcmp_finds_its_files_and_times_in_ns() {
    let folder = TempDir::new().unwrap();
    three_starts(folder.path());
    let out = folder.path().join("tree");
    export(folder.path(), &["B", "--format", "criterion", "-o", out.to_str().unwrap()]);
    let place = |measure: &str| out.join("criterion/import-512x128-c64").join(measure).join("B");
    let benchmark = |measure: &str| -> critcmp::Benchmark {
        serde_json::from_value(read(&place(measure).join("benchmark.json"))).unwrap()
    };
    let estimates = |measure: &str| -> critcmp::Estimates {
        serde_json::from_value(read(&place(measure).join("estimates.json"))).unwrap()
    };
    assert_eq!(benchmark("tpot_mean").full_id, "import/512x128/c64/tpot_mean");
    assert!(benchmark("tpot_mean").throughput.is_none());
    let tpot = estimates("tpot_mean");
    let starts = said("mean_tpot_ms");
    let mean = starts.iter().sum::<f64>() / 3.0;
    near(tpot.mean.point_estimate, mean * 1e6, 1e-9);
    let sd = (starts.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 2.0).sqrt();
    near(tpot.std_dev.point_estimate, sd * 1e6, 1e-6);
    near(tpot.mean.standard_error, sd * 1e6 / 3.0_f64.sqrt(), 1e-6);
    // t of 97.5 % at two degrees of freedom is 4.3027.
    let interval = tpot.mean.confidence_interval;
    near(
        (interval.upper_bound - interval.lower_bound) / 2.0,
        4.3027 * sd * 1e6 / 3.0_f64.sqrt(),
        1e-4,
    );
    // A throughput is the time of one token: critcmp shows elements / time.
    assert_eq!(benchmark("output_throughput").throughput.unwrap().elements, Some(1));
    let per_token_ns = estimates("output_throughput").mean.point_estimate;
    let rates = said("output_throughput");
    near(per_token_ns, rates.iter().map(|rate| 1e9 / rate).sum::<f64>() / 3.0, 1e-9);
}

#[test]
fn what_sglang_and_llm_d_get_comes_back_by_import() {
    let folder = TempDir::new().unwrap();
    three_starts(folder.path());
    let out = folder.path().join("out");
    let sglang = out.join("r.jsonl");
    export(folder.path(), &["B", "--format", "sglang", "--output", sglang.to_str().unwrap()]);
    export(folder.path(), &["B", "--format", "llm-d", "-o", out.to_str().unwrap()]);
    let report = out.join("benchmark_report-import-512x128-c64.json");
    assert_eq!(read(&report)["version"], "0.2.1");
    let bencher = |name: &str| json(&export(folder.path(), &[name, "--format", "bencher"]));
    let original = bencher("B")["import/512x128/c64"].clone();
    for (name, file) in [("S", &sglang), ("L", &report)] {
        let told =
            text(&inferometer(folder.path(), &["import", file.to_str().unwrap(), "--as", name]));
        assert!(!told.contains("differs from"), "{told}");
        let back = bencher(name)["import/512x128/c64"].clone();
        for measure in [
            "ttft_mean_ms",
            "ttft_p99_ms",
            "tpot_mean_ms",
            "e2el_mean_ms",
            "request_throughput_per_s",
            "output_throughput_tok_per_s",
            "total_token_throughput_tok_per_s",
        ] {
            let value = |of: &Value| of[measure]["value"].as_f64();
            let (got, right) = (value(&back), value(&original));
            near(got.unwrap_or_else(|| panic!("{name} {measure}")), right.unwrap(), 1e-9);
        }
    }
}

#[test]
fn openmetrics_is_well_formed() {
    let folder = TempDir::new().unwrap();
    three_starts(folder.path());
    let text = export(folder.path(), &["B", "--format", "openmetrics"]);
    assert!(text.ends_with("# EOF\n"), "{text}");
    let mut family = String::new();
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            family = rest.split(' ').next().unwrap().to_owned();
            assert!(rest.ends_with(" gauge"), "{line}");
        } else if let Some(rest) = line.strip_prefix("# UNIT ") {
            let (name, unit) = rest.split_once(' ').unwrap();
            assert!(name == family && name.ends_with(&format!("_{unit}")), "{line}");
        } else if line.starts_with("# HELP ") {
            assert!(line.contains(&family), "{line}");
        } else {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with(&format!("{family}{{")) && name.ends_with('}'), "{line}");
            assert!(value.parse::<f64>().unwrap().is_finite(), "{line}");
        }
    }
    let ttft = "inferometer_ttft_seconds{side=\"B\",model=\"";
    let line =
        text.lines().find(|l| l.starts_with(ttft) && l.contains("statistic=\"mean\"")).unwrap();
    let value: f64 = line.rsplit_once(' ').unwrap().1.parse().unwrap();
    near(value, said("mean_ttft_ms").iter().sum::<f64>() / 3.0 / 1e3, 1e-4);
}

#[test]
fn csv_is_the_table_of_the_report() {
    let folder = TempDir::new().unwrap();
    three_starts(folder.path());
    let text = export(folder.path(), &["B", "--format", "csv"]);
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("side,group,scenario,load,phase,block,start,metric,statistic,unit,value,count")
    );
    let tpot: Vec<&str> = lines.filter(|line| line.contains(",tpot,mean,ms,")).collect();
    assert_eq!(tpot.len(), 4, "all starts pooled, then each: {tpot:?}");
}

#[test]
fn what_cannot_be_exported_is_refused_with_its_remedy() {
    let folder = TempDir::new().unwrap();
    let refused = |arguments: &[&str], right: &str| {
        let output = inferometer(folder.path(), &[&["export"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let words = String::from_utf8(output.stderr).unwrap();
        assert!(words.contains(right) && words.contains("hint:"), "{words}");
    };
    refused(&["--format", "csv"], "no run is stored yet");
    three_starts(folder.path());
    refused(&["nobody", "--format", "csv"], "nobody");
    refused(&["B", "--format", "bencher", "--side", "base"], "has no side `base`");
    refused(&["B", "--format", "llm-d", "-o", "-"], "several files");
}
