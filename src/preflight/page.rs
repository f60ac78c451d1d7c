//! A page: what a web page says that came in place of an answer.

use crate::api::cut;

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
pub(super) fn is_page(content_type: Option<&str>, body: &str) -> bool {
    let is_html = content_type.is_some_and(|kind| kind.to_ascii_lowercase().contains("html"));
    let begin: String = body.trim_start().chars().take(14).collect();
    let begin = begin.to_ascii_lowercase();
    is_html || begin.starts_with("<!doctype html") || begin.starts_with("<html")
}

/// What it says, on one line: its title, else its text without tags, scripts and styles.
pub(super) fn words(page: &str) -> String {
    let page = cut(page.to_owned(), READ_BYTES);
    // Letter for letter as long as the page: places in the one are places in the other.
    let lower = page.to_ascii_lowercase();
    let mut seen = String::new();
    let mut at = 0;
    while let Some(open) = find(&page, at, "<") {
        seen.push_str(&page[at..open]);
        seen.push(' ');
        let name = tag_name(&lower[open + 1..]);
        let inner = find(&lower, open, ">").map_or(page.len(), |end| end + 1);
        at = match name {
            "!--" => find(&lower, open, "-->").map_or(page.len(), |end| end + "-->".len()),
            "title" => {
                let end = find(&lower, inner, "</title").unwrap_or(page.len());
                let title = one_line(&page[inner..end]);
                if !title.is_empty() {
                    return title;
                }
                end
            }
            name if UNSEEN.contains(&name) => {
                find(&lower, inner, &format!("</{name}")).unwrap_or(page.len())
            }
            _ => inner,
        };
    }
    seen.push_str(&page[at..]);
    one_line(&seen)
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

fn one_line(text: &str) -> String {
    let plain =
        NAMED.iter().fold(text.to_owned(), |text, (name, letter)| text.replace(name, letter));
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
            assert_eq!(words(page), said, "{page}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(page in "(<|>|/|title|script|!--|-->|é|&|;| |a){0,40}") {
            prop_assert!(words(&page).len() <= page.len());
        }
    }
}
