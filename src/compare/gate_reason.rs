//! Why the exit code is what it is: a cause for the program, and its sentence for people. Files hold
//! the sentences alone, and causes are read back from them here.

use serde::{Deserialize, Serialize};

use super::exit::{FINE, REGRESSION, SERVER};
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

/// The cause is that of a sentence that names no cell; [`GateResult::recall_cells`] finds the others.
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

/// What the gate reports of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateResult {
    /// The exit code.
    pub exit_code: u8,
    /// One reason per cause, the first decides.
    pub reasons: Vec<GateReason>,
}

impl GateResult {
    /// Adds a cause. 1 comes before 4: a regression is not hidden by an invalid cell. 3 comes before
    /// both: a lost server puts all of its figures in doubt.
    pub fn fail(&mut self, code: u8, cause: GateCause, text: String) {
        let reason = GateReason { cause, text };
        if self.reasons.contains(&reason) {
            return;
        }
        let rank = |code| match code {
            FINE => 0,
            REGRESSION => 2,
            SERVER => 3,
            _ => 1,
        };
        let outranks = rank(code) > rank(self.exit_code);
        if outranks {
            self.exit_code = code;
            self.reasons.insert(0, reason);
        } else {
            self.reasons.push(reason);
        }
    }

    /// Adds what another side's comparison says, under its name.
    pub fn join(&mut self, name: &str, other: &Self) {
        for reason in &other.reasons {
            self.fail(other.exit_code, GateCause::OtherSide, format!("{name}: {reason}"));
        }
    }

    /// A stored gate: gives the reasons of these cells and means their causes back.
    pub(super) fn recall_cells<'a>(
        &mut self,
        cells: impl Iterator<Item = (&'a str, Measure)>,
        suites: impl Iterator<Item = Measure>,
    ) {
        for (point, measure) in cells {
            let (point, words) = (point.to_owned(), cell_words(measure, point));
            for reason in &mut self.reasons {
                let Some(rest) = reason.text.strip_prefix(&words) else { continue };
                if rest.strip_prefix(' ').is_some_and(|rest| rest.starts_with(GAIN)) {
                    reason.cause = GateCause::Gain { point: point.clone(), measure };
                } else if rest.starts_with(' ') {
                    reason.cause = GateCause::Cell { point: point.clone(), measure };
                }
            }
        }
        for measure in suites {
            let words = suite_words(measure);
            let of_suite = |reason: &&mut GateReason| {
                reason.text.strip_prefix(&words).is_some_and(|rest| rest.starts_with(':'))
            };
            self.reasons.iter_mut().filter(of_suite).for_each(|reason| {
                reason.cause = GateCause::Suite(measure);
            });
        }
    }
}

/// How the reason of a gain that is too good begins, after its cell.
pub(super) const GAIN: &str = "is implausibly good";

/// No cell was measured on both sides.
pub(super) const NOTHING_TO_COMPARE: &str = "nothing was measured on both sides";

/// No request completed.
pub const NOTHING_MEASURED: &str = "nothing was measured";

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
        _ if text.starts_with(SERVER_LOST) => GateCause::ServerLost,
        _ if text.starts_with(NOT_MEASURED) => GateCause::PointMissing,
        _ if text.starts_with(ENDED_EARLY) => GateCause::EndedEarly,
        _ if text.contains(FAILED_STARTS) => GateCause::FailedStarts,
        _ => limit().unwrap_or(GateCause::Client),
    }
}

#[cfg(test)]
mod tests {
    use super::super::exit::INVALID;
    use super::*;

    fn client(text: &str) -> (GateCause, String) {
        (GateCause::Client, text.to_owned())
    }

    #[test]
    fn a_regression_comes_before_an_invalid_cell() {
        let mut gate = GateResult::default();
        let (invalid, regressed) = (client("invalid"), client("regressed"));
        gate.fail(INVALID, invalid.0.clone(), invalid.1.clone());
        gate.fail(REGRESSION, regressed.0, regressed.1);
        assert_eq!((gate.exit_code, gate.reasons[0].text.as_str()), (REGRESSION, "regressed"));
        gate.fail(INVALID, invalid.0, invalid.1);
        assert_eq!(gate.reasons.len(), 2, "a cause is reported once");
        gate.fail(SERVER, GateCause::ServerLost, server_lost("died (signal: 9)", "g/s/c4"));
        assert_eq!((gate.exit_code, &gate.reasons[0].cause), (SERVER, &GateCause::ServerLost));
    }

    #[test]
    fn a_regression_of_a_third_side_fails_too() {
        let mut gate = GateResult::default();
        let mut third = GateResult::default();
        third.fail(INVALID, GateCause::Client, "invalid".into());
        gate.join("B", &third);
        assert_eq!(gate.exit_code, INVALID);
        third.fail(REGRESSION, GateCause::Suite(Measure::TPOT_MEAN), "regressed".into());
        gate.join("C", &third);
        let first = &gate.reasons[0];
        assert_eq!((gate.exit_code, first.text.as_str()), (REGRESSION, "C: regressed"));
        assert!(gate.reasons.iter().all(|reason| reason.cause == GateCause::OtherSide));
    }

    #[test]
    fn stored_reasons_keep_their_causes() {
        let (measure, point) = (Measure::TPOT_MEAN, "chat/short/c64");
        let cell = |words: &str| format!("{} {words}", cell_words(measure, point));
        let point = point.to_owned();
        let gain = GateCause::Gain { point: point.clone(), measure };
        let reasons = [
            (gain, cell(GAIN)),
            (GateCause::Cell { point: point.clone(), measure }, cell("is inconclusive")),
            (GateCause::Suite(measure), format!("{}: +4 %", suite_words(measure))),
            (
                GateCause::Limit { limit: "ttft_p99<500ms".into(), point: point.clone() },
                limit_missed("ttft_p99<500ms", &point, "831 ms"),
            ),
            (GateCause::NothingToCompare, NOTHING_TO_COMPARE.into()),
            (GateCause::NothingMeasured, NOTHING_MEASURED.into()),
            (GateCause::EndedEarly, ended_early("killed")),
            (GateCause::ServerLost, server_lost("died (exit status: 1)", &point)),
            (GateCause::PointMissing, not_measured(&point, "")),
            (GateCause::FailedStarts, failed_starts(1, 6, "new", "restart 3: exit status 1")),
            (GateCause::Client, format!("{point}: the client ran out of ports")),
        ];
        let mut gate = GateResult::default();
        for (cause, text) in reasons {
            gate.fail(INVALID, cause, text);
        }
        let text = serde_json::to_string(&gate).unwrap();
        assert!(text.starts_with(r#"{"exit_code":4,"reasons":["TPOT mean at"#), "{text}");
        let mut read: GateResult = serde_json::from_str(&text).unwrap();
        // A load point whose name begins like another's takes none of its reasons.
        let cells = [("chat/short/c64", measure), ("chat/short/c6", measure)];
        read.recall_cells(cells.into_iter(), [measure].into_iter());
        assert_eq!(read, gate);
    }
}
