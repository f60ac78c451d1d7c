//! JSON as benchmark clients write it: with a byte order mark, with Python's `NaN` and `Infinity`,
//! several documents in a row, or a list of them.

use std::borrow::Cow;

use serde_json::Value;

/// What stands for Python's `Infinity` as the value of a field.
pub(super) const INFINITY: &str = "Infinity";

/// The documents of a text, in order; an empty text has none.
///
/// `NaN` becomes null, since it is no number. `Infinity` becomes the text `Infinity` as the value of
/// a field, where it has a meaning (a request rate), and null inside a list.
pub(super) fn documents(text: &str) -> serde_json::Result<Vec<Value>> {
    let text = text.trim_start_matches('\u{feff}');
    let plain = plain(text);
    serde_json::Deserializer::from_str(&plain).into_iter::<Value>().collect()
}

/// The text in the words of JSON.
fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains("NaN") && !text.contains(INFINITY) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 64);
    let mut open: Vec<u8> = Vec::new();
    let mut rest = text;
    while let Some(place) = rest.find(['"', '[', ']', '{', '}', 'N', 'I', '-']) {
        plain.push_str(&rest[..place]);
        rest = &rest[place..];
        let in_list = open.last() == Some(&b'[');
        let (taken, word) = match rest.as_bytes()[0] {
            b'"' => (string_length(rest), None),
            bracket @ (b'[' | b'{') => {
                open.push(bracket);
                (1, None)
            }
            b']' | b'}' => {
                open.pop();
                (1, None)
            }
            _ => word(rest, in_list).map_or((1, None), |(taken, word)| (taken, Some(word))),
        };
        plain.push_str(word.unwrap_or(&rest[..taken]));
        rest = &rest[taken..];
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// The length of Python's word at the beginning of `rest`, and what stands for it in JSON.
fn word(rest: &str, in_list: bool) -> Option<(usize, &'static str)> {
    let words = [("NaN", "null"), (INFINITY, "\"Infinity\""), ("-Infinity", "\"-Infinity\"")];
    let (word, plain) = words.into_iter().find(|(word, _)| rest.starts_with(word))?;
    Some((word.len(), if in_list { "null" } else { plain }))
}

/// The length of the string that `text` begins with, its quotes included; all of it if it does not
/// end.
fn string_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_of_python_are_read_where_they_are_values() {
        let text = "\u{feff}{\"request_rate\": Infinity, \"low\": -Infinity, \"x\": NaN, \
                    \"list\": [1, NaN, Infinity, -2.5], \"text\": \"NaN \\\" Infinity\", \"n\": -1}";
        let right = json!({
            "request_rate": "Infinity", "low": "-Infinity", "x": null,
            "list": [1, null, null, -2.5], "text": "NaN \" Infinity", "n": -1
        });
        assert_eq!(documents(text).unwrap(), [right]);
    }

    #[test]
    fn documents_may_follow_one_another() {
        assert_eq!(documents("").unwrap(), Vec::<Value>::new());
        assert_eq!(documents("{\"a\": NaN}\n[1]\n").unwrap(), [json!({"a": null}), json!([1])]);
        for broken in ["{\"a\": ", "duration: 3", "{\"a\": Nan}", "\"NaN", "{\"a\": \"\\"] {
            assert!(documents(broken).is_err(), "{broken}");
        }
    }
}
