//! A failure as vLLM's client reports it: a reason phrase, or the traceback of an exception.

use crate::transport::{Failure, FailureKind};

/// The longest message that is kept, bytes: as for our own failures.
const LONGEST_MESSAGE: usize = 1024;

/// Words of a message and what they mean; the first that is found decides. The phrases are those of
/// RFC 9110, section 15; the exceptions are those of aiohttp, which vLLM's client uses.
const WORDS: [(&str, FailureKind); 30] = [
    ("unauthorized", FailureKind::Unauthorized),
    ("forbidden", FailureKind::Unauthorized),
    ("not found", FailureKind::NotFound),
    ("too many requests", FailureKind::RateLimited),
    ("bad request", FailureKind::BadRequest),
    ("unprocessable", FailureKind::BadRequest),
    ("payload too large", FailureKind::BadRequest),
    ("content too large", FailureKind::BadRequest),
    ("method not allowed", FailureKind::BadRequest),
    ("service unavailable", FailureKind::Unavailable),
    ("internal server error", FailureKind::ServerError),
    ("bad gateway", FailureKind::ServerError),
    ("gateway timeout", FailureKind::ServerError),
    ("never received a valid chunk", FailureKind::Empty),
    ("too many open files", FailureKind::ClientDescriptors),
    ("cannot assign requested address", FailureKind::ClientPorts),
    ("name or service not known", FailureKind::Dns),
    ("clientconnectordnserror", FailureKind::Dns),
    ("connection refused", FailureKind::ConnectRefused),
    ("connect call failed", FailureKind::ConnectRefused),
    ("certificate has expired", FailureKind::TlsExpired),
    ("hostname mismatch", FailureKind::TlsNameMismatch),
    ("certificate verify failed", FailureKind::TlsUntrusted),
    ("certificate", FailureKind::Tls),
    ("connectiontimeouterror", FailureKind::ConnectTimeout),
    ("connectorerror", FailureKind::Connect),
    ("connection reset", FailureKind::Reset),
    ("server disconnected", FailureKind::Reset),
    ("payload is not completed", FailureKind::Truncated),
    ("timeouterror", FailureKind::TotalTimeout),
];

/// The failure that these words tell of.
pub(super) fn of(words: &str) -> Failure {
    let message = essence(words);
    let lower = message.to_lowercase();
    let kind = WORDS.iter().find(|(word, _)| lower.contains(word)).map(|(_, kind)| *kind);
    Failure {
        kind: kind.unwrap_or(FailureKind::Unclassified),
        message: cut(message).to_owned(),
        retry_after: None,
        first_bytes: String::new(),
        last_bytes: String::new(),
    }
}

/// The last line of a traceback, which names the exception; any other text as it is.
fn essence(words: &str) -> &str {
    let text = words.trim();
    if text.starts_with("Traceback") {
        text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or(text).trim()
    } else {
        text
    }
}

fn cut(text: &str) -> &str {
    let end = (0..=LONGEST_MESSAGE.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_vllms_client_have_their_kind() {
        let cases = [
            ("Not Found", FailureKind::NotFound),
            ("Service Unavailable", FailureKind::Unavailable),
            ("Bad Request", FailureKind::BadRequest),
            (
                "Traceback (most recent call last):\n  File \"not found.py\", line 1\nTimeoutError\n\n",
                FailureKind::TotalTimeout,
            ),
            (
                "Traceback (most recent call last):\naiohttp.client_exceptions.ClientConnectorError: Cannot connect to host h:1 ssl:default [Connect call failed ('127.0.0.1', 1)]",
                FailureKind::ConnectRefused,
            ),
            (
                "Never received a valid chunk to calculate TTFT.This response will be marked as failed!",
                FailureKind::Empty,
            ),
            ("I'm a teapot", FailureKind::Unclassified),
        ];
        for (words, kind) in cases {
            assert_eq!(of(words).kind, kind, "{words}");
        }
        assert_eq!(of(cases[3].0).message, "TimeoutError");
    }

    #[test]
    fn a_long_message_is_cut_between_letters() {
        let failure = of(&"é".repeat(2_000));
        assert_eq!(failure.message.len(), LONGEST_MESSAGE);
    }
}
