//! `bench-serve`: a shell loop, a script and a reader written for vLLM's client work unchanged.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::{Place, Said, simulator, within_limit};

/// The loop of the guides, lengths scaled down.
const LOOP: &str = r#"
for CONC in 1 4 16; do
  "$BENCH" bench-serve \
    --backend openai \
    --model sim \
    --port $PORT \
    --dataset-name random \
    --random-input-len 64 --random-output-len 16 \
    --max-concurrency $CONC \
    --num-prompts $((CONC * 4)) \
    --num-warmups 2 \
    --percentile-metrics ttft,tpot,itl,e2el \
    --metric-percentiles 50,99 \
    --save-result --result-dir results --result-filename "c$CONC.json" \
    || exit 1
done
"#;

fn port(url: &str) -> String {
    url.rsplit(':').next().unwrap().to_owned()
}

fn result(place: &Place, name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(place.path().join(name)).unwrap()).unwrap()
}

/// The fields that a plotting script reads.
fn plotted(result: &Value) -> [f64; 4] {
    ["completed", "request_throughput", "median_ttft_ms", "median_tpot_ms"]
        .map(|field| result[field].as_f64().unwrap_or_else(|| panic!("{field}: {result}")))
}

#[test]
fn the_loop_of_a_guide_runs_and_its_plot_is_drawn() {
    let server = simulator(|_| {});
    let place = Place::new();
    let mut command = Command::new("sh");
    command.args(["-c", LOOP]).current_dir(place.path());
    command.env("BENCH", env!("CARGO_BIN_EXE_inferometer")).env("PORT", port(&server.url()));
    let said = Said::of(command).ended_with(0);
    assert_eq!(said.stdout.matches(" Serving Benchmark Result ").count(), 3, "{}", said.stdout);
    assert!(said.stdout.contains("\nMaximum request concurrency:             16        \n"));
    assert!(said.stderr.contains("prompts of text"), "{}", said.stderr);
    for (concurrency, requests) in [(1, 4.0), (4, 16.0), (16, 64.0)] {
        let result = result(&place, &format!("results/c{concurrency}.json"));
        let [completed, throughput, ttft, tpot] = plotted(&result);
        assert_eq!(completed, requests);
        assert!(throughput > 0.0 && ttft > 0.0 && tpot > 0.0, "{result}");
        assert_eq!(result["max_concurrency"], concurrency);
        assert_eq!(result["request_rate"], "inf");
        assert_eq!(result["total_input_tokens"].as_f64(), Some(64.0 * requests));
    }
    for name in ["A", "B"] {
        let read = place.run(&["import", "results", "--as", name]).ended_with(0);
        assert!(read.stdout.contains("c16"), "{}", read.stdout);
    }
    let table = place.run(&["compare", "A", "B"]);
    for load in ["c1", "c4", "c16"] {
        assert!(table.stdout.contains(&format!("import/64x16/{load}")), "{}", table.stdout);
    }
    assert!(!table.stdout.contains("0 completed requests"), "{}", table.stdout);
}

#[test]
fn an_interrupted_benchmark_shows_what_ended_and_writes_no_file() {
    let server = simulator(|_| {});
    let place = Place::new();
    let url = server.url();
    let endless = ["--num-prompts=100000", "--request-rate=50", "--save-result"];
    let base = ["bench-serve", "--base-url", &url, "--input-len=8", "--output-len=2"];
    let mut command = place.command(&[&base[..], &endless].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("benchmarking") {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended too early");
    }
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    let mut told = String::new();
    stderr.read_to_string(&mut told).unwrap();
    let output = within_limit(child);
    use std::os::unix::process::ExitStatusExt as _;
    assert_eq!(output.status.signal(), Some(2), "a shell's loop ends with it: {told}");
    assert!(told.contains("no result file is written"), "{told}");
    assert!(place.files().is_empty());
}

#[test]
fn a_server_that_does_not_come_up_is_waited_for_and_named() {
    let wait = ["--ready-check-timeout-sec=1"];
    let said = bench(&Place::new(), "http://127.0.0.1:1", &wait).ended_with(3).fit_to_read();
    assert!(said.stderr.contains("the server does not answer after 1 s"), "{}", said.stderr);
}

#[test]
fn a_benchmark_that_its_server_did_not_serve_ends_with_an_error_after_the_table() {
    for (fault, whole, causes) in [
        ("skip=20,kind=refuse:3600s", false, &["the server stopped answering", "completed"][..]),
        ("skip=20,kind=500", false, &["of 30 requests failed", "500 Internal"]),
        ("skip=20,kind=500,limit=10", true, &["warning: 10 requests failed: 500"]),
        ("skip=20,kind=500,limit=1", true, &["warning: 1 request failed: 500"]),
    ] {
        let server = simulator(|config| config.faults.push(fault.parse().unwrap()));
        let place = Place::new();
        let save = [
            "--num-prompts=30",
            "--max-concurrency=2",
            "--save-result",
            "--result-filename=f.json",
        ];
        let said = bench(&place, &server.url(), &save).ended_with(if whole { 0 } else { 3 });
        assert!(said.stdout.contains("Serving Benchmark Result"), "{fault}: {}", said.stdout);
        assert!(
            result(&place, "f.json")["failed"].as_u64().unwrap() > 0,
            "{fault}: the file is written"
        );
        for cause in causes {
            assert!(said.stderr.contains(cause), "{fault}: {cause} in {}", said.stderr);
        }
    }
}

#[test]
fn what_cannot_be_is_told_before_anything_is_sent() {
    let server = simulator(|_| {});
    let place = Place::new();
    place.write("file", "");
    let url = server.url();
    for (flags, cause) in [
        (&["--dataset-name=sharegpt", "--dataset-path=none.json"][..], "cannot read `none.json`"),
        (&["--extra-body", r#"{"stream": false}"#], "turns streaming off"),
        (&["--extra-body", r#"{"n": 2}"#], "asks for several answers"),
        (&["--save-result", "--result-dir=file/deeper"], "`--result-dir`"),
    ] {
        let said = bench(&place, &url, flags).ended_with(2).fit_to_read();
        assert!(said.stderr.contains(cause), "{cause}: {}", said.stderr);
        assert!(!said.stderr.contains("benchmarking"), "{cause}: {}", said.stderr);
    }
    assert!(server.take_truth().is_empty());
    let said = bench(&place, "http://127.0.0.1:1", &[]).ended_with(3).fit_to_read();
    assert!(said.stderr.contains("`--ready-check-timeout-sec"), "{}", said.stderr);
    assert!(!said.stderr.contains("--server-cmd"), "{}", said.stderr);
}

/// A server whose model ends every answer of 37 tokens at once: no text, one token by its count.
fn ends_at_once() -> String {
    use std::io::Write as _;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let mut request = Vec::new();
            let mut buffer = [0_u8; 65_536];
            let whole = |request: &[u8]| {
                let text = String::from_utf8_lossy(request).into_owned();
                let (head, body) = text.split_once("\r\n\r\n")?;
                let head = head.to_lowercase();
                let length = head.split("content-length: ").nth(1).and_then(|t| t.lines().next());
                (body.len() >= length.map_or(0, |l| l.parse().unwrap())).then_some(head + body)
            };
            let head = loop {
                let Ok(count @ 1..) = socket.read(&mut buffer) else { break String::new() };
                request.extend_from_slice(&buffer[..count]);
                if let Some(head) = whole(&request) {
                    break head;
                }
            };
            let (status, kind, body) = if head.contains(" /v1/models") {
                (200, "application/json", r#"{"data": [{"id": "m"}]}"#)
            } else if head.contains(" /v1/completions") && !head.contains("\"max_tokens\":37") {
                (
                    200,
                    "text/event-stream",
                    "data: {\"choices\":[{\"index\":0,\"text\":\"x\",\"finish_reason\":\"length\"}]}\n\n\
                     data: {\"choices\":[],\"usage\":{\"prompt_tokens\":16,\"completion_tokens\":1}}\n\n\
                     data: [DONE]\n\n",
                )
            } else if head.contains(" /v1/completions") {
                (
                    200,
                    "text/event-stream",
                    "data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\n\
                     data: {\"choices\":[],\"usage\":{\"prompt_tokens\":16,\"completion_tokens\":1}}\n\n\
                     data: [DONE]\n\n",
                )
            } else {
                (404, "application/json", "{}")
            };
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            let _ = socket.write_all(answer.as_bytes());
        }
    });
    url
}

#[test]
fn an_answer_that_ends_at_once_is_complete() {
    let place = Place::new();
    let url = ends_at_once();
    let said = place
        .run(&[
            "bench-serve",
            "--base-url",
            &url,
            "--num-prompts=8",
            "--input-len=16",
            "--output-len=37",
            "--save-result",
            "--result-filename=e.json",
        ])
        .ended_with(0);
    let ours = result(&place, "e.json");
    assert_eq!((&ours["completed"], &ours["failed"]), (&8.into(), &0.into()), "{}", said.stderr);
    assert_eq!(ours["total_output_tokens"], 8);
}

#[test]
fn a_file_without_details_keeps_its_tokens_on_the_way_through() {
    let server = simulator(|_| {});
    let place = Place::new();
    bench(&place, &server.url(), &["--save-result", "--result-filename=whole.json"]).ended_with(0);
    place.run(&["import", "whole.json", "--as", "whole"]).ended_with(0);
    for (format, file) in [("vllm", "out/import-16x8-c8.json"), ("sglang", "out.jsonl")] {
        let to = if format == "vllm" { "out" } else { file };
        place.run(&["export", "whole", "--format", format, "--output", to]).ended_with(0);
        let written = result(&place, file);
        assert_eq!(written["total_output_tokens"], 64, "{format}");
        assert_eq!(written["total_input_tokens"], 128, "{format}");
    }
}

#[test]
fn what_a_result_is_written_to_stays_what_it_is() {
    let server = simulator(|_| {});
    let place = Place::new();
    place.write("target.json", "old");
    std::os::unix::fs::symlink("target.json", place.path().join("link.json")).unwrap();
    bench(&place, &server.url(), &["--save-result", "--result-filename=link.json"]).ended_with(0);
    assert!(place.path().join("link.json").is_symlink());
    assert_eq!(result(&place, "target.json")["completed"], 8);
    let device = "--result-filename=/dev/null";
    bench(&place, &server.url(), &["--save-result", device]).ended_with(0);
    use std::os::unix::fs::FileTypeExt as _;
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

#[test]
fn what_we_export_and_write_we_read_without_complaint() {
    let server = simulator(|_| {});
    let place = Place::new();
    let url = server.url();
    place.small(&["--url", &url, "--starts=1", "--save-baseline=own"]).ended_with(0);
    place.run(&["export", "own", "--format=vllm", "--output=out"]).ended_with(0);
    let read = place.run(&["import", "out", "--as", "again"]).ended_with(0);
    let all = format!("{}{}", read.stdout, read.stderr);
    assert!(!all.contains("one of them is wrong"), "{all}");
    assert!(all.contains("measured by `inferometer export --format vllm`"), "{all}");
    let even =
        ["--request-rate=200", "--burstiness=inf", "--save-result", "--result-filename=even.json"];
    bench(&place, &url, &even).ended_with(0);
    let read = place.run(&["import", "even.json", "--as", "even"]).ended_with(0);
    assert!(read.stdout.contains("import/16x8/r200"), "{}", read.stdout);
}

#[test]
fn a_figure_that_its_own_file_contradicts_is_not_called() {
    let server = simulator(|_| {});
    let place = Place::new();
    bench(&place, &server.url(), &["--save-result", "--result-filename=right.json"]).ended_with(0);
    let mut wrong = result(&place, "right.json");
    wrong["output_throughput"] = 1.0.into();
    place.write("wrong.json", &wrong.to_string());
    let said = place.run(&["compare", "right.json", "wrong.json"]);
    assert!(!said.stdout.contains("regressed"), "{}", said.stdout);
    assert!(said.stdout.contains("one of them is wrong"), "{}", said.stdout);
    assert_ne!(said.code, Some(1), "{}", said.stdout);
}

/// A benchmark of a few requests, with more flags.
fn bench(place: &Place, url: &str, flags: &[&str]) -> Said {
    let small = ["bench-serve", "--base-url", url, "--num-prompts", "8", "--output-len", "8"];
    place.run(&[&small[..], &["--input-len", "16", "--disable-tqdm"], flags].concat())
}

/// Field → its type in JSON.
fn fields(result: &Value) -> BTreeMap<&str, &'static str> {
    let kind = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    };
    result.as_object().unwrap().iter().map(|(name, value)| (name.as_str(), kind(value))).collect()
}

#[test]
fn the_file_has_the_fields_of_vllms_own() {
    let server = simulator(|_| {});
    let place = Place::new();
    let metrics = ["--percentile-metrics=ttft,tpot,itl,e2el", "--metric-percentiles=50,90,95,99"];
    let save = ["--save-result", "--save-detailed", "--result-filename=ours.json"];
    let load = ["--max-concurrency=4", "--goodput", "ttft:100000", "e2el:100000"];
    let flags = [&metrics[..], &save, &load].concat();
    bench(&place, &server.url(), &flags).ended_with(0);
    let ours = result(&place, "ours.json");
    let text = std::fs::read_to_string("tests/results/vllm-bench-cpu/completions-c8.json").unwrap();
    let theirs: Value = serde_json::from_str(&text).unwrap();
    let mut found = fields(&ours);
    assert_eq!(found.remove("inferometer"), Some("object"), "ours stand apart");
    assert_eq!(found, fields(&theirs));
    for list in ["ttfts", "itls", "latencies", "queue_times", "generated_texts", "errors"] {
        assert_eq!(ours[list].as_array().unwrap().len(), 8, "{list}");
    }
    assert_eq!(ours["request_goodput"], ours["request_throughput"]);
    assert_eq!(ours["total_output_tokens"], 64);
    assert_eq!(ours["total_input_tokens"], 128, "prompts have exactly the tokens asked for");
    assert!(ours["generated_texts"][0].as_str().unwrap().len() > 8);
    // Their definitions hold between the fields.
    let number = |name: &str| ours[name].as_f64().unwrap();
    assert!((number("request_throughput") * number("duration") - 8.0).abs() < 1e-9);
    let gaps = ours["itls"][0].as_array().unwrap().iter().map(|gap| gap.as_f64().unwrap());
    let (ttft, latency) = (&ours["ttfts"][0], &ours["latencies"][0]);
    let sum = ttft.as_f64().unwrap() + gaps.sum::<f64>();
    assert!((sum - latency.as_f64().unwrap()).abs() < 1e-6, "{sum} {latency}");
}

#[test]
fn files_are_named_and_added_to_as_by_vllm() {
    let server = simulator(|config| config.model = "org/tiny".to_owned());
    let place = Place::new();
    let rate = ["--request-rate=200", "--save-result", "--metadata", "tp=2", "note=a=b"];
    bench(&place, &server.url(), &rate).ended_with(0);
    let mut names: Vec<String> = place
        .files()
        .iter()
        .map(|(path, _)| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    let name = names.pop().unwrap();
    assert!(names.is_empty() && name.starts_with("openai-200.0qps-tiny-2"), "{name} {names:?}");
    let file = result(&place, &name);
    assert_eq!((&file["tp"], &file["note"]), (&Value::from("2"), &Value::from("a=b")));
    assert_eq!(
        (&file["request_rate"], &file["model_id"]),
        (&Value::from(200.0), &Value::from("org/tiny"))
    );
    assert!(file.get("ttfts").is_none() && file.get("latencies").is_some(), "as vLLM's 0.32.0");
    for _ in 0..2 {
        let add = ["--append-result", "--result-filename=all.json", "--result-dir=deep/er"];
        bench(&place, &server.url(), &add).ended_with(0);
    }
    let text = std::fs::read_to_string(place.path().join("deep/er/all.json")).unwrap();
    assert_eq!(text.lines().count(), 2);
    assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
}

#[test]
fn chat_files_and_adapters_are_sent() {
    let server = simulator(|_| {});
    let place = Place::new();
    let talk =
        r#"{"conversations": [{"value": "one two three four five six"}, {"value": "a b c d e"}]}"#;
    place.write("talks.json", &format!("[{talk}, {talk}]"));
    let chat = ["--backend=openai-chat", "--endpoint=/v1/chat/completions"];
    let file = ["--dataset-name=sharegpt", "--dataset-path=talks.json", "--temperature=0"];
    let said = bench(&place, &server.url(), &[&chat[..], &file].concat()).ended_with(0);
    assert!(said.stdout.contains("Successful requests:                     8"), "{}", said.stdout);
    place.write("prompts.jsonl", "{\"prompt\": \"say something\", \"output_tokens\": 3}\n");
    let custom = ["--dataset-name=custom", "--dataset-path=prompts.jsonl", "--num_prompts=2"];
    let prefixes = ["--dataset-name=prefix_repetition", "--prefix-repetition-num-prefixes=3"];
    let said = bench(&place, &server.url(), &prefixes[..]).ended_with(0);
    assert!(said.stderr.contains("gives 6 requests of the 8 asked for"), "{}", said.stderr);
    let base = ["bench-serve", "--base-url", &server.url(), "--custom-output-len=-1"];
    let said = place.run(&[&base[..], &custom].concat()).ended_with(0);
    assert!(said.stdout.contains("Total generated tokens:                  6"), "{}", said.stdout);
    let ramp = ["--ramp-up-strategy=linear", "--ramp-up-start-rps=50", "--ramp-up-end-rps=90"];
    let save = ["--save-result", "--result-filename=ramp.json", "--prompt-form=ids"];
    let said = bench(&place, &server.url(), &[&ramp[..], &save].concat()).ended_with(0);
    assert!(said.stderr.contains("prompts of token ids"), "{}", said.stderr);
    let changes = &result(&place, "ramp.json")["rps_change_events"];
    assert_eq!((&changes[0]["rps"], &changes[40]["rps"]), (&Value::from(50), &Value::from(90)));
}

/// Name, values, handling.
fn flags() -> Vec<(String, String, String)> {
    let table = std::fs::read_to_string("src/bench_serve/flags.tsv").unwrap();
    let row = |line: &str| {
        let mut cells = line.split('\t').map(str::to_owned);
        (cells.next().unwrap(), cells.next().unwrap(), cells.next().unwrap())
    };
    table.lines().skip(1).map(row).collect()
}

#[test]
fn every_flag_does_what_the_table_says() {
    let place = Place::new();
    let help = place.run(&["bench-serve", "--help"]).ended_with(0).stdout;
    let mut noted = Vec::new();
    for (name, values, handling) in flags() {
        match handling.as_str() {
            "taken" => assert!(
                help.contains(&format!("{name} ")) || help.contains(&format!("{name}\n")),
                "{name}"
            ),
            "refused" => {
                let value: &[&str] = if values == "none" { &[] } else { &["1"] };
                let words = [&["bench-serve", name.as_str()], value].concat();
                let said = place.run(&words).ended_with(2).fit_to_read();
                assert!(
                    said.stderr.contains(&format!("`{name}` is not supported")),
                    "{}",
                    said.stderr
                );
            }
            _ => noted.push((name, values)),
        }
    }
    let mut words = vec!["bench-serve", "--port=1", "--num-prompts=1"];
    for (name, values) in &noted {
        words.push(name);
        words.extend((values != "none").then_some("1"));
    }
    let said = place.run(&words).ended_with(3);
    for (name, _) in noted.iter().filter(|(name, _)| name != "--tokenizer") {
        assert!(said.stderr.contains(&format!("note: `{name}`: ")), "{name}: {}", said.stderr);
    }
}

#[test]
fn what_is_not_supported_is_named() {
    let place = Place::new();
    for (flags, part) in [
        (["--dataset-name", "random-mm"], "the dataset `random-mm` is not supported"),
        (["--backend", "openai-embeddings"], "the backend `openai-embeddings` is not supported"),
        (["--endpoint", "/v1/chat/completions"], "is not the API of `--backend openai`"),
        (["--dataset-name", "sharegpt"], "`--dataset-path PATH`"),
        (["--random-range-ratio", "1.0"], "from 0 to below 1"),
        (["--goodput", "itl:3"], "is not a limit of goodput"),
        (["--ramp-up-strategy", "linear"], "needs both ends"),
        (["--percentile-metrics", "ttft,tpt"], "`tpt` is no metric"),
    ] {
        let said = place.run(&[&["bench-serve"], &flags[..]].concat()).ended_with(2).fit_to_read();
        let text = said.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(part), "{flags:?}: {text}");
    }
    let said = bench(&place, "http://127.0.0.1:1", &["--save-result"]).ended_with(3);
    assert!(said.stderr.contains("hint:"), "{}", said.stderr);
    assert!(place.files().is_empty(), "no result of nothing");
}

#[test]
fn failed_requests_are_counted_and_told() {
    let server = simulator(|config| {
        // The checks before the benchmark send fewer than thirty requests.
        config.faults = vec!["skip=30,every=3,kind=500".parse().unwrap()];
    });
    let place = Place::new();
    let save = ["--num-prompts=60", "--save-result", "--result-filename=f.json"];
    let said = bench(&place, &server.url(), &save);
    let file = result(&place, "f.json");
    assert_eq!(said.code, Some(0), "{}\n{}", said.stdout, said.stderr);
    assert_eq!(file["completed"].as_u64().unwrap() + file["failed"].as_u64().unwrap(), 60);
    assert!(file["failed"].as_u64().unwrap() > 0, "{file}");
    assert!(said.stderr.contains("requests failed: "), "{}", said.stderr);
}
