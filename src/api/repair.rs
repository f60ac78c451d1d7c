//! Repair of text that is nearly JSON: bytes that are not UTF-8, and halves of surrogate pairs.
//!
//! A stream of events is decoded with replacement (WHATWG HTML, 9.2.6), so that a broken character
//! spoils a character and not the answer; and half a pair (`"\ud83d"`), which a gateway writes that cuts
//! text by UTF-16 units, is JSON to every client in Python or JavaScript.

use std::borrow::Cow;

/// U+FFFD as JSON may write it, of the length of the escape that it replaces.
const REPLACEMENT: &[u8; 6] = br"\ufffd";

/// The text with both kinds replaced by U+FFFD; `None` if there is nothing to repair.
pub(super) fn repaired(data: &[u8]) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(data);
    let broken = matches!(text, Cow::Owned(_));
    let mut bytes = text.into_owned().into_bytes();
    let halves = replace_halves(&mut bytes);
    (broken || halves).then_some(bytes)
}

/// Replaces every half of a surrogate pair that stands alone. Whether there was one.
fn replace_halves(bytes: &mut [u8]) -> bool {
    let mut found = false;
    let mut at = 0;
    while let Some(step) = memchr::memchr(b'\\', &bytes[at..]) {
        at += step;
        match unit(bytes, at) {
            Some(0xd800..=0xdbff) if matches!(unit(bytes, at + 6), Some(0xdc00..=0xdfff)) => {
                at += 12;
            }
            Some(0xd800..=0xdfff) => {
                bytes[at..at + 6].copy_from_slice(REPLACEMENT);
                found = true;
                at += 6;
            }
            // An escape of two characters: the second may be a backslash itself.
            _ => at = (at + 2).min(bytes.len()),
        }
    }
    found
}

/// The UTF-16 unit of an escape `\uXXXX` at this place.
fn unit(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(br"\u")?;
    let value = |digit: &u8| char::from(*digit).to_digit(16);
    digits.iter().try_fold(0, |unit, digit| Some(unit * 16 + value(digit)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &[u8], expect: Option<&str>) {
        let repaired = repaired(text).map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(repaired.as_deref(), expect);
    }

    #[test]
    fn what_is_whole_needs_no_repair() {
        for text in
            [r#"{"a":"é\n"}"#, r#""\ud83d\ude00""#, r#""\\ud83d""#, r#""\u0041\"""#, "\\", ""]
        {
            check(text.as_bytes(), None);
        }
    }

    #[test]
    fn halves_and_broken_bytes_are_replaced() {
        check(br#""\ud83d""#, Some(r#""\ufffd""#));
        check(br#""\uDE00 \ud83d\u0041""#, Some(r#""\ufffd \ufffd\u0041""#));
        check(br#""\ud83d\ud83d\ude00""#, Some(r#""\ufffd\ud83d\ude00""#));
        check(br#""\\\ud83d\\""#, Some(r#""\\\ufffd\\""#));
        check(b"\"\xf0\x9f\"", Some("\"\u{fffd}\""));
    }
}
