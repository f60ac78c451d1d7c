//! The extra body: fields merged into every request, the secrets among them, and those that are refused.

use serde_json::{Map, Value};

use super::{ApiKey, is_secret_name};
use crate::error::{Error, Result};

/// Refuses extra fields that would make the figures those of another request than the harness sends.
///
/// # Errors
/// Where a field turns streaming off, asks for several answers, or replaces the prompt.
pub fn check(extra: &Map<String, Value>) -> Result<()> {
    let refuse = |field: &str, why: &str| {
        Err(Error::usage(format!("the extra body sets `{field}`, which {why}"))
            .with_hint(format!("leave `{field}` out of the extra body")))
    };
    for (name, value) in extra {
        match name.as_str() {
            "stream" if *value != Value::Bool(true) => {
                return refuse(name, "turns streaming off: without it no token has a time");
            }
            "n" | "best_of"
                if value.as_u64().is_none_or(|answers| answers != 1) && !value.is_null() =>
            {
                return refuse(
                    name,
                    "asks for several answers: their tokens cannot be distinguished",
                );
            }
            "stream_options" if asks_no_usage(value) => {
                return refuse(name, "turns the token counts of the server off");
            }
            "prompt" | "messages" => {
                return refuse(name, "replaces the prompts whose lengths are measured");
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether the answer would come without usage.
fn asks_no_usage(stream_options: &Value) -> bool {
    stream_options["include_usage"] != Value::Bool(true)
}

/// The secrets that the extra body holds: texts under names such as `api_key`.
#[must_use]
pub fn secrets(extra: &Map<String, Value>) -> Vec<ApiKey> {
    let mut found = Vec::new();
    for (name, value) in extra {
        secret_texts(value, is_secret_name(name), &mut found);
    }
    found
}

/// The texts in `value` under the names of secrets.
fn secret_texts(value: &Value, is_secret: bool, found: &mut Vec<ApiKey>) {
    match value {
        Value::String(text) if is_secret => found.push(ApiKey::new(text)),
        Value::Array(items) => items.iter().for_each(|item| secret_texts(item, is_secret, found)),
        Value::Object(fields) => {
            for (name, value) in fields {
                secret_texts(value, is_secret || is_secret_name(name), found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_fields_that_change_what_is_measured_are_refused() {
        let check = |extra: &str| super::check(&serde_json::from_str(extra).unwrap());
        for refused in [
            r#"{"stream":false}"#,
            r#"{"stream":null}"#,
            r#"{"n":2}"#,
            r#"{"best_of":3}"#,
            r#"{"messages":[]}"#,
            r#"{"prompt":"x"}"#,
            r#"{"stream_options":null}"#,
            r#"{"stream_options":{"include_usage":false}}"#,
        ] {
            let error = check(refused).unwrap_err();
            assert!(
                error.hint().is_some_and(|hint| hint.contains("leave `")),
                "{refused}: {error}"
            );
        }
        for taken in [
            r#"{"stream_options":{"include_usage":true}}"#,
            r#"{"stream":true}"#,
            r#"{"n":1}"#,
            r#"{"n":null}"#,
            r#"{"top_k":4}"#,
        ] {
            assert!(check(taken).is_ok(), "{taken}");
        }
    }

    #[test]
    fn secrets_are_found_by_their_names_at_any_depth() {
        let extra = r#"{"api_key":"a1","metadata":{"aws_secret_access_key":["b2"]},"max_tokens":"8","user":"u"}"#;
        let found = secrets(&serde_json::from_str(extra).unwrap());
        let found: Vec<&str> = found.iter().map(ApiKey::expose).collect();
        assert_eq!(found, ["a1", "b2"]);
    }
}
