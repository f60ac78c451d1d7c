//! The exit codes, and which one a run gets: the gravest cause decides. The codes stand here and in the
//! README alone.

use serde::{Deserialize, Serialize};

use super::gate_reason::{GAIN, GateCause, GateReason, cell_words, suite_words};
use crate::error::ErrorKind;
use crate::metric::Measure;

/// Nothing stands against it.
pub const FINE: u8 = 0;
/// A regression, or a required limit missed.
pub const REGRESSION: u8 = 1;
/// A usage or scenario error, or a baseline that does not exist.
pub const USAGE: u8 = 2;
/// Preflight failed, or the server is unusable.
pub const SERVER: u8 = 3;
/// A gated cell is invalid, incomparable or implausible, nothing was measured, or the client ran out of
/// descriptors or ports.
pub const INVALID: u8 = 4;
/// Interrupted by the user.
pub const INTERRUPTED: u8 = 130;

/// The exit code of an error.
#[must_use]
pub fn exit_code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Usage | ErrorKind::Scenario | ErrorKind::NotFound | ErrorKind::Store => USAGE,
        ErrorKind::Preflight | ErrorKind::Server | ErrorKind::Client => SERVER,
        ErrorKind::Interrupted => INTERRUPTED,
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
    /// both: a lost server puts all of its figures in doubt. 130 comes before all: what was decided is not
    /// what was planned.
    pub fn fail(&mut self, code: u8, cause: GateCause, text: String) {
        let reason = GateReason { cause, text };
        if self.reasons.contains(&reason) {
            return;
        }
        let rank = |code| match code {
            FINE => 0,
            REGRESSION => 2,
            SERVER => 3,
            INTERRUPTED => 4,
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

#[cfg(test)]
mod tests {
    use super::super::gate_reason::{
        NOTHING_MEASURED, NOTHING_TO_COMPARE, ended_early, failed_starts, limit_missed,
        not_measured, server_lost,
    };
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
