//! The glossary: every metric, and the words of verdicts and statuses.

use serde::Serialize;

use crate::metric::Metric;

/// An entry of the glossary.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// The word.
    pub word: String,
    /// What it means.
    pub meaning: String,
}

/// Every metric, and the words of verdicts and statuses.
#[must_use]
pub fn glossary() -> Vec<Entry> {
    let entry = |word: &str, meaning: &str| Entry { word: word.into(), meaning: meaning.into() };
    let metrics = Metric::ALL.into_iter().map(|m| entry(m.label(), m.definition()));
    let words = [
        ("rate-1 reference", "open loop at 1 request/s: what the multiples are relative to"),
        ("crossover", "the load at which the latency multiple overtakes the QPS multiple"),
        ("knee", "the load at which QPS / latency is highest"),
        ("best throughput per latency", "the loads at which QPS / latency is near its peak"),
        (
            "restart",
            "one launch of the server: what a verdict counts, since requests of one launch move together",
        ),
        ("regressed, improved", "a change for sure, and larger than the floor of its metric"),
        ("unchanged", "shown to lie within the floor"),
        ("within noise", "a change for sure, but smaller than the floor"),
        ("inconclusive", "not enough data to say"),
        ("saturated", "beyond what the server can take: only its capacity is judged"),
        ("overloaded", "above 5 % of the requests failed: latencies are those of survivors"),
        (
            "invalid",
            "the client or the load could have moved the number by more than half its floor",
        ),
        ("incomparable", "other lengths, definitions, dataset or model"),
        ("gated", "a metric that can fail the run; others are observed"),
        (
            "floor",
            "the smallest change of a metric that counts; the shaded part of a bar of changes",
        ),
    ];
    metrics.chain(words.map(|(w, m)| entry(w, m))).collect()
}
