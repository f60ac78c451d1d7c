//! The statistics against another implementation's values, and against their own promises.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // clippy's own leave covers `#[test]` functions only

mod acceptance;
mod blocks_and_nights;
mod exact;
mod negative;
mod requests;
mod rules;
mod vectors;

use serde_json::Value;

/// A file of `tests/vectors`: its tolerance and its cases.
struct Vectors {
    tolerance: f64,
    file: Value,
}

/// One case of a file.
struct Case<'a> {
    name: &'a str,
    input: &'a Value,
    expected: &'a Value,
    tolerance: f64,
}

impl Vectors {
    fn read(text: &str) -> Self {
        let file: Value = serde_json::from_str(text).unwrap();
        Self { tolerance: file["tol"].as_f64().unwrap_or(0.0), file }
    }

    fn cases(&self) -> impl Iterator<Item = Case<'_>> {
        let cases = self.file["cases"].as_array().unwrap();
        assert!(!cases.is_empty());
        cases.iter().map(|case| Case {
            name: case["name"].as_str().unwrap(),
            input: &case["input"],
            expected: &case["expected"],
            tolerance: self.tolerance,
        })
    }
}

impl Case<'_> {
    /// Holds a value to the expected one: within the tolerance, absolute for values below 1 and
    /// relative above.
    fn check(&self, what: &str, got: f64, expected: &Value) {
        let expected = number(expected);
        let error = (got - expected).abs() / expected.abs().max(1.0);
        assert!(error <= self.tolerance, "{} {what}: {got} is not {expected}", self.name);
    }

    /// [`Self::check`] against a field of `expected`.
    fn field(&self, field: &str, got: f64) {
        self.check(field, got, &self.expected[field]);
    }
}

fn number(value: &Value) -> f64 {
    match value.as_str() {
        Some("inf") => f64::INFINITY,
        Some("-inf") => f64::NEG_INFINITY,
        _ => value.as_f64().unwrap(),
    }
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(number).collect()
}

fn rows(value: &Value) -> Vec<Vec<f64>> {
    value.as_array().unwrap().iter().map(numbers).collect()
}
