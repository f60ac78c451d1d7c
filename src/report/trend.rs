//! The trend of a baseline as text: where each level changed, and by how much.

use std::fmt::Write as _;

use crate::compare::trend::{LevelChange, Trend, TrendSeries};
use crate::report::view;
use crate::units;

/// The trend in words.
#[must_use]
pub fn render(trend: &Trend) -> String {
    let most = trend.series.iter().map(|series| series.nights.len()).max().unwrap_or(0);
    let mut text = format!("Trend of {}: {}\n", trend.name, units::plural(most, "night"));
    let changed: Vec<&TrendSeries> =
        trend.series.iter().filter(|series| !series.changes.is_empty()).collect();
    if most < crate::stats::change_points::LEAST_NIGHTS {
        text.push_str("Too few nights: a change of level is looked for from 6 nights on.\n");
    } else if changed.is_empty() {
        text.push_str("No change of level found.\n");
    }
    for series in changed {
        for change in &series.changes {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}", sentence(series, change));
        }
    }
    text
}

fn sentence(series: &TrendSeries, change: &LevelChange) -> String {
    let before = change.night.checked_sub(1).and_then(|index| series.nights.get(index));
    let date = |at: jiff::Timestamp| at.strftime("%Y-%m-%d").to_string();
    let last = before.map_or_else(String::new, |night| {
        format!(", last night of the level before {} ({})", date(night.at), night.runs.join(", "))
    });
    format!(
        "{} at {}: {} {} since {} [{}]{last}",
        series.measure.label(),
        series.point,
        units::change(change.change),
        if change.worse { "(worse)" } else { "(better)" },
        date(change.at),
        view::change_interval(Some(change.interval)).trim_matches(['[', ']']),
    )
}
