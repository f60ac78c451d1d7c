//! A caret: an error's place in a text, shown as line, column and the piece meant.

use std::ops::Range;

use crate::error::Error;

/// A line longer than this is cut round the place meant.
const MAX_SHOWN_CHARS: usize = 100;

/// A text with the name that errors call it by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    /// The file's name.
    pub(super) name: &'a str,
    /// Its text.
    pub(super) text: &'a str,
}

impl Source<'_> {
    /// The line (from 1) in which the byte lies.
    pub(super) fn line(&self, byte: usize) -> usize {
        self.before(byte).matches('\n').count() + 1
    }

    /// An error at these bytes: `name:line:column: message`, the line, and a caret under each
    /// character meant.
    pub(super) fn error(&self, span: Range<usize>, message: &str) -> Error {
        let before = self.before(span.start);
        let line_start = before.rfind('\n').map_or(0, |lf| lf + 1);
        let line = self.text[line_start..].split('\n').next().unwrap_or("").trim_end();
        let secret = is_secret(line);
        let message = if secret { mask(message) } else { message.to_owned() };
        let line: Vec<char> =
            if secret { mask(line).chars().collect() } else { line.chars().collect() };
        let column = before[line_start..].chars().count();
        // A span over several lines is marked to the end of its first.
        let meant = self.before(span.end.max(before.len()))[before.len()..].chars().count();
        let marks = meant.clamp(1, line.len().saturating_sub(column).max(1));
        let from = if line.len() > MAX_SHOWN_CHARS {
            column.saturating_sub(MAX_SHOWN_CHARS / 2)
        } else {
            0
        };
        let shown: String = line.iter().skip(from).take(MAX_SHOWN_CHARS).collect();
        // Tabs stay tabs, so that the caret stands below what it means.
        let indent: String = line[from.min(line.len())..column.min(line.len())]
            .iter()
            .map(|c| if *c == '\t' { '\t' } else { ' ' })
            .collect();
        let number = self.line(span.start).to_string();
        let gutter = " ".repeat(number.len());
        let room = MAX_SHOWN_CHARS.saturating_sub(column - from).max(1);
        let carets = "^".repeat(marks.min(room));
        Error::scenario(format!(
            "{name}:{number}:{column}: {message}\n{gutter} |\n{number} | {shown}\n{gutter} | {indent}{carets}",
            name = self.name,
            column = column + 1,
        ))
    }

    /// The text before this byte, or before the character it lies in.
    fn before(&self, byte: usize) -> &str {
        let mut end = byte.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        &self.text[..end]
    }
}

/// Whether a line may hold a key, which must not show in an error.
fn is_secret(line: &str) -> bool {
    let line = line.to_lowercase();
    ["key", "authorization", "bearer", "secret", "password", "token ="]
        .iter()
        .any(|word| line.contains(word))
}

/// The text with what stands in quotes hidden, character by character, so that columns stay.
fn mask(text: &str) -> String {
    let mut open: Option<char> = None;
    let hide = |c: char| match open {
        Some(quote) if c == quote => {
            open = None;
            c
        }
        Some(_) => '*',
        None => {
            open = ['"', '\''].contains(&c).then_some(c);
            c
        }
    };
    text.chars().map(hide).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_below_what_it_means() {
        let source = Source { name: "a.toml", text: "x = 1\n\tü = bad\n" };
        let start = source.text.find("bad").unwrap();
        assert_eq!(
            source.error(start..start + 3, "no").to_string(),
            "a.toml:2:6: no\n  |\n2 | \tü = bad\n  | \t    ^^^"
        );
    }

    #[test]
    fn keys_do_not_show() {
        let source = Source { name: "a.toml", text: "headers = { Authorization = 'Bearer sk-x' }" };
        let shown = source.error(28..41, "invalid type: string \"Bearer sk-x\"").to_string();
        assert!(!shown.contains("sk-x") && shown.contains("Authorization = '***"), "{shown}");
    }

    #[test]
    fn any_span_is_survived() {
        let text = format!("{} é\n\nx", "k".repeat(500));
        let source = Source { name: "a.toml", text: &text };
        for start in 0..text.len() + 3 {
            for end in [start, start + 1, start + 400] {
                let shown = source.error(start..end, "no").to_string();
                assert!(shown.lines().all(|line| line.chars().count() < 120), "{shown}");
                assert!(shown.ends_with('^'));
            }
        }
    }
}
