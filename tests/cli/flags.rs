//! Flags and environment: vLLM's words, criterion's, libtest's, and who may name a server.

use super::{Place, Said, simulator};

#[track_caller]
fn ids(args: &[&str]) -> Vec<String> {
    let said = Place::new().run(&[&["list", "--format=terse"], args].concat()).ended_with(0);
    said.stdout
        .lines()
        .map(|line| line.strip_suffix(": benchmark").expect(line).to_owned())
        .collect()
}

#[test]
fn several_values_sweep() {
    let swept = ids(&["--random-input-len=8,16", "--max-concurrency=1,4"]);
    assert_eq!(swept, ["run/8x128/c1", "run/8x128/c4", "run/16x128/c1", "run/16x128/c4"]);
    let capped = ids(&["--request-rate=0.5,20", "--max-concurrency=8"]);
    assert_eq!(capped.len(), 2);
    assert!(capped.iter().all(|id| id.starts_with("run/512x128/r")), "{capped:?}");
    let said = Place::new().run(&["plan", "--request-rate=1", "--max-concurrency=1,2"]);
    assert!(said.ended_with(2).stderr.contains("it is a cap"));
}

#[test]
fn filters_are_regular_expressions_and_any_of_them_serves() {
    let all = ["--max-concurrency=1,4,16"];
    let some = ids(&[&all[..], &["--filter=c1$", "--filter=c4"]].concat());
    assert_eq!(some, ["run/512x128/c1", "run/512x128/c4"]);
    let exact = ids(&[&all[..], &["--exact", "--filter=run/512x128/c1"]].concat());
    assert_eq!(exact, ["run/512x128/c1"]);
}

#[test]
fn limits_do_not_take_the_file_that_follows() {
    let place = Place::new();
    place.write(
        "ours.toml",
        "[[group]]\nname = \"g\"\n[[group.scenario]]\nname = \"s\"\ninput = 8\noutput = 4\nconcurrency = [1, 2]\n",
    );
    let args = ["list", "--ignore-eos", "--goodput", "ttft:200", "tpot:30", "ours.toml"];
    let said = place.run(&args).ended_with(0);
    assert_eq!(said.stdout, "g/s/c1: benchmark\ng/s/c2: benchmark\n\n0 tests, 2 benchmarks\n");
    let one = place.run(&["run", "ours.toml", "--filter=c2", "--test-not-a-flag"]);
    one.ended_with(2);
    let run = ["run", "ours.toml", "--filter=c2", "--num-prompts=2", "--starts=1"];
    let quick = ["--no-reference", "--no-warm-up"];
    let said = place.run(&[&run[..], &quick].concat()).ended_with(0);
    assert!(said.stdout.contains("g/s/c2"), "{}", said.stdout);
    assert!(!said.stdout.contains("g/s/c1"), "{}", said.stdout);
}

#[test]
fn a_file_with_a_wrong_key_is_refused_with_line_and_caret() {
    let place = Place::new();
    place.write("wrong.toml", "[run]\nstart = 3\n");
    let said = place.run(&["plan", "wrong.toml"]).ended_with(2).fit_to_read();
    assert!(said.stderr.contains("wrong.toml:2"), "{}", said.stderr);
    assert!(said.stderr.contains('^'), "{}", said.stderr);
}

#[test]
fn stdout_carries_only_what_was_asked_for() {
    let place = Place::new();
    let said = place.small(&["--starts=1", "--output-format=json"]).ended_with(0);
    let document: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(document["schema"], 1);
    assert!(said.stderr.contains("running the embedded simulator"), "{}", said.stderr);
    let kept = std::fs::read_to_string(place.path().join("target-reports/report/report.json"));
    assert_eq!(kept.unwrap(), said.stdout);
    let said = place.small(&["--starts=1", "--output-format=markdown", "--quiet"]).ended_with(0);
    assert!(said.stdout.contains('|'), "{}", said.stdout);
    assert_eq!(said.stderr, "");
}

#[test]
fn quiet_shows_the_result_and_verbose_the_plan() {
    let place = Place::new();
    let quiet = place.small(&["--starts=1", "--quiet"]).ended_with(0);
    assert!(!quiet.stdout.contains("plan:"), "{}", quiet.stdout);
    assert!(quiet.stdout.contains("load point"), "{}", quiet.stdout);
    let verbose = place.small(&["--starts=1", "--verbose", "--output-dir=elsewhere"]).ended_with(0);
    assert!(verbose.stdout.contains("seed 3, workload"), "{}", verbose.stdout);
    assert!(place.path().join("elsewhere/report/index.html").is_file());
}

/// A preflight with these variables set.
#[track_caller]
fn preflight(variables: &[(&str, &str)], code: i32) -> Said {
    let place = Place::new();
    let mut command = place.command(&["preflight"]);
    command.envs(variables.iter().copied());
    Said::of(command).ended_with(code)
}

#[test]
fn the_environment_names_a_server_only_on_purpose() {
    // A bench must not turn into billed traffic.
    let said = preflight(&[("OPENAI_BASE_URL", "http://127.0.0.1:1"), ("OPENAI_API_KEY", "k")], 0);
    assert!(said.stdout.contains("`sim`"), "{}", said.stdout);
    preflight(&[("INFEROMETER_URL", "")], 0);
    let server = simulator(|config| config.api_key = Some("key-of-openai".into()));
    let url = server.url();
    let named = ("INFEROMETER_URL", url.as_str());
    preflight(&[named], 3);
    preflight(&[named, ("OPENAI_API_KEY", "key-of-openai")], 0);
    let ours = ("INFEROMETER_API_KEY", "key-of-openai");
    preflight(&[named, ours, ("OPENAI_API_KEY", "other"), ("INFEROMETER_MODEL", "sim")], 0);
    preflight(&[named, ours, ("INFEROMETER_MODEL", "not-served")], 3);
}

/// A file's settings give way to the environment's, and those to flags.
#[test]
fn flags_win_over_the_environment_over_a_file() {
    let used = |variable: Option<&str>, flags: &[&str]| {
        let place = Place::new();
        place.write("a.toml", "[run]\noutput_dir = 'of-file'\n");
        let mut command = place.command(&[&["preflight", "a.toml"], flags].concat());
        command.envs(variable.map(|folder| ("INFEROMETER_OUTPUT_DIR", folder)));
        Said::of(command).ended_with(0);
        let folders = std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap());
        let folders = folders.filter(|entry| entry.path().is_dir());
        folders.map(|entry| entry.file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(used(None, &[]), ["of-file"]);
    assert_eq!(used(Some("of-environment"), &[]), ["of-environment"]);
    assert_eq!(used(Some("of-environment"), &["--output-dir=of-flag"]), ["of-flag"]);
}

#[test]
fn flags_that_cannot_be_are_refused() {
    for (flag, words) in [
        ("--starts=0", "this must be at least 1"),
        ("--rounds=1001", "this must be at most 1000"),
        ("--num-prompts=many", "invalid digit"),
        ("--max-error-rate=2", "is not a share"),
        ("--metadata=fact", "has no key"),
        ("--warm-up-time=3", "is not a duration"),
    ] {
        let said = Place::new().run(&["plan", flag]).ended_with(2);
        assert!(said.stderr.contains(words), "{}", said.stderr);
    }
}

#[test]
fn the_slow_simulator_is_told() {
    let place = Place::new();
    let mut command = place.command(&[&["run", "--starts=1"], &super::SMALL[..]].concat());
    command.env("INFEROMETER_SIM_SLOWDOWN", "1.5");
    let said = Said::of(command).ended_with(0);
    assert!(said.stdout.contains("slowed by a factor of 1.5"), "{}", said.stdout);
    let mut command = place.command(&["plan"]);
    command.env("INFEROMETER_SIM_SLOWDOWN", "fast");
    assert!(Said::of(command).ended_with(2).stderr.contains("`1.10`"));
}

/// Lines of an error joined to one, as a person reads them.
fn said(args: &[&str]) -> String {
    let said = Place::new().run(args).ended_with(2).fit_to_read();
    said.stderr.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_pasted_flag_of_vllm_gets_its_translation() {
    for (flag, value, word) in [
        ("--base-url", "http://127.0.0.1:9", "`--url URL`"),
        ("--backend", "openai-chat", "`--api chat`"),
        ("--temperature", "0.7", r#"`--extra-body '{"temperature": 0.7}'`"#),
        ("--lora-modules", "a", "`--model NAME`"),
        ("--num-warmups", "16", "`--warm-up-time TIME`"),
        ("--random_range_ratio", "0.2", "`--random-range-ratio`, one number"),
    ] {
        let text = said(&["plan", "--url=http://127.0.0.1:9", flag, value]);
        assert!(text.contains(word), "{flag}: {text}");
        assert!(!text.contains("similar argument"), "{flag}: {text}");
    }
}

#[test]
fn what_is_searched_stands_behind_an_equals_sign() {
    let text = said(&["plan", "--simulate=demo", "--search", "rate"]);
    assert!(text.contains("`--search=rate`"), "{text}");
}

#[test]
fn prompts_are_text_where_that_is_asked_for() {
    let asked = |form: &str| Place::new().run(&["preflight", form]);
    let text = asked("--prompt-form=text").ended_with(0).stdout;
    assert!(text.contains("prompts of text"), "{text}");
    let ids = asked("--prompt-form=ids").ended_with(0).stdout;
    assert!(ids.contains("prompts of token ids"), "{ids}");
    let chat = Place::new().run(&["preflight", "--api=chat", "--prompt-form=ids"]).ended_with(3);
    assert!(chat.stderr.contains("takes no prompts of token ids"), "{}", chat.stderr);
}

#[test]
fn a_rate_without_end_is_the_closed_loop() {
    let closed = ids(&["--request-rate=inf", "--max-concurrency=4,16"]);
    assert_eq!(closed, ["run/512x128/c4", "run/512x128/c16"]);
    let text = said(&["plan", "--request-rate=inf"]);
    assert!(text.contains("`--max-concurrency N`"), "{text}");
    let text = said(&["plan", "--request-rate=inf,5", "--max-concurrency=4"]);
    assert!(text.contains("`inf` stands alone"), "{text}");
}
