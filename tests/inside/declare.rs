//! Declaring: three forms, equal values, and errors that name the place.

#![allow(clippy::unwrap_used)] // helpers outside `#[test]` functions

use std::sync::Arc;
use std::time::Duration;

use inferometer::rng::Seed;
use inferometer::scenario::file::parse;
use inferometer::scenario::{Prompt, PromptSource, PromptSpec, points};
use inferometer::settings::launch::LaunchSpec;
use inferometer::settings::{ApiKey, Launch, Settings, TriState};
use inferometer::{Harness, Length, Load, Scenario, ScenarioGroup, Slo, scenarios};
use proptest::prelude::*;

fn by_builder() -> Vec<ScenarioGroup> {
    let mut chat = ScenarioGroup::new("chat");
    chat.scenario(
        Scenario::new("short")
            .input(512)
            .output(128)
            .sweep(Load::concurrency, [1, 4, 16, 64])
            .goodput(Slo::new().ttft_ms(200).tpot_ms(30)),
    )
    .scenario(
        Scenario::new("long")
            .inputs([4096, 8192])
            .output(128)
            .sweep(Load::request_rate, [0.5, 2.0]),
    );
    let mut batch = ScenarioGroup::new("batch");
    batch.scenario(
        Scenario::new("mixed")
            .input(100..=900)
            .output(Length::mix([(0.7, 64), (0.3, 256)]))
            .load(Load::concurrency(128)),
    );
    vec![chat, batch]
}

fn by_macro() -> Vec<ScenarioGroup> {
    scenarios! {
        "chat/short": 512 => 128 @ concurrency [1, 4, 16, 64] slo { ttft_ms: 200, tpot_ms: 30 };
        "chat/long": [4096, 8192] => 128 @ rate [0.5, 2.0];
        "batch/mixed": (100..=900) => (Length::mix([(0.7, 64), (0.3, 256)])) @ concurrency [128];
    }
}

const TOML: &str = r#"
[[group]]
name = "chat"

[[group.scenario]]
name = "short"
input = 512
output = 128
concurrency = [1, 4, 16, 64]
goodput = { ttft_ms = 200, tpot_ms = 30 }

[[group.scenario]]
name = "long"
input = [4096, 8192]
output = 128
request_rate = [0.5, 2]

[[group]]
name = "batch"

[[group.scenario]]
name = "mixed"
input = { min = 100, max = 900 }
output = { mix = [{ weight = 0.7, length = 64 }, { weight = 0.3, length = 256 }] }
concurrency = 128
"#;

#[test]
fn the_three_forms_make_equal_values() {
    let built = by_builder();
    assert_eq!(built, by_macro());
    assert_eq!(built, parse(TOML, "scenarios.toml").unwrap().groups);
    let ids: Vec<String> = points(&built).unwrap().iter().map(|point| point.id()).collect();
    assert_eq!(
        ids,
        [
            "chat/short/c1",
            "chat/short/c4",
            "chat/short/c16",
            "chat/short/c64",
            "chat/long-4096x128/r0.5",
            "chat/long-4096x128/r2",
            "chat/long-8192x128/r0.5",
            "chat/long-8192x128/r2",
            "batch/mixed/c128",
        ]
    );
}

#[test]
fn the_macro_takes_whole_rates_and_one_row() {
    let groups = scenarios! { "chat/long": 4096 => 128 @ rate [1, 2, 4] };
    let rates: Vec<Load> = [1.0, 2.0, 4.0].map(|rate| Load::request_rate(rate).into()).to_vec();
    assert_eq!(groups[0].scenarios[0].loads, rates);
}

#[test]
fn the_builder_says_everything() {
    let scenario = Scenario::new("x")
        .prompts_from("p.jsonl")
        .output(64)
        .load(Load::request_rate(20.0).burstiness(0.5).max_concurrency(8))
        .num_prompts(7)
        .measurement_time(Duration::from_millis(1500));
    let mut group = ScenarioGroup::new("g");
    let point = group.scenario(scenario).points().unwrap().remove(0);
    assert_eq!(point.id(), "g/x/r20b0.5m8");
    assert_eq!(point.input, Length::OfPrompt);
    assert_eq!(point.prompt, PromptSpec::Jsonl { path: "p.jsonl".into() });
    assert_eq!((point.num_prompts, point.measurement_time_s), (Some(7), Some(1.5)));
    let toml = "[[group]]\nname = 'g'\n[[group.scenario]]\nname = 'x'\nprompts = 'p.jsonl'\noutput = 64\n\
                request_rate = 20\nburstiness = 0.5\nmax_concurrency = 8\nnum_prompts = 7\n\
                measurement_time = '1.5s'\n";
    assert_eq!(parse(toml, "f").unwrap().groups, [group]);
}

#[test]
fn mistakes_surface_when_the_group_is_unfolded() {
    let fine = || Scenario::new("s").input(1).output(1).load(Load::concurrency(1));
    assert!(points(&[group_of(fine())]).is_ok());
    for (bad, says) in [
        (Scenario::new("s").output(1).load(Load::concurrency(1)), "no input length"),
        (Scenario::new("s").input(1).load(Load::concurrency(1)), "no output length"),
        (Scenario::new("s").input(1).output(1), "no load"),
        (fine().input(0), "length 0"),
        (fine().load(Load::concurrency(0)), "concurrency 0"),
        (fine().load(Load::request_rate(f64::NAN)), "request rate NaN"),
        (fine().goodput(Slo::new()), "goodput without a limit"),
        (fine().num_prompts(0), "0 prompts"),
        (fine().measurement_time(Duration::ZERO), "measurement time of 0 s"),
        (fine().prompts_from("p.jsonl"), "both an input length and a prompt file"),
        (Scenario { name: String::new(), ..fine() }, "scenario name `` is empty"),
        (Scenario { name: "a/b".into(), ..fine() }, "one of `/"),
        (Scenario { name: "..".into(), ..fine() }, "begins with a dot"),
    ] {
        let text = points(&[group_of(bad)]).unwrap_err().render();
        assert!(text.contains(says), "{text} should say {says}");
        assert!(text.contains("declare.rs:"), "{text} should name the place");
    }
    let reserved = ScenarioGroup { name: "reference".into(), scenarios: vec![fine()] };
    assert!(points(&[reserved]).unwrap_err().render().contains("is taken"));
    let sweep = fine().inputs(1..=20_000_u32);
    assert!(points(&[group_of(sweep)]).unwrap_err().to_string().contains("10000 load points"));
}

fn group_of(scenario: Scenario) -> ScenarioGroup {
    ScenarioGroup { name: "g".into(), scenarios: vec![scenario] }
}

#[test]
fn duplicate_ids_name_both_places() {
    let scenario = || Scenario::new("s").input(1).output(1).load(Load::concurrency(1));
    let (first, second) = (scenario(), scenario().load(Load::concurrency(2)));
    let message = points(&[group_of(first), group_of(second)]).unwrap_err().to_string();
    assert_eq!(message.matches("declare.rs:").count(), 2, "{message}");
    assert!(message.starts_with("load point `g/s/c1` is declared twice"), "{message}");

    let rows = scenarios! {
        "g/s": 1 => 1 @ concurrency [1];
        "g/t": 1 => 1 @ concurrency [1];
        "g/s": 2 => 2 @ concurrency [1]
    };
    let message = points(&rows).unwrap_err().to_string();
    assert!(message.contains("row 1 and at") && message.ends_with("row 3"), "{message}");

    let toml = "[[group]]\nname='g'\n[[group.scenario]]\nname='s'\ninput=1\noutput=1\nconcurrency=1\n\
                [[group.scenario]]\nname='s'\ninput=2\noutput=2\nconcurrency=[1, 2]\n";
    let message = points(&parse(toml, "a.toml").unwrap().groups).unwrap_err().to_string();
    assert_eq!(message, "load point `g/s/c1` is declared twice: at a.toml:4 and at a.toml:9");
}

fn toml_error(text: &str) -> String {
    parse(text, "scenarios.toml").unwrap_err().render()
}

#[test]
fn unknown_keys_are_refused_with_line_and_caret() {
    insta::assert_snapshot!(toml_error("[run]\nstarts = 2\n\n[[group]]\nname = \"chat\"\ncolour = 1\n"), @r#"
    error: scenarios.toml:6:1: unknown field `colour`, expected `name` or `scenario`
      |
    6 | colour = 1
      | ^^^^^^
    "#);
    insta::assert_snapshot!(toml_error("[[group]]\nname = 'a'\n[[group.scenario]]\nname = 'b'\ninput = { min = 1, most = 2 }\n"), @r#"
    error: scenarios.toml:5:20: unknown field `most`, expected one of `min`, `max`, `mean`, `cv`, `median`, `sigma`, `mix`
      |
    5 | input = { min = 1, most = 2 }
      |                    ^^^^
    "#);
    insta::assert_snapshot!(toml_error("[server]\nurl = 'http://h'\napi_key = 'sk-secret'\n"), @r#"
    error: scenarios.toml:3:1: unknown field `api_key`, expected one of `url`, `engine_url`, `metrics_url`, `command`, `ready`, `ready_timeout`, `restart`, `stop`, `model`, `api`, `headers`, `extra_body`
      |
    3 | api_key = '*********'
      | ^^^^^^^
      hint: keys stay out of files: set `INFEROMETER_API_KEY` or use `--api-key-file`
    "#);
}

#[test]
fn wrong_values_are_refused_with_line_and_caret() {
    insta::assert_snapshot!(toml_error("[[group]]\nname = 'a'\n[[group.scenario]]\nname = 'b'\ninput = { mean = 5 }\n"), @r#"
    error: scenarios.toml:5:9: a length is a number of tokens, `{ min, max }`, `{ mean, cv }`, `{ median, sigma }` or `{ mix = [{ weight, length }] }`
      |
    5 | input = { mean = 5 }
      |         ^^^^^^^^^^^^
    "#);
    insta::assert_snapshot!(toml_error("[[group]]\nname = 'a'\n[[group.scenario]]\nname = 'b'\ninput = [512, 0]\n"), @r#"
    error: scenarios.toml:5:9: length 0 is not between 1 and 16777216 tokens
      |
    5 | input = [512, 0]
      |         ^^^^^^^^
    "#);
    insta::assert_snapshot!(toml_error("[[group]]\nname = 'a'\n[[group.scenario]]\nname = 'b'\nconcurrency = 4\nburstiness = 0.5\n"), @r#"
    error: scenarios.toml:6:14: this shapes a request rate, and none is given
      |
    6 | burstiness = 0.5
      |              ^^^
      hint: give `request_rate`, or leave this out
    "#);
    insta::assert_snapshot!(toml_error("[run]\nmeasurement_time = '10'\n"), @r#"
    error: scenarios.toml:2:20: `10` is not a duration: write a number and its unit: `500ms`, `1.5s`, `10m` or `2h`
      |
    2 | measurement_time = '10'
      |                    ^^^^
    "#);
    insta::assert_snapshot!(toml_error("[run]\nrounds = 0\n"), @r#"
    error: scenarios.toml:2:10: this must be at least 1
      |
    2 | rounds = 0
      |          ^
    "#);
    insta::assert_snapshot!(toml_error("[run]\nstarts = 1001\n"), @r#"
    error: scenarios.toml:2:10: this must be at most 1000
      |
    2 | starts = 1001
      |          ^^^^
    "#);
    insta::assert_snapshot!(toml_error("[run]\nmax_error_rate = 50\n"), @r#"
    error: scenarios.toml:2:18: an error rate is between 0 and 1
      |
    2 | max_error_rate = 50
      |                  ^^
    "#);
    insta::assert_snapshot!(toml_error("[run]\nmetadata = { a = [1] }\n"), @r#"
    error: scenarios.toml:2:18: a fact is a text, a number or a truth
      |
    2 | metadata = { a = [1] }
      |                  ^^^
    "#);
    insta::assert_snapshot!(toml_error("[server]\nurl = 'http://h'\n\n[against]\ncommand = 'a'\nrestart = 'b'\n"), @r#"
    error: scenarios.toml:4:1: both a server command and a restart hook are given
      |
    4 | [against]
      | ^^^^^^^^^
      hint: a command is restarted by the harness itself: leave the hook out
    "#);
    insta::assert_snapshot!(toml_error("[run\n"), @r#"
    error: scenarios.toml:1:5: unclosed table, expected `]`
      |
    1 | [run
      |     ^
    "#);
}

#[test]
fn the_other_side_shares_the_address_and_the_ready_check_it_does_not_name() {
    let against = |table: &str| {
        let server =
            "[server]\ncommand = 'a'\nurl = 'http://h:1'\nready = '/ready'\nready_timeout = '2m'\n";
        let mut settings = Settings::for_url("http://elsewhere");
        parse(&format!("{server}[against]\n{table}"), "f").unwrap().apply(&mut settings);
        settings.against.unwrap()
    };
    let launch = |path: &str, timeout_s| Launch::Command {
        command: "b".into(),
        ready_path: path.into(),
        ready_timeout_s: timeout_s,
    };
    let shared = against("command = 'b'\n");
    assert_eq!((shared.url.as_str(), shared.launch), ("", launch("/ready", 120.0)));
    let own = against("command = 'b'\nurl = 'http://h:2'\nready = '/up'\nready_timeout = '5s'\n");
    assert_eq!((own.url.as_str(), own.launch), ("http://h:2", launch("/up", 5.0)));
    let route = against("url = 'http://h:3'\n");
    assert_eq!((route.url.as_str(), route.launch), ("http://h:3", Launch::External));
}

#[test]
fn the_file_changes_what_it_says_and_nothing_else() {
    let text = "[server]\ncommand = 'serve'\nmodel = 'm'\nheaders = { A = 'b' }\nextra_body = { top_k = 5 }\n\
                [against]\nrestart = 'r'\nstop = 's'\nurl = 'http://h:1'\nready = '/v1/models'\nready_timeout = '2m'\n\
                [run]\nstarts = 8\nseed = 3\nignore_eos = 'off'\nbudget = '10m'\nmetadata = { a = 1, b = 'x', c = true }\n";
    let mut settings = Settings::for_url("http://elsewhere");
    let before = settings.clone();
    parse(text, "f").unwrap().apply(&mut settings);
    assert_eq!(settings.target.url, "http://127.0.0.1:8000");
    assert_eq!(
        settings.target.launch,
        Launch::Command {
            command: "serve".into(),
            ready_path: "/health".into(),
            ready_timeout_s: 1200.0
        }
    );
    let against = settings.against.unwrap();
    assert_eq!(against.url, "http://h:1");
    assert_eq!(
        against.launch,
        Launch::Hooks {
            restart: "r".into(),
            stop: Some("s".into()),
            ready_path: "/v1/models".into(),
            ready_timeout_s: 120.0
        }
    );
    assert_eq!(
        (settings.starts, settings.seed.0, settings.ignore_eos),
        (Some(8), 3, TriState::Off)
    );
    assert_eq!(settings.budget, Some(Duration::from_secs(600)));
    assert_eq!(settings.extra_body["top_k"], 5);
    assert_eq!(settings.headers, [("A".to_owned(), "b".to_owned())]);
    let facts: Vec<String> = settings.metadata.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(facts, ["a=1", "b=x", "c=true"]);
    assert_eq!((settings.rounds, settings.cool_down), (before.rounds, before.cool_down));
}

#[test]
fn prompt_files_lie_beside_the_scenario_file() {
    let path = |written: &str| {
        let text = format!(
            "[[group]]\nname='g'\n[[group.scenario]]\nname='s'\nprompts='{written}'\noutput=1\n"
        );
        parse(&text, "some/folder/a.toml").unwrap().groups[0].scenarios[0].prompt.clone()
    };
    assert_eq!(path("p.jsonl"), PromptSpec::Jsonl { path: "some/folder/p.jsonl".into() });
    assert_eq!(path("/data/p.jsonl"), PromptSpec::Jsonl { path: "/data/p.jsonl".into() });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// A file with a piece replaced is read or refused, and the refusal names a place.
    #[test]
    fn no_file_makes_it_panic(at in 0..3000_usize, len in 0..40_usize, piece in "\\PC{0,12}") {
        let mut text = include_str!("../../examples/scenarios.toml").to_owned();
        let start = text.floor_char_boundary(at.min(text.len()));
        let end = text.floor_char_boundary((start + len).min(text.len()));
        text.replace_range(start..end, &piece);
        match parse(&text, "a.toml") {
            Ok(file) => { let _ = points(&file.groups); }
            Err(error) => prop_assert!(error.to_string().starts_with("a.toml:"), "{}", error),
        }
    }
}

#[test]
fn an_empty_file_says_nothing() {
    let file = parse("", "f").unwrap();
    assert_eq!(file, inferometer::scenario::file::ScenarioFile::default());
    assert_eq!(LaunchSpec::default().target().unwrap(), None);
}

#[test]
fn the_examples_are_true() {
    let examples = [
        ("scenarios.toml", include_str!("../../examples/scenarios.toml"), 4 + 3 + 3 + 1),
        ("against.toml", include_str!("../../examples/against.toml"), 3 + 2),
    ];
    for (name, text, count) in examples {
        let file = parse(text, name).unwrap();
        let mut settings = Settings::for_url("http://h");
        file.apply(&mut settings);
        let plan =
            inferometer::plan::build_points(points(&file.groups).unwrap(), &settings).unwrap();
        assert_eq!(plan.points.len(), count, "{name}");
    }
}

/// Prompts that are all one.
struct Same;

impl PromptSource for Same {
    fn prompt(&self, _: u64, _: u32, _: Seed) -> inferometer::Result<Prompt> {
        Ok(Prompt::Text("same".to_owned()))
    }
}

#[test]
fn groups_of_one_run_have_one_configuration_down_to_the_key() {
    let harness = |change: &dyn Fn(&mut Harness)| {
        let mut harness = Harness::new(Settings::for_url("http://h"));
        harness.settings().api_key = Some(ApiKey::new("one"));
        change(&mut harness);
        harness
    };
    let merged = |change: &dyn Fn(&mut Harness)| {
        Harness::merged([harness(&|_| {}), harness(change)]).map(drop).map_err(|e| e.to_string())
    };
    assert_eq!(merged(&|_| {}), Ok(()));
    let different = Err("two scenario groups have different settings".to_owned());
    assert_eq!(merged(&|h| h.settings().rounds = 2), different);
    // Both show as `[redacted]`.
    assert_eq!(merged(&|h| h.settings().api_key = Some(ApiKey::new("two"))), different);
    let own = merged(&|h| {
        h.prompts(Arc::new(Same));
    });
    assert_eq!(
        own,
        Err("two scenario groups bring different prompts or dialects along".to_owned())
    );
    let same: Arc<dyn PromptSource> = Arc::new(Same);
    let with = || {
        harness(&|h| {
            h.prompts(Arc::clone(&same));
        })
    };
    assert!(Harness::merged([with(), with()]).is_ok());
}
