//! The verdicts as JUnit XML: a test case per load point × gated metric, and one for everything else
//! that the gate reports, so that a case fails where the exit code is not 0.

use super::{Report, view};
use crate::compare::{Cell, Comparison, GateCause, GateReason, SuiteResult, Verdict};
use crate::record::{Finding, Severity};
use crate::summary::failure_words;

/// The class of cases that belong to no group.
const WHOLE: &str = "all load points";

/// The whole file. Without a comparison it holds only what the gate reports.
#[must_use]
pub fn render(report: &Report) -> String {
    let input = report.input();
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for comparison in &input.comparisons {
        let name = format!("{} against {}", comparison.new_label, comparison.base_label);
        suite(&mut text, &name, &cases(comparison));
    }
    let servers: Vec<Case> = server_cases(report).collect();
    if !servers.is_empty() {
        suite(&mut text, "server", &servers);
    }
    if input.comparisons.is_empty() && !input.gate.reasons.is_empty() {
        let all: Vec<Case> = input.gate.reasons.iter().map(whole_case).collect();
        suite(&mut text, "measured", &all);
    }
    text.push_str("</testsuites>\n");
    text
}

/// A case per load point of the reported side: what happened to its server, and the warnings there.
fn server_cases(report: &Report) -> impl Iterator<Item = Case> {
    let input = report.input();
    let unserved = if input.gate.exit_code == 0 { Outcome::Skipped } else { Outcome::Error };
    input.points.iter().filter_map(move |point| {
        let side = point.side(input.subject())?;
        let mut said = vec![format!("the server {}", side.server.words())];
        let failures = failure_words(&side.summary);
        if !failures.is_empty() {
            said.push(format!("failed requests: {failures}"));
        }
        let here = |finding: &&Finding| {
            finding.severity >= Severity::Warning && finding.point.as_deref() == Some(&point.id)
        };
        said.extend(input.all_findings().iter().filter(|f| here(f)).map(|f| f.text.clone()));
        Some(Case {
            class: point.point.group.clone(),
            name: format!("{} server", point.id),
            outcome: if side.server.is_ran() { Outcome::Passed } else { unserved },
            kind: side.server.name().to_owned(),
            message: said.join("; "),
        })
    })
}

struct Case {
    class: String,
    name: String,
    outcome: Outcome,
    /// The attribute `type` of a failure or an error.
    kind: String,
    message: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failure,
    Error,
    Skipped,
}

/// The gated cells, the means over all load points, then what the gate reports beyond them.
fn cases(comparison: &Comparison) -> Vec<Case> {
    let reasons = &comparison.gate.reasons;
    let gated: Vec<&Cell> = comparison.cells.iter().filter(|c| c.gated).collect();
    let beyond = reasons.iter().filter(|reason| {
        !gated.iter().any(|cell| reason.cause.is_of_cell(&cell.point, cell.measure))
            && !matches!(reason.cause, GateCause::Suite(_))
    });
    let cells = gated.iter().map(|cell| cell_case(cell, reasons));
    let suites = comparison.suite.iter().map(|suite| suite_case(suite, reasons));
    cells.chain(suites).chain(beyond.map(whole_case)).collect()
}

/// A cell fails where the gate names it: `--no-fail` and advice fail nothing.
fn cell_case(cell: &Cell, reasons: &[GateReason]) -> Case {
    let (group, rest) = cell.point.split_once('/').unwrap_or(("", &cell.point));
    let reason = reasons.iter().find(|r| r.cause.is_of_cell(&cell.point, cell.measure));
    let gain = reason.is_some_and(|reason| reason.cause.is_gain());
    let outcome = match (reason, cell.verdict) {
        (Some(_), Verdict::Invalid | Verdict::Incomparable) => Outcome::Error,
        (Some(_), _) if gain => Outcome::Error,
        (Some(_), _) => Outcome::Failure,
        (None, Verdict::Improved | Verdict::Unchanged | Verdict::WithinNoise) => Outcome::Passed,
        (None, _) => Outcome::Skipped,
    };
    Case {
        class: group.to_owned(),
        name: format!("{rest} {}", cell.measure.name()),
        outcome,
        kind: if gain { "implausible".into() } else { cell.verdict.key().into() },
        message: match reason {
            Some(reason) if gain => reason.text.clone(),
            _ => view::cell_sentence(cell),
        },
    }
}

fn suite_case(suite: &SuiteResult, reasons: &[GateReason]) -> Case {
    let of_suite = GateCause::Suite(suite.measure);
    let reason = reasons.iter().find(|reason| reason.cause == of_suite);
    let outcome = match (reason, suite.verdict) {
        (Some(_), _) => Outcome::Failure,
        (None, Verdict::Regressed) => Outcome::Skipped,
        (None, _) => Outcome::Passed,
    };
    let change = view::change(suite.measure, suite.change);
    let interval = view::change_interval(suite.interval);
    Case {
        class: WHOLE.to_owned(),
        name: suite.measure.name(),
        outcome,
        kind: suite.verdict.key().into(),
        message: format!("{} over all load points: {change} {interval}", suite.measure.label()),
    }
}

/// What the gate reports beyond cells: a missed limit, nothing measured, a run that ended early.
fn whole_case(reason: &GateReason) -> Case {
    let (name, outcome, kind) = match &reason.cause {
        GateCause::Limit { limit, point } => {
            (format!("{limit} at {point}"), Outcome::Failure, "limit")
        }
        _ => (reason.text.clone(), Outcome::Error, "gate"),
    };
    Case {
        class: WHOLE.to_owned(),
        name,
        outcome,
        kind: kind.to_owned(),
        message: reason.text.clone(),
    }
}

fn suite(text: &mut String, name: &str, cases: &[Case]) {
    let count = |outcome: Outcome| cases.iter().filter(|case| case.outcome == outcome).count();
    text.push_str(&format!(
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n",
        escape(name),
        cases.len(),
        count(Outcome::Failure),
        count(Outcome::Error),
        count(Outcome::Skipped),
    ));
    for case in cases {
        put(text, case);
    }
    text.push_str("  </testsuite>\n");
}

fn put(text: &mut String, case: &Case) {
    let (class, name) = (escape(&case.class), escape(&case.name));
    text.push_str(&format!("    <testcase classname=\"{class}\" name=\"{name}\""));
    let (kind, message) = (escape(&case.kind), escape(&case.message));
    let inner = match case.outcome {
        Outcome::Passed if message.is_empty() => return text.push_str("/>\n"),
        Outcome::Passed => format!("<system-out>{message}</system-out>"),
        Outcome::Failure => format!("<failure type=\"{kind}\" message=\"{message}\"/>"),
        Outcome::Error => format!("<error type=\"{kind}\" message=\"{message}\"/>"),
        Outcome::Skipped => format!("<skipped message=\"{message}\"/>"),
    };
    text.push_str(&format!(">\n      {inner}\n    </testcase>\n"));
}

/// Text for an attribute; characters that XML 1.0 forbids become U+FFFD.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            '\t' => escaped.push_str("&#9;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn xml_is_escaped() {
        assert_eq!(escape("<a b=\"\u{1}\">"), "&lt;a b=&quot;\u{fffd}&quot;&gt;");
    }
}
