//! The view of the banner: what changed, whether it can be trusted, and the capacity.

use std::collections::BTreeMap;

use serde::Serialize;

use super::figures;
use super::trust::{first_failure, trust};
use super::{ID_LIMIT, Outcome};
use crate::compare::capacity::SloCapacity;
use crate::compare::{Cell, Comparison, GateCause, GateReason, SuiteResult, Verdict};
use crate::metric::Measure;
use crate::record::stored::RoundStatus;
use crate::report::ReportInput;
use crate::units;
use crate::units::plural;

/// Measures told over all load points.
const OVERALL_TOLD: usize = 8;
/// Load points told in the banner.
const TOLD: usize = 5;

/// The banner.
#[derive(Debug, Clone, Serialize)]
pub struct Banner {
    /// Its class.
    pub class: String,
    /// One word.
    pub label: String,
    /// One sentence.
    pub sentence: String,
    /// What is said where nothing changed for sure.
    pub unchanged: String,
    /// What changed most, a line each; without any verdict, what differs most.
    pub changed: Vec<BannerLine>,
    /// What changed over all load points, a line per measure.
    pub overall: Vec<String>,
    /// Whether to believe it.
    pub trust: Vec<String>,
    /// Where the server's limit is.
    pub limits: Vec<String>,
}

/// A change told in the banner.
#[derive(Debug, Clone, Serialize)]
pub struct BannerLine {
    /// The load point.
    pub id: String,
    /// Its page.
    pub href: String,
    /// Its class.
    pub class: String,
    /// What happened there.
    pub text: String,
}

/// The banner of a report.
#[must_use]
pub fn banner(input: &ReportInput, ranked: &[(&Comparison, &Cell)]) -> Banner {
    let outcome = Outcome::of(input);
    let mut changed = told(input, ranked);
    let mut unchanged = String::new();
    if changed.is_empty() {
        changed = differing_most(input, ranked);
        unchanged = match changed.len() {
            0 => "No significant change.".to_owned(),
            _ => "No verdict. The largest differences:".to_owned(),
        };
    }
    Banner {
        class: outcome.class().to_owned(),
        label: outcome.label().to_owned(),
        sentence: headline(input),
        unchanged,
        changed,
        overall: overall(input),
        trust: trust(input),
        limits: limits(input),
    }
}

/// The first sentence of every report.
#[must_use]
pub fn headline(input: &ReportInput) -> String {
    let points = input.points.iter().filter(|p| p.phase.is_judged()).count();
    if Outcome::of(input) == Outcome::Failed {
        return match failures(input) {
            kinds if kinds.is_empty() => match first_failure(input) {
                Some(said) => format!("no request completed: {said}"),
                None => "no request completed".to_owned(),
            },
            kinds => format!("all measured requests failed ({kinds})"),
        };
    }
    if let Some(lost) = lost(input) {
        return lost;
    }
    if Outcome::of(input) == Outcome::Missed {
        let mut missed = super::outcome::missed(input);
        let first = missed.next().unwrap_or_default();
        return match missed.count() {
            0 => first.to_owned(),
            more => format!("{first}, and {}", plural(more, "more limit")),
        };
    }
    let failed = input.gate.reasons.iter().find(|r| r.cause == GateCause::FailedStarts);
    if let Some(failed) = failed.filter(|_| Outcome::of(input) != Outcome::Regressed) {
        return failed.text.clone();
    }
    if input.comparisons.is_empty() {
        return format!("{}; no baseline to compare with", plural(points, "load point"));
    }
    let mut gated = figures::ranked_cells(input, None);
    gated.retain(|(_, cell)| cell.gated);
    let count = |verdict: Verdict| gated.iter().filter(|(_, c)| c.verdict == verdict).count();
    let parts = Verdict::ALL.into_iter().map(|v| (count(v), v)).filter(|(n, _)| *n > 0);
    let parts: Vec<String> = parts.map(|(n, v)| format!("{n} {}", v.label())).collect();
    let total = plural(gated.len(), "gated number");
    let said = match parts.as_slice() {
        [] => format!("nothing gated among {}", plural(points, "load point")),
        [_] if gated.len() > 1 => format!("all {total} {}", gated[0].1.verdict.label()),
        parts => format!("of {total}: {}", parts.join(", ")),
    };
    match beside(input) {
        Some(worse) => format!("{said}; {worse}"),
        None => said,
    }
}

/// `but ITL p99 at chat/short/c64 is higher: +85.0 % (not gated)`; `None` where no latency is much worse
/// beside an improvement.
#[must_use]
pub fn beside(input: &ReportInput) -> Option<String> {
    if Outcome::of(input) != Outcome::Mixed {
        return None;
    }
    let cell = super::outcome::much_worse(input)?;
    let (label, change) = (cell.measure.label(), super::change(cell.measure, cell.change));
    let why = match (cell.gated, cell.verdict) {
        (false, _) => " (not gated)".to_owned(),
        (true, verdict) => format!(" ({})", verdict.label()),
    };
    Some(format!("but {label} at {} is higher: {change}{why}", cell.point))
}

/// What the gate reports of a lost server and of what was not measured; `None` if all was measured.
fn lost(input: &ReportInput) -> Option<String> {
    let outcome = Outcome::of(input);
    if !matches!(outcome, Outcome::ServerLost | Outcome::Incomplete) {
        return None;
    }
    let of_loss = |reason: &&GateReason| {
        matches!(reason.cause, GateCause::ServerLost | GateCause::PointMissing)
    };
    let mut reasons = input.gate.reasons.iter().filter(of_loss);
    let first = reasons.next()?.text.clone();
    Some(match reasons.count() {
        0 => first,
        more => format!("{first}; {}", plural(more, "more load point")),
    })
}

/// The failures of the reported side by kind: `12 server errors, 5 timeouts`.
fn failures(input: &ReportInput) -> String {
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for side in input.points.iter().filter_map(|p| p.side(input.subject())) {
        for (kind, count) in crate::report::document::failures(&side.summary) {
            *kinds.entry(kind).or_default() += count;
        }
    }
    let kind =
        |(kind, n): (&String, &u64)| format!("{} × {}", units::count(*n), kind.replace('_', " "));
    kinds.iter().map(kind).collect::<Vec<_>>().join(", ")
}

/// What changed, a line per load point: its worst number, and how many more changed with it. Then
/// what has no verdict, a line per reason.
fn told(input: &ReportInput, ranked: &[(&Comparison, &Cell)]) -> Vec<BannerLine> {
    let mut changed: Vec<(&Comparison, &Cell, usize)> = Vec::new();
    let mut silent: Vec<Silent<'_>> = Vec::new();
    for (comparison, cell) in ranked.iter().filter(|(_, c)| c.gated && super::is_told(c)) {
        if matches!(cell.verdict, Verdict::Invalid | Verdict::Incomparable) {
            Silent::count(&mut silent, comparison, cell);
            continue;
        }
        let known = changed.iter_mut().find(|(c, first, _)| {
            first.point == cell.point
                && super::verdict_class(first.verdict) == super::verdict_class(cell.verdict)
                && c.new_label == comparison.new_label
        });
        match known {
            Some((_, _, more)) => *more += 1,
            None => changed.push((comparison, cell, 0)),
        }
    }
    let line = |(comparison, cell, more): (&Comparison, &Cell, usize)| {
        let text = match more {
            0 => super::change_sentence(cell),
            n => format!("{}, and {}", super::change_sentence(cell), plural(n, "other number")),
        };
        banner_line(input, comparison, cell, &text)
    };
    let changed = changed.into_iter().take(TOLD).map(line);
    let silent = silent.into_iter().map(|s| s.line(input));
    changed.chain(silent).take(TOLD).collect()
}

/// Gated numbers that say nothing, all for the same reason.
struct Silent<'a> {
    comparison: &'a Comparison,
    first: &'a Cell,
    numbers: usize,
    points: Vec<&'a str>,
}

impl<'a> Silent<'a> {
    fn count(all: &mut Vec<Self>, comparison: &'a Comparison, cell: &'a Cell) {
        let alike = |known: &&mut Self| {
            known.first.verdict == cell.verdict
                && known.first.reason == cell.reason
                && known.comparison.new_label == comparison.new_label
        };
        match all.iter_mut().find(alike) {
            Some(known) => {
                known.numbers += 1;
                if !known.points.contains(&cell.point.as_str()) {
                    known.points.push(&cell.point);
                }
            }
            None => {
                all.push(Self { comparison, first: cell, numbers: 1, points: vec![&cell.point] })
            }
        }
    }

    fn line(self, input: &ReportInput) -> BannerLine {
        let verdict = self.first.verdict.label();
        let numbers = plural(self.numbers, "number");
        let reason = self.first.reason_text();
        let more = match self.points.len() {
            0 | 1 => String::new(),
            n => format!(", here and at {}", plural(n - 1, "more load point")),
        };
        let text = format!("{numbers} {verdict}{more}: {reason}");
        banner_line(input, self.comparison, self.first, &text)
    }
}

fn banner_line(
    input: &ReportInput,
    comparison: &Comparison,
    cell: &Cell,
    text: &str,
) -> BannerLine {
    let point = input.points.iter().find(|p| p.id == cell.point);
    let several = input.comparisons.len() > 1;
    let side = if several { format!("{}: ", comparison.new_label) } else { String::new() };
    BannerLine {
        id: super::shorten(&cell.point, ID_LIMIT),
        href: point.map(figures::point_href).unwrap_or_default(),
        class: super::verdict_class(cell.verdict).to_owned(),
        text: format!("{side}{text}"),
    }
}

/// Where a comparison gives no verdicts: the largest difference at each load point, as advice.
fn differing_most(input: &ReportInput, ranked: &[(&Comparison, &Cell)]) -> Vec<BannerLine> {
    let mut lines: Vec<(&Comparison, &Cell)> = Vec::new();
    let beyond_floor = |cell: &Cell| cell.change.is_some_and(|change| change.abs() > cell.floor);
    for (comparison, cell) in ranked.iter().filter(|(c, cell)| {
        c.advice.is_some()
            && cell.gated
            && cell.verdict == Verdict::Inconclusive
            && beyond_floor(cell)
    }) {
        let known = |(c, first): &(&Comparison, &Cell)| {
            first.point == cell.point && c.new_label == comparison.new_label
        };
        if lines.len() < TOLD && !lines.iter().any(known) {
            lines.push((comparison, cell));
        }
    }
    let line = |(comparison, cell): (&Comparison, &Cell)| {
        banner_line(input, comparison, cell, &super::change_sentence(cell))
    };
    lines.into_iter().map(line).collect()
}

/// The mean over load points, per measure.
#[must_use]
pub fn overall(input: &ReportInput) -> Vec<String> {
    let several = input.comparisons.len() > 1;
    let line = |c: &Comparison, suite: &SuiteResult| {
        let whose = if several { format!("{}: ", c.new_label) } else { String::new() };
        // No line break within a change and its interval.
        let change = super::change(suite.measure, suite.change);
        let change = format!("{change} {}", super::change_interval(suite.interval));
        format!(
            "{whose}{} {}: {}",
            suite.measure.label(),
            change.trim_end().replace(' ', "\u{a0}"),
            suite.verdict.label()
        )
    };
    let all = input.comparisons.iter().flat_map(|c| c.suite.iter().map(move |s| (c, s)));
    all.filter(|(_, s)| s.change.is_some()).take(OVERALL_TOLD).map(|(c, s)| line(c, s)).collect()
}

/// What searches found, a line a scenario and side.
fn capacity_lines(input: &ReportInput) -> Vec<String> {
    let several = super::capacity::places(input).len() > 1;
    let line = |found: &SloCapacity| {
        let words = super::group::capacity_line(input, found);
        let place = format!("{}/{}", found.group, found.scenario);
        match several {
            true => format!("{}: {words}", super::shorten(&place, ID_LIMIT)),
            false => words,
        }
    };
    if input.capacities.is_empty() {
        return swept_lines(input);
    }
    input.capacities.iter().take(KNEES_TOLD * input.sides.len()).map(line).collect()
}

/// Up to which of the loads of a sweep the SLO is met, a line a scenario.
fn swept_lines(input: &ReportInput) -> Vec<String> {
    let places = super::capacity::places(input);
    let line = |(group, scenario): &(&str, &str)| {
        let met = super::slo::met_up_to(input, group, scenario, input.subject())?;
        Some(match places.len() {
            1 => format!("SLO {}", met.words()),
            _ => {
                let place = format!("{group}/{scenario}");
                format!("{}: SLO {}", super::shorten(&place, ID_LIMIT), met.words())
            }
        })
    };
    places.iter().filter_map(line).take(KNEES_TOLD).collect()
}

/// Where the limit is: the peaks, knee and crossover, what saturated.
#[must_use]
pub fn limits(input: &ReportInput) -> Vec<String> {
    let subject = input.subject();
    let mut lines = Vec::new();
    for (name, measure) in [("output", Measure::THROUGHPUT), ("requests", Measure::QPS)] {
        if let Some((text, at)) = figures::peak(input, subject, measure) {
            let at = super::shorten(&at, ID_LIMIT);
            let whose = match input.sides.last() {
                Some(side) if input.sides.len() > 2 => {
                    format!(" of {}", super::shorten(&side.name, ID_LIMIT))
                }
                _ => String::new(),
            };
            lines.push(format!("peak {name}{whose}: {text} at {at}{}", others(input, measure)));
        }
    }
    lines.extend(capacity_lines(input));
    let mine: Vec<_> = input.knees.iter().filter(|k| k.side == subject).collect();
    match mine.as_slice() {
        [only] => lines.extend(turning_lines(only)),
        several => lines.extend(several.iter().take(KNEES_TOLD).map(|knee| {
            let place = format!("{}/{}", knee.group, knee.scenario);
            let turns = turning_lines(knee).join("; ");
            format!("{}: {turns}", super::shorten(&place, ID_LIMIT))
        })),
    }
    if mine.len() > KNEES_TOLD {
        let more = plural(mine.len() - KNEES_TOLD, "more scenario");
        lines.push(format!("{more} on the pages of the groups"));
    }
    let is_beyond = |p: &&crate::report::PointInput| {
        let status = p.side(subject).map(|side| side.status);
        matches!(status, Some(RoundStatus::Saturated))
    };
    let beyond: Vec<&str> = input.points.iter().filter(is_beyond).map(|p| p.id.as_str()).collect();
    lines.extend(failing(input));
    match beyond.as_slice() {
        [] => {}
        [one] => lines.push(format!("beyond capacity: {}", super::shorten(one, ID_LIMIT))),
        [first, rest @ ..] => {
            let first = super::shorten(first, ID_LIMIT);
            lines.push(format!("beyond capacity: {first} and {} more", rest.len()));
        }
    }
    lines
}

/// The load points where so much failed that they show no limit, a line per state of the server.
fn failing(input: &ReportInput) -> Vec<String> {
    let mut told: Vec<(String, Vec<String>)> = Vec::new();
    for point in &input.points {
        let Some(side) = point.side(input.subject()) else { continue };
        if !side.status.is_failing() || side.server.is_ran() {
            continue;
        }
        let (words, id) = (side.server.words(), super::shorten(&point.id, ID_LIMIT));
        match told.iter_mut().find(|(known, _)| *known == words) {
            Some((_, ids)) => ids.push(id),
            None => told.push((words, vec![id])),
        }
    }
    let line = |(words, ids): (String, Vec<String>)| match ids.as_slice() {
        [one] => format!("no limit is shown at {one}: the server {words}"),
        ids => {
            let more = plural(ids.len() - 1, "more load point");
            format!("no limit is shown at {} and {more}: the server {words}", ids[0])
        }
    };
    told.into_iter().map(line).collect()
}

/// Scenarios whose knees are reported.
const KNEES_TOLD: usize = 3;

/// Where latency against throughput turns, in short sentences.
fn turning_lines(knee: &crate::report::Knee) -> Vec<String> {
    let best =
        knee.best_value.as_ref().map(|loads| format!("best throughput per latency at {loads}"));
    let turns =
        [format!("knee {}", knee.knee.state), format!("crossover {}", knee.crossover.state)];
    best.into_iter().chain(turns).collect()
}

/// Sides whose peaks are reported beside the subject's.
const PEAKS_TOLD: usize = 4;

/// The peaks of the other sides, for comparison; empty where there are none.
fn others(input: &ReportInput, measure: Measure) -> String {
    let sides = input.sides.iter().enumerate().take(input.subject()).take(PEAKS_TOLD);
    let peaks: Vec<String> = sides
        .filter_map(|(index, side)| {
            let (text, _) = figures::peak(input, index, measure)?;
            Some(format!("{}: {text}", super::shorten(&side.name, ID_LIMIT)))
        })
        .collect();
    if peaks.is_empty() { String::new() } else { format!(" ({})", peaks.join(", ")) }
}
