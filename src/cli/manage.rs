//! `runs` and `baselines`: what is stored, listed and tended.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::args::OutputArgs;
use crate::clock::Clock;
use crate::compare::gate;
use crate::error::{Error, Result};
use crate::plan::Phase;
use crate::record::StoredRun;
use crate::record::stored::RunStatus;
use crate::report::terminal;
use crate::settings::Settings;
use crate::store::{Baseline, Store};
use crate::units::plural;

/// Stored runs.
#[derive(Debug, Args)]
pub(super) struct RunsCommand {
    #[command(subcommand)]
    action: Option<RunsAction>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Subcommand)]
enum RunsAction {
    /// List them, newest first (the default)
    List,
    /// Show one
    Show {
        /// Its id
        run: String,
    },
    /// Remove runs
    Remove {
        /// Their ids
        #[arg(required = true)]
        runs: Vec<String>,
    },
    /// Remove all but the newest; runs that a baseline holds stay
    Prune {
        /// How many to keep
        #[arg(long, value_name = "N")]
        keep: usize,
    },
}

impl RunsCommand {
    pub(super) fn run(&self) -> Result<u8> {
        let store = open(&self.output)?;
        match self.action.as_ref().unwrap_or(&RunsAction::List) {
            RunsAction::List => list_runs(&store)?,
            RunsAction::Show { run } => show_run(&store, &store.load_run(run)?),
            RunsAction::Remove { runs } => {
                for run in runs {
                    store.remove_run(run)?;
                    say(&format!("removed run {run}"));
                }
            }
            RunsAction::Prune { keep } => {
                let removed = store.prune_runs(*keep)?;
                say(&format!("removed {}", plural(removed.len(), "run")));
            }
        }
        Ok(gate::FINE)
    }
}

fn open(output: &OutputArgs) -> Result<Store> {
    let mut settings = Settings::for_url("");
    output.apply(&mut settings);
    Store::open(&settings.output_dir)
}

/// One line on stdout; what cannot be written there has no better place to go.
fn say(line: &str) {
    let _ = terminal::print(&format!("{line}\n"));
}

fn list_runs(store: &Store) -> Result<()> {
    let list = store.runs()?;
    if list.runs.is_empty() && list.unreadable.is_empty() {
        say("no runs are stored yet: measure one with `inferometer run`");
    }
    for run in &list.runs {
        let of = |phase| run.points.iter().filter(|point| point.phase == phase).count();
        let loads = plural(of(Phase::Load), "load point");
        let starts = plural(run.starts.len(), "start");
        let status = status(store, run);
        say(&format!("{}  {status}, {loads}, {starts}", run.id));
    }
    for run in &list.unreadable {
        say(&format!("{}  unreadable: {}", run.id, run.reason));
    }
    Ok(())
}

/// The status of a run: one that no process is writing any more was killed.
fn status(store: &Store, run: &StoredRun) -> &'static str {
    let is_dead = || !store.is_in_progress(&run.id).unwrap_or(false);
    if run.status == RunStatus::Running && is_dead() { "aborted" } else { run.status.name() }
}

fn show_run(store: &Store, run: &StoredRun) {
    say(&format!("run        {}", run.id));
    say(&format!("status     {}", status(store, run)));
    say(&format!("made by    {} ({})", run.tool, run.definitions));
    say(&format!("command    {}", run.command_line.join(" ")));
    for (side, found) in &run.sides {
        say(&format!(
            "side       {}: {} at {}, model {}",
            side.name(),
            found.label,
            found.url,
            found.model
        ));
    }
    for (key, value) in &run.metadata {
        say(&format!("metadata   {key}={value}"));
    }
    for point in &run.points {
        let rounds = run.rounds.iter().filter(|r| r.point == point.id).count();
        say(&format!("point      {} ({rounds} rounds)", point.id));
    }
    for finding in &run.findings {
        say(&format!("finding    {}", finding.text));
    }
}

/// Baselines: names for stored runs.
#[derive(Debug, Args)]
pub(super) struct BaselinesCommand {
    #[command(subcommand)]
    action: Option<BaselinesAction>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Subcommand)]
enum BaselinesAction {
    /// List them (the default)
    List,
    /// Show one with its history
    Show {
        /// Its name
        name: String,
    },
    /// Copy one to another name
    Copy {
        /// What to copy
        from: String,
        /// Its new name
        to: String,
    },
    /// Remove names; the runs stay
    Remove {
        /// The names
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Write one with all its runs into a file
    Export {
        /// Its name
        name: String,
        /// The file to write
        file: PathBuf,
    },
    /// Read one from a file
    Import {
        /// The file to read
        file: PathBuf,
        /// Another name for it
        #[arg(long = "as", value_name = "NAME")]
        name: Option<String>,
    },
    /// Accept a run as the new baseline level, with a reason
    Accept {
        /// The baseline's name
        name: String,
        /// Id of the run; default: the newest
        run: Option<String>,
        /// Why the change is right
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
}

impl BaselinesCommand {
    pub(super) fn run(&self) -> Result<u8> {
        let store = open(&self.output)?;
        let baselines = store.baselines();
        let now = Clock::start().wall_origin();
        match self.action.as_ref().unwrap_or(&BaselinesAction::List) {
            BaselinesAction::List => list_baselines(&baselines.list()?),
            BaselinesAction::Show { name } => show_baseline(&baselines.load(name)?),
            BaselinesAction::Copy { from, to } => told(&baselines.copy(from, to, now)?),
            BaselinesAction::Remove { names } => {
                for name in names {
                    baselines.remove(name)?;
                    say(&format!("removed baseline {name}; its runs stay"));
                }
            }
            BaselinesAction::Export { name, file } => {
                baselines.export(name, file)?;
                say(&format!("wrote {}", file.display()));
            }
            BaselinesAction::Import { file, name } => {
                told(&baselines.import(file, name.as_deref(), now)?);
            }
            BaselinesAction::Accept { name, run, reason } => {
                let run = match run {
                    Some(run) => run.clone(),
                    None => newest(&store)?,
                };
                told(&baselines.accept(name, &run, reason, now)?);
            }
        }
        Ok(gate::FINE)
    }
}

fn newest(store: &Store) -> Result<String> {
    let run = store.newest_run()?.ok_or_else(|| {
        Error::usage("no run is stored yet").with_hint("measure one with `inferometer run`")
    })?;
    if run.status != RunStatus::Complete {
        let status = status(store, &run);
        return Err(Error::usage(format!("the newest run, `{}`, is {status}", run.id))
            .with_hint("name a complete run after the name of the baseline: `inferometer runs list` shows them"));
    }
    Ok(run.id)
}

fn told(baseline: &Baseline) {
    say(&format!("baseline {} holds {}", baseline.name, plural(baseline.runs.len(), "run")));
}

fn list_baselines(baselines: &[Baseline]) {
    if baselines.is_empty() {
        say("no baselines yet: save one with `--save-baseline NAME`");
    }
    for baseline in baselines {
        say(&format!("{}  {}", baseline.name, baseline.runs.join(", ")));
    }
}

fn show_baseline(baseline: &Baseline) {
    say(&format!("baseline   {}", baseline.name));
    for run in &baseline.runs {
        say(&format!("run        {run}"));
    }
    for change in &baseline.history {
        let action = change.action.name();
        let reason = change.reason.as_deref().map(|r| format!(": {r}")).unwrap_or_default();
        say(&format!("{}  {action}{reason}", change.at));
    }
}
