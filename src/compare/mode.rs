//! The mode of a comparison: what there is decides what may be said (the verdict contract).

use super::Mode;
use super::contender::Contender;
use super::decide::ErrorTerm;

/// Fewer starts of the base than this carry no gate (STATISTICS.md, D.1).
pub const LEAST_STARTS: usize = 5;

/// Who restarts the servers, and how the sides met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meeting {
    /// In one run, in blocks.
    Blocks,
    /// In one run, two ways to one engine.
    Routes,
    /// In different runs; this side's server is restarted by us (command, hook, simulator).
    Restarted,
    /// In different runs; the server is a plain URL.
    PlainUrl,
}

/// How much two days differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DaySpread {
    /// Standard deviation of ln between days, measured by `calibrate` on two days or more.
    Measured(f64),
    /// There are no days: the simulator, or both sides in one run.
    None,
    /// Not known.
    Unknown,
}

/// What a comparison may claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// The mode.
    pub mode: Mode,
    /// Where the error of a difference comes from.
    pub error_term: ErrorTerm,
    /// Why there is no verdict, where there is none, and what would decide.
    pub advice: Option<String>,
}

/// The standing of two sides.
#[must_use]
pub fn standing(
    base: &Contender,
    new: &Contender,
    meeting: Meeting,
    day: DaySpread,
    decide_by: &str,
) -> Standing {
    let (base_starts, new_starts) = (base.distinct_starts(), new.distinct_starts());
    match meeting {
        Meeting::Blocks => {
            Standing { mode: Mode::Interleaved, error_term: ErrorTerm::Paired, advice: None }
        }
        Meeting::Routes => {
            Standing { mode: Mode::Routes, error_term: ErrorTerm::Paired, advice: None }
        }
        Meeting::Restarted if base_starts >= LEAST_STARTS && new_starts >= 2 => {
            saved(base, new, day)
        }
        Meeting::PlainUrl | Meeting::Restarted if base_starts >= LEAST_STARTS => {
            history(new_starts)
        }
        _ => {
            let advice = format!(
                "no verdict: {} against {} cannot tell a change from a restart. To decide: {decide_by}",
                starts(new_starts),
                starts(base_starts),
            );
            Standing {
                mode: Mode::SingleStart,
                error_term: ErrorTerm::Advice,
                advice: Some(advice),
            }
        }
    }
}

fn starts(n: usize) -> String {
    if n == 1 { "one start".into() } else { format!("{n} starts") }
}

fn history(new_starts: usize) -> Standing {
    let error_term = match new_starts {
        0 | 1 => ErrorTerm::Prediction,
        // The baseline's own starts come from many days, so their spread holds the days'.
        _ => ErrorTerm::Unpaired { day_sd: 0.0 },
    };
    Standing { mode: Mode::History, error_term, advice: None }
}

fn saved(base: &Contender, new: &Contender, day: DaySpread) -> Standing {
    let day_sd = match day {
        DaySpread::None => Some(0.0),
        DaySpread::Measured(sd) => Some(sd),
        DaySpread::Unknown => None,
    };
    // Baseline starts of two or more days hold the spread of the days themselves.
    if day_sd.is_none() && base.days() >= 2 {
        return Standing {
            mode: Mode::Saved,
            error_term: ErrorTerm::Unpaired { day_sd: 0.0 },
            advice: None,
        };
    }
    let Some(day_sd) = day_sd else {
        let advice = "no verdict: the baseline is from one day, and how much this server differs from day to day is not known. Measure it with `inferometer calibrate` on two days, or compare side by side with `--against-cmd`";
        return Standing {
            mode: Mode::Saved,
            error_term: ErrorTerm::Advice,
            advice: Some(advice.to_owned()),
        };
    };
    let error_term = if seeds_agree(base, new) {
        ErrorTerm::PairedAcrossDays { day_sd }
    } else {
        ErrorTerm::Unpaired { day_sd }
    };
    Standing { mode: Mode::Saved, error_term, advice: None }
}

/// Whether every block that both sides have was driven by the same seed at every load point.
fn seeds_agree(base: &Contender, new: &Contender) -> bool {
    let mut pairs = 0_usize;
    for point in &new.points {
        let Some(other) = base.point(&point.id) else { continue };
        for start in &point.starts {
            if let Some(twin) = other.starts.iter().find(|s| s.block == start.block) {
                if twin.seed != start.seed {
                    return false;
                }
                pairs += 1;
            }
        }
    }
    pairs > 0
}
