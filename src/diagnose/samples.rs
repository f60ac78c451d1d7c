//! Samples: how many a statistic needs before it says something.

use crate::metric::{Metric, Statistic};
use crate::record::{Finding, FindingCode, Severity};

/// The fewest samples of a statistic.
///
/// p99: 100, or it is little but the maximum (docs/statistics.md, section 2); means: 30 (docs/statistics.md, section 5);
/// p90 and p95: 30 and 60, so that three samples lie above them; median: 10. The reference's 60
/// requests carry all but its p99.
#[must_use]
pub fn needed(statistic: Statistic) -> u64 {
    match statistic {
        Statistic::P50 => 10,
        Statistic::Mean | Statistic::P90 => 30,
        Statistic::P95 => 60,
        Statistic::P99 => 100,
    }
}

/// Whether `count` samples carry that statistic, as a sentence where they do not.
#[must_use]
pub fn too_few(metric: Metric, statistic: Statistic, count: u64) -> Option<String> {
    let needed = needed(statistic);
    (count < needed).then(|| {
        let name = statistic.name();
        format!("{metric} {name} needs at least {needed} requests; measured {count}")
    })
}

/// The finding about a load point whose requests carry fewer statistics than are shown; the
/// least demanding one that is not carried is named, since the others follow.
#[must_use]
#[cfg(test)]
pub fn finding(summary: &crate::summary::Summary, point: &str) -> Option<Finding> {
    let count = summary.distributions.get(&Metric::Ttft).map_or(0, |ttft| ttft.count);
    of_count(count).map(|finding| finding.at(point))
}

/// As [`finding`], of this many requests.
#[must_use]
pub fn of_count(count: u64) -> Option<Finding> {
    let mut by_need = Statistic::ALL;
    by_need.sort_by_key(|statistic| needed(*statistic));
    let text = by_need.into_iter().find_map(|s| too_few(Metric::Ttft, s, count))?;
    let hint = format!("measure more: `--num-prompts {}`", needed(Statistic::P99));
    Some(Finding::new(FindingCode::TooFewSamples, Severity::Note, text).with_hint(hint))
}
