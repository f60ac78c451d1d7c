//! What the machine under the client allows: descriptors, the self-test's proof, a GPU to look at.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use inferometer::internals::selftest::{Fidelity, IdleFloor, Level, SCHEMA, SelftestReport, Trust};
use inferometer::internals::sim::SimServer;
use serde_json::Value;

use super::{Place, Said, simulator};

/// The binary in a shell that first lowers both its limits on descriptors.
fn limited(place: &Place, descriptors: u32, args: &[&str]) -> Command {
    let inner = place.command(args);
    let mut command = Command::new("sh");
    let script = format!("ulimit -n {descriptors} && exec \"$0\" \"$@\"");
    command.args(["-c", &script]).arg(inner.get_program()).args(inner.get_args());
    command.current_dir(place.path());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// A small run of one load point against a server of its own.
fn run_args<'a>(url: &'a str, concurrency: &'a str, requests: &'a str) -> Vec<&'a str> {
    vec![
        "run",
        "--url",
        url,
        "--random-input-len=16",
        "--random-output-len=32",
        "--warm-up-time=50ms",
        "--cool-down=0s",
        "--no-reference",
        concurrency,
        requests,
    ]
}

/// Two load points on the embedded simulator, of answers that overlap wherever they may.
const LONG_ANSWERS: [&str; 9] = [
    "run",
    "--random-input-len=16",
    "--random-output-len=64",
    "--max-concurrency=1,8",
    "--num-prompts=24",
    "--warm-up-time=50ms",
    "--cool-down=0s",
    "--no-reference",
    "--starts=1",
];

fn findings<'a>(run: &'a Value, code: &str) -> Vec<&'a Value> {
    run["findings"].as_array().unwrap().iter().filter(|f| f["code"] == code).collect()
}

#[test]
fn too_few_descriptors_are_refused_before_the_run() {
    let place = Place::new();
    let server = simulator(|_| {});
    let url = server.url();
    let args = run_args(&url, "--max-concurrency=512", "--num-prompts=8");
    let said = Said::of(limited(&place, 128, &args)).ended_with(3).fit_to_read();
    assert!(said.stderr.contains("576 descriptors are needed"), "{}", said.stderr);
    assert!(said.stderr.contains("may open 128"), "{}", said.stderr);
    assert!(said.stderr.contains("`ulimit -n`"), "{}", said.stderr);
    assert!(server.take_truth().is_empty(), "no request was sent");
    // The embedded server's ends are this process's too: 200 connections take 400.
    let args = ["run", "--max-concurrency=200", "--num-prompts=8"];
    let said = Said::of(limited(&place, 300, &args)).ended_with(3);
    assert!(said.stderr.contains("464 descriptors are needed"), "{}", said.stderr);
}

#[test]
fn descriptors_that_run_out_in_mid_run_are_the_client_s_failure() {
    let place = Place::new();
    let server = simulator(|_| {});
    let url = server.url();
    let mut args = run_args(&url, "--max-concurrency=8,96", "--num-prompts=96");
    args.extend(["--no-preflight", "--no-warm-up", "--model=sim"]);
    let said = Said::of(limited(&place, 64, &args)).ended_with(4);
    assert!(said.stdout.contains("ran out of descriptors"), "{}", said.stdout);
    let run = place.run_json();
    let found = findings(&run, "client_descriptors");
    assert_eq!(found.len(), 1, "{:?}", run["findings"]);
    assert_eq!(found[0]["severity"], "invalid");
    assert!(found[0]["hint"].as_str().unwrap().contains("`ulimit -n`"));
    assert_eq!(found[0]["point"], "run/16x32/c96", "the lower load had enough");
    assert_eq!(run["rounds"][0]["status"], "complete");
    assert_eq!(run["rounds"][1]["status"], "stopped");
    let records = requests(&place);
    let of = |kind: &str| records.iter().filter(|r| r["failure"] == kind).count();
    assert!(of("client_descriptors") > 0);
    let failed = records.iter().filter(|r| r["outcome"] == "failed").count();
    assert_eq!(of("client_descriptors"), failed, "no failure is the server's");
    let record = records.iter().find(|r| r["failure"] == "client_descriptors").unwrap();
    let said = record["evidence"]["message"].as_str().unwrap();
    assert!(said.contains("os error 24"), "{said}");
}

/// Every stored request.
fn requests(place: &Place) -> Vec<Value> {
    let files = place.files();
    let of_requests = files.iter().filter(|(path, _)| path.ends_with("requests.jsonl"));
    let texts = of_requests.map(|(_, bytes)| std::str::from_utf8(bytes).unwrap());
    texts.flat_map(str::lines).map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Keeps a self-test that proved so much.
fn keep_selftest(place: &Place, streams: u32, events_per_s: f64) {
    let cores = std::thread::available_parallelism().unwrap().get();
    let report = SelftestReport {
        schema: SCHEMA,
        version: "0.1.0".into(),
        at: "2026-01-02T03:04:05Z".parse().unwrap(),
        cores: u32::try_from(cores).unwrap(),
        limit_ms: 1.0,
        ttft_ms: 50.0,
        gap_ms: 10.0,
        idle: IdleFloor::default(),
        levels: vec![Level {
            streams,
            events_per_s,
            cpu_ms_per_1000_events: None,
            fidelity: Fidelity::default(),
            trust: Trust::Faithful,
        }],
        https_levels: Vec::new(),
    };
    std::fs::create_dir_all(place.path().join("target-reports")).unwrap();
    place.write("target-reports/selftest.json", &serde_json::to_string(&report).unwrap());
}

#[test]
fn a_run_beyond_the_self_test_is_flagged_at_each_load_point_that_is() {
    let place = Place::new();
    // One stream at any rate of events: concurrency 1 was proven, 8 was not. Answers are long, so that
    // more than one is in flight on average also where the machine is busy.
    keep_selftest(&place, 1, 1e9);
    let said = place.run(&LONG_ANSWERS).ended_with(0).fit_to_read();
    let told = said.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("the self-test covers 1 stream and 1 000 000 000 events/s"), "{told}");
    assert!(told.contains("fewer streams, more cores for the client, or shard"), "{told}");
    let run = place.run_json();
    let found = findings(&run, "beyond_selftest");
    assert_eq!(found.len(), 1, "{:?}", run["findings"]);
    assert_eq!(
        (found[0]["point"].as_str(), found[0]["severity"].as_str()),
        (Some("run/16x64/c8"), Some("warning"))
    );
    assert!(findings(&run, "no_selftest").is_empty());
    for file in ["report/report.json", "report/index.html"] {
        let text = std::fs::read_to_string(place.path().join("target-reports").join(file)).unwrap();
        assert!(text.contains("the self-test covers"), "{file}");
    }
}

#[test]
fn without_a_self_test_no_claim_is_made_and_that_is_said_once() {
    let place = Place::new();
    place.small(&["--starts=2"]).ended_with(0);
    let run = place.run_json();
    assert_eq!(findings(&run, "no_selftest").len(), 1, "{:?}", run["findings"]);
    assert!(findings(&run, "beyond_selftest").is_empty());
    let proven = Place::new();
    keep_selftest(&proven, 1_000, 1e9);
    proven.small(&["--starts=1"]).ended_with(0);
    let run = proven.run_json();
    let told = findings(&run, "no_selftest").len() + findings(&run, "beyond_selftest").len();
    assert_eq!(told, 0, "{:?}", run["findings"]);
}

/// A server whose iterations take as long as their batch is large, and that queues nothing: twice the
/// load brings no more requests.
fn flat_server() -> SimServer {
    simulator(|config| {
        config.profile.costs.base_ms = 0.0;
        config.profile.costs.decoding_ms = 3.0;
    })
}

/// A run of two load points beside an `nvidia-smi` that says this.
fn beside_gpu(csv: &str) -> Value {
    let place = Place::new();
    let server = flat_server();
    let url = server.url();
    let numbered: String = csv
        .split_terminator("\\n")
        .enumerate()
        .map(|(number, line)| format!("{number}, {line}\\n"))
        .collect();
    // Asked once for what there is, and then for samples without end.
    fake_smi(
        &place,
        &format!(
            "case \"$*\" in *-lms*) while printf '{numbered}'; do sleep 0.05; done;; *) printf '{csv}';; esac"
        ),
    );
    let args = run_args(&url, "--max-concurrency=2,8", "--num-prompts=24");
    Said::of(with_smi(&place, &args)).ended_with(0);
    place.run_json()
}

/// An `nvidia-smi` that does this.
fn fake_smi(place: &Place, script: &str) {
    place.write("nvidia-smi", &format!("#!/bin/sh\n{script}\n"));
    let program = place.path().join("nvidia-smi");
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The binary where that `nvidia-smi` is the first to be found.
fn with_smi(place: &Place, args: &[&str]) -> Command {
    let mut command = place.command(args);
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", place.path().display()));
    command
}

fn limit_at<'a>(run: &'a Value, point: &str) -> &'a str {
    let found = findings(run, "limit");
    let here = found.iter().find(|f| f["point"] == point).unwrap();
    here["text"].as_str().unwrap()
}

#[test]
fn a_busy_gpu_under_a_flat_rate_is_the_limit() {
    let csv = "NVIDIA Fake, 1.0, 98, 1000, 2000, 1500, 300.5, 60\\nNVIDIA Fake, 1.0, 96, 500, 2000, 1400, [N/A], 50\\n";
    let run = beside_gpu(csv);
    assert_eq!(run["environment"]["gpu"], "2 × NVIDIA Fake");
    for round in run["rounds"].as_array().unwrap() {
        let series = |name: &str| {
            let samples = round["series"][name].as_array();
            samples.map(|s| s.iter().map(|v| v[1].as_f64().unwrap()).collect::<Vec<_>>())
        };
        let is = |name: &str, value: f64| {
            let values = series(name).unwrap_or_else(|| panic!("{name}: {round}"));
            assert!(values.iter().all(|v| *v == value), "{name}: {values:?}");
        };
        is("gpu_utilization_percent", 97.0);
        is("gpu_memory_used_mib", 1500.0);
        is("gpu_clock_mhz", 1450.0);
        is("gpu_power_w", 300.5);
        is("gpu_temperature_c", 55.0);
    }
    let text = limit_at(&run, "run/16x32/c8");
    assert!(text.starts_with("the limit is the server's compute: its GPU is 97 % busy"), "{text}");
    let lowest = limit_at(&run, "run/16x32/c2");
    assert!(!lowest.contains("compute"), "nothing lies below it to be flat against: {lowest}");
}

#[test]
fn an_idle_gpu_under_a_flat_rate_is_not_the_limit() {
    let run = beside_gpu("NVIDIA Fake, 1.0, 12, 1000, 2000, 1500, 300.5, 60\\n");
    let text = limit_at(&run, "run/16x32/c8");
    assert!(
        text.starts_with("the limit is in the server, but not its GPU, which is 12 % busy"),
        "{text}"
    );
}

#[test]
fn a_gpu_that_tells_no_use_is_not_offered_rather_than_idle() {
    let run = beside_gpu("NVIDIA Fake MIG, 1.0, [N/A], 1000, 2000, 1500, [N/A], 60\\n");
    for round in run["rounds"].as_array().unwrap() {
        assert_eq!(round["series"]["gpu_memory_used_mib"][0][1], 1000.0);
        assert!(round["series"].get("gpu_utilization_percent").is_none(), "not offered is not 0");
        assert!(round["series"].get("gpu_power_w").is_none());
    }
    let text = limit_at(&run, "run/16x32/c8");
    assert!(text.starts_with("the limit is probably the server's compute"), "{text}");
    assert!(text.ends_with("(its GPU's use is not offered)"), "{text}");
}

#[test]
fn whether_there_is_a_gpu_is_asked_once_a_run() {
    let place = Place::new();
    let log = place.path().join("asked");
    fake_smi(&place, &format!("echo asked >> '{}'; exit 9", log.display()));
    let server = simulator(|_| {});
    let url = server.url();
    let mut args = run_args(&url, "--max-concurrency=1,2", "--num-prompts=4");
    args.push("--rounds=3");
    Said::of(with_smi(&place, &args)).ended_with(0);
    let asked = std::fs::read_to_string(log).unwrap();
    assert_eq!(asked.lines().count(), 1);
}
