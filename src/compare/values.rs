//! The values of a cell: which starts give one, in which place, and why others do not.

use std::collections::{BTreeMap, BTreeSet};

use super::calibration::nights;
use super::design::Judging;
use super::options::ErrorTerm;
use super::side::{ComparedPoint, first_seen, identity};
use super::{Mode, Note, Verdict};
use crate::diagnose::validity::{self, Fault, INVALID_SHARE, Reach};
use crate::metric::Measure;
use crate::record::stored::RoundStatus;
use crate::stats::moments::mean;
use crate::stats::nights::STARTS_TO_CONFIRM;
use crate::stats::quantile::median;
use crate::summary::measured::MeasuredStart;

/// The values of one cell on both sides.
pub(super) struct Values {
    /// The base side, by place.
    pub(super) base: Vec<Option<f64>>,
    /// The new side; in the paired modes the same place is the same block.
    pub(super) new: Vec<Option<f64>>,
    /// Of each block, whether the base ran first; empty where that means nothing.
    pub(super) base_first: Vec<bool>,
    /// The median of the starts of a single new night, if it has enough of them.
    pub(super) night_median: Option<f64>,
    /// Why the cell is invalid, where too many of its starts are.
    pub(super) barrier: Option<(Verdict, String)>,
}

/// Where a value stands: the block (paired), the night, or what distinguishes its start from others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Block(u32),
    Night(usize),
    Start(String),
}

/// One start's value, or why it has none.
struct Valued<'a> {
    place: Place,
    identity: &'a str,
    value: Result<f64, Option<String>>,
}

/// The values of both sides, without those of starts that are not valid.
pub(super) fn values(
    base: &ComparedPoint,
    new: &ComparedPoint,
    measure: Measure,
    judging: &Judging<'_>,
) -> Values {
    let (of_base, of_new) = (valued(base, measure, judging), valued(new, measure, judging));
    let barrier = [&of_base, &of_new].into_iter().find_map(|side| too_many_bad(side));
    let (base_places, new_places) = (by_place(&of_base), by_place(&of_new));
    let places: BTreeSet<&Place> = base_places.keys().chain(new_places.keys()).collect();
    let base_first = match judging.standing.mode {
        Mode::Interleaved => {
            let order = places.iter().map(|place| runs_first(base, new, place));
            order.collect::<Option<Vec<bool>>>().unwrap_or_default()
        }
        _ => Vec::new(),
    };
    let night_median = if new_places.len() == 1 { night_median(&of_new) } else { None };
    let (base, new) = align(&base_places, &new_places);
    let barrier = barrier.map(|reason| (Verdict::Invalid, reason));
    Values { base, new, base_first, night_median, barrier }
}

fn valued<'a>(
    point: &'a ComparedPoint,
    measure: Measure,
    judging: &Judging<'_>,
) -> Vec<Valued<'a>> {
    let seen = first_seen(point.starts.iter());
    let times: Vec<i64> = seen.values().copied().collect();
    let nights: BTreeMap<&str, usize> = seen.into_keys().zip(nights(&times)).collect();
    let place = |start: &MeasuredStart| match judging.standing.error_term {
        _ if judging.standing.is_in_blocks() => Place::Block(start.block),
        ErrorTerm::Nights => Place::Night(nights.get(identity(start)).copied().unwrap_or(0)),
        _ => Place::Start(identity(start).to_owned()),
    };
    let one = |start: &'a MeasuredStart| Valued {
        place: place(start),
        identity: identity(start),
        value: match reason_against(start, point, measure, judging) {
            Some(reason) => Err(Some(reason)),
            None => start.summary.get(measure).filter(|v| *v > 0.0).ok_or(None),
        },
    };
    point.starts.iter().map(one).collect()
}

/// Whether the base of a block was started before the new side; `None` if that is not known.
fn runs_first(base: &ComparedPoint, new: &ComparedPoint, place: &Place) -> Option<bool> {
    let Place::Block(block) = place else { return None };
    let ordinal = |point: &ComparedPoint| {
        point.starts.iter().find(|start| start.block == *block).map(|start| start.start)
    };
    match (ordinal(base), ordinal(new)) {
        (Some(base), Some(new)) => (base != new).then_some(base < new),
        // Half a block takes part in nothing.
        _ => Some(true),
    }
}

/// The median over the starts of one night; `None` where they are too few to confirm an alarm.
fn night_median(night: &[Valued<'_>]) -> Option<f64> {
    let starts: Vec<f64> = by_start(night).into_values().filter_map(|of| one_of(&of)).collect();
    (starts.len() >= STARTS_TO_CONFIRM).then_some(())?;
    median(&starts.iter().map(|value| value.ln()).collect::<Vec<_>>()).map(f64::exp)
}

/// A cell is invalid if a fifth of its starts on either side are (docs/statistics.md, section
/// 5); fewer are left out, each with its block.
fn too_many_bad(side: &[Valued<'_>]) -> Option<String> {
    let reasons: Vec<&String> =
        side.iter().filter_map(|v| v.value.as_ref().err()?.as_ref()).collect();
    #[allow(clippy::cast_precision_loss)]
    let share = reasons.len() as f64 / side.len().max(1) as f64;
    (share >= INVALID_SHARE).then(|| reasons.first().map(|reason| (*reason).clone()))?
}

/// One value per place. Several measurements of one start give their geometric mean, and so do
/// several starts in one place (a night, or a baseline of several runs that hold the same block):
/// they are no replicates of each other. A start without a value leaves its place to the others.
fn by_place(side: &[Valued<'_>]) -> BTreeMap<Place, Option<f64>> {
    let mut by_place: BTreeMap<Place, Vec<f64>> = BTreeMap::new();
    for ((place, _), values) in by_start(side) {
        by_place.entry(place).or_default().extend(one_of(&values));
    }
    by_place.into_iter().map(|(place, values)| (place, one_of(&values))).collect()
}

fn by_start<'a>(side: &[Valued<'a>]) -> BTreeMap<(Place, &'a str), Vec<f64>> {
    let mut by_start: BTreeMap<_, Vec<f64>> = BTreeMap::new();
    for valued in side {
        let values = by_start.entry((valued.place.clone(), valued.identity)).or_default();
        values.extend(valued.value.as_ref().ok());
    }
    by_start
}

fn one_of(values: &[f64]) -> Option<f64> {
    match values {
        // A value alone stays what was measured, to the last bit.
        [] | [_] => values.first().copied(),
        many => mean(&many.iter().map(|value| value.ln()).collect::<Vec<_>>()).map(f64::exp),
    }
}

/// Both sides with the same places where they are blocks; else each side by itself.
fn align(
    base: &BTreeMap<Place, Option<f64>>,
    new: &BTreeMap<Place, Option<f64>>,
) -> (Vec<Option<f64>>, Vec<Option<f64>>) {
    let paired = base.keys().chain(new.keys()).all(|place| matches!(place, Place::Block(_)));
    if !paired {
        let plain = |side: &BTreeMap<Place, Option<f64>>| side.values().copied().collect();
        return (plain(base), plain(new));
    }
    let all: BTreeSet<&Place> = base.keys().chain(new.keys()).collect();
    all.into_iter()
        .map(|key| (base.get(key).copied().flatten(), new.get(key).copied().flatten()))
        .unzip()
}

fn reason_against(
    start: &MeasuredStart,
    point: &ComparedPoint,
    measure: Measure,
    judging: &Judging<'_>,
) -> Option<String> {
    let needed = validity::least_requests(measure);
    if start.summary.completed < needed {
        let have = start.summary.completed;
        return Some(format!("{have} completed requests in a start, {needed} are needed"));
    }
    validity::faults(start, &point.point, judging.idle_lag_ms)
        .into_iter()
        .find(|fault| {
            validity::touches(fault.reach, measure) && start.status != RoundStatus::Saturated
        })
        .map(|fault| fault.finding.text)
}

/// Which starts of a load point give no figures, or not all of them, and why the first of them: a
/// note for each reach, the widest first.
pub(super) fn left_out(label: &str, point: &ComparedPoint, judging: &Judging<'_>) -> Vec<Note> {
    let saturated = |start: &MeasuredStart| start.status == RoundStatus::Saturated;
    let starts = point.starts.iter().filter(|start| !saturated(start));
    let faults: Vec<(u32, Fault)> = starts
        .filter_map(|start| {
            let faults = validity::faults(start, &point.point, judging.idle_lag_ms);
            // A start is named once, for the fault that costs it most.
            let widest = faults.into_iter().min_by_key(|fault| fault.reach)?;
            Some((start.block + 1, widest))
        })
        .collect();
    let of_reach = |reach: Reach| {
        let here = faults.iter().filter(|(_, fault)| fault.reach == reach);
        let (numbers, faults): (Vec<String>, Vec<&Fault>) =
            here.map(|(number, fault)| (number.to_string(), fault)).unzip();
        let reason = &faults.first()?.finding.text;
        let plural = if numbers.len() == 1 { "" } else { "s" };
        let numbers = numbers.join(", ");
        let figures = match reach {
            Reach::All => "",
            Reach::Latencies => "latencies of ",
            Reach::Tails => "means and tails of ",
        };
        let text = format!("{figures}restart{plural} {numbers} of {label} left out: {reason}");
        Some(Note { point: Some(point.id.clone()), text })
    };
    [Reach::All, Reach::Latencies, Reach::Tails].into_iter().filter_map(of_reach).collect()
}
