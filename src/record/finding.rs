//! A finding: a sentence about something that limits trust, with its remedy.

use serde::{Deserialize, Serialize};

use super::finding_code::FindingCode;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Limits trust, or would in a comparison.
    Warning,
    /// The client or the load could have moved a cell by more than half its floor.
    Invalid,
    /// The run cannot give figures.
    Fatal,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Its kind, a stable name for machines: `lockstep`, `schedule_lag`.
    pub code: FindingCode,
    /// How much it matters.
    pub severity: Severity,
    /// The sentence for people; lower case, no final period.
    pub text: String,
    /// How to fix it.
    #[serde(alias = "mend")]
    pub hint: Option<String>,
    /// The load point it concerns; none: the run.
    pub point: Option<String>,
}

impl Finding {
    /// A finding about the whole run.
    pub fn new(code: FindingCode, severity: Severity, text: impl Into<String>) -> Self {
        Self { code, severity, text: text.into(), hint: None, point: None }
    }

    /// Adds how to fix it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Ties it to a load point.
    #[must_use]
    pub fn at(mut self, point: impl Into<String>) -> Self {
        self.point = Some(point.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_that_was_stored_as_mend_is_read() {
        let json = r#"{"code":"lockstep","severity":"warning","text":"t","mend":"m","point":null}"#;
        let finding: Finding = serde_json::from_str(json).unwrap();
        assert_eq!(finding.hint.as_deref(), Some("m"));
        assert!(serde_json::to_string(&finding).unwrap().contains(r#""hint":"m""#));
    }
}
