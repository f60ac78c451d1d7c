//! The verdict on one number of one load point.

use serde::{Deserialize, Serialize};

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

impl Verdict {
    /// All of them in the order in which a reader wants them: what changed, what could not be decided,
    /// and what stayed.
    pub const ALL: [Self; 10] = [
        Self::Regressed,
        Self::Improved,
        Self::Inconclusive,
        Self::Invalid,
        Self::Incomparable,
        Self::Removed,
        Self::New,
        Self::Saturated,
        Self::WithinNoise,
        Self::Unchanged,
    ];

    /// The name in files.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Improved => "improved",
            Self::Regressed => "regressed",
            Self::Unchanged => "unchanged",
            Self::WithinNoise => "within_noise",
            Self::Inconclusive => "inconclusive",
            Self::Saturated => "saturated",
            Self::Incomparable => "incomparable",
            Self::Invalid => "invalid",
            Self::New => "new",
            Self::Removed => "removed",
        }
    }

    /// The words for people.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::WithinNoise => "within noise",
            other => other.key(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_names_in_files() {
        for verdict in Verdict::ALL {
            assert_eq!(serde_json::to_value(verdict).unwrap(), verdict.key());
        }
    }
}
