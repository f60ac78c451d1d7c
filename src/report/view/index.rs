//! The view of the index page: what changed, whether to believe it, where the limit is.

use serde::Serialize;

use super::figures::{self, ChangeRow, Entry, FigureRow, FindingView, Head};
use super::{Outcome, cell_sentence, mode_sentence, plural, verdict_label};
use crate::compare::{Cell, Comparison, Verdict};
use crate::metric::Measure;
use crate::plan::Phase;
use crate::record::{Severity, StoredRun};
use crate::report::ReportInput;
use crate::report::chart::Chart;
use crate::units;

/// Groups whose cards have charts; more would make the page heavy.
const CARDS_WITH_CHARTS: usize = 12;
/// Changes told in the banner.
const TOLD: usize = 6;

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
    /// The verdicts that occur, for the filter.
    pub verdicts: Vec<String>,
    /// Whether several comparisons are shown.
    pub several: bool,
    /// The heads of the table of figures.
    pub heads: Vec<Head>,
    /// The table of figures.
    pub figures: Vec<FigureRow>,
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
    /// How many cells have each verdict.
    pub counts: Vec<Entry>,
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
    let ranked = figures::ranked_cells(input);
    let reach = figures::bar_reach(ranked.iter().map(|(_, cell)| *cell));
    let changes: Vec<ChangeRow> =
        ranked.iter().map(|(c, cell)| figures::change_row(input, c, cell, reach)).collect();
    let mut verdicts: Vec<String> = Vec::new();
    for row in &changes {
        if !verdicts.contains(&row.verdict) {
            verdicts.push(row.verdict.clone());
        }
    }
    IndexView {
        banner: banner(input, &ranked),
        identity: identity(input),
        facts: facts(input),
        findings: figures::findings(&input.all_findings()),
        groups: cards(input),
        changes,
        verdicts,
        several: input.sides.len() > 1,
        heads: figures::heads(),
        figures: input.points.iter().flat_map(|p| figures::figure_rows(input, p)).collect(),
        comparison_href: (input.sides.len() > 1).then(|| "comparison.html".to_owned()),
        glossary: figures::glossary(),
    }
}

/// The banner of a report.
#[must_use]
pub fn banner(input: &ReportInput, ranked: &[(&Comparison, &Cell)]) -> Banner {
    let outcome = Outcome::of(input);
    let told = ranked.iter().filter(|(_, cell)| {
        matches!(
            cell.verdict,
            Verdict::Regressed | Verdict::Improved | Verdict::Invalid | Verdict::Incomparable
        ) && cell.gated
    });
    let line = |(_, cell): &(&Comparison, &Cell)| BannerLine {
        id: cell.point.clone(),
        href: input
            .points
            .iter()
            .find(|p| p.id == cell.point)
            .map(figures::point_href)
            .unwrap_or_default(),
        class: super::verdict_class(cell.verdict).to_owned(),
        text: cell_sentence(cell),
    };
    Banner {
        class: outcome.class().to_owned(),
        label: outcome.label().to_owned(),
        sentence: headline(input),
        changed: told.take(TOLD).map(line).collect(),
        counts: counts(ranked),
        trust: trust(input),
        limits: limits(input),
    }
}

/// The first sentence of every report.
#[must_use]
pub fn headline(input: &ReportInput) -> String {
    let points = input.points.iter().filter(|p| p.phase == Phase::Load).count();
    if input.comparisons.is_empty() {
        return format!(
            "{} measured; no baseline to compare with",
            plural(points, "load point")
        );
    }
    let cells = || input.comparisons.iter().flat_map(|c| &c.cells).filter(|c| c.gated);
    let count = |verdict: Verdict| cells().filter(|c| c.verdict == verdict).count();
    let told = [
        Verdict::Regressed,
        Verdict::Invalid,
        Verdict::Incomparable,
        Verdict::Improved,
        Verdict::Inconclusive,
        Verdict::Saturated,
        Verdict::WithinNoise,
        Verdict::Unchanged,
        Verdict::New,
        Verdict::Removed,
    ];
    let parts = told.into_iter().map(|v| (count(v), v)).filter(|(n, _)| *n > 0);
    let parts: Vec<String> = parts.map(|(n, v)| format!("{n} {}", verdict_label(v))).collect();
    let total = cells().count();
    if parts.is_empty() {
        return format!("nothing gated among {}", plural(points, "load point"));
    }
    format!("of {}: {}", plural(total, "gated number"), parts.join(", "))
}

fn counts(ranked: &[(&Comparison, &Cell)]) -> Vec<Entry> {
    let mut counts: Vec<(Verdict, usize)> = Vec::new();
    for (_, cell) in ranked {
        match counts.iter_mut().find(|(verdict, _)| *verdict == cell.verdict) {
            Some((_, n)) => *n += 1,
            None => counts.push((cell.verdict, 1)),
        }
    }
    let entry = |(v, n): (Verdict, usize)| Entry {
        word: n.to_string(),
        meaning: verdict_label(v).to_owned(),
    };
    counts.into_iter().map(entry).collect()
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
        lines.push(format!("{name}{}{each}", mode_sentence(comparison.mode)));
        lines.extend(comparison.advice.clone());
        lines.extend(comparison.gate.reasons.iter().take(3).cloned());
    }
    if input.comparisons.is_empty() {
        let starts = input.run().map_or(0, |r| r.starts.len());
        lines.push(format!("{} of the server", plural(starts, "start")));
    }
    let requests: u64 = input
        .points
        .iter()
        .filter_map(|p| p.side(input.subject()))
        .map(|s| s.summary.completed + s.summary.failed)
        .sum();
    lines.push(format!("{} measured requests", units::count(requests)));
    let findings = input.all_findings();
    let grave = findings.iter().filter(|f| f.severity > Severity::Note).count();
    lines.push(match grave {
        0 => "nothing found that limits trust".to_owned(),
        n => format!("{} below", plural(n, "finding that limits trust").replace("trusts", "trust")),
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
            lines.push(format!("most {name}: {text} at {at}"));
        }
    }
    let mine: Vec<_> = input.knees.iter().filter(|k| k.side == subject).collect();
    for knee in mine.iter().take(3) {
        let whose = if mine.len() > 1 { format!("{}: ", knee.scenario) } else { String::new() };
        lines.push(format!("{whose}knee {}", knee.knee.state));
        lines.push(format!("{whose}crossover {}", knee.crossover.state));
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
        [one] => lines.push(format!("beyond capacity: {one}")),
        [first, rest @ ..] => {
            lines.push(format!("beyond capacity: {first} and {} more", rest.len()));
        }
    }
    lines
}

/// What identifies the run, the most telling first.
#[must_use]
pub fn identity(input: &ReportInput) -> Vec<Entry> {
    let Some(run) = input.run() else { return Vec::new() };
    let mut entries = Vec::new();
    let mut add = |word: &str, meaning: String| {
        if !meaning.is_empty() {
            entries.push(Entry { word: word.to_owned(), meaning });
        }
    };
    for side in &input.sides {
        let Some(server) = side.runs.last().and_then(|r| r.sides.get(&side.side)) else { continue };
        let engine = [server.engine.clone(), server.engine_version.clone()];
        let engine: Vec<String> = engine.into_iter().flatten().collect();
        let parts = [engine.join(" "), server.model.clone(), server.url.clone()];
        let parts: Vec<String> = parts.into_iter().filter(|p| !p.is_empty()).collect();
        let word = if input.sides.len() > 1 { side.name.as_str() } else { "server" };
        add(word, parts.join(" · "));
    }
    for (name, value) in &run.environment {
        let lower = name.to_lowercase();
        if lower.contains("gpu") || lower.contains("git") || lower.contains("revision") {
            add(name, value.clone());
        }
    }
    for (name, value) in &run.metadata {
        add(name, value.clone());
    }
    add("run", run_words(run));
    add("command", run.command_line.join(" "));
    entries
}

fn run_words(run: &StoredRun) -> String {
    let started = run.started_at.strftime("%Y-%m-%d %H:%M UTC");
    let took = run.ended_at.map(|end| end.duration_since(run.started_at).as_secs_f64());
    let took = took.map(|s| format!(", {}", units::duration(s))).unwrap_or_default();
    let status = match run.status {
        crate::record::stored::RunStatus::Complete => "",
        crate::record::stored::RunStatus::Running => ", unfinished",
        crate::record::stored::RunStatus::Interrupted => ", interrupted",
        crate::record::stored::RunStatus::Failed => ", failed",
    };
    format!("{} · {started}{took}{status} · seed {} · {}", run.id, run.seed.0, run.tool)
}

/// Settings, environment and engine settings, for whoever wants to repeat the run.
fn facts(input: &ReportInput) -> Vec<Entry> {
    let Some(run) = input.run() else { return Vec::new() };
    let mut entries: Vec<Entry> = run
        .settings
        .iter()
        .chain(&run.environment)
        .map(|(word, meaning)| Entry { word: word.clone(), meaning: meaning.clone() })
        .collect();
    for (side, server) in &run.sides {
        let named = server.engine_settings.iter();
        let command = server.command.iter().map(|c| ("command", c));
        let whose = match side {
            crate::plan::Side::Base => "base",
            crate::plan::Side::New => "server",
        };
        let all = command.chain(named.map(|(k, v)| (k.as_str(), v)));
        entries.extend(all.map(|(word, meaning)| Entry {
            word: format!("{whose}: {word}"),
            meaning: meaning.clone(),
        }));
    }
    entries.push(Entry { word: "workload".into(), meaning: run.workload_hash.clone() });
    entries.push(Entry { word: "definitions".into(), meaning: run.definitions.clone() });
    entries
}

fn cards(input: &ReportInput) -> Vec<GroupCard> {
    let groups = input.groups();
    let with_charts = groups.len() <= CARDS_WITH_CHARTS;
    let card = |name: &&str| {
        let points = input.points.iter().filter(|p| p.point.group == *name);
        let loads = points.filter(|p| p.phase == Phase::Load).count();
        let scenarios = super::group::scenarios(input, name).len();
        GroupCard {
            name: (*name).to_owned(),
            href: figures::group_href(name),
            summary: format!(
                "{}, {}",
                plural(scenarios, "scenario"),
                plural(loads, "load point")
            ),
            charts: if with_charts { super::group::card_charts(input, name) } else { Vec::new() },
        }
    };
    groups.iter().map(card).collect()
}
