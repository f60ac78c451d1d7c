//! A value in TOML: one or several numbers, a length in any of its forms.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{F64Deserializer, I64Deserializer, MapAccessDeserializer};
use serde::de::{Error as _, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::Length;
use super::length::Weighted;

/// The longest list: a sweep of more is a mistake.
const MAX_LIST: usize = 1000;

/// One value, or a list of at least one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OneOrMany<T>(pub(super) Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrManyVisitor(PhantomData))
    }
}

struct OneOrManyVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrManyVisitor<T> {
    type Value = OneOrMany<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one value or a list of them")
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Self::Value, E> {
        let value: I64Deserializer<E> = value.into_deserializer();
        Ok(OneOrMany(vec![T::deserialize(value)?]))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Self::Value, E> {
        let value: F64Deserializer<E> = value.into_deserializer();
        Ok(OneOrMany(vec![T::deserialize(value)?]))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Ok(OneOrMany(vec![T::deserialize(MapAccessDeserializer::new(map))?]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            if values.len() == MAX_LIST {
                return Err(A::Error::custom(format!("the list is longer than {MAX_LIST}")));
            }
            values.push(value);
        }
        if values.is_empty() {
            return Err(A::Error::custom("the list is empty"));
        }
        Ok(OneOrMany(values))
    }
}

/// A length: `512`, `{min, max}`, `{mean, cv}`, `{median, sigma}` or `{mix = [{weight, length}]}`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LengthValue(pub(super) Length);

impl<'de> Deserialize<'de> for LengthValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let length = deserializer.deserialize_any(LengthVisitor)?;
        length.check().map_err(D::Error::custom)?;
        Ok(Self(length))
    }
}

struct LengthVisitor;

impl<'de> Visitor<'de> for LengthVisitor {
    type Value = Length;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(FORMS)
    }

    fn visit_i64<E: serde::de::Error>(self, tokens: i64) -> Result<Length, E> {
        u32::try_from(tokens)
            .map(Length::Fixed)
            .map_err(|_| E::custom(format!("length {tokens} is not a number of tokens")))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Length, A::Error> {
        let table = LengthTable::deserialize(MapAccessDeserializer::new(map))?;
        table.length().ok_or_else(|| A::Error::custom(format!("a length is {FORMS}")))
    }
}

const FORMS: &str = "a number of tokens, `{ min, max }`, `{ mean, cv }`, `{ median, sigma }` or \
                     `{ mix = [{ weight, length }] }`";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LengthTable {
    min: Option<u32>,
    max: Option<u32>,
    mean: Option<f64>,
    cv: Option<f64>,
    median: Option<f64>,
    sigma: Option<f64>,
    mix: Option<Vec<WeightedTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WeightedTable {
    weight: f64,
    length: LengthValue,
}

impl LengthTable {
    /// The one form whose keys, and no others, are there.
    fn length(self) -> Option<Length> {
        match self {
            Self {
                min: Some(min),
                max: Some(max),
                mean: None,
                cv: None,
                median: None,
                sigma: None,
                mix: None,
            } => Some(Length::Range { min, max }),
            Self {
                mean: Some(mean),
                cv: Some(cv),
                min: None,
                max: None,
                median: None,
                sigma: None,
                mix: None,
            } => Some(Length::Normal { mean, cv }),
            Self {
                median: Some(median),
                sigma: Some(sigma),
                min: None,
                max: None,
                mean: None,
                cv: None,
                mix: None,
            } => Some(Length::LogNormal { median, sigma }),
            Self {
                mix: Some(parts),
                min: None,
                max: None,
                mean: None,
                cv: None,
                median: None,
                sigma: None,
            } => Some(Length::Mix(
                parts
                    .into_iter()
                    .map(|part| Weighted { weight: part.weight, length: part.length.0 })
                    .collect(),
            )),
            _ => None,
        }
    }
}
