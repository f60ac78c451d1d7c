//! A baseline: a name for stored runs, with the history of its changes.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::record::stored::SCHEMA;

/// A name for runs: what is on disk as `baselines/<name>.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// The schema, as of runs.
    pub schema: u32,
    /// Its name, as given.
    pub name: String,
    /// The ids of its runs, in the order added.
    pub runs: Vec<String>,
    /// How it came to point at them, oldest first.
    pub history: Vec<Change>,
}

/// One change of a baseline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// When, UTC.
    pub at: Timestamp,
    /// What was done.
    pub action: Action,
    /// The runs it pointed at afterwards.
    pub runs: Vec<String>,
    /// Why, where that was given.
    pub reason: Option<String>,
}

/// What was done to a baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Pointed at a run (`--save-baseline`).
    Saved,
    /// A run was added (`--append-baseline`).
    Appended,
    /// A run was accepted in place of what it pointed at, for a reason.
    Accepted,
    /// Made as a copy of another.
    Copied,
    /// Read from a bundle.
    Imported,
}

impl Action {
    /// The name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Saved => "saved",
            Self::Appended => "appended",
            Self::Accepted => "accepted",
            Self::Copied => "copied",
            Self::Imported => "imported",
        }
    }
}

impl Baseline {
    pub(super) fn empty(name: &str) -> Self {
        Self { schema: SCHEMA, name: name.to_owned(), runs: Vec::new(), history: Vec::new() }
    }
}
