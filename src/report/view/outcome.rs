//! The outcome: what a report says in one word.

use serde::Serialize;

use crate::compare::{Cell, Comparison, GateCause, GateReason, Verdict, gate};
use crate::metric::Metric;
use crate::report::ReportInput;

/// A report in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Nothing to compare with.
    Measured,
    /// Nothing to compare with, and no request completed.
    Failed,
    /// The server was lost in the middle of the run.
    ServerLost,
    /// Nothing to compare with, and load points of the plan have no figures.
    Incomplete,
    /// A gated cell got worse.
    Regressed,
    /// A limit that was required was missed, and nothing got worse.
    Missed,
    /// A gated cell has no verdict, because the client or the load could have moved it.
    Invalid,
    /// Something got better and nothing worse.
    Improved,
    /// Something gated got better, and a latency of the same load point is much worse.
    Mixed,
    /// Shown to be as before.
    Unchanged,
    /// Nothing changed that the data can tell, and of some numbers they cannot.
    Undecided,
    /// Not enough data to say.
    Inconclusive,
}

impl Outcome {
    /// The outcome over all comparisons: the gate's word first (1 and 4), then the best claim of
    /// the gated cells.
    #[must_use]
    pub fn of(input: &ReportInput) -> Self {
        let has = |cause: &GateCause| input.gate.reasons.iter().any(|r| r.cause == *cause);
        if has(&GateCause::ServerLost) {
            return Self::ServerLost;
        }
        if input.comparisons.is_empty() {
            // Where a load point is stopped early, none of its failures is a measured request.
            let (completed, _) = super::requests(input);
            return match input.gate.exit_code {
                _ if completed == 0 => Self::Failed,
                _ if missed(input).next().is_some() => Self::Missed,
                _ if has(&GateCause::PointMissing) => Self::Incomplete,
                _ => Self::Measured,
            };
        }
        let codes =
            || input.comparisons.iter().map(|c| c.gate.exit_code).chain([input.gate.exit_code]);
        let cells = input.comparisons.iter().flat_map(|c| &c.cells).filter(|c| c.gated);
        let any = |verdicts: &[Verdict]| cells.clone().any(|c| verdicts.contains(&c.verdict));
        let mut suites = input.comparisons.iter().flat_map(|c| &c.suite);
        if any(&[Verdict::Regressed]) || suites.any(|s| s.verdict == Verdict::Regressed) {
            Self::Regressed
        } else if missed(input).next().is_some() {
            Self::Missed
        } else if codes().any(|code| code == gate::REGRESSION) {
            Self::Inconclusive // what is not certain was told to fail
        } else if codes().any(|code| code == gate::INVALID)
            || any(&[Verdict::Invalid, Verdict::Incomparable])
        {
            Self::Invalid
        } else if any(&[Verdict::Improved]) {
            if much_worse(input).is_some() { Self::Mixed } else { Self::Improved }
        } else if !any(&[Verdict::Unchanged, Verdict::WithinNoise]) {
            Self::Inconclusive
        } else if !is_shown_unchanged(cells) {
            Self::Undecided
        } else {
            Self::Unchanged
        }
    }

    /// The word for the banner.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Measured => "Measured",
            Self::Failed => "Nothing completed",
            Self::ServerLost => "Server lost",
            Self::Incomplete => "Incomplete",
            Self::Regressed => "Regressed",
            Self::Missed => "Limit missed",
            Self::Invalid => "Not valid",
            Self::Improved => "Improved",
            Self::Mixed => "Mixed",
            Self::Unchanged => "Unchanged",
            Self::Undecided => "Not decided",
            Self::Inconclusive => "Not enough data",
        }
    }

    /// The class in the style sheet.
    #[must_use]
    pub fn class(self) -> &'static str {
        match self {
            Self::Measured => "neutral",
            Self::Regressed | Self::Missed | Self::Failed | Self::ServerLost => "bad",
            Self::Invalid | Self::Incomplete => "warn",
            Self::Improved => "good",
            Self::Unchanged => "calm",
            Self::Mixed | Self::Undecided | Self::Inconclusive => "unsure",
        }
    }
}

/// A latency that is so much higher, gated or not, valid or not, is named beside an improvement: less than
/// that the restarts of an unchanged server do to a tail that nobody gates.
const MUCH_WORSE: f64 = 0.20;

/// The latency that is worst of those that are much worse at a load point where something gated improved.
#[must_use]
pub fn much_worse(input: &ReportInput) -> Option<&Cell> {
    let size = |cell: &Cell| cell.change.unwrap_or(0.0);
    let all = input.comparisons.iter().flat_map(worse_beside_better);
    all.max_by(|a, b| size(a).total_cmp(&size(b)))
}

fn worse_beside_better(comparison: &Comparison) -> impl Iterator<Item = &Cell> {
    let better = comparison.cells.iter().filter(|c| c.gated && c.verdict == Verdict::Improved);
    let points: Vec<&str> = better.map(|cell| cell.point.as_str()).collect();
    let is_worse = |cell: &Cell| {
        let limit = MUCH_WORSE.max(2.0 * cell.floor);
        cell.measure.metric.is_distribution() && cell.change.is_some_and(|change| change > limit)
    };
    let worse = move |cell: &&Cell| is_worse(cell) && points.contains(&cell.point.as_str());
    comparison.cells.iter().filter(worse)
}

/// Whether every gated latency and throughput is shown to be as before.
fn is_shown_unchanged<'a>(mut cells: impl Iterator<Item = &'a Cell>) -> bool {
    cells.all(|cell| cell.verdict == Verdict::Unchanged || cell.measure.metric == Metric::ErrorRate)
}

/// The limits that were required and missed, a sentence each.
pub fn missed(input: &ReportInput) -> impl Iterator<Item = &str> {
    let missed = |reason: &&GateReason| matches!(reason.cause, GateCause::Limit { .. });
    input.gate.reasons.iter().filter(missed).map(|reason| reason.text.as_str())
}
