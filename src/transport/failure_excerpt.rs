//! An excerpt of a failed answer: its first and last bytes, bounded and redacted.

use super::redact::Redactor;
use crate::api::cut;

/// Bytes kept of each end of a body.
pub(super) const END_BYTES: usize = 512;

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
        let keep = END_BYTES + redactor.longest().min(4096);
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
    use crate::settings::ApiKey;

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
        let redactor = Redactor::new(Some(&ApiKey::new("sk-0123456789")), &[], &[]);
        for at in 490..=520 {
            let body = format!("{}sk-0123456789{}", "x".repeat(at), "y".repeat(at));
            let ends = ends(&[&body], &redactor);
            for end in [&ends.first, &ends.last] {
                assert!(!end.contains("sk-0") && !end.contains("6789"), "{at}: {end}");
                assert!(end.len() <= END_BYTES);
            }
        }
    }
}
