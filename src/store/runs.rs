//! Runs: begun once, written after every round, listed, removed.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::files::{self, Claim};
use super::{Store, layout, lock, whole_lines};
use crate::error::{Error, ErrorKind, Result};
use crate::record::stored::{RunStatus, SCHEMA};
use crate::record::{GapHistogram, RequestRecord, StoredRound, StoredRun};

/// How many runs may begin in one second under one name.
const SUFFIXES: u32 = 1_000;

/// Writes one run. Nobody else writes to its folder.
#[derive(Debug, Clone)]
pub struct RunWriter {
    store: Store,
    run_id: String,
    /// Held until the last clone is dropped or the process ends, however it ends.
    _in_use: Arc<File>,
}

/// A run whose folder is written to again.
#[derive(Debug)]
pub struct Reopened {
    /// Writes to it.
    pub writer: RunWriter,
    /// Records of which only a part was on disk; they were removed.
    pub cut_records: usize,
}

/// The stored runs, newest first.
#[derive(Debug, Clone, Default)]
pub struct RunList {
    /// Those that can be read.
    pub runs: Vec<StoredRun>,
    /// Those that cannot, with the reason: (id, why).
    pub unreadable: Vec<UnreadableRun>,
}

/// A run that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableRun {
    /// Its folder's name.
    pub id: String,
    /// Why, for people.
    pub reason: String,
}

/// What any version of `run.json` begins with.
#[derive(serde::Deserialize)]
struct Head {
    schema: u32,
}

impl Store {
    /// Makes the folder of a run and writes what is known of it. Where the id is taken (another run
    /// began in the same second), `-2`, `-3`, … is added: see [`RunWriter::id`].
    ///
    /// # Errors
    /// Where the folder or the file cannot be written.
    pub fn begin_run(&self, run: &StoredRun) -> Result<RunWriter> {
        layout::check_id(&run.id)?;
        let run_id = self.claim_run(&run.id)?;
        let writer = self.writer(run_id)?;
        writer.update(run)?;
        Ok(writer)
    }

    /// Takes up a run that was begun and not ended: its folder is written to again. What a kill or a
    /// full disk left of a record is removed; `run.json` stays as it is until the writer updates it.
    ///
    /// # Errors
    /// If the run is in progress, or a file cannot be written.
    pub fn resume_run(&self, run: &StoredRun) -> Result<Reopened> {
        layout::check_id(&run.id)?;
        let writer = self.writer(run.id.clone())?;
        let mut cut_records = 0;
        for point in &run.points {
            let requests = self.layout.requests(&run.id, &point.id);
            for file in [requests, self.layout.gaps(&run.id, &point.id)] {
                cut_records += usize::from(whole_lines::cut_to_whole_lines(&file)?);
            }
        }
        Ok(Reopened { writer, cut_records })
    }

    /// Whether a process is writing this run now.
    ///
    /// # Errors
    /// If its lock cannot be tried.
    pub fn is_in_progress(&self, run_id: &str) -> Result<bool> {
        layout::check_id(run_id)?;
        let lock = self.layout.run_lock(run_id);
        Ok(files::exists(&lock) && lock::lock_now(&lock)?.is_none())
    }

    fn writer(&self, run_id: String) -> Result<RunWriter> {
        let Some(in_use) = lock::lock_now(&self.layout.run_lock(&run_id))? else {
            return Err(Error::usage(format!("run `{run_id}` is still in progress"))
                .with_hint("wait for the other inferometer to end, or stop it first"));
        };
        Ok(RunWriter { store: self.clone(), run_id, _in_use: Arc::new(in_use) })
    }

    /// Makes a folder for a run under this id or one with a suffix, and reports which.
    pub(super) fn claim_run(&self, wanted: &str) -> Result<String> {
        files::make_folder(&self.layout.runs())?;
        for suffix in 1..=SUFFIXES {
            let id = if suffix == 1 { wanted.to_owned() } else { format!("{wanted}-{suffix}") };
            if files::claim_folder(&self.layout.run(&id))? == Claim::Ours {
                return Ok(id);
            }
        }
        Err(Error::store(format!("`{wanted}` and {SUFFIXES} names like it are taken"))
            .with_hint("give the run another `--name`"))
    }

    /// Reads a run.
    ///
    /// # Errors
    /// Where there is no such run, or its file cannot be read or understood.
    pub fn load_run(&self, run_id: &str) -> Result<StoredRun> {
        layout::check_id(run_id)?;
        let path = self.layout.run_file(run_id);
        let Some(text) = files::read_text_if_any(&path)? else {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no run `{run_id}`"))
                .with_hint("`inferometer runs list` shows the ids"));
        };
        parse_run(&path, &text)
    }

    /// The ids of all runs, newest first.
    ///
    /// # Errors
    /// Where the folder cannot be read.
    pub fn run_ids(&self) -> Result<Vec<String>> {
        let runs = self.layout.runs();
        let mut ids = files::names(&runs)?;
        ids.retain(|id| files::is_folder(&runs.join(id)));
        ids.reverse();
        Ok(ids)
    }

    /// All runs, newest first. One that cannot be read does not hide the others.
    ///
    /// # Errors
    /// Where the folder cannot be read.
    pub fn runs(&self) -> Result<RunList> {
        let mut list = RunList::default();
        for id in self.run_ids()? {
            match self.load_run(&id) {
                Ok(run) => list.runs.push(run),
                Err(error) => list.unreadable.push(UnreadableRun { id, reason: error.render() }),
            }
        }
        Ok(list)
    }

    /// The newest run; `None` if there is none. One that cannot be read is not passed over: an older
    /// one would be taken for it.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn newest_run(&self) -> Result<Option<StoredRun>> {
        for id in self.run_ids()? {
            // A folder without its file is a run that is just beginning.
            if files::exists(&self.layout.run_file(&id)) {
                return self.load_run(&id).map(Some).map_err(|error| {
                    error.with_hint(format!(
                        "this is the newest run: name an older one, or remove it with `inferometer runs remove {id}`"
                    ))
                });
            }
        }
        Ok(None)
    }

    /// The newest complete run of the same workload that is not `run_id` itself.
    ///
    /// # Errors
    /// Where the folder cannot be read.
    pub fn latest_but(&self, workload_hash: &str, run_id: &str) -> Result<Option<StoredRun>> {
        for id in self.run_ids()?.into_iter().filter(|id| id != run_id) {
            // One that cannot be read is no advice; `runs` reports it.
            if let Ok(run) = self.load_run(&id)
                && run.workload_hash == workload_hash
                && run.status == RunStatus::Complete
            {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }

    /// Removes a run and all it measured.
    ///
    /// # Errors
    /// Where there is no such run, a baseline points at it, or it cannot be removed.
    pub fn remove_run(&self, run_id: &str) -> Result<()> {
        let _lock = lock::lock(&self.layout.lock())?;
        layout::check_id(run_id)?;
        if !files::is_folder(&self.layout.run(run_id)) {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no run `{run_id}`"))
                .with_hint("`inferometer runs list` shows the ids"));
        }
        let holders = self.baselines().holders(run_id)?;
        if let Some(holder) = holders.first() {
            return Err(Error::usage(format!("baseline `{holder}` points at run `{run_id}`"))
                .with_hint(format!("`inferometer baselines remove {holder}` first")));
        }
        files::remove_folder(&self.layout.run(run_id))
    }

    /// Removes all but the newest `keep` runs, those that a baseline points at and those in progress, and
    /// what a killed import or removal left behind; reports which runs went. The newest are those with the
    /// highest ids and those written last: where a clock was set back, both orders differ.
    ///
    /// # Errors
    /// Where a folder cannot be read or removed; what went before stays removed.
    pub fn prune_runs(&self, keep: usize) -> Result<Vec<String>> {
        let _lock = lock::lock(&self.layout.lock())?;
        files::sweep(&self.layout.runs())?;
        let mut removed = Vec::new();
        let ids = self.run_ids()?;
        let written = |id: &String| files::written_at(&self.layout.run_file(id));
        let mut by_time = ids.clone();
        by_time.sort_by_key(|id| std::cmp::Reverse((written(id), id.clone())));
        let newest: Vec<&String> = ids.iter().take(keep).chain(by_time.iter().take(keep)).collect();
        for id in ids.iter().filter(|id| !newest.contains(id)).cloned() {
            if self.baselines().holders(&id)?.is_empty() && !self.is_in_progress(&id)? {
                files::remove_folder(&self.layout.run(&id))?;
                removed.push(id);
            }
        }
        Ok(removed)
    }

    /// Stores the verdicts of a run.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn save_comparison(&self, run_id: &str, comparison: &impl Serialize) -> Result<()> {
        layout::check_id(run_id)?;
        let path = self.layout.comparison(run_id);
        files::write_atomic(&path, to_json(&path, comparison)?)
    }

    /// Reads the verdicts of a run; `None` if it has none.
    ///
    /// # Errors
    /// Where the file cannot be read or understood.
    pub fn load_comparison<T: DeserializeOwned>(&self, run_id: &str) -> Result<Option<T>> {
        layout::check_id(run_id)?;
        let path = self.layout.comparison(run_id);
        let Some(text) = files::read_text_if_any(&path)? else { return Ok(None) };
        serde_json::from_str(&text).map(Some).map_err(|error| not_ours(&path, error))
    }
}

impl RunWriter {
    /// The run's id: the folder's name, which may differ from the wanted one by a suffix. Give it to
    /// [`StoredRun::id`]; the writer writes it in any case.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.run_id
    }

    /// Writes the run as it now stands.
    ///
    /// # Errors
    /// Where the file cannot be written; the old one is then untouched.
    pub fn update(&self, run: &StoredRun) -> Result<()> {
        let path = self.store.layout.run_file(&self.run_id);
        let json = if run.id == self.run_id {
            to_json(&path, run)?
        } else {
            to_json(&path, &StoredRun { id: self.run_id.clone(), ..run.clone() })?
        };
        files::write_atomic(&path, json)
    }

    /// Writes a round: its requests and gaps, then the run. `run` already lists `round`; a kill in
    /// between leaves requests that no run lists, which readers leave out.
    ///
    /// # Errors
    /// Where a file cannot be written.
    pub fn write_round(
        &self,
        run: &StoredRun,
        round: &StoredRound,
        records: &[RequestRecord],
        itl: &GapHistogram,
        icl: &GapHistogram,
    ) -> Result<()> {
        // Verdicts on fewer rounds, of an attempt that was interrupted, are no verdicts on this run.
        let verdicts = self.store.layout.comparison(&self.run_id);
        if files::exists(&verdicts) {
            files::remove_file(&verdicts)?;
        }
        super::rounds::append(&self.store, &self.run_id, round, records, itl, icl)?;
        self.update(run)
    }
}

/// One JSON document and a line end.
pub(super) fn to_json(path: &Path, value: &impl Serialize) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(value).map_err(|error| {
        Error::store(format!("cannot put `{}` into JSON", path.display())).with_cause(error)
    })?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Reads `run.json` of this schema or an older one.
pub(super) fn parse_run(path: &Path, text: &str) -> Result<StoredRun> {
    let head: Head = serde_json::from_str(text).map_err(|error| not_ours(path, error))?;
    check_schema(path, head.schema)?;
    serde_json::from_str(text).map_err(|error| not_ours(path, error))
}

/// Refuses a file of a later version.
pub(super) fn check_schema(path: &Path, schema: u32) -> Result<()> {
    if (1..=SCHEMA).contains(&schema) {
        return Ok(());
    }
    Err(Error::store(format!(
        "`{}` has schema {schema}; this version reads up to {SCHEMA}",
        path.display()
    ))
    .with_hint("it was written by a later inferometer: update this one"))
}

/// A file that is not what its name says.
pub(super) fn not_ours(path: &Path, cause: serde_json::Error) -> Error {
    Error::store(format!("cannot understand `{}`", path.display()))
        .with_cause(cause)
        .with_hint("the file was edited or damaged: restore it, or remove that run or baseline")
}
