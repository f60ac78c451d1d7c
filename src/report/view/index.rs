//! The view of the index page: the banner, a card per group, the tables.

use serde::Serialize;

use super::ID_LIMIT;
use super::figures::{self, ChangeRow, FigureRow, Head};
use super::findings::{FindingView, findings};
use super::front::{Front, front};
use super::glossary::{self, Entry};
use super::group::Key;
use super::identity;
use crate::record::Severity;
use crate::report::ReportInput;
use crate::report::chart::Chart;
use crate::units::plural;

/// Groups whose cards have charts; more would make the page heavy.
const CARDS_WITH_CHARTS: usize = 12;
/// Rows of the tables: more would make the page slow. All are on the pages of groups and points.
const CHANGE_ROWS: usize = 1200;
/// See [`CHANGE_ROWS`].
const FIGURE_ROWS: usize = 500;

/// Everything the index page shows.
#[derive(Debug, Clone, Serialize)]
pub struct IndexView {
    /// The first screen.
    pub front: Front,
    /// Name and value of what identifies the run.
    pub identity: Vec<Entry>,
    /// Further facts, folded away.
    pub facts: Vec<Entry>,
    /// Errors and warnings.
    pub warnings: Vec<FindingView>,
    /// Notes: what does not change what a reader should do.
    pub notes: Vec<FindingView>,
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

/// A group's card.
#[derive(Debug, Clone, Serialize)]
pub struct GroupCard {
    /// Its name.
    pub name: String,
    /// Its page.
    pub href: String,
    /// What it holds, in words.
    pub summary: String,
    /// What the marks of its charts mean.
    pub key: Key,
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
    let (notes, warnings) =
        input.all_findings().into_iter().partition::<Vec<_>, _>(|f| f.severity == Severity::Note);
    let (notes, warnings) = (findings(&notes), findings(&warnings));
    let mut verdicts: Vec<String> = Vec::new();
    for row in &changes {
        if !verdicts.contains(&row.verdict) {
            verdicts.push(row.verdict.clone());
        }
    }
    IndexView {
        front: front(input),
        identity: identity::identity(input),
        facts: identity::facts(input),
        warnings,
        notes,
        groups: cards(input),
        changes_left_out: left_out(ranked.len(), CHANGE_ROWS, "least interest", "load points"),
        changes,
        verdicts,
        several: input.sides.len() > 1,
        heads: figures::heads(input),
        figures: rows().take(FIGURE_ROWS).collect(),
        figures_left_out: left_out(rows().count(), FIGURE_ROWS, "the plan", "groups"),
        comparison_href: (input.sides.len() > 1).then(|| "comparison.html".to_owned()),
        glossary: glossary::glossary(),
    }
}

fn cards(input: &ReportInput) -> Vec<GroupCard> {
    let groups = input.groups();
    let with_charts = groups.len() <= CARDS_WITH_CHARTS;
    let card = |name: &&str| {
        let points = input.points.iter().filter(|p| p.point.group == *name);
        let loads = points.filter(|p| p.phase.is_judged()).count();
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
            key: Key::of(input, name, scenarios.first().copied().unwrap_or_default()),
            charts: if with_charts && loads > 0 {
                super::group::card_charts(input, name)
            } else {
                Vec::new()
            },
        }
    };
    let mut groups = groups;
    groups.sort_by_key(|name| !input.has_load(name));
    // The table of measurements has the references: a card without a chart shows nothing.
    let any_load = groups.iter().any(|name| input.has_load(name));
    groups.iter().filter(|name| input.has_load(name) || !any_load).map(card).collect()
}
