//! The report on a terminal: the table, the verdicts, the findings. The one place that prints.

use std::borrow::Cow;
use std::io::{self, Write};

pub use super::cell_text::{Color, Tone, cells, plain};
use super::cell_text::{fit, wrapped};
use super::detail::Detail;
use super::table::table;
use super::view::figures;
use super::view::findings::{FindingView, findings};
use super::view::{self, Outcome, banner, trust};
use super::{Report, ReportInput};
use crate::compare::{Cell, Comparison, Verdict};
use crate::metric::Measure;
use crate::record::{Finding, Severity};
use crate::units;

/// Least and usual width.
const NARROW: usize = 80;
/// Width of the column of labels.
const LABEL: usize = 11;
/// Verdicts told one by one; the rest is counted.
const TOLD: usize = 24;
/// Of these, those that are inconclusive.
const UNSURE_TOLD: usize = 8;

/// The text of a report, lines at most `width` wide (80 at least).
#[must_use]
pub fn render(report: &Report, width: usize, color: Color, detail: Detail) -> String {
    let input = report.input();
    let width = width.max(NARROW);
    let mut text = table(input, width, color);
    verdicts(&mut text, input, width, color);
    if detail == Detail::Quiet {
        return text;
    }
    section(&mut text, "Overall", &banner::overall(input), width, color);
    section(&mut text, "Capacity", &banner::limits(input), width, color);
    section(&mut text, "Trust", &trust::trust(input), width, color);
    let (notes, others): (Vec<&Finding>, Vec<&Finding>) =
        input.all_findings().into_iter().partition(|f| f.severity == Severity::Note);
    finding_list(&mut text, &findings(&others), width, color);
    let notes = findings(&notes);
    if detail == Detail::Verbose {
        finding_list(&mut text, &notes, width, color);
    } else if !notes.is_empty() {
        text.push_str(&format!("  {}: shown with -v\n", units::plural(notes.len(), "note")));
    }
    text
}

/// The terminal's width in cells; 80 where stdout is not one.
#[must_use]
pub fn width() -> usize {
    terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0).clamp(60, 160))
}

/// Prints text to stdout. A closed pipe is no error: whoever read has read enough.
///
/// # Errors
/// Where stdout cannot be written for another reason.
pub fn print(text: &str) -> crate::Result<()> {
    write_to(&mut io::stdout().lock(), text)
}

/// Prints text to stderr, where messages go.
///
/// # Errors
/// As [`print()`].
pub fn print_message(text: &str) -> crate::Result<()> {
    write_to(&mut io::stderr().lock(), text)
}

fn write_to(stream: &mut impl Write, text: &str) -> crate::Result<()> {
    let text = without_turns(text);
    match stream.write_all(text.as_bytes()).and_then(|()| stream.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(crate::Error::store("could not write the output").with_cause(e))
        }
        _ => Ok(()),
    }
}

/// The last gate before a terminal: our own lines and colours pass, nothing that turns the direction of
/// writing or moves the cursor does.
fn without_turns(text: &str) -> Cow<'_, str> {
    let is_ours = |c: char| matches!(c, '\n' | '\t' | '\r' | '\u{1b}');
    let is_foreign = |c: char| units::steers(c) && !is_ours(c);
    if !text.contains(is_foreign) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if is_foreign(c) { ' ' } else { c }).collect())
}

fn verdicts(text: &mut String, input: &ReportInput, width: usize, color: Color) {
    let outcome = Outcome::of(input);
    let tone = match outcome {
        Outcome::Regressed | Outcome::Missed | Outcome::Failed | Outcome::ServerLost => Tone::Bad,
        Outcome::Improved => Tone::Good,
        Outcome::Invalid | Outcome::Inconclusive | Outcome::Incomplete | Outcome::Mixed => {
            Tone::Warn
        }
        Outcome::Measured | Outcome::Unchanged | Outcome::Undecided => Tone::Bold,
    };
    // Wrapped before it is painted: escapes have no width.
    // Lines after the first are indented by two.
    let line = wrapped(&format!("{}: {}", outcome.label(), banner::headline(input)), width - 2, 2);
    let painted = color.paint(tone, outcome.label());
    text.push_str(&format!("\n{}\n", line.replacen(outcome.label(), &painted, 1)));
    let told = ConclusionInput::of(input);
    let several = input.comparisons.len() > 1;
    for (comparison, point) in &told.places {
        let side =
            if several { format!(" ({})", plain(&comparison.new_label)) } else { String::new() };
        text.push_str(&format!("{}{side}\n", fit(&plain(point), width - cells(&side).min(40))));
        let mut cells = told.at(comparison, point).peekable();
        while let Some(cell) = cells.next() {
            cell_line(text, cell, color);
            // Numbers in a row that share their why tell it once, below the last.
            let note = view::cell_note(cell);
            if note == cells.peek().and_then(|next| view::cell_note(next)) {
                continue;
            }
            if let Some(note) = note {
                let note = wrapped(&plain(&note), width - 6, 6);
                text.push_str(&format!("      {}\n", color.paint(Tone::Dim, &note)));
            }
        }
    }
    if told.left_out > 0 {
        text.push_str(&format!("and {} more in the report\n", told.left_out));
    }
}

/// The gated cells to tell, by load point, those that matter most first.
struct ConclusionInput<'a> {
    places: Vec<(&'a Comparison, &'a str)>,
    cells: Vec<(&'a Comparison, &'a Cell)>,
    left_out: usize,
}

impl<'a> ConclusionInput<'a> {
    fn of(input: &'a ReportInput) -> Self {
        let worth = |c: &Cell| !matches!(c.verdict, Verdict::Unchanged | Verdict::WithinNoise);
        let ranked = figures::ranked_cells(input, None);
        let mut cells: Vec<_> = ranked.into_iter().filter(|(_, c)| c.gated && worth(c)).collect();
        let all = cells.len();
        let mut unsure = 0;
        cells.retain(|(_, cell)| {
            unsure += usize::from(cell.verdict == Verdict::Inconclusive);
            cell.verdict != Verdict::Inconclusive || unsure <= UNSURE_TOLD
        });
        cells.truncate(TOLD);
        let mut places: Vec<(&Comparison, &str)> = Vec::new();
        for (comparison, cell) in &cells {
            let known = |(c, point): &(&Comparison, &str)| {
                c.new_label == comparison.new_label && *point == cell.point
            };
            if !places.iter().any(known) {
                places.push((comparison, &cell.point));
            }
        }
        Self { places, left_out: all - cells.len(), cells }
    }

    fn at(&self, comparison: &Comparison, point: &str) -> impl Iterator<Item = &'a Cell> {
        let here = move |(c, cell): &&(&'a Comparison, &'a Cell)| {
            c.new_label == comparison.new_label && cell.point == point
        };
        self.cells.iter().filter(here).map(|(_, cell)| *cell)
    }
}

/// A number that changed, in columns: base and new, the change with its interval, the verdict.
fn cell_line(text: &mut String, cell: &Cell, color: Color) {
    let tone = match view::verdict_class(cell.verdict) {
        "good" => Tone::Good,
        "bad" => Tone::Bad,
        "warn" | "unsure" => Tone::Warn,
        _ => Tone::Dim,
    };
    let mark = color.paint(tone, view::verdict_mark(cell.verdict));
    let verdict = color.paint(tone, cell.verdict.label());
    let (base, new) =
        (view::value(cell.measure, cell.base), view::value_unit(cell.measure, cell.new));
    let change = format!(
        "{} {}",
        view::change(cell.measure, cell.change),
        view::change_interval(cell.interval)
    );
    let columns = [
        padded(&cell.measure.label(), 17),
        padded(&format!("{base} → {new}"), 21),
        padded(change.trim_end(), 22),
        verdict,
    ];
    text.push_str(&format!("  {mark} {}\n", columns.join(" ")));
}

/// `text` with spaces up to `width`; longer text is left whole.
fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(cells(text))))
}

/// Lines below each other, the first beside its label.
fn section(text: &mut String, label: &str, lines: &[String], width: usize, color: Color) {
    for (index, line) in lines.iter().enumerate() {
        let label = if index == 0 { label } else { "" };
        let head = color.paint(Tone::Bold, &padded(label, LABEL));
        let head = if label.is_empty() { " ".repeat(LABEL) } else { head };
        text.push_str(&format!("{head}{}\n", wrapped(&plain(line), width - LABEL, LABEL)));
    }
}

/// Findings below each other; a hint that consecutive ones share is printed once, below the last.
fn finding_list(text: &mut String, findings: &[FindingView], width: usize, color: Color) {
    for (index, finding) in findings.iter().enumerate().take(TOLD) {
        let next = findings.get(index + 1).filter(|_| index + 1 < TOLD);
        finding_lines(text, finding, width, color);
        if next.is_none_or(|next| next.hint != finding.hint) {
            hint_line(text, finding, width);
        }
    }
    if findings.len() > TOLD {
        text.push_str(&format!("  and {} more in the report\n", findings.len() - TOLD));
    }
}

/// A finding for a terminal: its severity and its sentence.
fn finding_lines(text: &mut String, finding: &FindingView, width: usize, color: Color) {
    let tone = match finding.class.as_str() {
        "bad" => Tone::Bad,
        "warn" => Tone::Warn,
        _ => Tone::Dim,
    };
    let at = match finding.points.as_str() {
        "" => String::new(),
        points => format!(" ({})", fit(&plain(points), 48)),
    };
    let severity = color.paint(tone, &finding.severity);
    let indent = finding.severity.len() + 4;
    let sentence = wrapped(&format!("{}{at}", plain(&finding.text)), width - indent, indent);
    text.push_str(&format!("  {severity}: {sentence}\n"));
}

/// The remedy of a finding, below its sentence.
fn hint_line(text: &mut String, finding: &FindingView, width: usize) {
    if finding.hint.is_empty() {
        return;
    }
    let indent = finding.severity.len() + 4;
    let hint = wrapped(&plain(&finding.hint), width - indent - 6, indent + 6);
    text.push_str(&format!("{}hint: {hint}\n", " ".repeat(indent)));
}

/// One line for a load point that has just ended: 80 cells with a side's name and no failures.
#[must_use]
pub fn point_line(id: &str, summary: &crate::summary::Summary) -> String {
    let get = |measure| summary.get(measure);
    let failed = match summary.failed {
        0 => String::new(),
        n => format!("  {} failed", units::count(n)),
    };
    format!(
        "{:<21}{:>6} req/s  TTFT p50 {} p99 {}  TPOT {} ms{failed}",
        fit(&plain(id), 20),
        units::optional(get(Measure::QPS)),
        units::optional(get(Measure::TTFT_P50)),
        units::optional(get(Measure::TTFT_P99)),
        units::optional(get(Measure::TPOT_MEAN)),
    )
}
