//! The log of a server: its last lines, to be read with an error, and what of it is kept.

use std::path::Path;

use super::secrets::Secrets;
use crate::error::Error;
use crate::store::files;

/// Lines of a log shown with an error.
const TAIL_LINES: usize = 20;

/// Bytes of a log read for its tail.
const TAIL_BYTES: u64 = 64 * 1024;

/// Bytes kept of the beginning of one start's log, and of its end.
const KEPT_BYTES: u64 = 1024 * 1024;

/// A log longer than this is cut while the server runs: one that logs every request writes a gigabyte a day.
const LONGEST_BYTES: u64 = 64 * 1024 * 1024;

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

/// Keeps of a log, from byte `from` on, its first and its last [`KEPT_BYTES`] in whole lines, and takes the
/// secrets out. What cannot be read or written stays as it is: a log is no reason to fail.
pub(super) fn keep(path: &Path, from: u64, secrets: &Secrets) {
    let length = files::length(path).saturating_sub(from);
    // The sentence between the parts must not make what was cut too long again.
    let is_long = length > 3 * KEPT_BYTES;
    let head_bytes = if is_long { KEPT_BYTES } else { length };
    let Ok(mut text) = files::read_head(path, from, head_bytes) else { return };
    if is_long {
        let Ok(end) = files::read_tail(path, from, KEPT_BYTES) else { return };
        // A line that was cut might begin or end inside a secret.
        text.truncate(text.rfind('\n').map_or(0, |at| at + 1));
        let end = end.split_once('\n').map_or("", |(_, whole)| whole);
        let left_out = length.saturating_sub((text.len() + end.len()) as u64);
        #[allow(clippy::cast_precision_loss)] // a size to read
        let left_out_mb = left_out as f64 / 1e6;
        text.push_str(&format!(
            "[inferometer: {left_out_mb:.1} MB left out here; a log's beginning and end are kept]\n"
        ));
        text.push_str(end);
    }
    let kept = secrets.redact(&text);
    if is_long || kept != text {
        let _ = files::replace_from(path, from, &kept);
    }
}

/// Whether a log has grown so much that it is cut while its server runs.
pub(super) fn is_too_long(path: &Path, from: u64) -> bool {
    files::length(path).saturating_sub(from) > LONGEST_BYTES
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
    #![allow(clippy::disallowed_methods)] // a test writes its own files

    use super::*;

    #[test]
    fn the_tail_is_what_a_terminal_would_show() {
        assert_eq!(last_lines("loading 1%\rloading 100%\r\nbell\u{7}\n"), "loading 100%\nbell");
        let text: String = (0..30).map(|n| format!("{n}\n")).collect();
        assert_eq!(last_lines(&text).lines().next(), Some("10"));
        assert_eq!(last_lines(&"x".repeat(1000)).len(), MAX_LINE_CHARS);
        assert_eq!(last_lines(""), "");
    }

    #[test]
    fn a_long_log_keeps_its_beginning_and_end_and_says_what_is_left_out() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("server.log");
        let lines: String = (0..400_000).map(|n| format!("line {n:06}\n")).collect();
        std::fs::write(&path, format!("earlier start\n{lines}")).unwrap();
        let before = "earlier start\n".len() as u64;
        keep(&path, before, &Secrets::default());
        let kept = std::fs::read_to_string(&path).unwrap();
        assert!(kept.starts_with("earlier start\nline 000000\n"), "what went before stays");
        assert!(kept.ends_with("line 399999\n"));
        assert!(kept.len() as u64 <= 2 * KEPT_BYTES + 200, "{}", kept.len());
        let said: Vec<&str> = kept.lines().filter(|line| line.contains("left out")).collect();
        assert_eq!(
            said,
            ["[inferometer: 2.7 MB left out here; a log's beginning and end are kept]"]
        );
        assert!(
            kept.lines()
                .all(|l| l.starts_with("line ") && l.len() == 11 || !l.starts_with("line "))
        );
        keep(&path, before, &Secrets::default());
        assert!(std::fs::read_to_string(&path).unwrap() == kept, "nothing is left out twice");
    }

    #[test]
    fn a_short_log_loses_its_secrets_alone() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("server.log");
        let key = crate::settings::ApiKey::new("key-5678");
        let command = super::super::command::CommandLine::parse("serve").unwrap();
        let secrets = Secrets::of(&command, &std::collections::BTreeMap::new(), Some(&key));
        std::fs::write(&path, "args: key-5678\nready\n").unwrap();
        keep(&path, 0, &secrets);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "args: [redacted]\nready\n");
    }
}
