//! Fields: the top level of a JSON object, read with errors that name file and field.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// One object of one file.
#[derive(Debug)]
pub(super) struct Fields {
    /// What errors call it: the file, and which of its objects where there are several.
    pub(super) source: String,
    values: Map<String, Value>,
}

impl Fields {
    pub(super) fn new(source: String, values: Map<String, Value>) -> Self {
        Self { source, values }
    }

    /// The value, where there is one that is not null.
    fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// A finite number ≥ 0; none where the field is missing or null.
    pub(super) fn number(&self, name: &str) -> Result<Option<f64>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        match value.as_f64().filter(|number| number.is_finite() && *number >= 0.0) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(name, "is not a number of 0 or more")),
        }
    }

    /// A whole number ≥ 0.
    pub(super) fn count(&self, name: &str) -> Result<Option<u64>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        value
            .as_u64()
            .map(Some)
            .ok_or_else(|| self.wrong(name, "is not a whole number of 0 or more"))
    }

    /// A text.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.wrong(name, "is not a text"))
    }

    /// A list, taken out, since it may be large; none where the field is missing or null.
    pub(super) fn take_list<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<Vec<T>>> {
        let Some(value) = self.values.remove(name).filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        let list = serde_json::from_value(value);
        list.map(Some)
            .map_err(|cause| self.wrong(name, "is not the list it should be").with_cause(cause))
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
        Error::store(format!("`{}`: `{name}` {what}", self.source)).with_hint(
            "the file was edited or damaged, or it is not a result of `vllm bench serve`",
        )
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
            "`{}` is not a result of `vllm bench serve`: it lacks {missing}",
            self.source
        ))
        .with_hint("give a file that `vllm bench serve --save-result` wrote"))
    }
}
