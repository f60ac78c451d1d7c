//! The report on a terminal: the table, the verdicts, the findings. The one place that prints.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use super::view::figures::{self, FindingView};
use super::view::{self, Outcome, banner, shorten, trust};
use super::{PointInput, Report, ReportInput};
use crate::compare::{Cell, Comparison, Verdict};
use crate::metric::{Measure, Metric};
use crate::units;

/// Least and usual width.
const NARROW: usize = 80;
/// From here on there is room for more columns.
const WIDE: usize = 104;
/// Verdicts told one by one; the rest is counted.
const TOLD: usize = 24;
/// Of these, those that are inconclusive.
const UNSURE_TOLD: usize = 8;
/// Load points in the table; of more, those that changed most.
const TABLE_POINTS: usize = 40;
/// Width of a column of numbers, and of the last.
const COLUMN: usize = 8;
/// See [`COLUMN`].
const LAST: usize = 6;

/// Whether text carries colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Color {
    /// Plain text.
    Never,
    /// ANSI escapes.
    Always,
}

/// A colour, by what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Better.
    Good,
    /// Worse.
    Bad,
    /// Mind this.
    Warn,
    /// In the background.
    Dim,
    /// A heading.
    Bold,
}

impl Color {
    /// Colour only on a terminal, and not where `NO_COLOR` is set to anything (no-color.org).
    #[must_use]
    pub fn of(stream: &impl IsTerminal) -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        if stream.is_terminal() && !refused { Self::Always } else { Self::Never }
    }

    /// `text` in a tone.
    #[must_use]
    pub fn paint(self, tone: Tone, text: &str) -> String {
        let code = match (self, tone) {
            (Self::Never, _) => return text.to_owned(),
            (_, Tone::Good) => "32",
            (_, Tone::Bad) => "31",
            (_, Tone::Warn) => "33",
            (_, Tone::Dim) => "2",
            (_, Tone::Bold) => "1",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// The text of a report, lines at most `width` wide (80 at least).
#[must_use]
pub fn render(report: &Report, width: usize, color: Color) -> String {
    let input = report.input();
    let width = width.max(NARROW);
    let mut text = table(input, width, color);
    verdicts(&mut text, input, width, color);
    section(&mut text, "over all load points", &banner::overall(input), width, color);
    section(&mut text, "trust", &trust::trust(input), width, color);
    section(&mut text, "capacity", &banner::limits(input), width, color);
    for finding in figures::findings(&input.all_findings()).iter().take(TOLD) {
        finding_lines(&mut text, finding, width, color);
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

struct Column {
    measure: Measure,
    head: &'static str,
    width: usize,
}

fn columns(input: &ReportInput, width: usize) -> Vec<Column> {
    let column = |measure, head| Column { measure, head, width: COLUMN };
    let mut columns = vec![
        column(Measure::QPS, "QPS"),
        column(Measure::TTFT_P50, "TTFT"),
        column(Measure::TTFT_P99, "TTFT"),
        column(Measure::TPOT_MEAN, "TPOT"),
        column(Measure::ITL_P99, "ITL"),
        column(Measure::E2EL_MEAN, "E2EL"),
        Column { measure: Measure::ERROR_RATE, head: "err", width: LAST },
    ];
    if width >= WIDE {
        columns.insert(1, column(Measure::THROUGHPUT, "output"));
        columns.insert(5, column(Measure::ITL_P50, "ITL"));
    }
    if input.has_slo() {
        let good = Column { measure: Measure::GOOD_SHARE, head: "good", width: LAST };
        columns.insert(columns.len() - 1, good);
        if width >= WIDE {
            columns.insert(columns.len() - 2, column(Measure::GOODPUT, "goodput"));
        }
    }
    columns
}

/// The second line of a head: `p50 ms`.
fn unit(measure: Measure) -> String {
    let unit = measure.metric.unit();
    measure.statistic.map_or_else(|| unit.to_owned(), |s| format!("{} {unit}", s.name()))
}

fn table(input: &ReportInput, width: usize, color: Color) -> String {
    let columns = columns(input, width);
    let first = width - columns.iter().map(|c| c.width).sum::<usize>();
    let heads: String = columns.iter().map(|c| right(c.head, c.width)).collect();
    let units: String = columns.iter().map(|c| right(&unit(c.measure), c.width)).collect();
    let mut text = format!("{}{heads}\n", left("load point", first));
    text.push_str(&color.paint(Tone::Dim, format!("{}{units}", left("", first)).trim_end()));
    text.push('\n');
    let several = input.sides.len() > 1;
    let points = shown_points(input);
    for point in &points {
        if several {
            text.push_str(&format!("{}\n", fit(&plain(&point.id), width)));
        }
        for (index, side) in input.sides.iter().enumerate() {
            let Some(figures) = point.side(index) else { continue };
            let name = if several { format!("  {}", plain(&side.name)) } else { plain(&point.id) };
            let status = figures::status_words(point.phase, figures);
            let told = point.id.starts_with(&status);
            let name = match status.as_str() {
                "" => fit(&name, first - 1),
                _ if told => fit(&name, first - 1), // `reference/…` says it itself
                status => {
                    let room = first.saturating_sub(status.len() + 2);
                    format!("{} {status}", fit(&name, room))
                }
            };
            text.push_str(&left(&name, first));
            for column in &columns {
                text.push_str(&number(point.get(index, column.measure), column, color));
            }
            text.push('\n');
        }
    }
    if points.len() < input.points.len() {
        let more = units::plural(input.points.len() - points.len(), "more load point");
        text.push_str(&format!("{more} in the report\n"));
    }
    text
}

/// All load points, or of very many those where something happened, in the order of the plan.
fn shown_points(input: &ReportInput) -> Vec<&PointInput> {
    if input.points.len() <= TABLE_POINTS {
        return input.points.iter().collect();
    }
    let ranked = figures::ranked_cells(input, None);
    let mut ids: Vec<&str> = Vec::new();
    for (_, cell) in &ranked {
        if ids.len() < TABLE_POINTS && !ids.contains(&cell.point.as_str()) {
            ids.push(&cell.point);
        }
    }
    if ids.is_empty() {
        return input.points.iter().take(TABLE_POINTS).collect();
    }
    input.points.iter().filter(|p| ids.contains(&p.id.as_str())).collect()
}

fn number(value: Option<f64>, column: &Column, color: Color) -> String {
    let text = right(&view::value(column.measure, value), column.width);
    let failed = column.measure.metric == Metric::ErrorRate && value.is_some_and(|v| v > 0.0);
    if failed { color.paint(Tone::Bad, &text) } else { text }
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

fn section(text: &mut String, head: &str, lines: &[String], width: usize, color: Color) {
    if lines.is_empty() {
        return;
    }
    text.push_str(&format!("{}\n", color.paint(Tone::Bold, head)));
    for line in lines {
        text.push_str(&format!("  {}\n", wrapped(&plain(line), width - 2, 2)));
    }
}

/// A finding for a terminal: its weight, the sentence, then the remedy.
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
    let indent = finding.severity.len() + 2;
    let sentence = wrapped(&format!("{}{at}", plain(&finding.text)), width - indent, 2);
    text.push_str(&format!("{severity}: {sentence}\n"));
    if !finding.hint.is_empty() {
        text.push_str(&format!("  hint: {}\n", wrapped(&plain(&finding.hint), width - 8, 8)));
    }
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

/// Text without control characters: a server's words must not steer the terminal.
#[must_use]
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if units::steers(c) { ' ' } else { c }).collect()
}

/// `text` cut in its middle to at most `width` cells.
fn fit(text: &str, width: usize) -> String {
    // Wide characters may need the text cut further than its count of characters says.
    let cut = (1..=width).rev().map(|count| shorten(text, count));
    cut.into_iter().find(|t| cells(t) <= width).unwrap_or_default()
}

/// About how many cells a text takes: East Asian wide characters take two.
#[must_use]
pub fn cells(text: &str) -> usize {
    text.chars().map(|c| 1 + usize::from(is_wide(c))).sum()
}

/// The blocks of Unicode's East Asian Width W and F that occur in names.
fn is_wide(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}' | '\u{fe30}'..='\u{fe6f}' | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}' | '\u{1f300}'..='\u{1f64f}' | '\u{20000}'..='\u{3fffd}')
}

fn left(text: &str, width: usize) -> String {
    let mut text = text.to_owned();
    while cells(&text) > width {
        text.pop();
    }
    let fill = width - cells(&text);
    format!("{text}{}", " ".repeat(fill))
}

fn right(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(width.saturating_sub(cells(text))))
}

/// Breaks a text at spaces; lines after the first are indented.
pub(super) fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let mut result = String::new();
    let mut used = 0;
    // Not at a space that binds a number to its unit; what is printed is a plain one.
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let word = fit(word, width).replace('\u{a0}', " ");
        let length = cells(&word);
        if used > 0 && used + 1 + length > width {
            result.push('\n');
            result.push_str(&" ".repeat(indent));
            used = 0;
        } else if used > 0 {
            result.push(' ');
            used += 1;
        }
        result.push_str(&word);
        used += length;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_take_two_cells() {
        assert_eq!(cells("日本"), 4);
        assert_eq!(left("日本語", 5), "日本 ");
        assert_eq!(right("1", 3), "  1");
        assert_eq!(fit("日本語のモデル", 7), "日…デル");
        assert!(cells(&fit("日本語のモデル", 7)) <= 7);
    }

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrapped("aa bb cc", 5, 2), "aa bb\n  cc");
        assert_eq!(wrapped("", 5, 2), "");
        assert_eq!(wrapped("abcdefghi x", 5, 2), "ab…hi\n  x");
    }

    #[test]
    fn control_characters_do_not_reach_a_terminal() {
        assert_eq!(plain("a\u{1b}[31mb\r\n"), "a [31mb  ");
    }

    #[test]
    fn colour_can_be_off() {
        assert_eq!(Color::Never.paint(Tone::Bad, "x"), "x");
        assert_eq!(Color::Always.paint(Tone::Bad, "x"), "\u{1b}[31mx\u{1b}[0m");
    }
}
