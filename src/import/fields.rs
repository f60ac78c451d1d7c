//! Fields: the top level of a JSON object, read with errors that name file and field.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::json::INFINITY;
use crate::error::{Error, Result};

/// One object of one file.
#[derive(Debug)]
pub(super) struct Fields {
    /// What errors call it: the file, and which of its objects where there are several.
    pub(super) source: String,
    /// The client that wrote it, as errors name it.
    tool: &'static str,
    values: Map<String, Value>,
}

impl Fields {
    pub(super) fn new(source: String, tool: &'static str, values: Map<String, Value>) -> Self {
        Self { source, tool, values }
    }

    /// The value at a JSON pointer, if there is one that is not null.
    pub(super) fn at(&self, pointer: &str) -> Option<&Value> {
        let mut parts = pointer.trim_start_matches('/').split('/');
        let mut value = self.values.get(parts.next()?)?;
        for part in parts {
            value = match value {
                Value::Array(list) => list.get(part.parse::<usize>().ok()?)?,
                other => other.get(part)?,
            };
        }
        Some(value).filter(|value| !value.is_null())
    }

    /// A finite number ≥ 0 at a JSON pointer; `None` if there is none.
    pub(super) fn number_at(&self, pointer: &str) -> Option<f64> {
        self.at(pointer).and_then(number)
    }

    /// A whole number ≥ 0 at a JSON pointer; a fraction is rounded.
    pub(super) fn count_at(&self, pointer: &str) -> Option<u64> {
        self.number_at(pointer).map(rounded)
    }

    /// A text at a JSON pointer.
    pub(super) fn text_at(&self, pointer: &str) -> Option<&str> {
        self.at(pointer)?.as_str()
    }

    /// The value, where there is one that is not null.
    fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// A finite number ≥ 0; `None` if the field is missing, null or Python's `Infinity`.
    pub(super) fn number(&self, name: &str) -> Result<Option<f64>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        if value.as_str() == Some(INFINITY) {
            return Ok(None);
        }
        match value.as_f64().filter(|number| number.is_finite() && *number >= 0.0) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(name, "is not a number of 0 or more")),
        }
    }

    /// A whole number ≥ 0.
    pub(super) fn count(&self, name: &str) -> Result<Option<u64>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        // A count may have passed through a float: `64.0`.
        let of_float = |number: &f64| (0.0..9e15).contains(number) && number.fract() == 0.0;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // whole and in range
        let whole = || value.as_f64().filter(of_float).map(|number| number as u64);
        value
            .as_u64()
            .or_else(whole)
            .map(Some)
            .ok_or_else(|| self.wrong(name, "is not a whole number of 0 or more"))
    }

    /// A text.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.wrong(name, "is not a text"))
    }

    /// A list, taken out, since it may be large; `None` if the field is missing or null.
    pub(super) fn take_list<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<Vec<T>>> {
        let Some(value) = self.values.remove(name).filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        let list = serde_json::from_value(value);
        list.map(Some)
            .map_err(|cause| self.wrong(name, "is not the list it should be").with_cause(cause))
    }

    /// A value, taken out, since it may be large.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.values.remove(name)
    }

    /// Every field that is a text, a whole number or a switch.
    pub(super) fn scalars(&self) -> impl Iterator<Item = (&str, String)> {
        self.values.iter().filter_map(|(name, value)| {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Bool(switch) => switch.to_string(),
                Value::Number(number) if !number.is_f64() => number.to_string(),
                _ => return None,
            };
            Some((name.as_str(), text))
        })
    }

    /// The error about a field that makes no sense.
    pub(super) fn wrong(&self, name: &str, what: &str) -> Error {
        Error::store(format!("`{}`: `{name}` {what}", self.source)).with_hint(format!(
            "the file was edited or damaged, or it is not a result of `{}`",
            self.tool
        ))
    }

    /// Refuses an object that lacks one of these fields.
    pub(super) fn require(&self, names: &[&str]) -> Result<()> {
        let missing: Vec<String> = names
            .iter()
            .filter(|name| name.split('|').all(|either| !self.has(either)))
            .map(|name| name.split('|').map(|n| format!("`{n}`")).collect::<Vec<_>>().join(" or "))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let missing = missing.join(", ");
        Err(Error::store(format!(
            "`{}` is not a result of `{}`: it lacks {missing}",
            self.source, self.tool
        ))
        .with_hint("give a result file as the client wrote it: docs/formats.md lists what is read"))
    }
}

/// A finite number ≥ 0.
pub(super) fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite() && *number >= 0.0)
}

/// A count that was kept as a float, or a mean times a count.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // counts, which saturate
pub(super) fn rounded(number: f64) -> u64 {
    number.round() as u64
}
