//! The evidence of a failure: its first and last bytes, bounded and redacted.

use std::fmt;

use crate::api::cut;
use crate::settings::ApiKey;

/// Bytes kept of each end of a body.
pub(super) const END_BYTES: usize = 512;

/// The longest message, bytes.
const MESSAGE_BYTES: usize = 1024;

/// The shortest part of a header's value that is a secret by itself: shorter ones are words (`Basic`).
const PART_BYTES: usize = 8;

/// Everything that must not show: the key, and the values of headers that look like keys.
#[derive(Clone, Default)]
pub(crate) struct Redactor {
    secrets: Vec<ApiKey>,
    longest: usize,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} secrets)", self.secrets.len())
    }
}

impl Redactor {
    pub(crate) fn new(key: Option<&ApiKey>, headers: &[(String, String)]) -> Self {
        let mut secrets: Vec<ApiKey> = key.cloned().into_iter().collect();
        for (name, value) in headers {
            let name = name.to_ascii_lowercase();
            if ["auth", "key", "token", "cookie", "secret", "password"]
                .iter()
                .any(|word| name.contains(word))
            {
                secrets.push(ApiKey::new(value));
                // `Bearer x`, `a=x; b=y`: a server may echo x alone.
                let parts =
                    value.split(|c: char| c.is_whitespace() || matches!(c, ';' | ',' | '='));
                secrets.extend(parts.filter(|part| part.len() >= PART_BYTES).map(ApiKey::new));
                secrets.extend(value.split_whitespace().last().map(ApiKey::new));
            }
        }
        // What holds another goes first, or its rest would be left standing.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
        let longest = secrets.iter().map(|s| s.expose().len()).max().unwrap_or(0);
        Self { secrets, longest }
    }

    pub(crate) fn redact(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| secret.redact(&text))
    }

    /// A message: redacted first, then cut to 1 KiB, so that no half of a secret stands at the cut. On
    /// one line and without control codes, which would move a reader's cursor.
    pub(super) fn message(&self, text: &str) -> String {
        let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
        cut(self.redact(text).chars().map(plain).collect(), MESSAGE_BYTES)
    }
}

/// The ends of a body as it comes in.
#[derive(Debug)]
pub(super) struct Evidence {
    first: Vec<u8>,
    last: Vec<u8>,
    total: u64,
    /// Bytes kept of each end: 512, and a secret more, so that one across the cut is found.
    keep: usize,
}

/// What is kept in the end: lossy text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) first: String,
    pub(super) last: String,
}

impl Evidence {
    pub(super) fn new(redactor: &Redactor) -> Self {
        // A secret beyond 4 KiB is no key; the bound keeps a request's memory small.
        let keep = END_BYTES + redactor.longest.min(4096);
        Self { first: Vec::new(), last: Vec::new(), total: 0, keep }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.total += chunk.len() as u64;
        let room = self.keep - self.first.len();
        if room > 0 {
            self.first.extend_from_slice(&chunk[..chunk.len().min(room)]);
        }
        let tail = &chunk[chunk.len().saturating_sub(self.keep)..];
        if self.last.len() + tail.len() > 4 * self.keep {
            let spare = (self.last.len() + tail.len()).saturating_sub(self.keep);
            self.last.drain(..spare.min(self.last.len()));
        }
        self.last.extend_from_slice(tail);
    }

    /// Whether nothing but comments, field names or white space can have come: nothing at all, or
    /// first bytes that begin as a stream of events does.
    pub(super) fn may_be_events(&self) -> bool {
        let first = self.first.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.first);
        let first = first.trim_ascii_start();
        let begins = [b":".as_slice(), b"data", b"error", b"event", b"id", b"retry"];
        first.is_empty() || begins.iter().any(|field| first.starts_with(field))
    }

    pub(super) fn ends(&self, redactor: &Redactor) -> Ends {
        let first = redactor.redact(&String::from_utf8_lossy(&self.first));
        if self.total <= END_BYTES as u64 {
            return Ends { first, last: String::new() };
        }
        let first = cut(first, END_BYTES);
        let tail = &self.last[self.last.len().saturating_sub(self.keep)..];
        let mut last = redactor.redact(&String::from_utf8_lossy(tail));
        let spare = last.len().saturating_sub(END_BYTES);
        let begin = (spare..=last.len()).find(|&at| last.is_char_boundary(at));
        last.drain(..begin.unwrap_or(0));
        Ends { first, last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(chunks: &[&str], redactor: &Redactor) -> Ends {
        let mut evidence = Evidence::new(redactor);
        for chunk in chunks {
            evidence.push(chunk.as_bytes());
        }
        evidence.ends(redactor)
    }

    #[test]
    fn a_short_body_is_kept_whole() {
        let ends = ends(&["ab", "cd"], &Redactor::default());
        assert_eq!(ends, Ends { first: "abcd".into(), last: String::new() });
    }

    #[test]
    fn a_long_body_keeps_its_ends_however_it_comes() {
        let body: String = (0..2000).map(|i| char::from(b'a' + (i % 26) as u8)).collect();
        for size in [1, 7, 512, 513, 1999, 2000] {
            let chunks: Vec<&str> =
                body.as_bytes().chunks(size).map(|c| std::str::from_utf8(c).unwrap()).collect();
            let ends = ends(&chunks, &Redactor::default());
            assert_eq!(ends.first, body[..512], "{size}");
            assert_eq!(ends.last, body[2000 - 512..], "{size}");
        }
    }

    #[test]
    fn a_secret_across_a_cut_is_gone() {
        let redactor = Redactor::new(Some(&ApiKey::new("sk-0123456789")), &[]);
        for at in 490..=520 {
            let body = format!("{}sk-0123456789{}", "x".repeat(at), "y".repeat(at));
            let ends = ends(&[&body], &redactor);
            for end in [&ends.first, &ends.last] {
                assert!(!end.contains("sk-0") && !end.contains("6789"), "{at}: {end}");
                assert!(end.len() <= END_BYTES);
            }
        }
    }

    #[test]
    fn header_values_that_look_like_keys_are_secrets() {
        let headers = [
            ("X-Api-Key".to_owned(), "abcd1234".to_owned()),
            ("authorization".to_owned(), "Basic dXNlcg==".to_owned()),
            ("x-trace".to_owned(), "plain".to_owned()),
        ];
        let redactor = Redactor::new(None, &headers);
        assert_eq!(redactor.message("abcd1234 dXNlcg== plain"), "[redacted] [redacted] plain");
        assert!(!format!("{redactor:?}").contains("abcd"));
        let cookie = [("Cookie".to_owned(), "theme=dark; session=abcdefgh12; x=1".to_owned())];
        let redactor = Redactor::new(None, &cookie);
        assert_eq!(redactor.message("bad session abcdefgh12, x=1"), "bad session [redacted], x=1");
        assert_eq!(redactor.message("theme=dark; session=abcdefgh12; x=1"), "[redacted]");
    }

    #[test]
    fn a_message_is_one_line_without_control_codes() {
        assert_eq!(Redactor::default().message("a\r\n\u{1b}[31mb\u{7}"), "a   [31mb ");
    }
}
