//! Detail: how much of a report a terminal shows.

/// How much is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Detail {
    /// Result lines only.
    Quiet,
    /// What most people want: without notes.
    #[default]
    Normal,
    /// Every round, and the notes.
    Verbose,
}
