//! A comparison as it is shown and stored: its mode, its cells, what the gate says.

use serde::{Deserialize, Serialize};

use super::Verdict;
use crate::metric::Measure;

/// How a comparison came about, and so what it may claim (docs/statistics.md, section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Blocks of one start of each side.
    Interleaved,
    /// Fresh starts against a stored baseline of at least five.
    Saved,
    /// New starts of a plain URL against a baseline gathered over time.
    History,
    /// Two ways to one engine, rounds alternating.
    Routes,
    /// One start against one, or less: advice, no verdict.
    SingleStart,
}

/// A comparison of two sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// How it came about.
    pub mode: Mode,
    /// What the base is called: a baseline's name, a command.
    pub base_label: String,
    /// What the new side is called.
    pub new_label: String,
    /// The runs behind the base.
    pub base_runs: Vec<String>,
    /// The runs behind the new side.
    pub new_runs: Vec<String>,
    /// Valid blocks (paired), or the smaller number of starts.
    pub blocks: u32,
    /// How many looks at the growing data share the level of error; 1 without `--looks`.
    #[serde(default = "one")]
    pub looks: u32,
    /// Why this comparison gives no verdicts, where it gives none, and what would decide.
    pub advice: Option<String>,
    /// What was left out or is only observed, and why: a sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Every load point × measure.
    pub cells: Vec<Cell>,
    /// The mean over load points, per measure (L1).
    pub suite: Vec<SuiteResult>,
    /// What the gate says.
    pub gate: GateResult,
}

fn one() -> u32 {
    1
}

impl Comparison {
    /// Whether anything gated changed, to the better or the worse: what a look stops at.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        let changed = |verdict| matches!(verdict, Verdict::Regressed | Verdict::Improved);
        self.cells.iter().any(|cell| cell.gated && changed(cell.verdict))
            || self.suite.iter().any(|suite| changed(suite.verdict))
    }
}

/// One load point × measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The load point's id.
    pub point: String,
    /// What is compared.
    pub measure: Measure,
    /// Whether it can fail the gate; observed otherwise.
    pub gated: bool,
    /// The verdict.
    pub verdict: Verdict,
    /// Base value (geometric mean over starts), in the measure's unit.
    pub base: Option<f64>,
    /// New value.
    pub new: Option<f64>,
    /// new / base − 1, in the measure's own direction (an error rate: the difference).
    pub change: Option<f64>,
    /// The shown interval of `change`.
    pub interval: Option<(f64, f64)>,
    /// p after Holm.
    pub p_holm: Option<f64>,
    /// Smallest change that this many blocks would find in 95 of 100 cases, as a ratio − 1.
    pub minimum_detectable: Option<f64>,
    /// Blocks needed in all to decide a change of the size of the floor.
    pub blocks_needed: Option<u32>,
    /// The floor used.
    pub floor: f64,
    /// Start-level values (base, new) by block, for the pair plot.
    pub pairs: Vec<(Option<f64>, Option<f64>)>,
    /// Why it is invalid, incomparable or the like.
    pub reason: Option<String>,
}

/// The mean over load points of one measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuiteResult {
    /// What is compared.
    pub measure: Measure,
    /// The verdict.
    pub verdict: Verdict,
    /// Geometric mean change − 1.
    pub change: Option<f64>,
    /// Its interval.
    pub interval: Option<(f64, f64)>,
}

/// What the gate says of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateResult {
    /// The exit code.
    pub exit_code: u8,
    /// One sentence per cause, the first decides.
    pub reasons: Vec<String>,
}
