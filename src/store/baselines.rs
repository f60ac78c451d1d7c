//! The baselines of a store: saved, appended to, copied, exported and imported.

use std::path::Path;

use jiff::Timestamp;

use super::baseline::{Action, Baseline, Change};
use super::bundle;
use super::files;
use super::lock;
use super::runs::{check_schema, not_ours, to_json};
use super::{Layout, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::record::stored::RunStatus;

/// How many changes a baseline remembers; the oldest go first. One a day is three years.
const LONGEST_HISTORY: usize = 1_000;

/// How many runs a baseline may point at: every one is read for a comparison.
const MOST_RUNS: usize = 1_000;

/// The baselines of a store. Times come from the caller, who holds the clock.
#[derive(Debug, Clone, Copy)]
pub struct Baselines<'a> {
    store: &'a Store,
}

impl Store {
    /// The baselines.
    #[must_use]
    pub fn baselines(&self) -> Baselines<'_> {
        Baselines { store: self }
    }
}

impl<'a> Baselines<'a> {
    /// Points `name` at this run alone, whatever it pointed at; its history stays.
    ///
    /// # Errors
    /// Where there is no such run, the name is empty, or a file cannot be read or written.
    pub fn save(&self, name: &str, run_id: &str, at: Timestamp) -> Result<Baseline> {
        self.point(name, run_id, Step { at, action: Action::Saved, reason: None })
    }

    /// Adds this run to `name`, making the baseline where there is none. A run it holds is not
    /// added twice.
    ///
    /// # Errors
    /// As [`Baselines::save`], and where it holds a thousand runs.
    pub fn append(&self, name: &str, run_id: &str, at: Timestamp) -> Result<Baseline> {
        self.point(name, run_id, Step { at, action: Action::Appended, reason: None })
    }

    /// Points `name` at this run, and keeps the reason: the way to take a known change for the new
    /// normal.
    ///
    /// # Errors
    /// As [`Baselines::save`], and where there is no such baseline or the reason is empty.
    pub fn accept(
        &self,
        name: &str,
        run_id: &str,
        reason: &str,
        at: Timestamp,
    ) -> Result<Baseline> {
        if reason.trim().is_empty() {
            return Err(Error::usage(format!("baseline `{name}` is not moved without a reason"))
                .with_hint("say why the change is right: `--reason 'new attention kernel'`"));
        }
        self.load(name)?;
        let run = self.store.load_run(run_id)?;
        if run.status != RunStatus::Complete || run.rounds.is_empty() {
            let why = match run.status {
                RunStatus::Complete => "measured nothing",
                _ => "did not end its plan",
            };
            return Err(Error::usage(format!(
                "run `{run_id}` {why}: baseline `{name}` keeps what it has"
            ))
            .with_hint("name a whole run: `inferometer runs` lists them"));
        }
        let reason = Some(reason.trim().to_owned());
        self.point(name, run_id, Step { at, action: Action::Accepted, reason })
    }

    /// Reads a baseline.
    ///
    /// # Errors
    /// Where there is none of that name, or it cannot be read or understood.
    pub fn load(&self, name: &str) -> Result<Baseline> {
        if let Some(baseline) = self.find(name)? {
            return Ok(baseline);
        }
        let known = self.list()?.into_iter().map(|b| format!("`{}`", b.name)).collect::<Vec<_>>();
        let hint = if known.is_empty() {
            format!("save one with `--save-baseline {name}`")
        } else {
            format!("known baselines: {}", known.join(", "))
        };
        Err(Error::new(ErrorKind::NotFound, format!("there is no baseline `{name}`"))
            .with_hint(hint))
    }

    /// Reads a baseline; `None` if there is none of that name.
    ///
    /// # Errors
    /// Where it cannot be read or understood.
    pub fn find(&self, name: &str) -> Result<Option<Baseline>> {
        let path = self.layout().baseline(name);
        files::read_text_if_any(&path)?.map(|text| parse(&path, &text)).transpose()
    }

    /// All baselines, by file name.
    ///
    /// # Errors
    /// Where one cannot be read or understood.
    pub fn list(&self) -> Result<Vec<Baseline>> {
        let folder = self.layout().baselines();
        let names = files::names(&folder)?;
        names
            .iter()
            .filter(|name| name.ends_with(".json"))
            .map(|name| {
                let path = folder.join(name);
                parse(&path, &files::read_text(&path)?)
            })
            .collect()
    }

    /// Makes `to` point at what `from` points at.
    ///
    /// # Errors
    /// Where `from` does not exist or `to` does: nothing is overwritten unasked.
    pub fn copy(&self, from: &str, to: &str, at: Timestamp) -> Result<Baseline> {
        let _lock = lock::lock(&self.layout().lock())?;
        let source = self.load(from)?;
        self.refuse_taken(to)?;
        let reason = Some(format!("copy of `{from}`"));
        let step = Step { at, action: Action::Copied, reason };
        self.write(Baseline::empty(to), source.runs, step)
    }

    /// Forgets a baseline. Its runs stay.
    ///
    /// # Errors
    /// Where there is none of that name, or it cannot be removed.
    pub fn remove(&self, name: &str) -> Result<()> {
        let _lock = lock::lock(&self.layout().lock())?;
        let path = self.layout().baseline(name);
        if !files::exists(&path) {
            // Reports which there are. One that is damaged can be removed all the same.
            self.load(name)?;
        }
        files::remove_file(&path)
    }

    /// Writes a baseline with all its runs into one file: lines of text, so that it can be read,
    /// packed and sent with what every system has.
    ///
    /// # Errors
    /// Where there is no such baseline, a run of it is missing, or a file cannot be read or written.
    pub fn export(&self, name: &str, bundle: &Path) -> Result<()> {
        bundle::write(self.store, &self.load(name)?, bundle)
    }

    /// Reads [`Baselines::export`]'s file: its runs, and the baseline under its own name or `name`.
    /// A run that is here already, equal to the last byte, is used as it is; one of the same id
    /// that differs gets a suffix.
    ///
    /// # Errors
    /// Where the name is taken, or the bundle was cut or edited; the store is then as it was.
    pub fn import(&self, bundle: &Path, name: Option<&str>, at: Timestamp) -> Result<Baseline> {
        let _lock = lock::lock(&self.layout().lock())?;
        let mut reader = bundle::Reader::open(bundle)?;
        let mut baseline = reader.baseline().clone();
        if let Some(name) = name {
            name.clone_into(&mut baseline.name);
        }
        self.refuse_taken(&baseline.name)?;
        let runs = reader.unpack(self.store)?;
        let reason = Some(format!("from `{}`", bundle.display()));
        self.write(baseline, runs, Step { at, action: Action::Imported, reason })
    }

    /// Whether a run could be made part of this baseline: asked before anything is measured.
    ///
    /// # Errors
    /// If the name is empty, or the baseline is there and cannot be read.
    pub fn check_writable(&self, name: &str) -> Result<()> {
        check_name(name)?;
        self.find(name).map(drop)
    }

    /// The names of the baselines that point at a run.
    pub(super) fn holders(&self, run_id: &str) -> Result<Vec<String>> {
        let holding = self.list()?.into_iter().filter(|b| b.runs.iter().any(|run| run == run_id));
        Ok(holding.map(|baseline| baseline.name).collect())
    }

    fn point(&self, name: &str, run_id: &str, step: Step) -> Result<Baseline> {
        let _lock = lock::lock(&self.layout().lock())?;
        self.store.load_run(run_id)?;
        let baseline = self.find(name)?.unwrap_or_else(|| Baseline::empty(name));
        let mut runs = match step.action {
            Action::Appended => baseline.runs.clone(),
            _ => Vec::new(),
        };
        if !runs.iter().any(|run| run == run_id) {
            runs.push(run_id.to_owned());
        }
        if runs.len() > MOST_RUNS {
            return Err(Error::usage(format!("baseline `{name}` holds {MOST_RUNS} runs already"))
                .with_hint(format!("begin anew with `--save-baseline {name}`")));
        }
        self.write(baseline, runs, step)
    }

    fn write(&self, mut baseline: Baseline, runs: Vec<String>, step: Step) -> Result<Baseline> {
        check_name(&baseline.name)?;
        baseline.runs.clone_from(&runs);
        baseline.history.push(Change {
            at: step.at,
            action: step.action,
            runs,
            reason: step.reason,
        });
        let surplus = baseline.history.len().saturating_sub(LONGEST_HISTORY);
        baseline.history.drain(..surplus);
        let path = self.layout().baseline(&baseline.name);
        files::write_atomic(&path, to_json(&path, &baseline)?)?;
        Ok(baseline)
    }

    fn refuse_taken(&self, name: &str) -> Result<()> {
        if self.find(name)?.is_none() {
            return Ok(());
        }
        Err(Error::usage(format!("there is a baseline `{name}` already")).with_hint(format!(
            "choose another name, or remove it first: `inferometer baselines remove {name}`"
        )))
    }

    fn layout(&self) -> &'a Layout {
        self.store.layout()
    }
}

/// What is done, when and why.
struct Step {
    at: Timestamp,
    action: Action,
    reason: Option<String>,
}

fn check_name(name: &str) -> Result<()> {
    if name.trim().is_empty() {
        return Err(Error::usage("a baseline needs a name")
            .with_hint("`--save-baseline main`, for example"));
    }
    Ok(())
}

fn parse(path: &Path, text: &str) -> Result<Baseline> {
    let baseline: Baseline = serde_json::from_str(text).map_err(|error| not_ours(path, error))?;
    check_schema(path, baseline.schema)?;
    Ok(baseline)
}
