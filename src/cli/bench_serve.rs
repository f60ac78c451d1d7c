//! `bench-serve`: the command line of `vllm bench serve`, checked and handed on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::SIGINT;

use args::BenchServeArgs;

use crate::bench_serve::{self, Event, Outcome};
use crate::compare::gate;
use crate::drive::{Interrupt, Urgency};
use crate::error::{Error, ErrorKind, Result};
use crate::report::terminal;
use crate::units;

mod args;
mod translate;

/// Kinds of failures that are shown; the rest is counted.
const SHOWN_FAILURES: usize = 10;

/// Run a command of `vllm bench serve` unchanged: same flags, same table, same result file.
///
/// docs/vllm.md lists every flag of vLLM's client and what becomes of it.
#[derive(Debug, Clone, Args)]
#[command(allow_negative_numbers = true)]
pub(super) struct BenchServeCommand {
    #[command(flatten)]
    args: BenchServeArgs,
}

impl BenchServeCommand {
    pub(super) fn run(&self) -> Result<u8> {
        let notes = self.args.notes()?;
        let options = translate::options(&self.args)?;
        for note in notes {
            message(&format!("note: {note}"));
        }
        let bar = progress_bar(options.shows_progress);
        let mut listener = |event: Event<'_>| match event {
            Event::Note(text) => bar.suspend(|| message(text)),
            Event::Progress { ended, of } => {
                bar.set_length(of as u64);
                bar.set_position(ended as u64);
            }
        };
        let interrupt = Interrupt::new();
        let ctrl_c = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGINT, Arc::clone(&ctrl_c)).map_err(|error| {
            Error::new(ErrorKind::Client, "cannot listen for Ctrl-C").with_cause(error)
        })?;
        let job = bench_serve::run(&options, &interrupt, &mut listener);
        let outcome = super::run::until_told_to_leave(&interrupt, Urgency::Drain, Box::pin(job));
        bar.finish_and_clear();
        let code = match outcome {
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                message("interrupted: no result file is written");
                gate::INTERRUPTED
            }
            outcome => conclude(outcome?)?,
        };
        if code == gate::INTERRUPTED && ctrl_c.load(Ordering::Relaxed) {
            // A shell goes on with its loop unless the program dies of the signal, as vLLM's client does.
            let _ = signal_hook::low_level::emulate_default_handler(SIGINT);
        }
        Ok(code)
    }
}

fn message(text: &str) {
    // A closed stderr is no reason to lose a benchmark.
    let _ = terminal::print_message(&format!("{}\n", terminal::plain(text)));
}

fn progress_bar(is_shown: bool) -> ProgressBar {
    let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} requests  {elapsed}");
    ProgressBar::with_draw_target(Some(0), target)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Shows what came of it.
fn conclude(outcome: Outcome) -> Result<u8> {
    for (text, count) in outcome.failures.iter().take(SHOWN_FAILURES) {
        let requests = requests(*count);
        message(&format!("warning: {requests} failed: {text}"));
    }
    terminal::print(&outcome.table)?;
    if let Some(Ok(path)) = &outcome.saved {
        message(&format!("result: {}", path.display()));
    }
    if outcome.is_interrupted {
        message("interrupted: shown is what had ended; no result file is written");
        return Ok(gate::INTERRUPTED);
    }
    if let Some(error) = failure(&outcome) {
        return Err(error);
    }
    outcome.saved.transpose().map(|_| gate::FINE)
}

/// Why the figures are not those of the whole benchmark.
fn failure(outcome: &Outcome) -> Option<Error> {
    let (most_seen, _) = outcome.failures.iter().max_by_key(|(_, count)| **count)?;
    let sent = outcome.completed + outcome.failed;
    let error = if outcome.completed == 0 {
        Error::server("every request failed")
            .with_cause(most_seen.clone())
            .with_hint("send one with `inferometer preflight --url URL`, which names what is wrong")
    } else if outcome.server.is_lost() {
        let of = requests(sent);
        Error::server(format!(
            "the server {}: {} of {of} completed",
            outcome.server.words(),
            units::count(outcome.completed)
        ))
        .with_hint("look at the server's log, or at the gateway or port-forward before it")
    } else if 2 * outcome.failed > sent {
        let text = format!("{} of {} failed", units::count(outcome.failed), requests(sent));
        Error::server(text).with_cause(most_seen.clone()).with_hint(
            "the figures are those of the few that completed: lower the load, or look at the server's log",
        )
    } else {
        return None;
    };
    Some(error)
}

fn requests(count: u64) -> String {
    units::plural(usize::try_from(count).unwrap_or(usize::MAX), "request")
}

/// vLLM's parser takes underscores in the names of flags, and so does this command.
pub(super) fn with_dashes(word: &std::ffi::OsStr) -> std::ffi::OsString {
    let Some(text) = word.to_str().filter(|text| text.starts_with("--")) else {
        return word.to_owned();
    };
    let (name, value) = text.split_once('=').map_or((text, None), |(n, v)| (n, Some(v)));
    let name = name.replace('_', "-");
    value.map_or(name.clone(), |value| format!("{name}={value}")).into()
}
