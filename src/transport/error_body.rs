//! A refusal: what an answer that is no stream says, in the server's own words.

use http::StatusCode;
use http::header::{CONTENT_ENCODING, HeaderMap, TRANSFER_ENCODING};
use serde_json::Value;

use super::page::{Page, joined};
use crate::api::error_text;

/// What a status other than 200 says. Redirects are not followed: the key would go with them.
pub(super) fn text(status: StatusCode, body: &[u8], location: Option<&str>) -> String {
    let mut text = match said(body) {
        Some(said) => format!("{status}: {said}"),
        None => status.to_string(),
    };
    if let Some(location) = location.filter(|_| status.is_redirection()) {
        text.push_str(&format!(" (redirects are not followed; it points to `{location}`)"));
    }
    text
}

/// The words of a body: of JSON the error in it, of a page what stands between its tags. None where
/// it has none.
pub(super) fn said(body: &[u8]) -> Option<String> {
    match serde_json::from_slice::<Value>(body) {
        Ok(value) => error_text(&value),
        Err(_) if is_binary(body) => None,
        Err(_) => Some(plain_words(&String::from_utf8_lossy(body))).filter(|said| !said.is_empty()),
    }
}

/// Whether a body holds control characters that no text has.
fn is_binary(body: &[u8]) -> bool {
    body.iter().any(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace() && *byte != 0x1b)
}

/// Says so where a body is compressed. That is never asked for: packing delays and bundles tokens.
pub(super) fn compressed(headers: &HeaderMap) -> Option<String> {
    let codings = [CONTENT_ENCODING, TRANSFER_ENCODING];
    let values = codings.iter().flat_map(|name| headers.get_all(name));
    let words = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let packed = words
        .map(|word| word.trim().to_ascii_lowercase())
        .find(|word| !matches!(word.as_str(), "" | "identity" | "chunked"))?;
    Some(format!(
        "the answer is compressed (`{packed}`), which was not asked for: have the server or its gateway \
         send it plain"
    ))
}

/// What a text says on one line; of a page, what is seen: gateways answer with HTML.
fn plain_words(text: &str) -> String {
    if text.trim_start().starts_with('<') { Page::read(text).text() } else { joined(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, expect: Option<&str>) {
        assert_eq!(said(body.as_bytes()).as_deref(), expect, "{body}");
    }

    #[test]
    fn the_words_of_a_page() {
        check(
            "<html><head><title>502 Bad Gateway</title>\n<style>a > b{c:d}</style></head>\n<body>\n\
             <h1>502 Bad Gateway</h1>\n<script>if (a < b) {}</script><center>nginx</center></body></html>\n",
            Some("502 Bad Gateway nginx"),
        );
        check("<p>a\n<p", Some("a"));
        check("a < b > c", Some("a < b > c"));
        check("<", None);
        check("<style>é", None);
        check("\u{1f}\u{8b}\u{8}packed", None);
        check("", None);
    }

    #[test]
    fn the_words_of_json() {
        check(r#"{"error":{"message":"m"}}"#, Some("m"));
        check(r#"{"errors":[{"message":"m"}]}"#, Some(r#"[{"message":"m"}]"#));
        check("{}", None);
        check("[]", None);
        check("null", None);
    }

    #[test]
    fn a_redirect_says_where_to() {
        let at = |code, location| text(StatusCode::from_u16(code).unwrap(), b"", location);
        assert!(at(307, Some("http://b/")).ends_with("it points to `http://b/`)"));
        assert_eq!(at(401, Some("/login")), "401 Unauthorized");
    }

    #[test]
    fn a_coding_is_named() {
        let headers = |name: &'static str, value: &'static str| {
            HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())])
        };
        assert!(compressed(&headers("content-encoding", "GZIP")).unwrap().contains("`gzip`"));
        assert!(compressed(&headers("transfer-encoding", "gzip, chunked")).is_some());
        for plain in ["identity", "chunked", ""] {
            assert_eq!(compressed(&headers("content-encoding", plain)), None);
        }
    }
}
