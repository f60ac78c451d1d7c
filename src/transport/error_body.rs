//! The body of an error: what an answer that is no stream says, JSON or a web page.

use http::StatusCode;
use http::header::{CONTENT_ENCODING, HeaderMap, TRANSFER_ENCODING};
use serde_json::Value;

use crate::api::{cut, error_text};

/// What a status other than 200 reports. Redirects are not followed: the key would go with them.
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

/// The words of a body: of JSON the error in it, of a page what stands between its tags. `None` if
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

/// What a text reports on one line; of a page, what is seen: gateways answer with HTML.
fn plain_words(text: &str) -> String {
    if text.trim_start().starts_with('<') { Page::read(text).text() } else { joined(text) }
}

/// How much of a page is read, bytes: its title stands at its begin.
const READ_BYTES: usize = 64 * 1024;

/// Elements whose content no reader sees.
const UNSEEN: [&str; 3] = ["script", "style", "noscript"];

/// What stands for a letter that HTML keeps for itself.
const NAMED: [(&str, &str); 6] = [
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", "\""),
    ("&#39;", "'"),
    ("&nbsp;", " "),
    ("&amp;", "&"),
];

/// Whether an answer is a web page, by its type or its begin.
pub(crate) fn is_page(content_type: Option<&str>, body: &str) -> bool {
    let is_html = content_type.is_some_and(|kind| kind.to_ascii_lowercase().contains("html"));
    let begin: String = body.trim_start().chars().take(14).collect();
    let begin = begin.to_ascii_lowercase();
    is_html || begin.starts_with("<!doctype html") || begin.starts_with("<html")
}

/// A web page, read.
pub(crate) struct Page {
    title: String,
    /// All that a reader sees, the title too; tags are blanks.
    seen: String,
}

impl Page {
    /// Reads the begin of a page.
    pub(crate) fn read(page: &str) -> Self {
        let page = cut(page.to_owned(), READ_BYTES);
        // Letter for letter as long as the page: places in the one are places in the other.
        let lower = page.to_ascii_lowercase();
        let mut read = Self { title: String::new(), seen: String::new() };
        let mut at = 0;
        while let Some(open) = find(&page, at, "<") {
            read.seen.push_str(&page[at..open]);
            read.seen.push(' ');
            let name = tag_name(&lower[open + 1..]);
            let inner = find(&lower, open, ">").map_or(page.len(), |end| end + 1);
            at = match name {
                "!--" => find(&lower, open, "-->").map_or(page.len(), |end| end + "-->".len()),
                name if UNSEEN.contains(&name) => {
                    find(&lower, inner, &format!("</{name}")).unwrap_or(page.len())
                }
                _ => inner,
            };
            if name == "title" && read.title.is_empty() {
                let end = find(&lower, inner, "</title").unwrap_or(page.len());
                read.title = words(&unescaped(&page[inner..end]));
            }
        }
        read.seen.push_str(&page[at..]);
        read.seen = unescaped(&read.seen);
        read
    }

    /// What it is about, on one line: its title, else its text.
    pub(crate) fn subject(&self) -> String {
        if self.title.is_empty() { words(&self.seen) } else { self.title.clone() }
    }

    /// Its text on one line.
    pub(super) fn text(&self) -> String {
        joined(&self.seen)
    }
}

/// The lines of a text on one; of equal neighbours one, since a page's title is mostly its heading too.
pub(super) fn joined(text: &str) -> String {
    let mut said: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if said.last() != Some(&line) {
            said.push(line);
        }
    }
    said.join(" ")
}

fn find(text: &str, from: usize, what: &str) -> Option<usize> {
    text[from..].find(what).map(|place| from + place)
}

/// The name of the tag that begins here; `!--` of a comment.
fn tag_name(inner: &str) -> &str {
    if inner.starts_with("!--") {
        return "!--";
    }
    let end = inner.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(inner.len());
    &inner[..end]
}

fn unescaped(text: &str) -> String {
    NAMED.iter().fold(text.to_owned(), |text, (name, letter)| text.replace(name, letter))
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    #[test]
    fn a_page_is_told_by_its_type_or_its_begin() {
        assert!(is_page(Some("text/HTML; charset=utf-8"), ""));
        assert!(is_page(None, "\n<!DOCTYPE html><title>x"));
        assert!(is_page(Some("application/json"), "<html>"));
        assert!(!is_page(Some("application/json"), "{\"data\": \"<html>\"}"));
        assert!(!is_page(None, ""));
    }

    #[test]
    fn a_page_says_its_title_else_its_text() {
        for (page, said) in [
            (
                "<html><head><TITLE lang=en>\n Open &amp; Web\n UI</TITLE><script>x</script>",
                "Open & Web UI",
            ),
            ("<html><title></title><body><h1>502</h1><p>Bad&nbsp;Gateway</p>", "502 Bad Gateway"),
            ("<style>b { c: d }</style><script>if (1 < 2) {}</script><!-- <p>no --><p>yes", "yes"),
            ("<html><script>never closed <p>text", ""),
            ("plain", "plain"),
            ("a < b", "a"),
            ("", ""),
        ] {
            assert_eq!(Page::read(page).subject(), said, "{page}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(page in "(<|>|/|title|script|!--|-->|é|&|;| |a){0,40}") {
            prop_assert!(Page::read(&page).subject().len() <= page.len());
        }
    }
}
