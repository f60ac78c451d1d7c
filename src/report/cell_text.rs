//! Text in the cells of a terminal: its colour, its width, its line breaks.

use std::io::IsTerminal;

use super::view::shorten;
use crate::units;

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

/// Text without control characters: a server's words must not steer the terminal.
#[must_use]
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if units::steers(c) { ' ' } else { c }).collect()
}

/// `text` cut in its middle to at most `width` cells.
pub(super) fn fit(text: &str, width: usize) -> String {
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

pub(super) fn left(text: &str, width: usize) -> String {
    let mut text = text.to_owned();
    while cells(&text) > width {
        text.pop();
    }
    let fill = width - cells(&text);
    format!("{text}{}", " ".repeat(fill))
}

pub(super) fn right(text: &str, width: usize) -> String {
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
