//! Why the exit code is what it is: a cause for the program, and its sentence for people. Files hold
//! the sentences alone, and causes are read back from them here.

use serde::{Deserialize, Serialize};

use crate::metric::Measure;

/// What decides or helps to decide the exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateCause {
    /// A gated cell regressed, or has no verdict that counts.
    Cell {
        /// The load point's id.
        point: String,
        /// The cell's number.
        measure: Measure,
    },
    /// A gain of a gated cell is too large to be believed.
    Gain {
        /// The load point's id.
        point: String,
        /// The cell's number.
        measure: Measure,
    },
    /// The mean over all load points regressed.
    Suite(Measure),
    /// A required limit was missed.
    Limit {
        /// The limit as written.
        limit: String,
        /// The load point's id.
        point: String,
    },
    /// No cell was measured on both sides.
    NothingToCompare,
    /// No request of the reported side completed.
    NothingMeasured,
    /// The run ended before its plan did.
    EndedEarly,
    /// The user ended it.
    Interrupted,
    /// The server was lost in the middle of the run.
    ServerLost,
    /// A load point of the plan has no figures.
    PointMissing,
    /// Starts of a side failed.
    FailedStarts,
    /// The client ran out of descriptors or ports.
    Client,
    /// A further side's comparison fails.
    OtherSide,
}

impl GateCause {
    /// Whether it concerns this cell.
    #[must_use]
    pub fn is_of_cell(&self, id: &str, number: Measure) -> bool {
        match self {
            Self::Cell { point, measure } | Self::Gain { point, measure } => {
                point == id && *measure == number
            }
            _ => false,
        }
    }

    /// Whether it is a gain that is too large to be believed.
    #[must_use]
    pub fn is_gain(&self) -> bool {
        matches!(self, Self::Gain { .. })
    }
}

/// One reason of the gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct GateReason {
    /// What it is about.
    pub cause: GateCause,
    /// Its sentence.
    pub text: String,
}

impl From<GateReason> for String {
    fn from(reason: GateReason) -> Self {
        reason.text
    }
}

/// The cause is that of a sentence that names no cell; `GateResult::recall_cells` finds the others.
impl From<String> for GateReason {
    fn from(text: String) -> Self {
        Self { cause: recalled(&text), text }
    }
}

impl std::fmt::Display for GateReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// How the reason of a gain that is too good begins, after its cell.
pub(super) const GAIN: &str = "is implausibly good";

/// No cell was measured on both sides.
pub(super) const NOTHING_TO_COMPARE: &str = "nothing was measured on both sides";

/// No request completed.
pub const NOTHING_MEASURED: &str = "nothing was measured";

/// The user ended the run.
pub const INTERRUPTED: &str = "interrupted: reported is what was measured until then";

/// How the reason of a run that ended early begins.
const ENDED_EARLY: &str = "the run ended before its plan did";

/// How the reason of a lost server begins.
const SERVER_LOST: &str = "the server was lost at ";

/// How the reason of a load point without figures begins.
const NOT_MEASURED: &str = "not measured: ";

/// The reason of a lost server. `what` happened to it, as after `the server`.
#[must_use]
pub fn server_lost(what: &str, point: &str) -> String {
    format!("{SERVER_LOST}{point}: it {what}")
}

/// The reason of a load point without figures. `why` is what happened to the server; empty where
/// nothing is known.
#[must_use]
pub fn not_measured(point: &str, why: &str) -> String {
    match why {
        "" => format!("{NOT_MEASURED}{point}"),
        why => format!("{NOT_MEASURED}{point} (the server {why})"),
    }
}

/// How the reason of failed starts goes on after its count.
const FAILED_STARTS: &str = "restarts failed (";

/// The reason of failed starts: `2 of 8 restarts failed (of the new side; restart 3: …)`.
#[must_use]
pub fn failed_starts(failed: usize, all: usize, whose: &str, first: &str) -> String {
    format!("{failed} of {all} {FAILED_STARTS}{whose}; {first})")
}

/// How the reasons of a cell begin.
pub(super) fn cell_words(measure: Measure, point: &str) -> String {
    format!("{} at {point}", measure.label())
}

/// How the reason of all load points together begins.
pub(super) fn suite_words(measure: Measure) -> String {
    format!("{} regressed over all load points", measure.label())
}

/// The reason of a run that ended early.
#[must_use]
pub fn ended_early(why: &str) -> String {
    format!("{ENDED_EARLY}: {why}")
}

/// The reason of a missed limit: these begin with the limit as written.
pub(super) fn limit_missed(limit: &str, point: &str, found: &str) -> String {
    format!("`{limit}` at {point}: {found}")
}

/// The cause behind a stored sentence, as far as it names no cell.
fn recalled(text: &str) -> GateCause {
    let limit = || {
        let (limit, rest) = text.strip_prefix('`')?.split_once("` at ")?;
        let (point, _) = rest.rsplit_once(": ")?;
        Some(GateCause::Limit { limit: limit.to_owned(), point: point.to_owned() })
    };
    match text {
        NOTHING_TO_COMPARE => GateCause::NothingToCompare,
        NOTHING_MEASURED => GateCause::NothingMeasured,
        INTERRUPTED => GateCause::Interrupted,
        _ if text.starts_with(SERVER_LOST) => GateCause::ServerLost,
        _ if text.starts_with(NOT_MEASURED) => GateCause::PointMissing,
        _ if text.starts_with(ENDED_EARLY) => GateCause::EndedEarly,
        _ if text.contains(FAILED_STARTS) => GateCause::FailedStarts,
        _ => limit().unwrap_or(GateCause::Client),
    }
}
