//! The verdict on one number of one load point, and its sentence.

use serde::{Deserialize, Serialize};

use crate::stats::Interval;
use crate::units;

/// What may be said of one number of one load point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Better, significantly, by at least the floor.
    Improved,
    /// Worse, significantly, by at least the floor.
    Regressed,
    /// Shown to lie within the margin.
    Unchanged,
    /// A significant change, but smaller than the floor.
    WithinNoise,
    /// Neither a change nor its absence is shown.
    Inconclusive,
    /// The server could not keep up with the offered load: its latencies mean nothing.
    Saturated,
    /// The two sides did not do the same work.
    Incomparable,
    /// The client or the load could have made the difference.
    Invalid,
    /// Only the new side has it.
    New,
    /// Only the base side has it.
    Removed,
}

/// What the sentence of a verdict speaks of.
#[derive(Debug, Clone, Copy, Default)]
pub struct SentenceParts<'a> {
    /// The margin of equivalence, as a ratio minus one.
    pub margin: f64,
    /// The interval of the change, as ratios minus one.
    pub change: Option<Interval>,
    /// How many more restarts would decide it.
    pub more_restarts: Option<u32>,
    /// Why there is no better verdict.
    pub reason: &'a str,
}

impl Verdict {
    /// All of them, the worst news first.
    pub const ALL: [Self; 10] = [
        Self::Regressed,
        Self::Invalid,
        Self::Incomparable,
        Self::Saturated,
        Self::Inconclusive,
        Self::Removed,
        Self::New,
        Self::WithinNoise,
        Self::Unchanged,
        Self::Improved,
    ];

    /// The word in tables.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Improved => "improved",
            Self::Regressed => "regressed",
            Self::Unchanged => "unchanged",
            Self::WithinNoise => "within noise",
            Self::Inconclusive => "inconclusive",
            Self::Saturated => "saturated",
            Self::Incomparable => "incomparable",
            Self::Invalid => "invalid",
            Self::New => "new",
            Self::Removed => "removed",
        }
    }

    /// The sentence under a row, after criterion's.
    #[must_use]
    pub fn sentence(self, parts: &SentenceParts<'_>) -> String {
        let because = |word: &str| match parts.reason {
            "" => format!("{word}."),
            reason => format!("{word}: {reason}."),
        };
        match self {
            Self::Improved => "Performance has improved.".into(),
            Self::Regressed => "Performance has regressed.".into(),
            Self::Unchanged => {
                // Rounded, then printed without zeros: "2", "0.5".
                let percent = (parts.margin * 1e5).round() / 1e3;
                format!("No change: within ±{percent} % shown.")
            }
            Self::WithinNoise => "Change within noise threshold.".into(),
            Self::Inconclusive => inconclusive(parts, &because("Inconclusive")),
            Self::Saturated => because("Saturated"),
            Self::Incomparable => because("Incomparable"),
            Self::Invalid => because("Invalid"),
            Self::New => "New: nothing to compare it with.".into(),
            Self::Removed => "Removed: the baseline has it, this run does not.".into(),
        }
    }
}

fn inconclusive(parts: &SentenceParts<'_>, without_range: &str) -> String {
    let Some(change) = parts.change else { return without_range.to_owned() };
    let mut sentence = format!(
        "Inconclusive: could be between {} and {}",
        units::change(change.low),
        units::change(change.high)
    );
    match (parts.more_restarts, parts.reason) {
        (Some(more @ 1..), _) => {
            let restarts = if more == 1 { "restart" } else { "restarts" };
            sentence.push_str(&format!("; {more} more {restarts} needed."));
        }
        (_, "") => sentence.push('.'),
        (_, reason) => sentence.push_str(&format!("; {reason}.")),
    }
    sentence
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_files_are_snake_case() {
        let text = serde_json::to_string(&Verdict::ALL).unwrap();
        assert_eq!(
            text,
            r#"["regressed","invalid","incomparable","saturated","inconclusive","removed","new","within_noise","unchanged","improved"]"#
        );
    }

    #[test]
    fn sentences_say_what_is_known() {
        let mut parts = SentenceParts { margin: 0.02, ..SentenceParts::default() };
        assert_eq!(Verdict::Unchanged.sentence(&parts), "No change: within ±2 % shown.");
        let half = SentenceParts { margin: 0.005, ..parts };
        assert_eq!(Verdict::Unchanged.sentence(&half), "No change: within ±0.5 % shown.");
        assert_eq!(Verdict::Inconclusive.sentence(&parts), "Inconclusive.");
        parts.change = Some(Interval { low: -0.011, high: 0.034 });
        parts.more_restarts = Some(4);
        assert_eq!(
            Verdict::Inconclusive.sentence(&parts),
            "Inconclusive: could be between −1.1 % and +3.4 %; 4 more restarts needed."
        );
        parts.reason = "the client was late";
        assert_eq!(Verdict::Invalid.sentence(&parts), "Invalid: the client was late.");
    }
}
