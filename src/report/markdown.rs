//! The report as Markdown: a comment on a pull request, a step's summary, the engineers' table.

use super::view::figures::{self, ChangeRow};
use super::view::{banner, columns, compare, findings, value};
use super::{Report, ReportInput};
use crate::metric::Measure;

/// Longest text: what forges take as a comment is 65 536 characters.
pub const LIMIT_BYTES: usize = 60_000;
/// Room kept for the last lines.
const TAIL_BYTES: usize = 1_500;
/// Changes shown unfolded.
const TOLD: usize = 20;
/// Names longer than this are cut.
const NAME_LIMIT: usize = 80;

/// `verdict.md`: the verdict, what changed, then folded details. `link`: where the whole report is.
#[must_use]
pub fn render(report: &Report, link: Option<&str>) -> String {
    let input = report.input();
    let ranked = figures::ranked_cells(input, None);
    let banner = banner::banner(input, &ranked);
    let mut text = Bounded::default();
    text.push(&format!("### {}: {}\n\n", banner.label, escape(&banner.sentence)));
    for line in &banner.overall {
        text.push(&format!("- over all load points: {}\n", escape(line)));
    }
    for line in banner.trust.iter().chain(&banner.limits) {
        text.push(&format!("- {}\n", prose(line)));
    }
    let reach = figures::bar_reach(ranked.iter().map(|(_, c)| *c));
    let row = |(c, cell): &(&crate::compare::Comparison, &crate::compare::Cell)| {
        figures::change_row(input, c, cell, reach)
    };
    let (told, rest): (Vec<_>, Vec<_>) = ranked.iter().map(row).partition(|r| r.told);
    let (first, more) = told.split_at(told.len().min(TOLD));
    changes(&mut text, first, None);
    changes(&mut text, more, Some("more that changed"));
    match input.sides.len() {
        0 | 1 => {}
        // Base and new: the changes above say it; the table is there for who wants it.
        2 if !first.is_empty() => {
            text.push("\n<details><summary>both sides in one table</summary>\n\n");
            text.push_rows(&configuration_lines(input));
            text.push("\n</details>\n");
        }
        _ => {
            text.push("\n");
            text.push_rows(&configuration_lines(input));
        }
    }
    finding_lines(&mut text, input);
    changes(&mut text, &rest, Some("other numbers"));
    figure_lines(&mut text, input);
    text.finish(link)
}

/// The table as inference engineers write it: configuration, the parameters that differ, load, TTFT,
/// TPOT and throughput.
#[must_use]
#[cfg(test)]
pub fn configurations(report: &Report) -> String {
    let mut text = Bounded::default();
    text.push_rows(&configuration_lines(report.input()));
    text.text
}

fn configuration_lines(input: &ReportInput) -> Vec<String> {
    let facts = compare::differing_metadata(input);
    let rows = compare::rows(input, &facts);
    let one_scenario = rows.iter().filter(|r| !r.scenario.is_empty()).count() <= 1;
    let mut head: Vec<String> = Vec::new();
    if !one_scenario {
        head.push("scenario".into());
    }
    head.push("configuration".into());
    head.extend(facts.iter().map(|f| name(&f.name)));
    head.push(compare::load_head(input).into());
    let words = ["mean TTFT", "P99 TTFT", "mean TPOT", "P99 TPOT", "output throughput"];
    let units = compare::ENGINEERS.iter().map(|m: &Measure| m.metric.unit());
    head.extend(words.iter().zip(units).map(|(w, u)| format!("{w} ({u})")));
    // A concurrency is a number too.
    let closed = usize::from(compare::load_head(input) == compare::CONCURRENCY);
    let numbers = compare::ENGINEERS.len() + closed;
    let texts = head.len() - numbers;
    let mut lines = vec![line(&head), rule(texts, numbers)];
    for row in rows {
        let mut cells = Vec::new();
        if !one_scenario {
            cells.push(name(&row.scenario));
        }
        cells.push(name(&row.side));
        cells.extend(row.parameters.iter().map(|p| name(p)));
        cells.push(escape(&row.load));
        cells.extend(row.numbers.iter().map(|n| n.text.clone()));
        lines.push(line(&cells));
    }
    lines
}

fn changes(text: &mut Bounded, rows: &[ChangeRow], folded: Option<&str>) {
    if rows.is_empty() {
        return;
    }
    if let Some(what) = folded {
        text.push(&format!("\n<details><summary>{} {what}</summary>\n", rows.len()));
    }
    text.push("\n");
    let head = ["", "load point", "number", "base", "new", "change", "interval (%)"];
    let mut lines = vec![line(&head.map(String::from)), rule(3, 4)];
    for row in rows {
        let side = if row.side.is_empty() { String::new() } else { format!(" ({})", row.side) };
        let observed = if row.gated { "" } else { ", observed" };
        let note = match row.note.as_str() {
            "" => String::new(),
            note => format!("<br><sub>{}</sub>", escape(note)),
        };
        lines.push(line(&[
            format!("{} {}{observed}", row.mark, row.verdict),
            name(&format!("{}{side}", row.id)),
            format!("{}{note}", escape(&row.measure)),
            row.base.clone(),
            format!("{} {}", row.new, row.unit),
            row.change.clone(),
            row.interval.clone(),
        ]));
    }
    text.push_rows(&lines);
    if folded.is_some() {
        text.push("\n</details>\n");
    }
}

fn finding_lines(text: &mut Bounded, input: &ReportInput) {
    let findings = findings::findings(&input.all_findings());
    if findings.is_empty() {
        return;
    }
    let mut lines = Vec::new();
    for finding in findings.iter().take(20) {
        let hint =
            if finding.hint.is_empty() { String::new() } else { format!("; {}", finding.hint) };
        let at = if finding.points.is_empty() {
            String::new()
        } else {
            format!(" ({})", finding.points)
        };
        lines.push(format!(
            "- {}: {}{}{}\n",
            finding.severity,
            prose(&finding.text),
            name(&at),
            prose(&hint)
        ));
    }
    text.push("\nWarnings:\n\n");
    text.push_rows(&lines);
}

fn figure_lines(text: &mut Bounded, input: &ReportInput) {
    let mut head = vec!["load point".to_owned()];
    let several = input.sides.len() > 1;
    if several {
        head.push("side".into());
    }
    let texts = head.len();
    let columns = columns(input);
    head.extend(columns.iter().map(|m| format!("{} ({})", m.label(), m.metric.unit())));
    let mut lines = vec![line(&head), rule(texts, columns.len())];
    for point in &input.points {
        for (index, side) in input.sides.iter().enumerate() {
            let Some(figures) = point.side(index) else { continue };
            let status = match figures.server.is_ran() {
                true => String::new(),
                false => format!(" ({})", figures::status_words(point.phase, figures)),
            };
            let mut cells = vec![format!("{}{status}", name(&point.id))];
            if several {
                cells.push(name(&side.name));
            }
            cells.extend(columns.iter().map(|m| value(*m, point.get(index, *m))));
            lines.push(line(&cells));
        }
    }
    let loads = input.points.iter().filter(|p| p.phase.is_judged()).count();
    let few = loads <= 12 && !several;
    if !few {
        text.push("\n<details><summary>all figures</summary>\n");
    }
    text.push("\n");
    text.push_rows(&lines);
    if !few {
        text.push("\n</details>\n");
    }
}

fn line(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

fn rule(texts: usize, numbers: usize) -> String {
    format!("|{}{}\n", "---|".repeat(texts), "---:|".repeat(numbers))
}

fn name(text: &str) -> String {
    escape(&super::view::shorten(text, NAME_LIMIT))
}

/// A sentence outside tables: what stands between backticks is code, the rest means nothing.
fn prose(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    let part = |(index, part): (usize, &&str)| match (index % 2, index + 1 < parts.len()) {
        (0, _) => escape(part),
        (_, true) if !part.trim().is_empty() => {
            let plain: String =
                part.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            format!("`{plain}`")
        }
        _ => escape(&format!("`{part}")),
    };
    parts.iter().enumerate().map(part).collect()
}

/// Text that means nothing to Markdown, HTML or a forge (no mention of a person, no table's end).
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut before = ' ';
    let mut after = text.chars().skip(1);
    for c in text.chars() {
        // An underscore within a word is plain: `max_num_seqs`.
        let next = after.next();
        let within = before.is_alphanumeric() && next.is_some_and(char::is_alphanumeric);
        before = c;
        match c {
            '_' if within => escaped.push('_'),
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '@' => escaped.push_str("&#64;"),
            '|' | '`' | '*' | '_' | '\\' | '~' | '#' => {
                escaped.push('\\');
                escaped.push(c);
            }
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    // A link of somebody else's making; intervals such as `[−0.4, +4.1]` stay.
    escaped.replace("](", "]\\(")
}

/// Text that never gets longer than the limit: what no longer fits is left out and counted.
#[derive(Default)]
struct Bounded {
    text: String,
    left_out: usize,
}

impl Bounded {
    /// Adds what must be there: headings and the ends of folds.
    fn push(&mut self, text: &str) {
        if self.text.len() + text.len() <= LIMIT_BYTES - TAIL_BYTES / 2 {
            self.text.push_str(text);
        }
    }

    /// Adds rows as long as there is room.
    fn push_rows(&mut self, rows: &[String]) {
        for row in rows {
            if self.left_out > 0 || self.text.len() + row.len() > LIMIT_BYTES - TAIL_BYTES {
                self.left_out += 1;
            } else {
                self.text.push_str(row);
            }
        }
    }

    fn finish(mut self, link: Option<&str>) -> String {
        if self.left_out > 0 {
            self.text.push_str(&format!("\n{} more rows are in the full report\n", self.left_out));
        }
        if let Some(link) = link.filter(|l| l.len() < TAIL_BYTES / 4) {
            let safe: String =
                link.chars().filter(|c| !c.is_whitespace() && !"()<>".contains(*c)).collect();
            self.text.push_str(&format!("\n[The whole report]({safe})\n"));
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::{escape, prose};

    #[test]
    fn commands_in_sentences_are_code() {
        assert_eq!(prose("run `a --b …` or_c"), "run `a --b …` or_c");
        assert_eq!(prose("`<b>@x` <b>@x"), "`<b>@x` &lt;b&gt;&#64;x");
        assert_eq!(prose("a ` b"), "a \\` b");
        assert_eq!(prose("a `` b"), "a \\` b");
    }

    #[test]
    fn nothing_gets_through() {
        assert_eq!(escape("<script>|`@me`"), "&lt;script&gt;\\|\\`&#64;me\\`");
        assert_eq!(escape("[x](http://y)"), "[x]\\(http://y)");
        assert_eq!(escape("+4.1 % [+2.9, +5.3]"), "+4.1 % [+2.9, +5.3]");
        assert_eq!(escape("a\nb"), "a b");
        assert_eq!(escape("max_num _x_"), "max_num \\_x\\_");
    }
}
