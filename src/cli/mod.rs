//! The surface: flags in, exit codes out.

mod args;
mod bench;
mod calibrate;
mod compare;
mod import;
mod keep;
mod run;
mod simulate;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::compare::gate;
use crate::error::Result;

pub use bench::bench_main;

/// A Criterion-style benchmark harness for LLM inference servers.
///
/// With no server given, the embedded simulator runs.
#[derive(Debug, Parser)]
#[command(name = "inferometer", version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure: preflight, warm-up, reference, every load point; compare; report
    Run(Box<run::RunCommand>),
    /// Check a server and send one request
    Preflight(Box<run::RunCommand>),
    /// Print what would run, how long and how many tokens it takes; send nothing
    Plan(Box<run::RunCommand>),
    /// List the load points
    List(Box<run::RunCommand>),
    /// Compare stored runs or baselines; the first is the base
    Compare(Box<compare::CompareCommand>),
    /// Rebuild the report from disk
    Report(compare::ReportCommand),
    /// List, show, remove and prune stored runs
    Runs(keep::RunsCommand),
    /// List, show, copy, remove, export, import and accept baselines
    Baselines(keep::BaselinesCommand),
    /// Read result files of `vllm bench serve` as a stored run
    Import(import::ImportCommand),
    /// Measure the server against itself: how noisy it is, what a gate can find, what it costs
    Calibrate(Box<run::RunCommand>),
    /// Serve the embedded simulator on a port
    Simulate(simulate::SimulateCommand),
}

/// The binary: parses the command line, runs it, and says how it went.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    finish(dispatch(cli.command))
}

fn dispatch(command: Command) -> Result<u8> {
    match command {
        Command::Run(command) => command.run(),
        Command::Preflight(command) => command.preflight(),
        Command::Plan(command) => command.plan(),
        Command::List(command) => command.list(),
        Command::Compare(command) => command.run(),
        Command::Report(command) => command.run(),
        Command::Runs(command) => command.run(),
        Command::Baselines(command) => command.run(),
        Command::Import(command) => command.run(),
        Command::Calibrate(command) => command.calibrate(),
        Command::Simulate(command) => command.run(),
    }
}

/// Prints clap's own text: help to stdout with 0, a usage error to stderr with 2.
fn refused(error: &clap::Error) -> ExitCode {
    // A closed pipe is not an error of ours.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { gate::USAGE } else { gate::FINE })
}

/// The exit code of a command; an error goes to stderr.
fn finish(result: Result<u8>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let _ = crate::report::terminal::print_message(&format!("{}\n", error.render()));
            ExitCode::from(gate::exit_code(error.kind()))
        }
    }
}
