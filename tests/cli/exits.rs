//! Exit codes, each with the words that go with it.

use std::process::Stdio;

use super::{Place, SMALL, Said, simulator, within_limit};

#[test]
fn zero_where_all_is_well_and_the_last_line_is_the_report() {
    let place = Place::new();
    let said = place.small(&["--starts=2"]).ended_with(0).fit_to_read();
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert_eq!(lines[0], "no server given: running the embedded simulator (preset demo)");
    assert!(lines[1].starts_with("plan: 2 load points"), "{}", lines[1]);
    assert!(lines[2].starts_with("about "), "{}", lines[2]);
    let tail = &lines[lines.len() - 2..];
    assert_eq!(tail[0], "no baseline: save one with `--save-baseline main`");
    assert_eq!(tail[1], "report: target-reports/report/index.html");
    assert_eq!(said.stderr, "");
    assert!(place.path().join("target-reports/report/index.html").is_file());
    let stored = place.run_json();
    assert_eq!(stored["metadata"]["purpose"], "test");
    assert_eq!(stored["status"], "complete");
}

#[test]
fn one_where_a_required_limit_is_missed_unless_only_observed() {
    let place = Place::new();
    let said = place.small(&["--require", "ttft_p50<0.001ms", "error_rate<1%"]).ended_with(1);
    assert!(said.stdout.contains("ttft_p50<0.001ms"), "{}", said.stdout);
    assert!(said.stdout.contains("Limit missed: `ttft_p50<0.001ms`"), "{}", said.stdout);
    let report = place.path().join("target-reports/report");
    let junit = std::fs::read_to_string(report.join("junit.xml")).unwrap();
    assert_eq!(junit.matches("<failure type=\"limit\"").count(), 2, "one a load point: {junit}");
    place.small(&["--require", "ttft_p50<0.001ms", "--no-fail"]).ended_with(0);
    let junit = std::fs::read_to_string(report.join("junit.xml")).unwrap();
    assert!(!junit.contains("<failure"), "nothing fails where nothing may: {junit}");
}

#[test]
fn a_simulator_that_was_asked_for_stands_in_for_no_server() {
    let said = Place::new().small(&["--simulate=demo", "--starts=1"]).ended_with(0);
    let first = said.stdout.lines().next().unwrap();
    assert_eq!(first, "running the embedded simulator, as asked (preset demo)");
}

#[track_caller]
fn refused(args: &[&str], message: &str, hint: &str) {
    let said = Place::new().run(args).ended_with(2).fit_to_read();
    assert!(said.stderr.contains(message), "{}", said.stderr);
    assert!(said.stderr.contains(hint), "{}", said.stderr);
    assert_eq!(said.stdout, "");
}

#[test]
fn two_where_the_words_are_wrong() {
    refused(&["run", "--maximum"], "unexpected argument '--maximum'", "--help");
    refused(&["run", "--baseline", "none"], "`none`", "hint:");
    refused(&["run", "--url=http://127.0.0.1:1", "--starts=8"], "8 starts", "`--server-cmd`");
    refused(&["run", "--nresamples", "9"], "`--nresamples`", "`--starts`");
    refused(&["run", "--profile-time", "9"], "`--profile-time`", "`--measurement-time`");
    refused(&["run", "--filter", "nothing-like-it"], "no load point", "inferometer list");
    refused(&["run", "--burstiness", "2"], "`--burstiness`", "`--request-rate`");
    refused(&["run", "--against-url", "http://h"], "the other side", "`--url URL`");
    refused(&["run", "missing.toml"], "missing.toml", "because:");
    refused(&["run", "--significance-level", "2"], "between 0 and 1", "");
    // ConclusionInput before the run, not after it.
    refused(&["run", "--require", "ttft_p50<1ns"], "`1ns`", "`500ms`");
    refused(&["run", "--goodput", "speed:2"], "`speed:2`", "`ttft:200`");
    for command in ["run", "plan"] {
        let small = [command, "--max-concurrency", "4", "--num-prompts", "20"];
        let gated = [&small[..], &["--gate", "ttft_p99"]].concat();
        refused(&gated, "cannot be judged", "raise `--num-prompts` to 100");
        refused(
            &[&small[..], &["--gate=tpot_mean"]].concat(),
            "30 are needed",
            "`--num-prompts` to 30",
        );
        refused(
            &[command, "--baseline", "never"],
            "there is no baseline `never`",
            "--save-baseline never",
        );
    }
    refused(&["plan", "--url=https://h", "--ca-cert", "none.pem"], "none.pem", "check the path");
}

#[test]
fn two_where_the_key_would_stand_in_the_process_list() {
    let place = Place::new();
    let said = place.run(&["run", "--api-key", "sk-1234567890"]).ended_with(2);
    assert!(said.stderr.contains("`--api-key-env NAME`"), "{}", said.stderr);
    assert!(!said.stderr.contains("sk-1234567890"), "{}", said.stderr);
}

#[test]
fn three_where_the_server_is_unusable() {
    let place = Place::new();
    let said = place.small(&["--url=http://127.0.0.1:1"]).ended_with(3);
    assert!(said.stderr.contains("hint:"), "{}", said.stderr);
    let server = simulator(|config| config.api_key = Some("right".into()));
    let mut command = place.command(&["preflight", "--url", &server.url()]);
    command.env("INFEROMETER_API_KEY", "wrong");
    Said::of(command).ended_with(3);
    place.run(&["preflight", "--url", &server.url(), "--api-key-env=NOT_SET"]).ended_with(2);
    let mut command = place.command(&["preflight", "--url", &server.url(), "--model=other"]);
    command.env("INFEROMETER_API_KEY", "right");
    let said = Said::of(command).ended_with(3);
    assert!(said.stderr.contains("`sim`"), "the served names are told: {}", said.stderr);
}

#[test]
fn four_where_nothing_was_measured() {
    let place = Place::new();
    let server = simulator(|config| config.faults = vec!["every=1,kind=500".parse().unwrap()]);
    let url = server.url();
    let unchecked = ["--no-preflight", "--no-warm-up", "--model=sim"];
    place.small(&[&["--url", &url], &unchecked[..]].concat()).ended_with(4);
}

#[test]
fn a_key_that_was_never_sent_is_not_spoken_of() {
    let place = Place::new();
    let server = simulator(|config| config.api_key = Some("right".into()));
    let url = server.url();
    let unchecked = ["run", "--url", &url, "--no-preflight", "--no-warm-up", "--model=sim"];
    let run = |key: Option<&str>| {
        let mut command =
            place.command(&[&unchecked[..], &["--num-prompts=4", "--max-concurrency=1"]].concat());
        if let Some(key) = key {
            command.env("INFEROMETER_API_KEY", key);
        }
        Said::of(command).ended_with(3).stderr
    };
    let none = run(None);
    assert!(none.contains("no `Authorization` header was sent"), "{none}");
    let wrong = run(Some("wrong"));
    assert!(wrong.contains("was the key revoked"), "{wrong}");
}

#[test]
fn a_baseline_is_saved_compared_and_judged_again_without_a_run() {
    let place = Place::new();
    let said = place.small(&["--starts=5", "--save-baseline=main"]).ended_with(0);
    assert!(said.stdout.contains("baseline `main` now holds this run\n"), "{}", said.stdout);
    let said =
        place.small(&["--starts=5", "--baseline=main", "--no-fail", "--append-baseline=more"]);
    let said = said.ended_with(0).fit_to_read();
    assert!(said.stdout.contains("baseline `more` holds this run too\n"), "{}", said.stdout);
    assert!(!said.stdout.contains("no baseline:"), "{}", said.stdout);
    let again = place.run(&["run", "--load-baseline=more", "--baseline=main", "--no-fail"]);
    let again = again.ended_with(0);
    assert!(!again.stdout.contains("running the embedded simulator"), "{}", again.stdout);
    place.run(&["compare", "main", "more", "--no-fail"]).ended_with(0);
    let lenient = ["--baseline-lenient=absent", "--starts=1"];
    place.small(&lenient).ended_with(0);
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_that_cannot_be_written_costs_no_measured_round() {
    let place = Place::new();
    let mut command = place.command(&[&["run"], &SMALL[..]].concat());
    // A stream that is full from the first byte.
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = within_limit(command.stdout(full).stderr(Stdio::piped()).spawn().unwrap());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("could not write the output") && stderr.contains("index.html"),
        "{stderr}"
    );
    let run = place.run_json();
    assert_eq!(run["status"], "complete");
    let count = |what: &str| run[what].as_array().unwrap().len();
    assert_eq!((count("rounds"), count("points")), (2 * count("starts"), 2));
    let lost = run["findings"].as_array().unwrap().iter().find(|f| f["code"] == "output_lost");
    assert_eq!(lost.expect("the loss is a finding")["severity"], "note");
    assert!(place.path().join("target-reports/report/index.html").exists());
}

#[test]
fn a_damaged_baseline_is_found_before_anything_is_measured() {
    let place = Place::new();
    place.small(&["--starts=1", "--save-baseline=main"]).ended_with(0);
    let records = place.files().into_iter().filter(|(path, _)| path.ends_with("requests.jsonl"));
    records.for_each(|(path, _)| std::fs::remove_file(path).unwrap());
    let said = place.small(&["--starts=1", "--baseline=main"]).ended_with(2);
    assert!(!said.stdout.contains("req/s"), "{}", said.stdout);
    assert!(said.stderr.contains("requests.jsonl"), "{}", said.stderr);
}
