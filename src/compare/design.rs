//! The mode of a comparison: what there is decides what may be said (docs/statistics.md,
//! section 2).

use super::Mode;
use super::calibration::Calibration;
use super::decide::ErrorTerm;
use super::side::ComparedSide;
use crate::settings::JudgeSettings;

/// Fewer starts of the base than this carry no gate: with four a paired t at the level of one cell
/// among many needs differences of twenty standard errors.
pub const LEAST_STARTS: usize = 5;

/// Who restarts the servers, and how the sides met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// In one run, in blocks.
    Blocks,
    /// In one run, two URLs that nobody restarts, rounds alternating.
    Routes,
    /// In different runs; this side's server is restarted by us (command, hook, simulator).
    Restarted,
    /// In different runs; the server is a plain URL.
    PlainUrl,
    /// In different runs, and nobody asked for a verdict: the last run of the same work.
    LastTwin,
}

/// How much two days differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DaySpread {
    /// `calibrate` measured it on two days or more: each cell has its own.
    Calibrated,
    /// There are no days: the simulator, or both sides in one run.
    None,
    /// Not known.
    Unknown,
}

/// What a comparison may claim.
#[derive(Debug, Clone, PartialEq)]
pub struct VerdictBasis {
    /// The mode.
    pub mode: Mode,
    /// Where the error of a difference comes from.
    pub error_term: ErrorTerm,
    /// Whether each cell needs a spread between days of its own to be judged.
    pub days: DaySpread,
    /// Why there is no verdict, where there is none, and what would decide.
    pub advice: Option<String>,
}

/// Everything a judgement needs besides the two sides.
#[derive(Debug, Clone)]
pub struct Judging<'a> {
    /// Mode and error term.
    pub standing: &'a VerdictBasis,
    /// Levels, floors, gates.
    pub settings: &'a JudgeSettings,
    /// How many looks share the level.
    pub looks: u32,
    /// This machine's own lag, ms.
    pub idle_lag_ms: f64,
    /// What is known of this server's own noise.
    pub calibration: Option<&'a Calibration>,
}

impl VerdictBasis {
    fn verdict(mode: Mode, error_term: ErrorTerm) -> Self {
        Self { mode, error_term, days: DaySpread::None, advice: None }
    }

    fn advice(mode: Mode, advice: String) -> Self {
        Self { advice: Some(advice), ..Self::verdict(mode, ErrorTerm::Advice) }
    }
}

/// The standing of two sides. `decide_by` is the command that would decide where this cannot.
#[must_use]
pub fn standing(
    base: &ComparedSide,
    new: &ComparedSide,
    meeting: Pairing,
    day: DaySpread,
    decide_by: &str,
) -> VerdictBasis {
    let (base_starts, new_starts) = (base.distinct_starts(), new.distinct_starts());
    let enough = base_starts >= LEAST_STARTS && new_starts >= 1;
    match meeting {
        Pairing::Blocks => VerdictBasis::verdict(Mode::Interleaved, ErrorTerm::Paired),
        Pairing::Routes => routes(base, new, decide_by),
        Pairing::LastTwin => VerdictBasis::advice(
            Mode::SingleStart,
            "no baseline was named: the last run of the same work is shown as advice. To judge: `--baseline NAME`".into(),
        ),
        Pairing::Restarted if enough && new_starts >= 2 => saved(base, new, day),
        Pairing::Restarted | Pairing::PlainUrl if enough => history(base, new, day),
        Pairing::Restarted | Pairing::PlainUrl => {
            let advice = format!(
                "no verdict: {} against {} cannot tell a change from a restart. To decide: {decide_by}",
                starts(new_starts),
                starts(base_starts),
            );
            VerdictBasis::advice(Mode::SingleStart, advice)
        }
    }
}

fn starts(n: usize) -> String {
    if n == 1 { "one start".into() } else { format!("{n} starts") }
}

/// Rounds that alternate within one start of one engine are pairs: the start's effect cancels. Two
/// engines that nobody restarts are two single starts, whatever their URLs are called.
fn routes(base: &ComparedSide, new: &ComparedSide, decide_by: &str) -> VerdictBasis {
    let (one, other) = (base.told_identities(), new.told_identities());
    let advice = if one.is_empty() || other.is_empty() {
        format!(
            "no verdict: the two URLs do not both tell which start of the engine they lead to (`process_start_time_seconds` of `/metrics`), so they may be two servers. To decide: {decide_by}"
        )
    } else if one != other || one.len() != 1 {
        format!(
            "no verdict: the two URLs lead to different starts of an engine, and one start against one cannot tell a change from a restart. To decide: {decide_by}"
        )
    } else {
        return VerdictBasis::verdict(Mode::Routes, ErrorTerm::Paired);
    };
    VerdictBasis::advice(Mode::SingleStart, advice)
}

/// New starts against a baseline whose starts cannot be paired with them. Baseline starts of
/// several days hold the days' spread; new starts of one day share one day's offset.
fn history(base: &ComparedSide, new: &ComparedSide, day: DaySpread) -> VerdictBasis {
    let error_term = match (base.days() >= 2, new.days() >= 2, day) {
        (true, true, _) => ErrorTerm::Unpaired { day_sd: 0.0 },
        (true, false, _) => ErrorTerm::PredictionOfDay,
        (false, _, DaySpread::None | DaySpread::Calibrated) => ErrorTerm::Unpaired { day_sd: 0.0 },
        (false, _, DaySpread::Unknown) => return VerdictBasis::advice(Mode::History, one_day()),
    };
    let days = if base.days() >= 2 { DaySpread::None } else { day };
    VerdictBasis { days, ..VerdictBasis::verdict(Mode::History, error_term) }
}

fn one_day() -> String {
    "no verdict: the baseline is from one day, and how much this server differs from day to day is not known. Measure it with `inferometer calibrate` on two days, gather baseline starts of other days with `--append-baseline`, or compare side by side with `--against-cmd`".into()
}

/// Fresh starts against a stored baseline. The spread between days comes from `calibrate`, or from
/// a baseline of two or more days (then as [`history`]); without it there is only advice.
fn saved(base: &ComparedSide, new: &ComparedSide, day: DaySpread) -> VerdictBasis {
    let error_term = match seeds_agree(base, new) {
        true => ErrorTerm::PairedAcrossDays { day_sd: 0.0 },
        false => ErrorTerm::Unpaired { day_sd: 0.0 },
    };
    match day {
        DaySpread::None | DaySpread::Calibrated => {
            VerdictBasis { days: day, ..VerdictBasis::verdict(Mode::Saved, error_term) }
        }
        DaySpread::Unknown if base.days() >= 2 => {
            VerdictBasis { mode: Mode::Saved, ..history(base, new, day) }
        }
        DaySpread::Unknown => VerdictBasis::advice(Mode::Saved, one_day()),
    }
}

/// Whether every block that both sides have was driven by the same seed at every load point, in
/// every run of the base.
fn seeds_agree(base: &ComparedSide, new: &ComparedSide) -> bool {
    let mut pairs = 0_usize;
    for point in &new.points {
        let Some(other) = base.point(&point.id) else { continue };
        for start in &point.starts {
            for twin in other.starts.iter().filter(|s| s.block == start.block) {
                if twin.seed != start.seed {
                    return false;
                }
                pairs += 1;
            }
        }
    }
    pairs > 0
}
