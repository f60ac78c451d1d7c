//! The log of a server: its last lines, to be read with an error.

use std::path::Path;

use crate::error::Error;
use crate::store::files;

/// Lines of a log shown with an error.
const TAIL_LINES: usize = 20;

/// Bytes of a log read for its tail.
const TAIL_BYTES: u64 = 64 * 1024;

/// Longest line shown: vLLM prints its config in one of 4 kB.
const MAX_LINE_CHARS: usize = 400;

/// The last lines of a log from byte `from` on.
pub(super) fn tail(path: &Path, from: u64) -> String {
    last_lines(&files::read_tail(path, from, TAIL_BYTES).unwrap_or_default())
}

/// The last 20 lines as a terminal would leave them standing: of a progress bar its last state, no
/// control characters, each line cut at 400 characters.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    let shown = |line: &&str| {
        let state = line.rsplit('\r').find(|state| !state.trim().is_empty()).unwrap_or_default();
        state.chars().filter(|c| !c.is_control()).take(MAX_LINE_CHARS).collect::<String>()
    };
    last.iter().map(shown).collect::<Vec<_>>().join("\n")
}

/// Puts the log's tail below the error: the server knows best why it died.
pub(super) fn with_log(error: Error, tail: &str, path: &Path) -> Error {
    let message = if tail.trim().is_empty() {
        format!("it logged nothing to `{}`", path.display())
    } else {
        let lines: Vec<String> = tail.lines().map(|line| format!("    {line}")).collect();
        format!("the end of `{}`:\n{}", path.display(), lines.join("\n"))
    };
    let hint = error.hint().map(str::to_owned);
    let error = Error::server(error.to_string()).with_cause(Error::server(message));
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_what_a_terminal_would_show() {
        assert_eq!(last_lines("loading 1%\rloading 100%\r\nbell\u{7}\n"), "loading 100%\nbell");
        let text: String = (0..30).map(|n| format!("{n}\n")).collect();
        assert_eq!(last_lines(&text).lines().next(), Some("10"));
        assert_eq!(last_lines(&"x".repeat(1000)).len(), MAX_LINE_CHARS);
        assert_eq!(last_lines(""), "");
    }
}
