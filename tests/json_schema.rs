//! A small check of a document against the part of JSON Schema that our schema files use.
#![allow(clippy::unwrap_used)] // a test may

use serde_json::Value;

/// Checks `document`; the error names the place and what is wrong there. Unknown keywords are
/// errors too: a schema must not say what nobody checks.
pub(crate) fn check(schema: &Value, document: &Value) -> Result<(), String> {
    at(schema, schema, document, "")
}

fn at(root: &Value, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    let Some(keywords) = schema.as_object() else {
        return Err(format!("{place}: a schema must be an object"));
    };
    for (keyword, rule) in keywords {
        match keyword.as_str() {
            "$schema" | "$id" | "$defs" | "title" | "description" => {}
            "$ref" => {
                let path = rule.as_str().and_then(|path| path.strip_prefix('#')).unwrap_or("?");
                let target = root.pointer(path).ok_or(format!("{place}: no {path}"))?;
                at(root, target, value, place)?;
            }
            "type" => has_type(rule, value, place)?,
            "enum" if rule.as_array().is_some_and(|words| words.contains(value)) => {}
            "const" if rule == value => {}
            "minimum" if value.as_f64().is_none_or(|v| v >= rule.as_f64().unwrap()) => {}
            "enum" | "const" | "minimum" => return Err(format!("{place}: {value} against {rule}")),
            "anyOf" => {
                let any =
                    rule.as_array().unwrap().iter().any(|s| at(root, s, value, place).is_ok());
                any.then_some(()).ok_or(format!("{place}: {value} fits no form"))?;
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    at(root, rule, item, &format!("{place}/{index}"))?;
                }
            }
            "required" => {
                for name in rule.as_array().unwrap() {
                    let name = name.as_str().unwrap();
                    value.get(name).ok_or(format!("{place}/{name}: missing"))?;
                }
            }
            "properties" | "additionalProperties" => {}
            other => return Err(format!("{place}: unknown keyword {other}")),
        }
    }
    fields(root, schema, value, place)
}

fn fields(root: &Value, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    for (name, field) in value.as_object().into_iter().flatten() {
        let place = format!("{place}/{name}");
        let known = schema.get("properties").and_then(|known| known.get(name));
        match (known, schema.get("additionalProperties")) {
            (Some(rule), _) => at(root, rule, field, &place)?,
            (None, Some(Value::Bool(false))) => return Err(format!("{place}: not in the schema")),
            (None, Some(rule)) if rule.is_object() => at(root, rule, field, &place)?,
            (None, _) => {}
        }
    }
    Ok(())
}

fn has_type(rule: &Value, value: &Value, place: &str) -> Result<(), String> {
    let one = |name: &Value| match name.as_str().unwrap_or_default() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    };
    let fits = rule.as_array().map_or_else(|| one(rule), |names| names.iter().any(one));
    fits.then_some(()).ok_or(format!("{place}: {value} is not of type {rule}"))
}
