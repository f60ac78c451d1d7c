//! The failures of a summary in words, by kind and status.

use super::Summary;
use crate::units;

/// `12 × server error (status 500), 5 × reset`; empty where nothing failed.
#[must_use]
pub fn failure_words(summary: &Summary) -> String {
    let word = |(kind, n): (&crate::transport::FailureKind, &u64)| {
        let statuses = summary.failure_statuses.get(kind).into_iter().flatten();
        let statuses: Vec<String> = statuses.map(|(status, _)| status.to_string()).collect();
        let statuses = match statuses.as_slice() {
            [] => String::new(),
            all => format!(" (status {})", all.join(", ")),
        };
        format!("{} × {}{statuses}", units::count(*n), kind.words())
    };
    summary.failures.iter().map(word).collect::<Vec<_>>().join(", ")
}
