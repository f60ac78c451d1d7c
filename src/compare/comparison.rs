//! A comparison as it is shown and stored: its mode, its cells, what the gate reports.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::decision::Reason;
use super::exit::GateResult;
use super::verdict::Verdict;
use super::working::Working;
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
#[serde(remote = "Self")] // the derived code is called by the two below, which recalls causes
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
    /// What was left out or is only observed, and why.
    #[serde(default)]
    pub notes: Vec<Note>,
    /// Every load point × measure.
    pub cells: Vec<Cell>,
    /// The mean over load points, per measure (L1).
    pub suite: Vec<SuiteResult>,
    /// What the gate reports.
    pub gate: GateResult,
}

fn one() -> u32 {
    1
}

impl Comparison {
    /// Why the new side must not become part of what it was held against: a baseline that takes in
    /// what regressed no longer finds it.
    #[must_use]
    pub fn unfit_for_baseline(&self) -> Option<String> {
        let is_unfit = |cell: &&Cell| {
            let suspected = |reason: &CellReason| reason.reason == Some(Reason::Suspected);
            matches!(cell.verdict, Verdict::Regressed | Verdict::Invalid | Verdict::Incomparable)
                || cell.reason.as_ref().is_some_and(suspected)
        };
        let cell = self.cells.iter().filter(|cell| cell.gated).find(is_unfit)?;
        let how = match cell.verdict {
            Verdict::Inconclusive => "suspected to be worse",
            verdict => verdict.label(),
        };
        Some(format!("{} at {} is {how}", cell.measure.label(), cell.point))
    }

    /// Whether anything gated changed, to the better or the worse: what a look stops at.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        let changed = |verdict| matches!(verdict, Verdict::Regressed | Verdict::Improved);
        self.cells.iter().any(|cell| cell.gated && changed(cell.verdict))
            || self.suite.iter().any(|suite| changed(suite.verdict))
    }
}

impl Serialize for Comparison {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

/// A file holds sentences: which load point or cell they are of is found here, once.
impl<'de> Deserialize<'de> for Comparison {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut comparison = Self::deserialize(deserializer)?;
        let cells = comparison.cells.iter().map(|cell| (cell.point.as_str(), cell.measure));
        let suites = comparison.suite.iter().map(|suite| suite.measure);
        comparison.gate.recall_cells(cells, suites);
        for note in &mut comparison.notes {
            note.recall_point(comparison.cells.iter().map(|cell| cell.point.as_str()));
        }
        Ok(comparison)
    }
}

/// What was left out or is only observed, and why. In a file: the load point, a colon and the text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Note {
    /// The load point's id; `None` for a note that is of no single point or names its point itself.
    pub point: Option<String>,
    /// The sentence.
    pub text: String,
}

impl From<Note> for String {
    fn from(note: Note) -> Self {
        match note.point {
            Some(point) => format!("{point}: {}", note.text),
            None => note.text,
        }
    }
}

impl From<String> for Note {
    fn from(text: String) -> Self {
        Self { point: None, text }
    }
}

impl Note {
    /// A stored note: takes the load point that it begins with out of the text.
    fn recall_point<'a>(&mut self, mut points: impl Iterator<Item = &'a str>) {
        let begins = |point: &'a str| {
            Some((point, self.text.strip_prefix(point)?.strip_prefix(": ")?.to_owned()))
        };
        if let Some((point, rest)) = points.find_map(begins) {
            *self = Self { point: Some(point.to_owned()), text: rest };
        }
    }
}

/// Why a cell has no better verdict. In a file: the text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct CellReason {
    /// The decision's own reason; `None` where a fault of the data came before the decision.
    pub reason: Option<Reason>,
    /// The sentence.
    pub text: String,
}

impl CellReason {
    /// Whether it is true of the whole comparison, which says so once.
    #[must_use]
    pub fn is_of_all(&self) -> bool {
        self.reason == Some(Reason::AdviceOnly)
    }
}

impl From<CellReason> for String {
    fn from(reason: CellReason) -> Self {
        reason.text
    }
}

impl From<String> for CellReason {
    fn from(text: String) -> Self {
        Self { reason: Reason::recalled(&text), text }
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
    pub reason: Option<CellReason>,
    /// How the verdict came about; `None` where nothing was tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working: Option<Box<Working>>,
}

impl Cell {
    /// The reason in words.
    #[must_use]
    pub fn reason_text(&self) -> &str {
        self.reason.as_ref().map_or("no reason known", |reason| &reason.text)
    }
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
