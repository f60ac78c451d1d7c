//! The command line: flags in, exit codes out.

mod apply;
mod args;
mod argv;
mod bench;
mod bench_serve;
mod calibrate;
mod compare;
mod explain;
mod export;
mod help;
mod import;
mod lengths;
mod manage;
mod run;
mod selftest;
mod simulate;
mod test_mode;
mod trend;
mod wrap;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind as ClapError};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::bench_serve::flags;
use wrap::broken;

use crate::compare::gate;
use crate::error::{Error, Result};
use crate::report::terminal;

pub use bench::bench_main;

/// What the first help says below the commands.
const EXAMPLES: &str = "\
Examples:
  inferometer run                                    the embedded simulator
  inferometer run --url http://gpu-box:8000          the whole job on a server
  inferometer plan --url http://gpu-box:8000         what that would send
  inferometer run --url http://gpu-box:8000 --max-concurrency 1,4,16 \\
      --random-input-len 4096 --random-output-len 128 --save-baseline main

`inferometer run --help` shows the flags.";

/// A Criterion-style benchmark harness for LLM inference servers.
///
/// With no server given, the embedded simulator runs.
#[derive(Debug, Parser)]
#[command(
    name = "inferometer",
    bin_name = "inferometer",
    version,
    propagate_version = true,
    max_term_width = 100
)]
#[command(after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure every load point, compare, report
    Run(Box<run::RunCommand>),
    /// Check a server and send one request
    Preflight(Box<run::RunCommand>),
    /// Print what would run, its time and tokens; send nothing
    Plan(Box<run::RunCommand>),
    /// List the load points
    List(Box<run::RunCommand>),
    /// Compare stored runs or baselines; the first is the base
    Compare(Box<compare::CompareCommand>),
    /// Rebuild the report from disk
    Report(compare::ReportCommand),
    /// Show every number behind a verdict
    Explain(explain::ExplainCommand),
    /// Show when the figures of a baseline changed
    Trend(trend::TrendCommand),
    /// List, show, remove and prune stored runs
    Runs(manage::RunsCommand),
    /// List, show, copy, remove, export, import, accept baselines
    Baselines(manage::BaselinesCommand),
    /// Take a command of `vllm bench serve`: its flags, table and file
    #[command(args_override_self = true)]
    BenchServe(Box<bench_serve::BenchServeCommand>),
    /// Read result files of other benchmark clients as a stored run
    Import(import::ImportCommand),
    /// Write a stored run in the files of other tools
    Export(export::ExportCommand),
    /// Measure the server against itself: what a gate can find
    Calibrate(Box<run::RunCommand>),
    /// Measure how many streams this client can time accurately on this machine
    Selftest(selftest::SelftestCommand),
    /// Serve the embedded simulator on a port
    Simulate(simulate::SimulateCommand),
}

/// The binary: parses the command line, runs it, and says how it went.
#[must_use]
pub fn main() -> ExitCode {
    let parsed = help::shaped(Cli::command())
        .try_get_matches_from(command_line())
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    finish(dispatch(cli.command))
}

/// The words of the command line, those of vLLM's command read as vLLM reads them.
fn command_line() -> Vec<std::ffi::OsString> {
    let words = std::env::args_os();
    if std::env::args_os().nth(1).is_some_and(|command| command == "bench-serve") {
        return words.map(|word| bench_serve::with_dashes(&word)).collect();
    }
    if std::env::args_os().nth(1).is_some_and(|command| command == "simulate") {
        let command = Cli::command();
        let known = command.find_subcommand("simulate").map(argv::long_flags).unwrap_or_default();
        return argv::with_vllm_flags(words, &known);
    }
    argv::tidied(words)
}

fn dispatch(command: Command) -> Result<u8> {
    match command {
        Command::Run(command) => command.run(),
        Command::Preflight(command) => command.preflight(),
        Command::Plan(command) => command.plan(),
        Command::List(command) => command.list(),
        Command::Compare(command) => command.run(),
        Command::Report(command) => command.run(),
        Command::Explain(command) => command.run(),
        Command::Trend(command) => command.run(),
        Command::Runs(command) => command.run(),
        Command::Baselines(command) => command.run(),
        Command::BenchServe(command) => command.run(),
        Command::Import(command) => command.run(),
        Command::Export(command) => command.run(),
        Command::Calibrate(command) => command.calibrate(),
        Command::Selftest(command) => command.run(),
        Command::Simulate(command) => command.run(),
    }
}

/// Prints clap's own text: help to stdout with 0, a usage error to stderr with 2.
fn refused(error: &clap::Error) -> ExitCode {
    let takes_a_run = |command| {
        ["run", "preflight", "plan", "list", "calibrate"].iter().any(|name| command == *name)
    };
    if std::env::args_os().nth(1).is_some_and(takes_a_run)
        && let Some(error) = vllm_flag(error)
    {
        return finish(Err(error));
    }
    // A closed pipe is not an error of ours.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { gate::USAGE } else { gate::FINE })
}

/// The error for a flag of `vllm bench serve` where a flag of `run` is expected: clap would propose
/// whichever flag is spelt most alike.
fn vllm_flag(error: &clap::Error) -> Option<Error> {
    if error.kind() != ClapError::UnknownArgument {
        return None;
    }
    let ContextValue::String(flag) = error.get(ContextKind::InvalidArg)? else { return None };
    let hint = flags::hint_for_run(flag, value_of(flag).as_deref())?;
    Some(Error::usage(format!("`{flag}` is a flag of `vllm bench serve`")).with_hint(hint))
}

/// The word that the command line gives to a flag.
fn value_of(flag: &str) -> Option<String> {
    let mut words = std::env::args().skip_while(|word| word.split('=').next() != Some(flag));
    match words.next()?.split_once('=') {
        Some((_, value)) => Some(value.to_owned()),
        None => words.next(),
    }
}

/// The exit code of a command; an error goes to stderr.
fn finish(result: Result<u8>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            tell(&error);
            ExitCode::from(gate::exit_code(error.kind()))
        }
    }
}

/// Tells an error on stderr, its long sentences broken at spaces.
fn tell(error: &Error) {
    let lines: Vec<String> =
        error.render().lines().map(|line| broken(line, terminal::width())).collect();
    // Where stderr is closed there is nobody to tell.
    let _ = terminal::print_message(&format!("{}\n", lines.join("\n")));
}
