//! The values of a cell: which starts give one, in which place, and why others do not.

use std::collections::{BTreeMap, BTreeSet};

use super::design::Judging;
use super::side::{ComparedPoint, identity};
use super::{Note, Verdict};
use crate::diagnose::validity::{self, Fault, INVALID_SHARE, Reach};
use crate::metric::Measure;
use crate::record::stored::RoundStatus;
use crate::stats::moments::mean;
use crate::summary::measured::MeasuredStart;

/// The values of one cell on both sides.
pub(super) struct Values {
    /// The base side, by place.
    pub(super) base: Vec<Option<f64>>,
    /// The new side; in the paired modes the same place is the same block.
    pub(super) new: Vec<Option<f64>>,
    /// Why the cell is invalid, where too many of its starts are.
    pub(super) barrier: Option<(Verdict, String)>,
}

/// Where a value stands: the block (paired), or what tells its start from others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Block(u32),
    Start(String),
}

/// One start's value, or why it has none.
struct Valued {
    place: Place,
    value: Result<f64, Option<String>>,
}

/// The values of both sides, without those of starts that are not valid.
pub(super) fn values(
    base: &ComparedPoint,
    new: &ComparedPoint,
    measure: Measure,
    judging: &Judging<'_>,
) -> Values {
    let of = |point: &ComparedPoint| -> Vec<Valued> {
        point.starts.iter().map(|start| valued(start, point, measure, judging)).collect()
    };
    let (base, new) = (of(base), of(new));
    let barrier = [&base, &new].into_iter().find_map(|side| too_many_bad(side));
    let (base, new) = align(&by_place(&base), &by_place(&new));
    Values { base, new, barrier: barrier.map(|reason| (Verdict::Invalid, reason)) }
}

fn valued(
    start: &MeasuredStart,
    point: &ComparedPoint,
    measure: Measure,
    judging: &Judging<'_>,
) -> Valued {
    let place = match judging.standing.error_term.is_paired() {
        true => Place::Block(start.block),
        false => Place::Start(identity(start)),
    };
    let value = match reason_against(start, point, measure, judging) {
        Some(reason) => Err(Some(reason)),
        None => start.summary.get(measure).filter(|v| *v > 0.0).ok_or(None),
    };
    Valued { place, value }
}

/// A cell is invalid if a fifth of its starts on either side are (docs/statistics.md, section
/// 5); fewer are left out, each with its block.
fn too_many_bad(side: &[Valued]) -> Option<String> {
    let reasons: Vec<&String> =
        side.iter().filter_map(|v| v.value.as_ref().err()?.as_ref()).collect();
    #[allow(clippy::cast_precision_loss)]
    let share = reasons.len() as f64 / side.len().max(1) as f64;
    (share >= INVALID_SHARE).then(|| reasons.first().map(|reason| (*reason).clone()))?
}

/// One value per place. Several starts in one place (a baseline of several runs that hold the same
/// block, or one start that was measured twice) give their geometric mean: they are no replicates
/// of each other. A start without a value leaves its place to the others.
fn by_place(side: &[Valued]) -> BTreeMap<Place, Option<f64>> {
    let mut by_place: BTreeMap<Place, Vec<f64>> = BTreeMap::new();
    for valued in side {
        let place = by_place.entry(valued.place.clone()).or_default();
        place.extend(valued.value.as_ref().ok());
    }
    let one_of = |values: Vec<f64>| match &values[..] {
        // A value alone stays what was measured, to the last bit.
        [] | [_] => values.first().copied(),
        many => mean(&many.iter().map(|value| value.ln()).collect::<Vec<_>>()).map(f64::exp),
    };
    by_place.into_iter().map(|(place, values)| (place, one_of(values))).collect()
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
