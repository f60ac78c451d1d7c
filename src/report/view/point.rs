//! The view of a load point's page: distributions, pairs, the run over time, slow and failed requests.

use std::collections::BTreeSet;

use serde::Serialize;

use super::figures::{self, ChangeRow, DistributionRow};
use super::findings::{self, FindingView};
use super::glossary::Entry;
use super::point_words;
use crate::metric::Metric;
use crate::record::stored::Health;
use crate::record::{RequestRecord, Severity};
use crate::report::chart::timeline::{Shape, Track};
use crate::report::chart::{self, Chart, ecdf};
use crate::report::{PointInput, PointSide, ReportInput};
use crate::transport::FailureKind;
use crate::units;

/// Requests told of each kind.
const TOLD: usize = 10;
/// Fewer samples than these are no course over time.
const FEWEST_IN_TIME: usize = 3;
/// Longest text of a failure.
const TEXT_LIMIT: usize = 600;

/// Names of series that are known: name, title, unit, shape.
const SERIES: [(&str, &str, &str, Shape); 13] = [
    ("in_flight", "In flight", "requests", Shape::Level),
    ("request_rate", "Requests per second", "req/s", Shape::Level),
    ("ttft_ms", "TTFT per request", "ms", Shape::Events),
    ("itl_by_position_ms", "ITL by token position", "ms", Shape::Positions),
    ("errors", "Errors", "requests", Shape::Level),
    ("requests_running", "Server: running", "requests", Shape::Level),
    ("requests_waiting", "Server: waiting", "requests", Shape::Level),
    ("kv_cache_usage", "Server: KV cache in use", "share", Shape::Level),
    ("gpu_utilization_percent", "GPU in use", "%", Shape::Level),
    ("gpu_clock_mhz", "GPU clock", "MHz", Shape::Level),
    ("gpu_temperature_c", "GPU temperature", "°C", Shape::Level),
    ("gpu_memory_used_mib", "GPU memory", "MiB", Shape::Level),
    ("gpu_power_w", "GPU power", "W", Shape::Level),
];

/// Everything a load point's page shows.
#[derive(Debug, Clone, Serialize)]
pub struct PointView {
    /// Its id.
    pub id: String,
    /// What it does, in words.
    pub words: String,
    /// Its group's name.
    pub group: String,
    /// What to know before the numbers; may be empty.
    pub status: String,
    /// The names of the sides, where there are several.
    pub sides: Vec<String>,
    /// The cells of this point.
    pub changes: Vec<ChangeRow>,
    /// Every distribution.
    pub distributions: Vec<DistributionRow>,
    /// Rates and counts: a row per side.
    pub rates: Vec<RateRow>,
    /// The ECDFs.
    pub ecdfs: Vec<Chart>,
    /// Pair plots of gated measures.
    pub pairs: Vec<Chart>,
    /// The run over time.
    pub timelines: Vec<Chart>,
    /// The slowest requests.
    pub slowest: Vec<RequestRow>,
    /// Failures by kind.
    pub failures: Vec<Entry>,
    /// Failed requests.
    pub failed: Vec<FailedRow>,
    /// How well client and load behaved, per side.
    pub health: Vec<HealthView>,
    /// Errors and warnings here.
    pub warnings: Vec<FindingView>,
    /// Notes: what does not change what a reader should do.
    pub notes: Vec<FindingView>,
}

/// Rates, counts and lengths of a side.
#[derive(Debug, Clone, Serialize)]
pub struct RateRow {
    /// The side's name.
    pub side: String,
    /// The number of its colour.
    pub series: usize,
    /// Name and value.
    pub facts: Vec<Entry>,
}

/// A slow request.
#[derive(Debug, Clone, Serialize)]
pub struct RequestRow {
    /// The side, start and number.
    pub name: String,
    /// TTFT, ms.
    pub ttft: String,
    /// TPOT, ms.
    pub tpot: String,
    /// Worst gap, ms.
    pub gap: String,
    /// E2EL, ms.
    pub e2el: String,
    /// Input and output tokens.
    pub tokens: String,
    /// Its length against the slowest, percent: to the first token, and after it.
    pub wait_width: String,
    /// See `wait_width`.
    pub stream_width: String,
}

/// A failed request with its evidence.
#[derive(Debug, Clone, Serialize)]
pub struct FailedRow {
    /// The side, start and number.
    pub name: String,
    /// The kind.
    pub kind: String,
    /// The status; may be empty.
    pub status: String,
    /// What was said.
    pub message: String,
    /// The first bytes of the body; may be empty.
    pub body: String,
}

/// Health of a side.
#[derive(Debug, Clone, Serialize)]
pub struct HealthView {
    /// The side's name.
    pub side: String,
    /// Name and value.
    pub facts: Vec<Entry>,
}

/// Makes the view.
#[must_use]
pub fn view(input: &ReportInput, point: &PointInput) -> PointView {
    let sides = || input.sides.iter().zip(&point.sides).enumerate();
    let with =
        || sides().filter_map(|(i, (s, figures))| Some((i, s.name.as_str(), figures.as_ref()?)));
    let subject = point.side(input.subject());
    let all_findings = input.all_findings();
    let here = all_findings.into_iter().filter(|f| f.point.as_deref() == Some(point.id.as_str()));
    let (notes, warnings): (Vec<_>, Vec<_>) = here.partition(|f| f.severity == Severity::Note);
    PointView {
        id: point.id.clone(),
        words: point_words(&point.point),
        group: point.point.group.clone(),
        status: subject
            .map_or_else(|| "not measured".to_owned(), |s| figures::status_words(point.phase, s)),
        sides: input
            .sides
            .iter()
            .map(|s| s.name.clone())
            .filter(|_| input.sides.len() > 1)
            .collect(),
        changes: changes(input, point),
        distributions: figures::distribution_rows(input, point),
        rates: with().map(|(i, name, f)| rate_row(super::color(input, i), name, f)).collect(),
        ecdfs: ecdfs(input, point),
        pairs: pairs(input, point),
        timelines: timelines(input, point),
        slowest: slowest(
            with().flat_map(|(_, n, f)| f.slowest.iter().map(move |r| (n, r))).collect(),
        ),
        failures: with().flat_map(|(_, name, f)| failures(input, name, f)).collect(),
        failed: with().flat_map(|(_, n, f)| failed_rows(n, &f.failed)).collect(),
        health: with()
            .map(|(_, name, f)| health(name, &f.health, f))
            .filter(|view| !view.facts.is_empty())
            .collect(),
        warnings: findings::findings(&warnings),
        notes: findings::findings(&notes),
    }
}

fn changes(input: &ReportInput, point: &PointInput) -> Vec<ChangeRow> {
    let here = figures::ranked_cells(input, Some(&point.id));
    let reach = figures::bar_reach(here.iter().map(|(_, cell)| *cell));
    here.iter().map(|(c, cell)| figures::change_row(input, c, cell, reach)).collect()
}

fn entry(word: &str, meaning: impl Into<String>) -> Entry {
    Entry { word: word.to_owned(), meaning: meaning.into() }
}

fn rate_row(series: usize, name: &str, figures: &PointSide) -> RateRow {
    use crate::metric::Measure;
    let summary = &figures.summary;
    let mut facts = Vec::new();
    for metric in Metric::ALL.into_iter().filter(|m| !m.is_distribution()) {
        let measure = Measure::rate(metric);
        if let Some(value) = summary.get(measure) {
            facts.push(entry(metric.label(), super::value_unit(measure, Some(value))));
        }
    }
    let requests = format!(
        "{} completed, {} failed",
        units::count(summary.completed),
        units::count(summary.failed)
    );
    facts.push(entry("requests", requests));
    if let Some(in_flight) = summary.concurrency_mean {
        facts.push(entry("in flight, mean", units::significant(in_flight)));
    }
    if summary.duration_s > 0.0 {
        facts.push(entry("measured window", units::duration(summary.duration_s)));
    }
    facts.push(entry("server starts", figures.starts.len().to_string()));
    let lengths = figures.lengths;
    let pair = |asked, got: Option<f64>| {
        let got = got.map(|got| format!(", {} got", units::significant(got))).unwrap_or_default();
        format!("{} asked{got}", units::optional(asked))
    };
    let known = [
        ("prompt tokens, mean", lengths.input_asked, lengths.input_got),
        ("answer tokens, mean", lengths.output_asked, lengths.output_got),
    ];
    for (word, asked, got) in known.into_iter().filter(|(_, asked, _)| asked.is_some()) {
        facts.push(entry(word, pair(asked, got)));
    }
    if summary.tpot_undefined > 0 {
        let requests = units::count(summary.tpot_undefined);
        let text = format!("{requests} (nothing came after the first event)");
        facts.push(entry("TPOT undefined", text));
    }
    RateRow { side: name.to_owned(), series, facts }
}

/// Which values of a side.
type Pick = fn(&PointSide) -> &[f64];

/// The distributions of a point, drawn; empty where no single request is known.
pub(super) fn ecdfs(input: &ReportInput, point: &PointInput) -> Vec<Chart> {
    let pick: [(Metric, Pick); 3] = [
        (Metric::Ttft, |s| &s.samples.ttft_ms),
        (Metric::Tpot, |s| &s.samples.tpot_ms),
        (Metric::E2el, |s| &s.samples.e2el_ms),
    ];
    let chart = |(metric, values): (Metric, Pick)| {
        let sides = input.sides.iter().enumerate();
        let samples = sides.filter_map(|(index, side)| {
            let (color, values_ms) = (super::color(input, index), values(point.side(index)?));
            Some(ecdf::Sample { name: &side.name, color, values_ms })
        });
        let samples: Vec<_> = samples.collect();
        ecdf::chart(metric, &samples)
    };
    pick.into_iter().filter_map(chart).collect()
}

fn pairs(input: &ReportInput, point: &PointInput) -> Vec<Chart> {
    let cells = input.comparisons.iter().flat_map(|c| c.cells.iter().map(move |x| (c, x)));
    cells
        .filter(|(_, cell)| cell.point == point.id && cell.pairs.len() > 1)
        .filter(|(_, cell)| cell.measure.metric != Metric::ErrorRate)
        .filter_map(|(c, cell)| chart::pairs::chart(cell, &c.base_label, &c.new_label))
        .take(8)
        .collect()
}

fn timelines(input: &ReportInput, point: &PointInput) -> Vec<Chart> {
    let names: BTreeSet<&str> =
        point.sides.iter().flatten().flat_map(|s| s.series.keys().map(String::as_str)).collect();
    let known = SERIES.iter().copied().filter(|(name, ..)| names.contains(name));
    let others = names.iter().filter(|n| SERIES.iter().all(|(known, ..)| known != *n));
    let others = others.map(|name| (*name, *name, "", Shape::Level));
    let draw = |(name, title, unit, shape): (&str, &str, &str, Shape)| {
        let sides = input.sides.iter().enumerate();
        let tracks = sides.filter_map(|(index, side)| {
            let samples = point.side(index)?.series.get(name)?;
            Some(Track { name: &side.name, color: super::color(input, index), samples })
        });
        let tracks: Vec<_> = tracks.collect();
        if tracks.iter().all(|t| t.samples.len() < FEWEST_IN_TIME) {
            return None;
        }
        let nothing = |t: &Track<'_>| t.samples.iter().all(|s| s.1 == 0.0);
        if matches!(name, "errors" | "request_rate") && tracks.iter().all(nothing) {
            return None;
        }
        chart::timeline::chart(title, unit, shape, &tracks)
    };
    known.chain(others).filter_map(draw).take(16).collect()
}

fn request_name(side: &str, record: &RequestRecord) -> String {
    format!("{side} · start {} · #{}", record.start + 1, record.index)
}

fn slowest(mut records: Vec<(&str, &RequestRecord)>) -> Vec<RequestRow> {
    let e2el = |r: &RequestRecord| figures::latencies(r).e2el_ms.unwrap_or(0.0);
    records.sort_by(|a, b| e2el(b.1).total_cmp(&e2el(a.1)));
    let longest = records.first().map_or(1.0, |r| e2el(r.1)).max(f64::MIN_POSITIVE);
    let row = |(side, record): &(&str, &RequestRecord)| {
        let own = figures::latencies(record);
        let wait = own.ttft_ms.unwrap_or(0.0) / longest * 100.0;
        let all = own.e2el_ms.unwrap_or(0.0) / longest * 100.0;
        let tokens = |n: Option<u32>| n.map_or_else(|| "–".to_owned(), |n| n.to_string());
        RequestRow {
            name: request_name(side, record),
            ttft: units::optional(own.ttft_ms),
            tpot: units::optional(own.tpot_ms),
            gap: units::optional(record.worst_gap_ns.map(units::ns_to_ms)),
            e2el: units::optional(own.e2el_ms),
            tokens: format!("{} → {}", tokens(record.input_tokens), tokens(record.output_tokens)),
            wait_width: format!("{wait:.1}"),
            stream_width: format!("{:.1}", (all - wait).max(0.0)),
        }
    };
    records.iter().take(TOLD).map(row).collect()
}

fn failures(input: &ReportInput, name: &str, figures: &PointSide) -> Vec<Entry> {
    let whose = if input.sides.len() > 1 { format!("{name}: ") } else { String::new() };
    let all = crate::report::document::failures(&figures.summary);
    let words = |kind: &str| format!("{whose}{}", kind.replace('_', " "));
    all.iter().map(|(kind, n)| entry(&words(kind), units::count(*n))).collect()
}

/// Failed requests, those that say the same reported once.
fn failed_rows(side: &str, records: &[RequestRecord]) -> Vec<FailedRow> {
    let mut rows: Vec<FailedRow> = Vec::new();
    for row in records.iter().map(|r| failed_row(side, r)) {
        let alike = |other: &FailedRow| {
            (&other.kind, &other.message, &other.body) == (&row.kind, &row.message, &row.body)
        };
        if rows.len() < TOLD && !rows.iter().any(alike) {
            rows.push(row);
        }
    }
    rows
}

fn failed_row(side: &str, record: &RequestRecord) -> FailedRow {
    let evidence = record.evidence.as_deref();
    let cut = |text: &str| text.chars().take(TEXT_LIMIT).collect::<String>();
    let kind = record.failure.map(FailureKind::name).unwrap_or_default();
    FailedRow {
        name: request_name(side, record),
        kind: kind.replace('_', " "),
        status: record.status.map(|s| s.to_string()).unwrap_or_default(),
        message: evidence.map(|e| cut(&e.message)).unwrap_or_default(),
        body: evidence.map(|e| cut(&e.first_bytes)).unwrap_or_default(),
    }
}

fn health(side: &str, health: &Health, figures: &PointSide) -> HealthView {
    let percent =
        |share: Option<f64>| share.map(|s| format!("{} %", units::significant(s * 100.0)));
    let with =
        |value: Option<f64>, unit: &str| value.map(|v| format!("{} {unit}", units::significant(v)));
    let facts = [
        ("scheduling delay, p50", with(health.schedule_lag_p50_ms, "ms")),
        ("scheduling delay, p99", with(health.schedule_lag_p99_ms, "ms")),
        ("event-loop lag, p99", with(health.loop_lag_p99_ms, "ms")),
        ("longest client stall", with(health.longest_stall_ms, "ms")),
        ("client CPU", percent(health.client_cpu)),
        ("in flight, mean", health.in_flight_mean.map(units::significant)),
        ("in flight by Little's law", health.little.map(units::significant)),
        ("time at the concurrency limit", percent(health.at_cap_share)),
        (
            "lockstep index (0: starts spread evenly, 1: all at once)",
            health.lockstep.map(units::significant),
        ),
        ("coalesced events", percent(health.coalesced_share)),
        ("offered", with(health.offered_per_s, "req/s")),
        ("sent", with(health.sent_per_s, "req/s")),
        ("completed / offered", percent(health.completion_ratio)),
        ("warm-up", figures.warm_up.map(warm_up_words)),
    ];
    HealthView {
        side: side.to_owned(),
        facts: facts.into_iter().filter_map(|(word, text)| Some(entry(word, text?))).collect(),
    }
}

fn warm_up_words(warm_up: crate::record::stored::WarmUp) -> String {
    let how = if warm_up.stable { "settled" } else { "ended by its limit, not settled" };
    format!("{} requests, {}, {how}", warm_up.requests, units::duration(warm_up.seconds))
}
