//! The verdicts as JUnit XML: a test case per load point × gated metric.

use super::{Report, view};
use crate::compare::{Cell, Comparison, Verdict};

/// The whole file. Without a comparison it holds no test case.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for comparison in &report.input().comparisons {
        suite(&mut text, comparison);
    }
    text.push_str("</testsuites>\n");
    text
}

fn suite(text: &mut String, comparison: &Comparison) {
    let gated: Vec<&Cell> = comparison.cells.iter().filter(|c| c.gated).collect();
    let count = |kind: Outcome| gated.iter().filter(|c| outcome(c) == kind).count();
    text.push_str(&format!(
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n",
        escape(&format!("{} against {}", comparison.new_label, comparison.base_label)),
        gated.len(),
        count(Outcome::Failure),
        count(Outcome::Error),
        count(Outcome::Skipped),
    ));
    for cell in gated {
        case(text, cell);
    }
    text.push_str("  </testsuite>\n");
}

fn case(text: &mut String, cell: &Cell) {
    let (group, rest) = cell.point.split_once('/').unwrap_or(("", &cell.point));
    text.push_str(&format!(
        "    <testcase classname=\"{}\" name=\"{}\"",
        escape(group),
        escape(&format!("{rest} {}", cell.measure.name()))
    ));
    let sentence = escape(&view::cell_sentence(cell));
    match outcome(cell) {
        Outcome::Passed => text.push_str("/>\n"),
        Outcome::Failure => text.push_str(&format!(
            ">\n      <failure type=\"regressed\" message=\"{sentence}\"/>\n    </testcase>\n"
        )),
        Outcome::Error => text.push_str(&format!(
            ">\n      <error type=\"{}\" message=\"{sentence}\"/>\n    </testcase>\n",
            view::verdict_key(cell.verdict)
        )),
        Outcome::Skipped => {
            text.push_str(&format!(">\n      <skipped message=\"{sentence}\"/>\n    </testcase>\n"))
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failure,
    Error,
    Skipped,
}

fn outcome(cell: &Cell) -> Outcome {
    match cell.verdict {
        Verdict::Regressed => Outcome::Failure,
        Verdict::Invalid | Verdict::Incomparable => Outcome::Error,
        Verdict::Improved | Verdict::Unchanged | Verdict::WithinNoise => Outcome::Passed,
        Verdict::Inconclusive | Verdict::Saturated | Verdict::New | Verdict::Removed => {
            Outcome::Skipped
        }
    }
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
