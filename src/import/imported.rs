//! Imported: what to import, and the run that came out of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::record::{GapHistogram, RequestRecord, StoredRound, StoredRun};

/// What to import, and as what.
#[derive(Debug, Clone)]
pub struct Order<'a> {
    /// Files, folders and patterns, in any order; several results make one run with several load
    /// points.
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
    /// Its requests; empty if the file has only figures.
    pub records: Vec<RequestRecord>,
    /// Gaps between tokens.
    pub itl: GapHistogram,
    /// Gaps between events.
    pub icl: GapHistogram,
    /// Whether the file has the send time of each request.
    pub sends: Sends,
}

/// Whether the file has the send time of each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sends {
    /// It does.
    Known,
    /// It does not: every request then begins at 0 on a clock of its own.
    Unknown,
}
