//! The surface of a run: which load points it has, and what the caller wants to see of it.

use crate::plan::ListFormat;
pub use crate::report::detail::Detail;

/// Which load points run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Regular expressions on the whole id; several: any of them; none: all.
    pub filters: Vec<String>,
    /// The filters are whole ids.
    pub exact: bool,
    /// No load point at all: a test runner asks for the ignored tests, of which a bench has none.
    pub nothing: bool,
}

/// What the caller wants to see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Surface {
    /// What to do with the load points.
    pub action: Action,
    /// What stdout carries.
    pub format: OutputFormat,
    /// How much of it.
    pub detail: Detail,
    /// How the caller was called, for hints that can be typed as they stand.
    pub entry: Entry,
}

/// How a run was called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Entry {
    /// `inferometer run --flag`.
    #[default]
    Command,
    /// `cargo bench -- --flag`.
    Bench,
}

/// What to do with the load points.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Action {
    /// Measure them.
    #[default]
    Run,
    /// Send two requests to each, store nothing.
    Test,
    /// List their ids.
    List(ListFormat),
}

/// What stdout carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OutputFormat {
    /// Tables for people.
    #[default]
    Terminal,
    /// One document, the same as `report.json`.
    Json,
    /// The table for a pull request.
    Markdown,
}
