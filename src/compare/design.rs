//! The mode of a comparison: what there is decides what may be said (docs/statistics.md,
//! section 2).

use std::collections::BTreeSet;

use super::Mode;
use super::assumed_spread::assumed_sd;
use super::calibration::Calibration;
use super::options::ErrorTerm;
use super::side::ComparedSide;
use crate::metric::Measure;
use crate::settings::JudgeSettings;
use crate::stats::nights::LEAST_NIGHTS;

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
    /// Why there is no verdict, or none of small changes, and what would decide.
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
    /// Whether the starts of the two sides stand next to each other in blocks, few or many.
    pub(super) fn is_in_blocks(&self) -> bool {
        self.mode == Mode::Interleaved || self.error_term.is_paired()
    }

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
    match meeting {
        Pairing::Blocks => blocks(base, new, decide_by),
        Pairing::Routes => routes(base, new, decide_by),
        Pairing::LastTwin => VerdictBasis::advice(
            Mode::SingleStart,
            "no baseline was named: the last run of the same work is shown as advice. To judge: `--baseline NAME`".into(),
        ),
        Pairing::Restarted | Pairing::PlainUrl => apart(base, new, meeting, day, decide_by),
    }
}

fn starts(n: usize) -> String {
    if n == 1 { "one start".into() } else { format!("{n} starts") }
}

/// Pairs of restarts. Too few of them do not tell how much pairs differ.
fn blocks(base: &ComparedSide, new: &ComparedSide, decide_by: &str) -> VerdictBasis {
    let of = |side: &ComparedSide| -> BTreeSet<u32> {
        side.points.iter().flat_map(|point| &point.starts).map(|start| start.block).collect()
    };
    let pairs = of(base).intersection(&of(new)).count();
    if pairs >= LEAST_STARTS {
        return VerdictBasis::verdict(Mode::Interleaved, ErrorTerm::Paired);
    }
    let plural = if pairs == 1 { "pair" } else { "pairs" };
    let met = format!("{pairs} {plural} of restarts, and {LEAST_STARTS} decide");
    assumed(Mode::Interleaved, (1, 1), &met, decide_by)
}

/// Rounds that alternate within one start of one engine are pairs: the start's effect cancels. Two
/// engines that nobody restarts are two single starts, whatever their URLs are called.
fn routes(base: &ComparedSide, new: &ComparedSide, decide_by: &str) -> VerdictBasis {
    let (one, other) = (base.told_identities(), new.told_identities());
    let met = if one.is_empty() || other.is_empty() {
        "the two URLs do not both tell which start of the engine they lead to (`process_start_time_seconds` of `/metrics`), so they may be two servers"
    } else if one != other || one.len() != 1 {
        "the two URLs lead to different starts of an engine: one start against one start"
    } else {
        return VerdictBasis::verdict(Mode::Routes, ErrorTerm::Paired);
    };
    assumed(Mode::SingleStart, (1, 1), met, decide_by)
}

/// Sides of different runs, by what is known of the spread between days: measured by `calibrate`,
/// seen in a baseline of several nights, or only assumed.
fn apart(
    base: &ComparedSide,
    new: &ComparedSide,
    meeting: Pairing,
    day: DaySpread,
    decide_by: &str,
) -> VerdictBasis {
    let (base_starts, new_starts) = (base.distinct_starts(), new.distinct_starts());
    let enough = base_starts >= LEAST_STARTS && new_starts >= 1;
    let fresh = enough && meeting == Pairing::Restarted && new_starts >= 2;
    let days = (base.days(), new.days());
    match day {
        DaySpread::None | DaySpread::Calibrated if fresh => {
            VerdictBasis { days: day, ..VerdictBasis::verdict(Mode::Saved, by_seeds(base, new)) }
        }
        _ if days.0 >= LEAST_NIGHTS && days.1 >= 1 && day != DaySpread::None => {
            VerdictBasis::verdict(Mode::History, ErrorTerm::Nights)
        }
        DaySpread::None | DaySpread::Calibrated if enough => {
            let error_term = ErrorTerm::Unpaired { day_sd: 0.0 };
            VerdictBasis { days: day, ..VerdictBasis::verdict(Mode::History, error_term) }
        }
        _ => {
            let met = format!("{} against {}", starts(new_starts), starts(base_starts));
            match (enough, fresh) {
                (false, _) => assumed(Mode::SingleStart, days, &met, decide_by),
                (true, fresh) => {
                    let mode = if fresh { Mode::Saved } else { Mode::History };
                    let met = format!("{met}; the baseline is from {}", nights(days.0));
                    assumed(mode, days, &met, &day_remedy())
                }
            }
        }
    }
}

fn nights(n: usize) -> String {
    if n == 1 { "one day".into() } else { format!("{n} days") }
}

/// Where no spread was measured it is assumed; `met` is what there is.
fn assumed(
    mode: Mode,
    (base_days, new_days): (usize, usize),
    met: &str,
    remedy: &str,
) -> VerdictBasis {
    let percent = |measure: Measure| (assumed_sd(measure) * 100.0).round();
    let advice = format!(
        "{met}: restarts are assumed to differ by at most {} % in ITL p50, {} % in TPOT and throughput, {} % in TTFT p50 and {} % in p99, and only changes beyond that are called. Sharper: {remedy}",
        percent(Measure::ITL_P50),
        percent(Measure::TPOT_MEAN),
        percent(Measure::TTFT_P50),
        percent(Measure::TTFT_P99),
    );
    let error_term = ErrorTerm::Assumed { base_days, new_days };
    VerdictBasis { advice: Some(advice), ..VerdictBasis::verdict(mode, error_term) }
}

fn day_remedy() -> String {
    format!(
        "measure how much days differ with `inferometer calibrate` on two days, gather baseline starts of {LEAST_NIGHTS} days with `--append-baseline`, or compare side by side with `--against-cmd`"
    )
}

/// Fresh starts against a stored baseline: paired by block where the seeds agree.
fn by_seeds(base: &ComparedSide, new: &ComparedSide) -> ErrorTerm {
    match seeds_agree(base, new) {
        true => ErrorTerm::PairedAcrossDays { day_sd: 0.0 },
        false => ErrorTerm::Unpaired { day_sd: 0.0 },
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
