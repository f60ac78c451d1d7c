//! Lenient values: JSON of any type, read for the one thing that is asked of it.
//!
//! A field of an unexpected type counts as absent: servers differ, and a client that stops at a
//! stray type measures nothing.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The most tokens that a count may name: ten times the longest context in use. A larger number is
/// no count, and rates would be made of it.
pub(super) const MOST_TOKENS: u64 = 100_000_000;

/// Whether a field holds any text: a string that is not "", or a list or object that is not empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Text {
    #[default]
    Absent,
    Present,
}

/// A number of tokens; absent where it is not a whole number from 0 to [`MOST_TOKENS`]. `8.0` is
/// one: gateways whose language has no integers write it so.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Count(pub(super) Option<u32>);

/// The length of a list; absent where it is not a list.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ListLength(pub(super) Option<u32>);

/// The one word that `object` and `type` are looked at for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Word {
    Error,
    #[default]
    Other,
}

/// A name; absent where it is "" or no string, or says `null` in letters.
#[derive(Debug, Default)]
pub(super) struct Name(pub(super) Option<String>);

/// An object with the fields of `T`; absent where it is anything else.
#[derive(Debug)]
pub(super) struct Part<T>(pub(super) Option<T>);

/// The objects of a list of them; `None` if it is not a list.
#[derive(Debug)]
pub(super) struct Parts<T>(pub(super) Vec<T>);

/// What a value makes of each type that JSON has; its default for a type without a meaning here.
trait Lenient<'de>: Default {
    fn text(_: &str) -> Self {
        Self::default()
    }

    fn number(_: f64) -> Self {
        Self::default()
    }

    fn list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }

    fn object<A: MapAccess<'de>>(mut object: A) -> Result<Self, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
}

struct AnyType<L>(PhantomData<L>);

impl<'de, L: Lenient<'de>> Visitor<'de> for AnyType<L> {
    type Value = L;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<L, E> {
        Ok(L::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<L, E> {
        Ok(L::default())
    }

    fn visit_str<E>(self, text: &str) -> Result<L, E> {
        Ok(L::text(text))
    }

    #[allow(clippy::cast_precision_loss)] // beyond 2^53 nothing is a count
    fn visit_u64<E>(self, number: u64) -> Result<L, E> {
        Ok(L::number(number as f64))
    }

    #[allow(clippy::cast_precision_loss)] // as above
    fn visit_i64<E>(self, number: i64) -> Result<L, E> {
        Ok(L::number(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<L, E> {
        Ok(L::number(number))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<L, A::Error> {
        L::list(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<L, A::Error> {
        L::object(object)
    }
}

/// `Deserialize` by way of [`Lenient`].
macro_rules! of_any_type {
    ($($name:ident $(<$part:ident>)?),*) => {$(
        impl<'de $(, $part: Deserialize<'de>)?> Deserialize<'de> for $name $(<$part>)? {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(AnyType(PhantomData))
            }
        }
    )*};
}

of_any_type!(Text, Count, ListLength, Word, Name, Part<T>, Parts<T>);

impl Text {
    fn when(present: bool) -> Self {
        if present { Self::Present } else { Self::Absent }
    }

    pub(super) fn is_present(self) -> bool {
        self == Self::Present
    }
}

impl<'de> Lenient<'de> for Text {
    fn text(text: &str) -> Self {
        Self::when(!text.is_empty())
    }

    fn list<A: SeqAccess<'de>>(list: A) -> Result<Self, A::Error> {
        ListLength::list(list).map(|length| Self::when(length.0 != Some(0)))
    }

    fn object<A: MapAccess<'de>>(mut object: A) -> Result<Self, A::Error> {
        let mut present = false;
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
            present = true;
        }
        Ok(Self::when(present))
    }
}

impl Lenient<'_> for Count {
    fn number(number: f64) -> Self {
        #[allow(clippy::cast_precision_loss)] // exact
        let is_count = number.fract() == 0.0 && (0.0..=MOST_TOKENS as f64).contains(&number);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // just looked at
        Self(is_count.then_some(number as u32))
    }
}

impl<'de> Lenient<'de> for ListLength {
    fn list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        let mut length = 0_u32;
        while list.next_element::<IgnoredAny>()?.is_some() {
            length = length.saturating_add(1);
        }
        Ok(Self(Some(length)))
    }
}

impl Lenient<'_> for Word {
    fn text(text: &str) -> Self {
        if text == "error" { Self::Error } else { Self::Other }
    }
}

impl Lenient<'_> for Name {
    fn text(text: &str) -> Self {
        Self(Some(text).filter(|text| !matches!(*text, "" | "null")).map(str::to_owned))
    }
}

impl<T> Default for Part<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Lenient<'de> for Part<T> {
    fn object<A: MapAccess<'de>>(object: A) -> Result<Self, A::Error> {
        T::deserialize(MapAccessDeserializer::new(object)).map(|part| Self(Some(part)))
    }
}

impl<T> Default for Parts<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Lenient<'de> for Parts<T> {
    fn list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = list.next_element::<Part<T>>()? {
            parts.extend(part.0);
        }
        Ok(Self(parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Inner {
        #[serde(default)]
        n: Count,
    }

    const EVERY_TYPE: [&str; 9] =
        ["null", "true", "7", "-7", "7.5", r#""7""#, "[7]", "{}", r#"{"n":7,"m":{}}"#];

    #[track_caller]
    fn read<'a, T: Deserialize<'a>>(text: &'a str) -> T {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_count_is_a_whole_number_that_a_context_can_hold() {
        for (text, count) in [
            ("8", Some(8)),
            ("8.0", Some(8)),
            ("1e2", Some(100)),
            ("0", Some(0)),
            ("100000000", Some(100_000_000)),
            ("100000001", None),
            ("4294967295", None),
            ("99999999999999999999999", None),
            ("1e300", None),
            ("-1", None),
            ("8.5", None),
            (r#""8""#, None),
        ] {
            assert_eq!(read::<Count>(text).0, count, "{text}");
        }
    }

    #[test]
    fn every_type_is_read_and_only_the_right_one_tells_something() {
        for text in EVERY_TYPE {
            let part = read::<Part<Inner>>(text).0;
            assert_eq!(part.is_some(), text.starts_with('{'), "{text}");
            assert_eq!(part.and_then(|p| p.n.0), text.contains(r#""n""#).then_some(7), "{text}");
            assert_eq!(read::<ListLength>(text).0, (text == "[7]").then_some(1), "{text}");
            assert_eq!(read::<Name>(text).0, (text == r#""7""#).then(|| "7".to_owned()), "{text}");
            assert_eq!(read::<Word>(text), Word::Other, "{text}");
            assert!(read::<Parts<Inner>>(text).0.is_empty(), "{text}");
        }
        assert_eq!(read::<Parts<Inner>>(r#"[null,{"n":1},[],"x",{}]"#).0.len(), 2);
        assert_eq!(read::<Name>(r#""""#).0, None);
        assert_eq!(read::<Name>(r#""null""#).0, None);
    }
}
