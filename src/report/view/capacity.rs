//! The view of capacity: up to which load the SLO is met, and the peaks.

use serde::Serialize;

use super::slo::{self, MetUpTo};
use super::{figures, shorten};
use crate::compare::capacity::SloCapacity;
use crate::metric::Measure;
use crate::report::ReportInput;
use crate::scenario::Slo;
use crate::units;

/// Rows of the card; more are on the pages of groups.
const ROWS: usize = 6;

/// Up to which load, and how much.
#[derive(Debug, Clone, Serialize)]
pub struct CapacityCard {
    /// The limits of the SLO; empty without one.
    pub slo: String,
    /// The answer in a few words; empty where the rows hold it.
    pub lead: String,
    /// The names of the columns after the first.
    pub heads: Vec<String>,
    /// A row a quantity.
    pub rows: Vec<CapacityRow>,
    /// What else to know.
    pub notes: Vec<String>,
}

/// A quantity of the capacity card.
#[derive(Debug, Clone, Serialize)]
pub struct CapacityRow {
    /// What it is.
    pub label: String,
    /// A value a column.
    pub values: Vec<String>,
}

/// `TTFT ≤ 200 ms; 95 % good`.
fn slo_words(slo: &Slo) -> String {
    format!("{}; {} % good", slo::words(slo), slo.least_share() * 100.0)
}

/// The scenarios under load: group and name, in the order of the plan.
pub(super) fn places(input: &ReportInput) -> Vec<(&str, &str)> {
    let mut places: Vec<(&str, &str)> = Vec::new();
    for point in input.points.iter().filter(|p| p.phase.is_judged()) {
        let place = (point.point.group.as_str(), point.point.scenario.as_str());
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// What searches found of a scenario.
fn searched<'a>(input: &'a ReportInput, group: &str, scenario: &str) -> Vec<&'a SloCapacity> {
    let here = |c: &&SloCapacity| c.group == group && c.scenario == scenario;
    input.capacities.iter().filter(here).collect()
}

/// The capacity of each side.
fn searched_row(input: &ReportInput, place: &str, found: &[&SloCapacity]) -> CapacityRow {
    let value = |side: usize| {
        let of_side = found.iter().find(|c| c.side == side).and_then(|c| c.value);
        of_side.map_or_else(|| "–".to_owned(), units::significant)
    };
    let unit = found.first().map_or("", |c| c.axis.unit());
    CapacityRow {
        label: format!("{place}SLO capacity, {unit}"),
        values: (0..input.sides.len()).map(value).collect(),
    }
}

/// The limits of all scenarios; empty without any.
fn limits(input: &ReportInput) -> String {
    let mut words: Vec<String> = Vec::new();
    for text in input.points.iter().filter_map(|p| p.point.slo).map(|slo| slo_words(&slo)) {
        if !words.contains(&text) {
            words.push(text);
        }
    }
    match words.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        _ => "by scenario".to_owned(),
    }
}

/// Makes the card.
pub(super) fn capacity_card(input: &ReportInput) -> CapacityCard {
    let subject = input.subject();
    let slo = limits(input);
    let places = places(input);
    let several = places.len() > 1;
    let compared = input.sides.len() > 1;
    let mut rows = Vec::new();
    let mut lead = String::new();
    for (group, scenario) in places.iter().take(ROWS) {
        let found = searched(input, group, scenario);
        match found.as_slice() {
            [] => {}
            [only] if !several && !compared => {
                lead = only.words();
                continue;
            }
            found => {
                let place = if several { format!("{group}/{scenario}: ") } else { String::new() };
                rows.push(searched_row(input, &place, found));
                continue;
            }
        }
        let met: Vec<Option<MetUpTo>> = (0..input.sides.len())
            .map(|side| slo::met_up_to(input, group, scenario, side))
            .collect();
        if met.iter().all(Option::is_none) {
            continue;
        }
        if !several && !compared {
            lead = met.into_iter().flatten().map(|m| format!("SLO {}", m.words())).collect();
            continue;
        }
        let place = if several { format!("{group}/{scenario}: ") } else { String::new() };
        let value = |met: Option<MetUpTo>| {
            met.map_or_else(
                || "–".to_owned(),
                |met| match compared {
                    true => met.load().to_owned(),
                    false => met.words(),
                },
            )
        };
        rows.push(CapacityRow {
            label: format!("{place}SLO met up to"),
            values: met.into_iter().map(value).collect(),
        });
    }
    rows.extend(peak_rows(input));
    let mut notes = turning_notes(input, subject);
    if input.points.iter().any(|p| p.side(subject).is_some_and(|s| s.status.is_failing())) {
        notes.push("Peaks exclude overloaded load points.".to_owned());
    }
    let heads = match compared {
        true => input.sides.iter().map(|s| shorten(&s.name, 24)).collect(),
        false => Vec::new(),
    };
    CapacityCard { slo, lead, heads, rows, notes }
}

/// The peaks of each scenario, so that different lengths never mix: with one side the load, too; else a
/// value a side.
fn peak_rows(input: &ReportInput) -> Vec<CapacityRow> {
    let places = places(input);
    let measures: &[(&str, Measure)] = match places.len() {
        1 => &[("Peak output", Measure::THROUGHPUT), ("Peak requests", Measure::QPS)],
        _ => &[("peak", Measure::THROUGHPUT)],
    };
    let mut rows = Vec::new();
    for (group, scenario) in places.iter().take(ROWS) {
        for (label, measure) in measures {
            let peak = |side: usize| figures::peak_in(input, side, *measure, (group, scenario));
            let peaks: Vec<_> = (0..input.sides.len()).map(peak).collect();
            let mut loads: Vec<&str> = peaks.iter().flatten().map(|p| p.1.as_str()).collect();
            loads.dedup();
            let Some(first) = loads.first() else { continue };
            let place = match places.len() {
                1 => String::new(),
                _ => format!("{}: ", shorten(scenario, 24)),
            };
            let value = |peak: &Option<(String, String)>| match peak {
                Some((text, load)) if loads.len() > 1 => format!("{text} at {load}"),
                Some((text, _)) => text.clone(),
                None => "–".to_owned(),
            };
            let at = if loads.len() > 1 { String::new() } else { format!(", at {first}") };
            rows.push(CapacityRow {
                label: format!("{place}{label}{at}"),
                values: peaks.iter().map(value).collect(),
            });
        }
    }
    rows
}

/// Knees and the best throughput per latency of a side.
fn turning_notes(input: &ReportInput, subject: usize) -> Vec<String> {
    let several = places(input).len() > 1;
    let knees = input.knees.iter().filter(|k| k.side == subject);
    let note = |knee: &crate::report::Knee| {
        let place = match several {
            true => format!("{}/{}: ", knee.group, knee.scenario),
            false => String::new(),
        };
        let best = knee.best_value.as_ref();
        let best = best.map(|loads| format!("Best throughput per latency at {loads}. "));
        format!("{place}{}Knee {}.", best.unwrap_or_default(), knee.knee.state)
    };
    knees.take(3).map(note).collect()
}
