//! Import: another tool's result files as a stored run.
//!
//! What a file holds is kept; what it lacks is said as findings and never filled in. Requests are
//! kept where the file has them, with the times it has; figures of whole rounds are kept beside
//! them ([`StoredRound::reported`]) and stand in where requests cannot tell.
//!
//! A load point's id is made of what the file measured, `import/512x128/c64`, not of the file's
//! name: so the same load of several configurations meets, whatever their files are called.

mod details;
mod failure;
mod fields;
mod further;
mod lengths;
mod run;
mod vllm;

pub use further::as_further_start;

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::record::{GapHistogram, RequestRecord, StoredRound, StoredRun};
use crate::store::files;

/// The group of imported load points.
pub const GROUP: &str = "import";

/// More files than this are no sweep of one configuration.
pub const MOST_FILES: usize = 1_000;

/// More results than this in one file are no sweep of one configuration.
const MOST_RESULTS: usize = 1_000;

/// A longer name crowds every table, bytes.
const LONGEST_NAME: usize = 100;

/// What to import, and as what.
#[derive(Debug, Clone)]
pub struct Order<'a> {
    /// The files, in any order; several make one run with several load points.
    pub files: &'a [PathBuf],
    /// The run's name.
    pub name: &'a str,
    /// The scenario's name in place of the lengths: for prompts whose lengths differ from run to run.
    pub scenario: Option<&'a str>,
    /// Facts that the files do not hold; they take precedence over those that they do.
    pub metadata: &'a BTreeMap<String, String>,
    /// The command line, for the record.
    pub command_line: Vec<String>,
    /// When it is imported.
    pub at: jiff::Timestamp,
}

/// A run as it came out of the files.
#[derive(Debug, Clone)]
pub struct Imported {
    /// The run; it lists the rounds.
    pub run: StoredRun,
    /// The rounds with what was measured in them, in the order of the run's list.
    pub rounds: Vec<ImportedRound>,
}

/// One round with its requests, where the file has them.
#[derive(Debug, Clone)]
pub struct ImportedRound {
    /// The round.
    pub round: StoredRound,
    /// Its requests; none where the file has only figures.
    pub records: Vec<RequestRecord>,
    /// Gaps between tokens.
    pub itl: GapHistogram,
    /// Gaps between events.
    pub icl: GapHistogram,
    /// Whether the file says when each request was sent.
    pub sends: Sends,
}

/// Whether the file says when each request was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sends {
    /// It does.
    Known,
    /// It does not: every request then begins at 0 on a clock of its own.
    Unknown,
}

/// Reads result files of `vllm bench serve` into one run. Nothing is written.
///
/// # Errors
/// Where a file cannot be read, is not a result file, lacks a field or has one that makes no sense,
/// or where the files are of different models.
pub fn read(order: &Order<'_>) -> Result<Imported> {
    if order.files.is_empty() || order.files.len() > MOST_FILES {
        return Err(Error::usage(format!(
            "give 1 to {MOST_FILES} files, not {}",
            order.files.len()
        )));
    }
    check_name("--as", order.name)?;
    order.scenario.map_or(Ok(()), |name| check_name("--scenario", name))?;
    let mut results = Vec::new();
    for path in order.files {
        let text = files::read_text(path)?;
        results.extend(vllm::parse(&path.display().to_string(), &text)?);
    }
    run::assemble(order, results)
}

/// A name stands in ids, tables and paths.
fn check_name(flag: &str, name: &str) -> Result<()> {
    let plain = !name.trim().is_empty() && name.len() <= LONGEST_NAME;
    if plain && !name.contains(['/', '\n', '\r', '\t']) {
        return Ok(());
    }
    Err(Error::usage(format!(
        "`{flag}` takes a name without slashes of at most {LONGEST_NAME} bytes"
    )))
}
