//! The bench entry: what `cargo bench` runs, with libtest's and criterion's flags understood.

use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser};

use super::args::RunArgs;
use super::{argv, help, run, test_mode};
use crate::compare::gate;
use crate::error::Result;
use crate::harness::{Action, Entry, Harness, Selection};
use crate::store::files;

/// A bench of inferometer: scenario groups against a server, or against the embedded simulator.
#[derive(Debug, Parser)]
#[command(name = "cargo bench --", bin_name = "cargo bench --", version, max_term_width = 100)]
struct BenchCli {
    /// Regular expressions on the whole id; several: any of them
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
    /// The filters are whole ids
    #[arg(long)]
    exact: bool,
    /// List the load points
    #[arg(long)]
    list: bool,
    /// Format of `--list`
    #[arg(long, value_name = "pretty|terse", default_value = "pretty")]
    format: run::ListFormatArg,
    /// Send two requests per load point and store nothing [default without `--bench`, as in `cargo test`]
    #[arg(long)]
    test: bool,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    ignored: LibtestArgs,
}

/// Flags that cargo and libtest users pass, without a meaning here.
#[derive(Debug, Args)]
struct LibtestArgs {
    #[arg(long, hide = true)]
    bench: bool,
    #[arg(long, hide = true)]
    nocapture: bool,
    #[arg(long, hide = true)]
    no_capture: bool,
    #[arg(long, hide = true)]
    show_output: bool,
    #[arg(long, hide = true)]
    ignored: bool,
    #[arg(long, hide = true)]
    include_ignored: bool,
    #[arg(long, hide = true, value_name = "N")]
    test_threads: Option<usize>,
    #[arg(long, hide = true, value_name = "WHEN")]
    color: Option<String>,
    #[arg(long, hide = true)]
    noplot: bool,
}

impl Harness {
    /// A harness configured from the command line and the environment, as `cargo bench` passes
    /// them. With no server given it runs the embedded simulator.
    ///
    /// Like criterion's, it ends the process where the flags ask for help or are wrong.
    #[must_use]
    #[allow(clippy::disallowed_methods)] // a bench file has no place to report a wrong flag
    pub fn from_env() -> Self {
        let executable = std::env::current_exe().ok();
        let parsed = help::shortened(BenchCli::command(), &[])
            .try_get_matches_from(argv::tidied(std::env::args_os()))
            .and_then(|matches| BenchCli::from_arg_matches(&matches));
        let parsed = match parsed {
            Ok(cli) => cli.harness(test_mode::is_bench(executable.as_deref())),
            Err(error) => {
                if let Some(error) = super::vllm_flag(&error) {
                    super::tell(&error);
                    std::process::exit(i32::from(gate::USAGE));
                }
                let _ = error.print();
                std::process::exit(if error.use_stderr() { i32::from(gate::USAGE) } else { 0 });
            }
        };
        parsed.unwrap_or_else(|error| {
            super::tell(&error);
            std::process::exit(i32::from(gate::exit_code(error.kind())))
        })
    }
}

impl BenchCli {
    /// `is_bench`: cargo built this executable as a bench, and calls it with `--bench` to measure.
    fn harness(self, is_bench: bool) -> Result<Harness> {
        let settings = self.run.defaults();
        let is_test = self.test || (is_bench && !self.ignored.bench);
        let action = match (self.list, is_test) {
            (true, _) => Action::List(self.format.into()),
            (false, true) => Action::Test,
            (false, false) => Action::Run,
        };
        let surface = self.run.output.surface(action, Entry::Bench);
        let run = self.run;
        // No load point is an ignored test: a runner that asks for those gets none.
        let selection = Selection {
            filters: self.filters,
            exact: self.exact,
            nothing: self.ignored.ignored && !self.ignored.bench,
        };
        Harness::new(settings).with_selection(selection).with_surface(surface).with_flags(
            move |settings| {
                run.apply(settings, &|path| files::read_text(path))?;
                if action == Action::Test {
                    test_mode::shrink(settings, test_mode::wants_the_server());
                }
                Ok(())
            },
        )
    }
}

/// Runs harnesses, as [`scenario_main!`](crate::scenario_main) does: their groups make one run,
/// so their settings must agree. Returns the exit code of the gate.
#[must_use]
pub fn bench_main(harnesses: impl IntoIterator<Item = Harness>) -> ExitCode {
    super::finish(Harness::merged(harnesses).and_then(|harness| match harness.surface().action {
        Action::Test => test_mode::run(harness),
        Action::Run | Action::List(_) => run::drive(harness),
    }))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::plan::ListFormat;
    use crate::settings::{BaselineChoice, Launch, Target};

    fn parsed(line: &str) -> Harness {
        let words = format!("bench {line}");
        let words = argv::tidied(words.split_whitespace().map(OsString::from));
        BenchCli::try_parse_from(words).unwrap().harness(false).unwrap()
    }

    #[test]
    fn what_cargo_and_test_runners_pass_is_taken() {
        parsed("--bench");
        parsed("--bench --nocapture --no-capture --show-output --test-threads 1 --color never");
        parsed("--ignored --include-ignored --noplot --discard-baseline");
        let listed = parsed("--bench --list --format terse --ignored").surface();
        assert_eq!(listed.action, Action::List(ListFormat::Terse));
        assert_eq!(listed.entry, Entry::Bench);
    }

    #[test]
    fn filters_are_positional_and_limits_do_not_take_them() {
        let mut harness = parsed("--bench --goodput ttft:200 tpot:30 chat short --exact");
        let expect =
            Selection { filters: vec!["chat".into(), "short".into()], exact: true, nothing: false };
        assert_eq!(harness.selection, expect);
        assert!(harness.settings().is_simulated());
    }

    #[test]
    fn a_test_sends_one_request_a_point_and_saves_no_baseline() {
        let mut harness = parsed("--test --save-baseline main");
        assert_eq!(harness.settings().num_prompts, Some(1));
        assert_eq!(harness.baseline(), &BaselineChoice::default());
    }

    #[test]
    fn a_bench_without_its_flag_is_in_test_mode_and_has_no_ignored_tests() {
        let parsed = |line: &str| {
            let words = format!("bench {line}");
            let cli = BenchCli::try_parse_from(words.split_whitespace()).unwrap();
            cli.harness(true).unwrap()
        };
        assert_eq!(parsed("").surface().action, Action::Test);
        assert_eq!(parsed("--exact a --nocapture").surface().action, Action::Test);
        assert_eq!(parsed("--bench").surface().action, Action::Run);
        assert_eq!(parsed("--bench --test").surface().action, Action::Test);
        assert!(parsed("--list --format terse --ignored").selection.nothing);
        assert!(!parsed("--list --format terse").selection.nothing);
    }

    /// The defaults, then code, then a file, then flags: each later one wins where it says anything.
    #[test]
    fn flags_win_over_a_file_over_code_over_defaults() {
        let harness = |flags: &str, file: &str| {
            let mut harness = parsed(flags);
            let settings = harness.settings();
            (settings.starts, settings.rounds, settings.num_prompts) = (Some(7), 7, Some(7));
            settings.headers = vec![("A".into(), "code".into()), ("B".into(), "code".into())];
            settings.target = Target::new("http://code", Launch::External);
            crate::scenario::file::parse(file, "f").unwrap().apply(settings);
            Harness::merged([harness]).unwrap()
        };
        let file = "[server]\nurl = 'http://file'\nheaders = { a = 'file' }\n[run]\nrounds = 8\nnum_prompts = 8\n";
        let mut given = harness("--num-prompts 9 --url http://flag -H C=flag", file);
        let settings = given.settings();
        assert_eq!(settings.reference_requests, 60);
        assert_eq!((settings.starts, settings.rounds, settings.num_prompts), (Some(7), 8, Some(9)));
        assert_eq!(settings.target.url, "http://flag");
        let headers: Vec<_> = settings.headers.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(headers, ["B=code", "a=file", "C=flag"]);
        assert_eq!(harness("", file).settings().target.url, "http://file");
        assert_eq!(harness("", "").settings().target.url, "http://code");
        assert!(harness("--simulate demo", file).settings().is_simulated());
        let mut test = harness("--test", file);
        assert_eq!((test.settings().num_prompts, test.settings().starts), (Some(1), Some(1)));
    }

    #[test]
    fn a_flag_that_does_not_go_with_what_code_set_is_refused() {
        let mut harness = parsed("--against-simulate demo");
        harness.settings().target = Target::new("http://h", Launch::External);
        let message = Harness::merged([harness]).unwrap_err().to_string();
        assert_eq!(message, "`--against-simulate` compares simulators");
    }

    #[test]
    fn criterions_words_are_taken() {
        let words = "--sample-size 9 --warm-up-time 1s --measurement-time 2s --noise-threshold 5% \
            --confidence-level 0.9 --significance-level 0.05 --baseline a --save-baseline b";
        let mut harness = parsed(words);
        assert_eq!(harness.settings().num_prompts, Some(9));
        assert_eq!(harness.settings().judge.noise_threshold, Some(0.05));
        assert_eq!(harness.baseline().compare.as_deref(), Some("a"));
        assert_eq!(harness.baseline().save.as_deref(), Some("b"));
    }
}
