//! A value as flags and files write it: a duration with its unit, a count, a share, a fact.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer};

use crate::error::{Error, Result as Checked};
use crate::units;

/// More starts or rounds than anybody waits for.
const MAX_REPEATS: u32 = 1000;

/// A duration with its unit: `"10s"`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DurationValue(pub(crate) Duration);

impl<'de> Deserialize<'de> for DurationValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DurationVisitor)
    }
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = DurationValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration with its unit, for example `\"10s\"`")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<DurationValue, E> {
        duration(text).map(DurationValue).map_err(E::custom)
    }
}

/// A time with its unit; both readers show one line, so the hint joins it.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    units::parse_duration(text).map_err(|error| match error.hint() {
        Some(hint) => format!("{error}: {hint}"),
        None => error.to_string(),
    })
}

pub(super) fn some_duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    DurationValue::deserialize(deserializer).map(|value| Some(value.0))
}

/// A count of at least one.
pub(super) fn count(text: &str) -> Result<NonZeroU32, String> {
    at_least_one(text.parse().map_err(|error: std::num::ParseIntError| error.to_string())?)
}

pub(super) fn some_count<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<NonZeroU32>, D::Error> {
    at_least_one(u32::deserialize(deserializer)?).map(Some).map_err(D::Error::custom)
}

fn at_least_one(count: u32) -> Result<NonZeroU32, String> {
    NonZeroU32::new(count).ok_or_else(|| "this must be at least 1".to_owned())
}

/// How often something is repeated.
pub(super) fn repeats(text: &str) -> Result<NonZeroU32, String> {
    count(text).and_then(at_most)
}

pub(super) fn some_repeats<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<NonZeroU32>, D::Error> {
    let count = at_least_one(u32::deserialize(deserializer)?).and_then(at_most);
    count.map(Some).map_err(D::Error::custom)
}

fn at_most(count: NonZeroU32) -> Result<NonZeroU32, String> {
    match count.get() {
        ..=MAX_REPEATS => Ok(count),
        _ => Err(format!("this must be at most {MAX_REPEATS}")),
    }
}

/// A share written as `0.05` or `5%`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let bad = || format!("`{text}` is not a share from 0 to 1: write `0.05` or `5%`");
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number, 0.01),
        None => (text, 1.0),
    };
    let share = number.trim().parse::<f64>().map_err(|_| bad())? * scale;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(bad()) }
}

pub(super) fn some_error_rate<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<f64>, D::Error> {
    let rate = f64::deserialize(deserializer)?;
    if (0.0..=1.0).contains(&rate) {
        return Ok(Some(rate));
    }
    Err(D::Error::custom("an error rate is between 0 and 1"))
}

/// `K=V` or `K: V`, split once; `None` if there is no key.
pub(crate) fn pair(text: &str) -> Option<(String, String)> {
    text.find([':', '='])
        .map(|at| (text[..at].trim().to_owned(), text[at + 1..].trim().to_owned()))
        .filter(|(key, _)| !key.is_empty())
}

pub(super) fn fact(text: &str) -> Result<(String, String), String> {
    let fact =
        pair(text).ok_or_else(|| format!("metadata `{text}` has no key: write `KEY=VALUE`"))?;
    public(&fact.0).map_err(|error| error.to_string())?;
    Ok(fact)
}

/// Refuses metadata under the name of a secret: it would be stored as it is.
///
/// # Errors
/// Where the name is one of secrets, such as `api_key`.
pub(crate) fn public(name: &str) -> Checked<()> {
    if super::is_secret_name(name) {
        return Err(Error::usage(format!(
            "metadata `{name}` is stored as it is, and named as a secret"
        ))
        .with_hint("leave it out: metadata stands in every report"));
    }
    Ok(())
}

/// Facts as text: `2048`, `true` and `"fp8"` are all fine, tables are not.
pub(super) fn facts<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<(String, String)>, D::Error> {
    let facts = BTreeMap::<String, Fact>::deserialize(deserializer)?;
    Ok(facts.into_iter().map(|(name, fact)| (name, fact.0)).collect())
}

struct Fact(String);

impl<'de> Deserialize<'de> for Fact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => Ok(Self(text)),
            toml::Value::Array(_) | toml::Value::Table(_) => {
                Err(D::Error::custom("a fact is a text, a number or a truth"))
            }
            plain => Ok(Self(plain.to_string())),
        }
    }
}

pub(super) fn headers<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<(String, String)>, D::Error> {
    Ok(BTreeMap::<String, String>::deserialize(deserializer)?.into_iter().collect())
}
