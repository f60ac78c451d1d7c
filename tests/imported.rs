//! Imported results as sides of a comparison: starts that the user distinguishes, and what files lack.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Where a start's value lies around its configuration's: 1 % to either side.
const WOBBLE: [f64; 6] = [0.994, 1.006, 1.0, 0.998, 1.004, 0.99];

/// The result of one start, all its latencies times `factor`, written on `day` of a month.
fn result(folder: &Path, name: &str, day: usize, factor: f64) -> PathBuf {
    let ms = |value: f64| json!(value * factor);
    let document = json!({
        "date": format!("202601{day:02}-030405"), "endpoint_type": "openai", "model_id": "m",
        "num_prompts": 512, "request_rate": "inf", "max_concurrency": 16,
        "duration": 46.2 * factor, "completed": 512, "failed": 0,
        "total_input_tokens": 262_144, "total_output_tokens": 65_536,
        "request_throughput": 11.1 / factor, "output_throughput": 1418.5 / factor,
        "mean_ttft_ms": ms(90.0), "median_ttft_ms": ms(85.0), "p99_ttft_ms": ms(190.0),
        "mean_tpot_ms": ms(8.0), "median_tpot_ms": ms(8.0), "p99_tpot_ms": ms(9.0),
        "mean_itl_ms": ms(8.0), "median_itl_ms": ms(7.9), "p99_itl_ms": ms(20.0)
    });
    let path = folder.join(format!("{name}.json"));
    fs::write(&path, document.to_string()).unwrap();
    path
}

/// Imports six starts of three days under `name`; the latencies are times `factor`.
fn six_starts(folder: &Path, name: &str, factor: f64) {
    for (index, wobble) in WOBBLE.iter().enumerate() {
        let file = result(folder, &format!("{name}{index}"), 1 + index / 2, factor * wobble);
        let told = further(folder, &file, name);
        let starts = format!("baseline {name} now holds {} starts", index + 1);
        assert!(index == 0 || told.contains(&starts), "{told}");
    }
}

fn further(folder: &Path, file: &Path, name: &str) -> String {
    text(&inferometer(folder, &["import", file.to_str().unwrap(), "--as", name, "--append"]))
}

/// The exit code of a comparison, and its document.
fn compared(folder: &Path, base: &str, new: &str) -> (Option<i32>, Value) {
    let output = inferometer(folder, &["compare", base, new, "--format", "json"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let document = serde_json::from_slice(&output.stdout);
    (output.status.code(), document.unwrap_or_else(|_| panic!("{said}")))
}

fn cell<'a>(document: &'a Value, new: &str, measure: &str) -> &'a Value {
    let cells = document["groups"][0]["load_points"][0]["comparison"][new].as_array().unwrap();
    cells.iter().find(|cell| cell["measure"] == measure).unwrap()
}

#[test]
fn starts_that_the_user_tells_apart_carry_a_verdict() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    six_starts(folder, "base", 1.0);
    six_starts(folder, "same", 1.001);
    six_starts(folder, "slow", 1.1);
    let (code, same) = compared(folder, "base", "same");
    assert_eq!(code, Some(0), "{}", same["gate"]);
    let (code, slow) = compared(folder, "base", "slow");
    assert_eq!(code, Some(1), "{}", slow["gate"]);
    let comparison = &slow["verdict"]["comparisons"][0];
    // Six starts of three nights are three values.
    assert_eq!((&comparison["mode"], &comparison["blocks"]), (&json!("history"), &json!(3)));
    let tpot = cell(&slow, "slow", "tpot_mean");
    assert_eq!(tpot["verdict"], "regressed");
    assert!((tpot["change"].as_f64().unwrap() - 0.1).abs() < 1e-9, "{tpot}");
    let findings = slow["findings"].to_string();
    assert!(findings.contains("the user's word") && !findings.contains("one start carries"));
}

#[test]
fn starts_of_one_day_are_advice() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    for (index, wobble) in WOBBLE.iter().enumerate() {
        for (name, factor) in [("base", 1.0), ("slow", 1.1)] {
            let file = result(folder, &format!("{name}{index}"), 1, factor * wobble);
            further(folder, &file, name);
        }
    }
    let (code, document) = compared(folder, "base", "slow");
    assert_eq!(code, Some(0));
    let advice = document["verdict"]["comparisons"][0]["advice"].as_str().unwrap();
    assert!(advice.contains("the baseline is from one day"), "{advice}");
}

#[test]
fn what_the_files_tell_must_not_speak_against_a_further_start() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let file = result(folder, "one", 1, 1.0);
    further(folder, &file, "A");
    let mut other: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    other["model_id"] = json!("another");
    other["duration"] = json!(50.0);
    let another = folder.join("another.json");
    fs::write(&another, other.to_string()).unwrap();
    for (path, right) in [(&file, "holds this result"), (&another, "differ in their model")] {
        let path = path.to_str().unwrap();
        let refused = inferometer(folder, &["import", path, "--as", "A", "--append"]);
        assert_eq!(refused.status.code(), Some(2));
        let words = String::from_utf8(refused.stderr).unwrap();
        assert!(words.contains(right) && words.contains("hint:"), "{words}");
    }
    let baselines = text(&inferometer(folder, &["baselines"]));
    assert_eq!(baselines.matches("-A").count(), 1, "nothing was added: {baselines}");
    // Without the word the name stands for the last import alone.
    let next = result(folder, "next", 2, 1.01);
    let told = text(&inferometer(folder, &["import", next.to_str().unwrap(), "--as", "A"]));
    assert!(told.contains("now points at run"), "{told}");
    let next = result(folder, "third", 3, 1.02);
    let fact = ["--append", "--metadata", "commit=def"];
    let import = ["import", next.to_str().unwrap(), "--as", "A"];
    assert!(text(&inferometer(folder, &[&import[..], &fact[..]].concat())).contains("2 starts"));
}

#[test]
fn a_number_that_one_import_lacks_is_inconclusive_and_says_so() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let mut lacking = bare("h200-vllm/B1-512x128-c64.json");
    lacking.as_object_mut().unwrap().retain(|name, _| !name.ends_with("_itl_ms"));
    let lacking_path = folder.join("lacking.json");
    fs::write(&lacking_path, lacking.to_string()).unwrap();
    let whole = "tests/results/h200-vllm/A1-512x128-c64.json";
    text(&inferometer(folder, &["import", whole, "--as", "A"]));
    text(&inferometer(folder, &["import", lacking_path.to_str().unwrap(), "--as", "B"]));
    for (base, new, why) in
        [("A", "B", "the new side has no values"), ("B", "A", "the base has no values")]
    {
        let (code, document) = compared(folder, base, new);
        assert_eq!(code, Some(0));
        let itl = cell(&document, new, "itl_p50");
        assert_eq!((&itl["verdict"], &itl["gated"]), (&json!("inconclusive"), &json!(true)));
        assert_eq!(itl["reason"], why);
        assert_eq!(itl["blocks_needed"], Value::Null, "no restart brings what was not kept");
        assert_eq!(document["verdict"]["outcome"], "inconclusive");
        let page = fs::read_to_string(folder.join("report/index.html")).unwrap();
        assert!(page.contains(why) && !page.contains("invalid</span>"), "said on the page");
    }
}

#[test]
fn what_the_files_do_not_hold_is_neither_drawn_nor_guessed() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    for name in ["A", "B", "C"] {
        let file = format!("tests/results/h200-vllm/{name}1-512x128-c64.json");
        text(&inferometer(folder, &["import", &file, "--as", name]));
    }
    let terminal = text(&inferometer(folder, &["compare", "A", "B", "C"]));
    assert_eq!(terminal.matches("Sharper:").count(), 1, "{terminal}");
    let json = fs::read_to_string(folder.join("report/report.json")).unwrap();
    let document: Value = serde_json::from_str(&json).unwrap();
    // How far restarts may differ is assumed, whatever the file holds of single requests.
    assert_ne!(cell(&document, "C", "itl_p50")["interval"], Value::Null);
    assert_ne!(cell(&document, "C", "ttft_p50")["interval"], Value::Null);
    let page = fs::read_to_string(folder.join("report/import/512x128-c64.html")).unwrap();
    // Sends and first tokens are known, ends are not.
    assert!(page.contains("TTFT per request"));
    for guessed in ["In flight", "Requests per second", "Slowest requests", "– got"] {
        assert!(!page.contains(guessed), "{guessed}");
    }
    // Two comparisons in one table: each row says of which it is.
    for side in ["B", "C"] {
        assert!(page.contains(&format!("TTFT p50</span> <span class=\"muted\">{side}</span>")));
    }
    let index = fs::read_to_string(folder.join("report/index.html")).unwrap();
    assert!(index.contains("<title>B, C against A · inferometer</title>"));
    assert!(index.contains("No verdict. The largest differences:"), "{index}");
    assert!(index.contains("of 3 sides, none"));
}

fn value(file: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/results").join(file);
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// A file as `vllm bench serve` writes it without `--save-detailed`.
fn bare(file: &str) -> Value {
    let mut document = value(file);
    document.as_object_mut().unwrap().retain(|_, value| !value.is_array());
    document
}

pub(crate) fn inferometer(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_inferometer"))
        .args(arguments)
        .env("INFEROMETER_OUTPUT_DIR", folder)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap()
}

pub(crate) fn text(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The cells of the row of a Markdown table that begins with these.
fn row(markdown: &str, begin: &str) -> Vec<String> {
    let line = markdown
        .lines()
        .find(|line| line.starts_with(begin))
        .unwrap_or_else(|| panic!("no {begin} in\n{markdown}"));
    line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
}

#[test]
fn three_configurations_make_the_engineers_table() {
    let folder = TempDir::new().unwrap();
    for (name, tokens) in [("A", 8192), ("B", 2048), ("C", 8192)] {
        let file = format!("tests/results/h200-vllm/{name}1-512x128-c64.json");
        let fact = format!("max_num_batched_tokens={tokens}");
        let told = text(&inferometer(
            folder.path(),
            &["import", &file, "--as", name, "--metadata", &fact],
        ));
        assert!(told.contains("load point import/512x128/c64\n"), "{told}");
        assert!(told.contains("run in lockstep"), "{told}");
    }
    let markdown =
        text(&inferometer(folder.path(), &["compare", "A", "B", "C", "--format", "markdown"]));
    let head = row(&markdown, "| configuration");
    assert_eq!(head[1], "max_num_batched_tokens");
    assert_eq!(head[2], "concurrency");
    // The files' own numbers, to three digits or the unit.
    assert_eq!(row(&markdown, "| A |")[1..], ["8192", "64", "390", "839", "8.29", "10.6", "5613"]);
    assert_eq!(row(&markdown, "| B |")[1..], ["2048", "64", "354", "831", "8.48", "10.5", "5695"]);
    assert_eq!(row(&markdown, "| C |")[1..], ["8192", "64", "494", "803", "7.62", "10.6", "5587"]);
    // One start a side: nothing is claimed.
    assert!(markdown.contains("one start against one start"), "{markdown}");
    assert!(!markdown.contains("regressed") && !markdown.contains("improved"), "{markdown}");
    let same = text(&inferometer(
        folder.path(),
        &["compare", "A", "B", "C", "--output-format", "markdown"],
    ));
    assert_eq!(same, markdown);
}

#[test]
fn a_published_table_comes_back_as_it_was_written() {
    let folder = TempDir::new().unwrap();
    let published = [
        ("A", "8192", [420.0, 2100.0, 22.0, 180.0, 1420.0], ["420", "2100", "22.0", "180", "1420"]),
        ("B", "2048", [260.0, 780.0, 16.0, 38.0, 1510.0], ["260", "780", "16.0", "38.0", "1510"]),
        ("C", "8192", [190.0, 620.0, 19.0, 72.0, 1680.0], ["190", "620", "19.0", "72.0", "1680"]),
    ];
    for (name, tokens, n, _) in published {
        let file = folder.path().join(format!("{name}.json"));
        let result = json!({
            "date": "20260102-030405", "endpoint_type": "openai", "model_id": "m",
            "num_prompts": 512, "request_rate": "inf", "max_concurrency": 64, "duration": 46.2,
            "completed": 512, "total_input_tokens": 262_144, "total_output_tokens": 65_536,
            "output_throughput": n[4], "mean_ttft_ms": n[0], "p99_ttft_ms": n[1],
            "mean_tpot_ms": n[2], "p99_tpot_ms": n[3]
        });
        fs::write(&file, result.to_string()).unwrap();
        let fact = format!("max_num_batched_tokens={tokens}");
        let file = file.to_str().unwrap();
        text(&inferometer(folder.path(), &["import", file, "--as", name, "--metadata", &fact]));
    }
    // TTFT more than halves, which is a gate's business, not this table's.
    let compare = ["compare", "A", "B", "C", "--format", "markdown", "--accept-gain"];
    let markdown = text(&inferometer(folder.path(), &compare));
    for (name, tokens, _, shown) in published {
        let cells = row(&markdown, &format!("| {name} |"));
        assert_eq!(cells[1..3], [tokens, "64"]);
        assert_eq!(cells[3..], shown);
    }
}

#[test]
fn an_imported_run_is_stored_like_any_other() {
    let folder = TempDir::new().unwrap();
    let file = "tests/results/vllm-bench-cpu/completions-c8.json";
    text(&inferometer(folder.path(), &["import", file, "--as", "old"]));
    text(&inferometer(folder.path(), &["import", file, "--as", "old-too"]));
    let json =
        text(&inferometer(folder.path(), &["compare", "old", "old-too", "--format", "json"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    let metrics = &json["groups"][0]["load_points"][0]["metrics"];
    let said = value("vllm-bench-cpu/completions-c8.json");
    let got = metrics["ttft_ms"]["mean"].as_f64().unwrap();
    assert!((got / said["mean_ttft_ms"].as_f64().unwrap() - 1.0).abs() < 1e-6, "{metrics}");
    let runs = text(&inferometer(folder.path(), &["runs"]));
    assert_eq!(runs.lines().filter(|line| line.contains("complete, 1 load point")).count(), 2);
    // The store's own schema holds for it too.
    let schema = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema/run.schema.json"),
    );
    let schema: Value = serde_json::from_str(&schema.unwrap()).unwrap();
    for run in fs::read_dir(folder.path().join("runs")).unwrap() {
        let text = fs::read_to_string(run.unwrap().path().join("run.json")).unwrap();
        crate::json_schema::check(&schema, &serde_json::from_str(&text).unwrap()).unwrap();
    }
    let failed = inferometer(folder.path(), &["import", "Cargo.toml", "--as", "x"]);
    assert_eq!(failed.status.code(), Some(2));
    let words = String::from_utf8(failed.stderr).unwrap();
    assert!(words.contains("`Cargo.toml` is not a result file"), "{words}");
    let bad = inferometer(folder.path(), &["import", file, "--as", "x", "--metadata", "tokens"]);
    assert_eq!(bad.status.code(), Some(2));
}

#[test]
fn compare_takes_result_files_as_they_are() {
    let folder = TempDir::new().unwrap();
    let file = |name: &str| format!("tests/results/h200-vllm/{name}-512x128-c64.json");
    let (a, b) = (file("A1"), file("B1"));
    let markdown = text(&inferometer(folder.path(), &["compare", &a, &b, "--format", "markdown"]));
    assert!(row(&markdown, "| A1-512x128-c64.json |").contains(&"839".to_owned()));
    assert!(row(&markdown, "| B1-512x128-c64.json |").contains(&"831".to_owned()));
    // The same file name in two folders: the folders distinguish them.
    for (place, from) in [("old", &a), ("new", &b)] {
        fs::create_dir(folder.path().join(place)).unwrap();
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(from);
        fs::copy(from, folder.path().join(place).join("result.json")).unwrap();
    }
    let path = |place: &str| folder.path().join(place).join("result.json").display().to_string();
    let sides = [path("old"), path("new")];
    let compare = ["compare", &sides[0], &sides[1], "--format", "json"];
    let json: Value = serde_json::from_str(&text(&inferometer(folder.path(), &compare))).unwrap();
    let point = json["groups"][0]["load_points"][0].to_string();
    assert!(point.contains("5612") && point.contains("5695"), "both sides: {point}");
    let unknown = inferometer(folder.path(), &["compare", "neither", "nor"]);
    assert_eq!(unknown.status.code(), Some(2));
}
