//! View models: strings and numbers ready to print; templates and charts compute nothing.

pub mod banner;
pub mod capacity;
pub mod compare;
pub mod figures;
pub mod findings;
pub mod front;
pub mod glossary;
pub mod group;
pub mod identity;
pub mod index;
pub mod outcome;
pub mod point;
pub(super) mod slo;
pub mod trust;

pub use outcome::Outcome;

use super::ReportInput;
use crate::compare::{Cell, Comparison, Mode, Verdict};
use crate::metric::{Better, Measure, Metric};
use crate::record::Severity;
use crate::scenario::length::Weighted;
use crate::scenario::{Length, Load, LoadPoint};
use crate::units;

/// Longest name in the banner.
pub(super) const ID_LIMIT: usize = 64;

/// The numbers of the tables, in their order; those of an SLO where there is one.
#[must_use]
pub fn columns(input: &ReportInput) -> Vec<Measure> {
    let mut columns = vec![
        Measure::QPS,
        Measure::THROUGHPUT,
        Measure::TTFT_P50,
        Measure::TTFT_P99,
        Measure::TPOT_MEAN,
        Measure::ITL_P50,
        Measure::ITL_P99,
        Measure::E2EL_MEAN,
    ];
    if input.has_slo() {
        columns.extend([Measure::GOODPUT, Measure::GOOD_SHARE]);
    }
    columns.push(Measure::ERROR_RATE);
    columns
}

/// Measured requests of the reported side: completed, and failed.
#[must_use]
pub fn requests(input: &ReportInput) -> (u64, u64) {
    let sides = input.points.iter().filter_map(|p| p.side(input.subject()));
    sides.fold((0, 0), |(completed, failed), side| {
        (completed + side.summary.completed, failed + side.summary.failed)
    })
}

/// The number of a side's colour and marker: 0 is the base's grey, so that what is new is found first.
#[must_use]
pub fn color(input: &ReportInput, side: usize) -> usize {
    if input.sides.len() == 1 { 1 } else { side }
}

/// A mark that distinguishes verdicts without colour.
#[must_use]
pub fn verdict_mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Improved => "▲",
        Verdict::Regressed => "▼",
        Verdict::Unchanged => "=",
        Verdict::WithinNoise => "≈",
        Verdict::Inconclusive => "?",
        Verdict::Saturated => "◆",
        Verdict::Incomparable => "≠",
        Verdict::Invalid => "!",
        Verdict::New => "+",
        Verdict::Removed => "−",
    }
}

/// The class of a verdict in the style sheet.
#[must_use]
pub fn verdict_class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Improved => "good",
        Verdict::Regressed => "bad",
        Verdict::Unchanged | Verdict::WithinNoise => "calm",
        Verdict::Invalid | Verdict::Incomparable => "warn",
        Verdict::Inconclusive | Verdict::Saturated => "unsure",
        Verdict::New | Verdict::Removed => "neutral",
    }
}

/// The place of a cell among others, the one that matters most first: what gates before what is only
/// observed, then by [`Verdict::ALL`].
#[must_use]
pub fn cell_rank(cell: &Cell) -> u8 {
    let orders = Verdict::ALL.iter().zip(0_u8..);
    let place = orders.filter(|(v, _)| **v == cell.verdict).map(|(_, place)| place).next();
    // Load points that only one side has gate nothing, but are no observed numbers either.
    let gates = cell.gated || matches!(cell.verdict, Verdict::Removed | Verdict::New);
    place.unwrap_or(0) + if gates { 0 } else { 10 }
}

/// Whether a cell is reported before all others: it changed, or it is gated and has no verdict.
#[must_use]
pub fn is_told(cell: &Cell) -> bool {
    match cell.verdict {
        Verdict::Regressed | Verdict::Improved => true,
        Verdict::Invalid | Verdict::Incomparable => cell.gated,
        _ => false,
    }
}

/// A number of `measure` without its unit; `–` where undefined. Error rates in percent.
#[must_use]
pub fn value(measure: Measure, value: Option<f64>) -> String {
    match (measure.metric, value) {
        (metric, Some(0.0)) if metric.is_share() => "0".into(),
        (metric, Some(share)) if metric.is_share() => {
            let percent = share * 100.0;
            if percent >= 99.95 { "100".into() } else { format!("{percent:.1}") }
        }
        (_, value) => units::optional(value),
    }
}

/// A number of `measure` with its unit.
#[must_use]
pub fn value_unit(measure: Measure, number: Option<f64>) -> String {
    let text = value(measure, number);
    if text == "–" { text } else { format!("{text} {}", measure.metric.unit()) }
}

/// A change in the measure's own direction: percent, or percentage points for error rates.
#[must_use]
pub fn change(measure: Measure, change: Option<f64>) -> String {
    let Some(change) = change else { return "–".into() };
    let text = units::change(change);
    if measure.metric == Metric::ErrorRate { text.replace('%', "pp") } else { text }
}

/// The interval of a change: `[−0.4, +4.1]`.
#[must_use]
pub fn change_interval(interval: Option<(f64, f64)>) -> String {
    let Some((low, high)) = interval else { return String::new() };
    let bare = |x: f64| units::change(x).trim_end_matches(" %").to_owned();
    format!("[{}, {}]", bare(low), bare(high))
}

/// An interval of values: `[12.1, 13.0]`.
#[must_use]
pub fn value_interval(measure: Measure, interval: Option<&(f64, f64)>) -> String {
    let Some((low, high)) = interval else { return String::new() };
    format!("[{}, {}]", value(measure, Some(*low)), value(measure, Some(*high)))
}

/// A change in words, the change first: `TPOT mean +4.1 % [+2.9, +5.3] (8.29 → 8.63 ms)`.
#[must_use]
pub fn change_sentence(cell: &Cell) -> String {
    let values =
        format!("{} → {}", value(cell.measure, cell.base), value_unit(cell.measure, cell.new));
    let change = match cell.change {
        Some(_) => {
            format!("{} {}", change(cell.measure, cell.change), change_interval(cell.interval))
        }
        None => cell.verdict.label().to_owned(),
    };
    let reason = cell.reason.as_ref().and(cell_note(cell));
    let reason = reason.map(|r| format!(": {r}")).unwrap_or_default();
    // No line break within a number and its unit.
    let bound = format!("{} ({values})", change.trim_end()).replace(' ', "\u{a0}");
    let bound = bound.replace("]\u{a0}(", "] (");
    format!("{} {bound}{reason}", cell.measure.label())
}

/// One cell in a sentence: `TPOT mean 8.29 → 8.63 ms, +4.1 % [+2.9, +5.3]: regressed`.
#[must_use]
pub fn cell_sentence(cell: &Cell) -> String {
    let mut text = format!(
        "{} {} → {}",
        cell.measure.label(),
        value(cell.measure, cell.base),
        value_unit(cell.measure, cell.new)
    );
    if cell.change.is_some() {
        text.push_str(&format!(", {}", change(cell.measure, cell.change)));
    }
    if cell.interval.is_some() {
        text.push_str(&format!(" {}", change_interval(cell.interval)));
    }
    text.push_str(&format!(": {}", cell.verdict.label()));
    if let Some(why) = cell_note(cell) {
        text.push_str(&format!(" ({why})"));
    }
    text
}

/// Why a cell says what it says, where that is not in its numbers.
#[must_use]
pub fn cell_note(cell: &Cell) -> Option<String> {
    if let Some(reason) = &cell.reason {
        // What is true of the whole comparison is said once, with it.
        return (!reason.is_of_all()).then(|| reason.text.clone());
    }
    if cell.verdict != Verdict::Inconclusive {
        return None;
    }
    let seen = cell.minimum_detectable.filter(|m| m.is_finite());
    let seen = seen.map(|m| {
        let size = units::change(m.abs());
        format!("changes below {} go unseen", size.trim_start_matches('+'))
    });
    let needed = cell.blocks_needed.map(|n| format!("about {n} restarts a side would decide"));
    let parts: Vec<String> = seen.into_iter().chain(needed).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// What a comparison's mode may claim, in a sentence.
#[must_use]
pub fn mode_sentence(comparison: &Comparison) -> &'static str {
    match comparison.mode {
        Mode::Interleaved => {
            "both sides restarted in turn and measured side by side, same requests"
        }
        Mode::Saved => "fresh restarts against the restarts of a saved baseline",
        Mode::History => "new restarts against a baseline gathered over time",
        Mode::Routes => "two routes to one running engine, rounds in turn",
        Mode::SingleStart if comparison.blocks > 1 => {
            "too few restarts: only a change that no restart makes is called one"
        }
        Mode::SingleStart => {
            "one restart against one: only a change that no restart makes is called one"
        }
    }
}

/// Whether a change is for the better; `None` if it is nothing.
#[must_use]
pub fn is_better(measure: Measure, change: f64) -> Option<bool> {
    if change == 0.0 || !change.is_finite() {
        return None;
    }
    Some((change > 0.0) == (measure.metric.better() == Better::Higher))
}

/// The class of a finding in the style sheet.
#[must_use]
pub fn severity_class(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "neutral",
        Severity::Warning => "warn",
        Severity::Invalid | Severity::Fatal => "bad",
    }
}

/// A finding's weight in words.
#[must_use]
pub fn severity_label(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Invalid | Severity::Fatal => "error",
    }
}

/// A load in words: `64 in flight`, `20 req/s`.
#[must_use]
pub fn load_words(load: Load) -> String {
    match load {
        Load::Concurrency(n) => format!("{n} in flight"),
        Load::RequestRate(rate) => {
            let mut text = format!("{} req/s", rate.per_s);
            if (rate.burstiness - 1.0).abs() > f64::EPSILON {
                text.push_str(&format!(", burstiness {}", rate.burstiness));
            }
            if let Some(cap) = rate.max_concurrency {
                text.push_str(&format!(", at most {cap} in flight"));
            }
            text
        }
    }
}

/// A length in words.
#[must_use]
pub fn length_words(length: &Length) -> String {
    match length {
        Length::Fixed(n) => n.to_string(),
        Length::Range { min, max } => format!("{min}–{max}"),
        Length::Normal { mean, cv } => format!("about {mean} (cv {cv})"),
        Length::LogNormal { median, sigma } => format!("log-normal {median} (σ {sigma})"),
        Length::Mix(parts) => mix_words(parts),
        Length::OfPrompt => "as the file's prompts".to_owned(),
    }
}

/// More parts than this are counted, not listed.
const MOST_PARTS: usize = 3;

/// `32 (40 %) or 3500 (60 %)`.
fn mix_words(parts: &[Weighted]) -> String {
    if parts.len() > MOST_PARTS {
        return format!("one of {} kinds of", parts.len());
    }
    let all: f64 = parts.iter().map(|part| part.weight).sum();
    let listed = parts
        .iter()
        .map(|part| format!("{} ({:.0} %)", length_words(&part.length), 100.0 * part.weight / all));
    listed.collect::<Vec<_>>().join(" or ")
}

/// What a load point does, in words: `512 in, 128 out, 64 in flight`.
#[must_use]
pub fn point_words(point: &LoadPoint) -> String {
    format!(
        "{} tokens in, {} out, {}",
        length_words(&point.input),
        length_words(&point.output),
        load_words(point.load)
    )
}

/// A name as a file name: safe letters only, at most 80 bytes, different for different names.
#[must_use]
pub fn slug(name: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let plain: String = name.chars().map(|c| if safe(c) { c } else { '-' }).take(60).collect();
    // Names that the report's own files have, and endings that only they may have.
    let file = [".html", ".md", ".json", ".xml", ".csv"].iter().any(|end| plain.ends_with(end));
    let reserved = plain.is_empty() || plain.starts_with('.') || plain == "index" || file;
    if plain == name && !reserved {
        plain
    } else {
        format!("{}-{:08x}", plain.trim_start_matches('.'), crate::rng::Seed(0).named(name).0 >> 32)
    }
}

/// `text` cut to `width` characters, its middle left out.
#[must_use]
pub fn shorten(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let keep = width.saturating_sub(1);
    let head: String = text.chars().take(keep / 2).collect();
    let tail: String = text.chars().skip(count - (keep - keep / 2)).collect();
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_says_which_lengths_and_how_often() {
        let words = |mix: Length| length_words(&mix);
        assert_eq!(words(Length::mix([(0.4, 32), (0.6, 3500)])), "32 (40 %) or 3500 (60 %)");
        assert_eq!(words(Length::mix([(3.0, 32), (1.0, 64)])), "32 (75 %) or 64 (25 %)");
        assert_eq!(words(Length::mix((1..=4).map(|i| (1.0, i)))), "one of 4 kinds of");
    }

    #[test]
    fn slugs_are_safe_and_different() {
        assert_eq!(slug("chat-1.5"), "chat-1.5");
        for bad in [
            "",
            "..",
            "../x",
            "a/b",
            "índice",
            "<script>",
            "index",
            "report.json",
            &"x".repeat(200),
        ] {
            let slug = slug(bad);
            assert!(slug.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)), "{slug}");
            assert!(!slug.starts_with('.') && slug.len() <= 80 && slug != bad, "{slug}");
        }
        assert_ne!(slug("a/b"), slug("a-b"));
    }

    #[test]
    fn names_are_cut_in_the_middle() {
        assert_eq!(shorten("chat/short/c16", 20), "chat/short/c16");
        assert_eq!(shorten("abcdefghij", 5), "ab…ij");
        assert_eq!(shorten("日本語のモデル名", 5), "日本…ル名");
    }

    #[test]
    fn error_rates_are_points() {
        assert_eq!(value_unit(Measure::ERROR_RATE, Some(0.012)), "1.2 %");
        assert_eq!(change(Measure::ERROR_RATE, Some(0.012)), "+1.2 pp");
        assert_eq!(change_interval(Some((-0.004, 0.041))), "[−0.4, +4.1]");
    }
}
