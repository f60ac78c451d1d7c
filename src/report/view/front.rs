//! The first screen of a report: title, one sentence, and the cards Change, SLO and capacity, Trust.

use serde::Serialize;

use super::banner;
use super::capacity::{CapacityCard, capacity_card, places};
use super::figures::{self, Bar};
use super::{ID_LIMIT, Outcome, shorten, slo, trust};
use crate::compare::{Comparison, Verdict};
use crate::metric::Measure;
use crate::record::stored::RunStatus;
use crate::record::{Finding, Severity};
use crate::report::ReportInput;
use crate::units;
use crate::units::plural;

/// Rows of a card; more are on the pages of groups and load points.
const ROWS: usize = 6;

/// Errors and warnings of the trust card; all are further down the page.
const LINKS: usize = 3;

/// The first screen.
#[derive(Debug, Clone, Serialize)]
pub struct Front {
    /// What was measured or compared.
    pub title: String,
    /// Words beside the title.
    pub badges: Vec<Badge>,
    /// Engine, model, GPU, date, exit code.
    pub identity: Vec<String>,
    /// The verdict's class.
    pub class: String,
    /// The verdict.
    pub verdict: String,
    /// The sentence behind it.
    pub sentence: String,
    /// What changed; `None` without a baseline.
    pub change: Option<ChangeCard>,
    /// Up to which load, and how much.
    pub capacity: CapacityCard,
    /// How far the numbers can be trusted.
    pub trust: TrustCard,
}

/// A word beside the title.
#[derive(Debug, Clone, Serialize)]
pub struct Badge {
    /// The word.
    pub text: String,
    /// Its class.
    pub class: String,
}

/// What changed.
#[derive(Debug, Clone, Serialize)]
pub struct ChangeCard {
    /// What is compared, over what.
    pub heading: String,
    /// A row a measure.
    pub rows: Vec<ChangeLine>,
    /// What else to know, a sentence each.
    pub notes: Vec<String>,
    /// The load points that changed most.
    pub points: Vec<banner::BannerLine>,
}

/// A measure's change over all load points.
#[derive(Debug, Clone, Serialize)]
pub struct ChangeLine {
    /// The measure, and whose where there are several.
    pub measure: String,
    /// Drawn.
    pub bar: Option<Bar>,
    /// In percent.
    pub change: String,
    /// Its interval.
    pub interval: String,
    /// The verdict.
    pub verdict: String,
    /// Its class.
    pub class: String,
}

/// How far the numbers can be trusted.
#[derive(Debug, Clone, Serialize)]
pub struct TrustCard {
    /// `0 errors, 1 warning`.
    pub lead: String,
    /// Facts, a line each.
    pub lines: Vec<String>,
    /// The errors and warnings, shortened; each is below in full.
    pub warnings: Vec<String>,
}

/// Makes the first screen.
#[must_use]
pub fn front(input: &ReportInput) -> Front {
    let outcome = Outcome::of(input);
    Front {
        title: title(input),
        badges: badges(input, outcome),
        identity: identity(input),
        class: outcome.class().to_owned(),
        verdict: outcome.label().to_owned(),
        sentence: sentence(input, outcome),
        change: (!input.comparisons.is_empty()).then(|| change_card(input)),
        capacity: capacity_card(input),
        trust: trust_card(input),
    }
}

/// What the report is about: `new against main`, or the server.
#[must_use]
pub fn title(input: &ReportInput) -> String {
    if let [base, others @ ..] = input.sides.as_slice()
        && !others.is_empty()
    {
        let names: Vec<String> = others.iter().map(|side| shorten(&side.name, 40)).collect();
        return format!("{} against {}", names.join(", "), shorten(&base.name, 40));
    }
    let run = input.run();
    let label = || {
        let side = input.sides.last()?;
        Some(run?.sides.get(&side.side)?.label.clone()).filter(|label| !label.is_empty())
    };
    let name = run.and_then(|r| r.name.clone()).or_else(label);
    name.or_else(|| run.map(|r| r.id.clone())).unwrap_or_else(|| "report".to_owned())
}

fn badges(input: &ReportInput, outcome: Outcome) -> Vec<Badge> {
    let badge = |text: &str, class: &str| Badge { text: text.to_owned(), class: class.to_owned() };
    let mut all = Vec::new();
    match (input.comparisons.is_empty(), outcome) {
        (true, Outcome::Measured) => {}
        _ => all.push(badge(outcome.label(), outcome.class())),
    }
    if is_simulated(input) {
        all.push(badge("simulator", "warn"));
    }
    let is_cut = |status: RunStatus| matches!(status, RunStatus::Interrupted | RunStatus::Running);
    if input.run().is_some_and(|run| is_cut(run.status)) {
        all.push(badge("interrupted", "warn"));
    }
    match input.comparisons.last() {
        None => all.push(badge("no baseline", "")),
        Some(comparison) if comparison.blocks > 0 => {
            all.push(badge(&format!("{0} + {0} starts", comparison.blocks), ""));
        }
        Some(_) => {}
    }
    all
}

fn is_simulated(input: &ReportInput) -> bool {
    let sides = input.sides.iter().filter_map(|s| s.runs.last()?.sides.get(&s.side));
    let mut engines = sides.filter_map(|side| side.engine.as_deref());
    engines.any(|engine| engine.starts_with("inferometer-sim"))
}

/// Engine, model, GPU, revision, date and duration, exit code.
fn identity(input: &ReportInput) -> Vec<String> {
    let Some((side, run)) = input.sides.last().zip(input.run()) else { return Vec::new() };
    let mut parts = Vec::new();
    if let Some(server) = run.sides.get(&side.side) {
        let engine = [server.engine.clone(), server.engine_version.clone()];
        parts.push(engine.into_iter().flatten().collect::<Vec<_>>().join(" "));
        parts.push(server.model.clone());
    }
    for name in ["gpu", "git_revision"] {
        parts.extend(run.environment.get(name).map(|value| match name {
            "git_revision" => format!("git {}", value.chars().take(12).collect::<String>()),
            _ => value.clone(),
        }));
    }
    let took = run.ended_at.map(|end| end.duration_since(run.started_at).as_secs_f64());
    let took = took.map(|s| format!(", {}", units::duration(s))).unwrap_or_default();
    parts.push(format!("{}{took}", run.started_at.strftime("%Y-%m-%d %H:%M UTC")));
    parts.push(format!("exit code {}", input.gate.exit_code));
    parts.retain(|part| !part.is_empty());
    parts
}

/// The sentence after the verdict.
fn sentence(input: &ReportInput, outcome: Outcome) -> String {
    match outcome {
        Outcome::Measured => measured_sentence(input),
        Outcome::Regressed | Outcome::Improved | Outcome::Mixed => {
            let Some(changed) = changed_sentence(input, outcome) else {
                return banner::headline(input);
            };
            banner::beside(input).map_or(changed.clone(), |worse| format!("{changed}; {worse}"))
        }
        _ => banner::headline(input),
    }
}

/// `the SLO is met up to c64, the highest load measured, with a peak of 14290 tok/s and no failed request`.
fn measured_sentence(input: &ReportInput) -> String {
    let subject = input.subject();
    let places = places(input);
    let mut parts = Vec::new();
    if let [only] = input.capacities.as_slice() {
        parts.push(only.words());
    } else if let [(group, scenario)] = places.as_slice()
        && let Some(met) = slo::met_up_to(input, group, scenario, subject)
    {
        parts.push(format!("the SLO is {}", met.words()));
    }
    if let Some((text, _)) = figures::peak(input, subject, Measure::THROUGHPUT) {
        parts.push(format!("peak {text}"));
    }
    let (completed, failed) = super::requests(input);
    parts.push(match failed {
        0 => "no failed request".to_owned(),
        n => format!("{} of {} requests failed", units::count(n), units::count(completed + n)),
    });
    parts.join("; ")
}

/// `over 8 load points, TPOT is 6.5 % higher than in main [5.9, 7.1]`; where only single numbers
/// changed, the one that changed most.
fn changed_sentence(input: &ReportInput, outcome: Outcome) -> Option<String> {
    let wanted = match outcome {
        Outcome::Regressed => Verdict::Regressed,
        _ => Verdict::Improved,
    };
    let whose = |comparison: &Comparison| match input.comparisons.len() {
        1 => String::new(),
        _ => format!("{}: ", shorten(&comparison.new_label, ID_LIMIT)),
    };
    let found = |c: &&Comparison| c.suite.iter().any(|s| s.verdict == wanted);
    let Some(comparison) = input.comparisons.iter().find(found) else {
        let ranked = figures::ranked_cells(input, None);
        let changed = ranked.into_iter().filter(|(_, c)| c.gated && c.verdict == wanted);
        let changed: Vec<_> = changed.collect();
        let (comparison, cell) = *changed.first()?;
        let more = match changed.len() {
            1 => String::new(),
            n => format!("; {}", plural(n - 1, "more number")),
        };
        let change = in_words(cell.measure, cell.change, cell.interval, &comparison.base_label);
        return Some(format!("{}at {}, {change}{more}", whose(comparison), cell.point));
    };
    let suites = comparison.suite.iter().filter(|s| s.verdict == wanted && s.change.is_some());
    let part = |suite: &crate::compare::SuiteResult| {
        in_words(suite.measure, suite.change, suite.interval, &comparison.base_label)
    };
    let parts: Vec<String> = suites.take(2).map(part).collect();
    let points = plural(compared_points(comparison), "load point");
    (!parts.is_empty())
        .then(|| format!("{}over {points}, {}", whose(comparison), parts.join(" and ")))
}

/// `TPOT is 6.5 % higher than in main [5.9, 7.1]`.
fn in_words(
    measure: Measure,
    change: Option<f64>,
    interval: Option<(f64, f64)>,
    base: &str,
) -> String {
    let change = change.unwrap_or(0.0);
    let size = super::change(measure, Some(change.abs()));
    let size = size.trim_start_matches('+');
    let direction = if change > 0.0 { "higher" } else { "lower" };
    let base = shorten(base, ID_LIMIT);
    let interval = super::change_interval(interval);
    let text = format!("{} is {size} {direction} than in {base} {interval}", measure.label());
    text.trim_end().to_owned()
}

/// The load points with a gated verdict.
fn compared_points(comparison: &Comparison) -> usize {
    let gated = comparison.cells.iter().filter(|c| c.gated && c.change.is_some());
    let points: std::collections::BTreeSet<&str> = gated.map(|c| c.point.as_str()).collect();
    points.len()
}

fn change_card(input: &ReportInput) -> ChangeCard {
    let several = input.comparisons.len() > 1;
    let all = || input.comparisons.iter().flat_map(|c| c.suite.iter().map(move |s| (c, s)));
    let size = |change: Option<f64>, interval: Option<(f64, f64)>| {
        let ends = interval.map_or(0.0, |(low, high)| low.abs().max(high.abs()));
        ends.max(change.map_or(0.0, f64::abs))
    };
    let reach = all().map(|(_, s)| size(s.change, s.interval)).fold(0.0, f64::max);
    let reach = figures::clamped_reach(reach);
    let row = |(comparison, suite): (&Comparison, &crate::compare::SuiteResult)| {
        let of_measure = comparison.cells.iter().find(|c| c.measure == suite.measure && c.gated);
        let whose = match several {
            true => format!("{}: ", shorten(&comparison.new_label, 24)),
            false => String::new(),
        };
        ChangeLine {
            measure: format!("{whose}{}", capital(&suite.measure.label())),
            bar: suite.change.map(|at| {
                let floor = of_measure.map_or(0.0, |cell| cell.floor);
                figures::bar(at, suite.interval, floor, reach)
            }),
            change: super::change(suite.measure, suite.change),
            interval: super::change_interval(suite.interval),
            verdict: suite.verdict.label().to_owned(),
            class: super::verdict_class(suite.verdict).to_owned(),
        }
    };
    let mut suites: Vec<_> = all().filter(|(_, s)| s.change.is_some()).collect();
    // What changed comes first.
    suites.sort_by_key(|(_, s)| Verdict::ALL.iter().position(|v| *v == s.verdict));
    let ranked = figures::ranked_cells(input, None);
    let found = banner::banner(input, &ranked);
    let heading = match input.comparisons.as_slice() {
        [only] if compared_points(only) == 0 => "nothing is measured on both sides".to_owned(),
        [only] => format!(
            "{} against {}, mean over {}",
            shorten(&only.new_label, 32),
            shorten(&only.base_label, 32),
            plural(compared_points(only), "load point")
        ),
        _ => "mean over load points".to_owned(),
    };
    let mut notes: Vec<String> = Vec::new();
    if !found.unchanged.is_empty() {
        notes.push(found.unchanged);
    }
    for comparison in &input.comparisons {
        notes.extend(comparison.advice.clone().filter(|advice| !notes.contains(advice)));
    }
    ChangeCard {
        heading,
        rows: suites.into_iter().take(ROWS).map(row).collect(),
        notes,
        points: found.changed,
    }
}

fn trust_card(input: &ReportInput) -> TrustCard {
    let findings = input.all_findings();
    let grave: Vec<_> = findings.iter().copied().filter(|f| f.severity > Severity::Note).collect();
    let mut kinds: Vec<(&Finding, usize)> = Vec::new();
    for finding in grave {
        match kinds.iter_mut().find(|(known, _)| known.code == finding.code) {
            Some((_, points)) => *points += 1,
            None => kinds.push((finding, 1)),
        }
    }
    let errors = kinds.iter().filter(|(f, _)| f.severity > Severity::Warning).count();
    let warnings = kinds.len() - errors;
    let link = |(finding, points): &(&Finding, usize)| {
        let short = finding.text.split(": ").next().unwrap_or(&finding.text);
        let place = match (points, &finding.point) {
            (1, Some(point)) => format!(" ({})", shorten(point, 40)),
            (1, None) => String::new(),
            (n, _) => format!(" ({})", plural(*n, "load point")),
        };
        format!(
            "{}: {}{place}",
            capital(super::severity_label(finding.severity)),
            shorten(short, 72)
        )
    };
    let mut links: Vec<String> = kinds.iter().take(LINKS).map(link).collect();
    if kinds.len() > LINKS {
        links.push(format!("{} more", kinds.len() - LINKS));
    }
    let mut lines = trust::facts(input);
    if is_simulated(input) {
        lines.push("The simulator shows how the tool works, not how a server performs.".to_owned());
    }
    TrustCard {
        lead: format!("{}, {}", plural(errors, "error"), plural(warnings, "warning")),
        lines,
        warnings: links,
    }
}

/// `Warning`: the first letter as a capital.
fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_nothing_has_a_first_screen() {
        let front = front(&ReportInput::default());
        assert_eq!(front.title, "report");
        assert_eq!(front.trust.lead, "0 errors, 0 warnings");
        assert!(front.change.is_none() && front.capacity.rows.is_empty());
    }
}
