//! The view of the index page: what changed, whether to believe it, where the limit is.

use std::collections::BTreeMap;

use serde::Serialize;

use super::figures::{self, ChangeRow, Entry, FigureRow, FindingView, Head};
use super::{Outcome, identity, mode_sentence, plural, verdict_label};
use crate::compare::{Cell, Comparison, SuiteResult, Verdict, gate};
use crate::metric::Measure;
use crate::plan::Phase;
use crate::record::Severity;
use crate::report::ReportInput;
use crate::report::chart::Chart;
use crate::units;

/// Groups whose cards have charts; more would make the page heavy.
const CARDS_WITH_CHARTS: usize = 12;
/// Measures told over all load points.
const OVERALL_TOLD: usize = 8;
/// Longest name in the banner.
const ID_LIMIT: usize = 64;
/// Longest words of a server in the banner.
const MESSAGE_LIMIT: usize = 160;
/// Load points told in the banner.
const TOLD: usize = 5;
/// Rows of the tables: more would make the page slow. All are on the pages of groups and points.
const CHANGE_ROWS: usize = 1200;
/// See [`CHANGE_ROWS`].
const FIGURE_ROWS: usize = 500;

/// Everything the index page shows.
#[derive(Debug, Clone, Serialize)]
pub struct IndexView {
    /// The banner.
    pub banner: Banner,
    /// Name and value of what identifies the run.
    pub identity: Vec<Entry>,
    /// Further facts, folded away.
    pub facts: Vec<Entry>,
    /// What limits trust.
    pub findings: Vec<FindingView>,
    /// A card per group.
    pub groups: Vec<GroupCard>,
    /// The table of changes; empty without a comparison.
    pub changes: Vec<ChangeRow>,
    /// How many changes are not in the table; may be empty.
    pub changes_left_out: String,
    /// The verdicts that occur, for the filter.
    pub verdicts: Vec<String>,
    /// Whether several comparisons are shown.
    pub several: bool,
    /// The heads of the table of figures.
    pub heads: Vec<Head>,
    /// The table of figures.
    pub figures: Vec<FigureRow>,
    /// How many figures are not in the table; may be empty.
    pub figures_left_out: String,
    /// The page of configurations side by side, where there is one.
    pub comparison_href: Option<String>,
    /// The glossary.
    pub glossary: Vec<Entry>,
}

/// The banner.
#[derive(Debug, Clone, Serialize)]
pub struct Banner {
    /// Its class.
    pub class: String,
    /// One word.
    pub label: String,
    /// One sentence.
    pub sentence: String,
    /// What changed most, a line each.
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

/// A group's card.
#[derive(Debug, Clone, Serialize)]
pub struct GroupCard {
    /// Its name.
    pub name: String,
    /// Its page.
    pub href: String,
    /// What it holds, in words.
    pub summary: String,
    /// Small charts.
    pub charts: Vec<Chart>,
}

/// Makes the view.
#[must_use]
pub fn view(input: &ReportInput) -> IndexView {
    let ranked = figures::ranked_cells(input, None);
    let reach = figures::bar_reach(ranked.iter().map(|(_, cell)| *cell));
    let changes: Vec<ChangeRow> = ranked
        .iter()
        .take(CHANGE_ROWS)
        .map(|(c, cell)| figures::change_row(input, c, cell, reach))
        .collect();
    let rows = || input.points.iter().flat_map(|p| figures::figure_rows(input, p));
    let left_out = |all: usize, limit: usize, what: &str, place: &str| match all
        .saturating_sub(limit)
    {
        0 => String::new(),
        more => format!("{} of {what} are on the pages of the {place}", plural(more, "more row")),
    };
    let mut verdicts: Vec<String> = Vec::new();
    for row in &changes {
        if !verdicts.contains(&row.verdict) {
            verdicts.push(row.verdict.clone());
        }
    }
    IndexView {
        banner: banner(input, &ranked),
        identity: identity::identity(input),
        facts: identity::facts(input),
        findings: figures::findings(&input.all_findings()),
        groups: cards(input),
        changes_left_out: left_out(ranked.len(), CHANGE_ROWS, "least interest", "load points"),
        changes,
        verdicts,
        several: input.sides.len() > 1,
        heads: figures::heads(),
        figures: rows().take(FIGURE_ROWS).collect(),
        figures_left_out: left_out(rows().count(), FIGURE_ROWS, "the plan", "groups"),
        comparison_href: (input.sides.len() > 1).then(|| "comparison.html".to_owned()),
        glossary: figures::glossary(),
    }
}

/// The banner of a report.
#[must_use]
pub fn banner(input: &ReportInput, ranked: &[(&Comparison, &Cell)]) -> Banner {
    let outcome = Outcome::of(input);
    Banner {
        class: outcome.class().to_owned(),
        label: outcome.label().to_owned(),
        sentence: headline(input),
        changed: told(input, ranked),
        overall: overall(input),
        trust: trust(input),
        limits: limits(input),
    }
}

/// The first sentence of every report.
#[must_use]
pub fn headline(input: &ReportInput) -> String {
    let points = input.points.iter().filter(|p| p.phase == Phase::Load).count();
    if Outcome::of(input) == Outcome::Failed {
        return format!("all measured requests failed ({})", failures(input));
    }
    if Outcome::of(input) == Outcome::Missed {
        let mut missed = super::outcome::missed(input);
        let first = missed.next().unwrap_or_default();
        return match missed.count() {
            0 => first.to_owned(),
            more => format!("{first}, and {}", plural(more, "more limit")),
        };
    }
    if input.comparisons.is_empty() {
        return format!("{}; no baseline to compare with", plural(points, "load point"));
    }
    let mut gated = figures::ranked_cells(input, None);
    gated.retain(|(_, cell)| cell.gated);
    let count = |verdict: Verdict| gated.iter().filter(|(_, c)| c.verdict == verdict).count();
    let parts = super::READING_ORDER.into_iter().map(|v| (count(v), v)).filter(|(n, _)| *n > 0);
    let parts: Vec<String> = parts.map(|(n, v)| format!("{n} {}", verdict_label(v))).collect();
    let total = gated.len();
    if parts.is_empty() {
        return format!("nothing gated among {}", plural(points, "load point"));
    }
    format!("of {}: {}", plural(total, "gated number"), parts.join(", "))
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

/// What was said at the first failure whose words were kept.
fn first_failure(input: &ReportInput) -> Option<String> {
    let sides = input.points.iter().filter_map(|p| p.side(input.subject()));
    let mut failed = sides.flat_map(|side| &side.failed);
    let message = failed.find_map(|r| Some(r.evidence.as_deref()?.message.clone()))?;
    Some(super::shorten(&message, MESSAGE_LIMIT))
}

/// What changed, a line per load point: its worst number, and how many more changed with it.
fn told(input: &ReportInput, ranked: &[(&Comparison, &Cell)]) -> Vec<BannerLine> {
    let mut lines: Vec<(&Comparison, &Cell, usize)> = Vec::new();
    for (comparison, cell) in ranked.iter().filter(|(_, c)| c.gated && super::is_told(c)) {
        let room = lines.len() < TOLD;
        let known = lines.iter_mut().find(|(c, first, _)| {
            first.point == cell.point
                && super::verdict_class(first.verdict) == super::verdict_class(cell.verdict)
                && c.new_label == comparison.new_label
        });
        match known {
            Some((_, _, more)) => *more += 1,
            None if room => lines.push((comparison, cell, 0)),
            None => {}
        }
    }
    let line = |(comparison, cell, more): (&Comparison, &Cell, usize)| {
        let point = input.points.iter().find(|p| p.id == cell.point);
        let several = input.comparisons.len() > 1;
        let side = if several { format!("{}: ", comparison.new_label) } else { String::new() };
        let text = match (cell.verdict, &cell.reason) {
            // A number that says nothing is not a change: how many there are, and why.
            (Verdict::Invalid | Verdict::Incomparable, Some(reason)) => {
                let numbers = plural(more + 1, "number");
                format!("{numbers} {}: {reason}", verdict_label(cell.verdict))
            }
            _ => match more {
                0 => super::change_sentence(cell),
                n => format!("{}, and {}", super::change_sentence(cell), plural(n, "other number")),
            },
        };
        BannerLine {
            id: super::shorten(&cell.point, ID_LIMIT),
            href: point.map(figures::point_href).unwrap_or_default(),
            class: super::verdict_class(cell.verdict).to_owned(),
            text: format!("{side}{text}"),
        }
    };
    lines.into_iter().map(line).collect()
}

/// The mean over load points, per measure.
#[must_use]
pub fn overall(input: &ReportInput) -> Vec<String> {
    let several = input.comparisons.len() > 1;
    let line = |c: &Comparison, suite: &SuiteResult| {
        let whose = if several { format!("{}: ", c.new_label) } else { String::new() };
        format!(
            "{whose}{} {} {}: {}",
            suite.measure.label(),
            super::change(suite.measure, suite.change),
            super::change_interval(suite.interval),
            verdict_label(suite.verdict)
        )
    };
    let all = input.comparisons.iter().flat_map(|c| c.suite.iter().map(move |s| (c, s)));
    all.filter(|(_, s)| s.change.is_some()).take(OVERALL_TOLD).map(|(c, s)| line(c, s)).collect()
}

/// Whether the gate's reason is that of a number which is told with its verdict anyway.
fn is_told_anyway(comparison: &Comparison, reason: &str) -> bool {
    let mut cells = comparison.cells.iter().filter(|c| super::is_told(c) && c.gated);
    let plain = !gate::is_of_a_gain(reason);
    (plain && cells.any(|c| gate::is_of_cell(reason, c)))
        || comparison.suite.iter().any(|s| gate::is_of_suite(reason, s))
}

/// Whether to believe it: mode, restarts, advice, findings.
#[must_use]
pub fn trust(input: &ReportInput) -> Vec<String> {
    let mut lines = Vec::new();
    for comparison in &input.comparisons {
        let name = if input.comparisons.len() > 1 {
            format!("{}: ", comparison.new_label)
        } else {
            String::new()
        };
        let blocks = plural(comparison.blocks as usize, "restart");
        let each = if comparison.blocks > 0 { format!("; {blocks} a side") } else { String::new() };
        lines.push(format!("{name}{}{each}", mode_sentence(comparison)));
        let reasons = comparison.gate.reasons.iter().filter(|r| !is_told_anyway(comparison, r));
        let more = comparison.advice.iter().chain(reasons.take(3));
        for line in more {
            if !lines.contains(line) {
                lines.push(line.clone());
            }
        }
    }
    if input.comparisons.is_empty() {
        let starts = input.run().map_or(0, |r| r.starts.len());
        lines.push(format!("{} of the server", plural(starts, "start")));
        lines.extend(input.gate.reasons.iter().take(3).cloned());
    }
    let (completed, failed) = super::requests(input);
    let all = units::count(completed + failed);
    lines.push(match failed {
        0 => format!("{all} measured requests, none failed"),
        n => format!("{all} measured requests, {} failed", units::count(n)),
    });
    if let Some(said) = first_failure(input).filter(|_| completed == 0) {
        lines.push(format!("the first failure: {said}"));
        return lines;
    }
    let findings = input.all_findings();
    let grave = findings.iter().filter(|f| f.severity > Severity::Note).count();
    let silent =
        |c: &&Cell| c.gated && matches!(c.verdict, Verdict::Invalid | Verdict::Incomparable);
    let silent = input.comparisons.iter().flat_map(|c| &c.cells).filter(silent).count();
    lines.push(match grave {
        0 if silent > 0 => {
            format!("{} not valid; the table says why", plural(silent, "gated number"))
        }
        0 => "nothing found that limits trust".to_owned(),
        1 => "1 finding below limits trust".to_owned(),
        n => format!("{n} findings below limit trust"),
    });
    lines
}

/// Where the limit is: the peaks, knee and crossover, what saturated.
#[must_use]
pub fn limits(input: &ReportInput) -> Vec<String> {
    let subject = input.subject();
    let mut lines = Vec::new();
    for (name, measure) in [("output", Measure::THROUGHPUT), ("requests", Measure::QPS)] {
        if let Some((text, at)) = super::compare::peak(input, subject, measure) {
            let at = super::shorten(&at, ID_LIMIT);
            lines.push(format!("most {name}: {text} at {at}{}", base_peak(input, measure)));
        }
    }
    let mine: Vec<_> = input.knees.iter().filter(|k| k.side == subject).collect();
    for knee in mine.iter().take(3) {
        let whose = if mine.len() > 1 {
            format!("{}: ", super::shorten(&knee.scenario, ID_LIMIT))
        } else {
            String::new()
        };
        lines.push(format!("{whose}knee {}", knee.knee.state));
        lines.push(format!("{whose}crossover {}", knee.crossover.state));
        if let Some(loads) = &knee.best_value {
            lines.push(format!("{whose}best value: {loads} (QPS per latency near its peak)"));
        }
    }
    if mine.len() > 3 {
        lines.push(format!("{} more scenarios on their groups' pages", mine.len() - 3));
    }
    let status = |p: &crate::report::PointInput| {
        p.side(subject).map(|s| figures::status_words(p.phase, s.status))
    };
    let beyond: Vec<&str> = input
        .points
        .iter()
        .filter(|p| matches!(status(p), Some("saturated" | "overloaded")))
        .map(|p| p.id.as_str())
        .collect();
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

/// The base's peak, for comparison; empty where there is no base or it has none.
fn base_peak(input: &ReportInput, measure: Measure) -> String {
    match input.sides.as_slice() {
        [base, _] => super::compare::peak(input, 0, measure)
            .map(|(text, _)| format!(" ({}: {text})", super::shorten(&base.name, ID_LIMIT)))
            .unwrap_or_default(),
        _ => String::new(),
    }
}

/// Whether a group holds more than references.
pub(super) fn has_load(input: &ReportInput, group: &str) -> bool {
    input.points.iter().any(|p| p.point.group == group && p.phase == Phase::Load)
}

fn cards(input: &ReportInput) -> Vec<GroupCard> {
    let groups = input.groups();
    let with_charts = groups.len() <= CARDS_WITH_CHARTS;
    let card = |name: &&str| {
        let points = input.points.iter().filter(|p| p.point.group == *name);
        let loads = points.filter(|p| p.phase == Phase::Load).count();
        let scenarios = super::group::scenarios(input, name);
        let shown = match scenarios.as_slice() {
            [first, _, ..] if with_charts => {
                format!("; shown: {}", super::shorten(first, ID_LIMIT))
            }
            _ => String::new(),
        };
        let summary = match loads {
            0 => "what the multiples are relative to".to_owned(),
            n => format!(
                "{}, {}{shown}",
                plural(scenarios.len(), "scenario"),
                plural(n, "load point")
            ),
        };
        GroupCard {
            name: (*name).to_owned(),
            href: figures::group_href(name),
            summary,
            charts: if with_charts && loads > 0 {
                super::group::card_charts(input, name)
            } else {
                Vec::new()
            },
        }
    };
    let mut groups = groups;
    // References last: they are what others are measured by.
    groups.sort_by_key(|name| !has_load(input, name));
    groups.iter().map(card).collect()
}
