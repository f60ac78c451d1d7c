//! Redaction: the key and the headers that look like keys, kept out of all that is stored or shown.

use std::fmt;

use crate::api::cut;
use crate::settings::ApiKey;
use crate::units;

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
    /// Of the key, the headers, and further secrets (of the extra body).
    pub(crate) fn new(
        key: Option<&ApiKey>,
        headers: &[(String, String)],
        further: &[ApiKey],
    ) -> Self {
        let mut secrets: Vec<ApiKey> = key.into_iter().chain(further).cloned().collect();
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

    /// Bytes of the longest secret.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    pub(crate) fn redact(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| secret.redact(&text))
    }

    /// A message: redacted first, then cut to 1 KiB, so that no half of a secret stands at the cut. On
    /// one line and without control codes, which would move a reader's cursor.
    pub(super) fn message(&self, text: &str) -> String {
        let plain = |letter: char| if units::steers(letter) { ' ' } else { letter };
        cut(self.redact(text).chars().map(plain).collect(), MESSAGE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_values_that_look_like_keys_are_secrets() {
        let headers = [
            ("X-Api-Key".to_owned(), "abcd1234".to_owned()),
            ("authorization".to_owned(), "Basic dXNlcg==".to_owned()),
            ("x-trace".to_owned(), "plain".to_owned()),
        ];
        let redactor = Redactor::new(None, &headers, &[]);
        assert_eq!(redactor.message("abcd1234 dXNlcg== plain"), "[redacted] [redacted] plain");
        assert!(!format!("{redactor:?}").contains("abcd"));
        let cookie = [("Cookie".to_owned(), "theme=dark; session=abcdefgh12; x=1".to_owned())];
        let redactor = Redactor::new(None, &cookie, &[]);
        assert_eq!(redactor.message("bad session abcdefgh12, x=1"), "bad session [redacted], x=1");
        assert_eq!(redactor.message("theme=dark; session=abcdefgh12; x=1"), "[redacted]");
    }

    #[test]
    fn a_message_is_one_line_without_control_codes() {
        assert_eq!(Redactor::default().message("a\r\n\u{1b}[31mb\u{7}"), "a   [31mb ");
        assert_eq!(Redactor::default().message("a\u{202e}b\u{2066}c"), "a b c");
    }
}
