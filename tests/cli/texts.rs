//! What a person reads first: help, the plan, errors.

use insta::assert_snapshot;

use super::Place;

#[test]
fn help_fits_a_terminal() {
    let said = Place::new().run(&["--help"]).ended_with(0).fit_to_read();
    assert_snapshot!("help", said.stdout);
    for command in ["run", "compare", "report", "runs", "baselines", "simulate"] {
        Place::new().run(&[command, "-h"]).ended_with(0).fit_to_read();
    }
}

#[test]
fn the_short_help_of_a_run_fits_a_screen_and_the_long_one_has_every_option() {
    let short = Place::new().run(&["run", "-h"]).ended_with(0).fit_to_read().stdout;
    assert!(short.lines().count() <= 50, "{short}");
    let long = Place::new().run(&["help", "run"]).ended_with(0).stdout;
    for flag in ["--url", "--baseline", "--max-concurrency"] {
        assert!(short.contains(flag) && long.contains(flag), "{flag}: {short}");
    }
    for flag in ["--idle-timeout", "--looks", "INFEROMETER_URL", "130  interrupted"] {
        assert!(!short.contains(flag) && long.contains(flag), "{flag}: {short}");
    }
}

#[test]
fn a_command_shows_no_flags_that_it_does_not_use() {
    for (command, flag) in [("plan", "--no-fail"), ("preflight", "--rounds"), ("list", "--url")] {
        let help = Place::new().run(&[command, "--help"]).ended_with(0).stdout;
        assert!(!help.contains(&format!("{flag} ")), "{command}: {help}");
    }
}

#[test]
fn the_plan_is_told_before_a_byte_is_sent() {
    let args = ["plan", "--url=http://127.0.0.1:1", "--max-concurrency=1,16", "--request-rate=4"];
    let said = Place::new().run(&args).ended_with(2);
    assert_snapshot!("several_caps", said.stderr);
    let args = ["plan", "--url=http://127.0.0.1:1", "--max-concurrency=1,16", "--num-prompts=50"];
    let said = Place::new().run(&args).ended_with(0).fit_to_read();
    assert_snapshot!("plan", said.stdout);
}

#[test]
fn an_error_says_what_failed_why_and_what_to_do() {
    let said = Place::new().run(&["run", "--url=http://127.0.0.1:1", "--starts=8"]).ended_with(2);
    assert_snapshot!("starts_without_a_command", said.stderr);
    let said = Place::new().run(&["run", "--baseline=main"]).ended_with(2);
    assert_snapshot!("no_such_baseline", said.stderr);
}
