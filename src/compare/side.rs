//! A contender: one side of a comparison, from one run or several.

use std::collections::{BTreeMap, BTreeSet};

use super::calibration::days_of;
use crate::metric::Measure;
use crate::plan::Phase;
use crate::scenario::{LoadPoint, PromptSpec};
use crate::summary::measured::MeasuredStart;

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedSide {
    /// What people call it.
    pub label: String,
    /// Its runs.
    pub runs: Vec<String>,
    /// What must agree for figures to be comparable.
    pub facts: Facts,
    /// Its load points.
    pub points: Vec<ComparedPoint>,
}

/// What must agree for figures to be comparable. An empty list: not known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The definitions of the metrics.
    pub definitions: BTreeSet<String>,
    /// The models asked for.
    pub models: BTreeSet<String>,
    /// The APIs.
    pub apis: BTreeSet<String>,
    /// The hash of each prompt file, by its path as the scenario names it.
    pub datasets: BTreeMap<String, String>,
    /// The machines of the client: processor and cores. They need not agree; a difference is reported.
    pub clients: BTreeSet<String>,
}

/// One load point of a contender.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedPoint {
    /// `group/scenario/load`.
    pub id: String,
    /// Reference or load.
    pub phase: Phase,
    /// What it is.
    pub point: LoadPoint,
    /// Its starts.
    pub starts: Vec<MeasuredStart>,
}

impl ComparedSide {
    /// The load point of this id.
    #[must_use]
    pub fn point(&self, id: &str) -> Option<&ComparedPoint> {
        self.points.iter().find(|point| point.id == id)
    }

    /// How many different starts of the server it holds. Measurements that nothing proves to be of
    /// different starts are of one, however many runs they were made in.
    #[must_use]
    pub fn distinct_starts(&self) -> usize {
        self.first_seen().len()
    }

    /// The days on which its starts were first measured: times at least six hours apart.
    #[must_use]
    pub fn days(&self) -> usize {
        days_of(self.first_seen().into_values().collect())
    }

    fn first_seen(&self) -> BTreeMap<&str, i64> {
        first_seen(self.points.iter().flat_map(|point| &point.starts))
    }

    /// What its servers say distinguishes their starts; empty where they do not say.
    #[must_use]
    pub fn told_identities(&self) -> BTreeSet<String> {
        let starts = self.points.iter().flat_map(|point| &point.starts);
        starts.filter_map(|start| start.identity.clone()).collect()
    }
}

/// What distinguishes a start from others: a launch or a restart hook of ours, the start time of its
/// process, or the user's word. All measurements without any of these share one.
pub(super) fn identity(start: &MeasuredStart) -> &str {
    start.identity.as_deref().unwrap_or_default()
}

/// The second at which each start was first measured.
pub(super) fn first_seen<'a>(
    starts: impl Iterator<Item = &'a MeasuredStart>,
) -> BTreeMap<&'a str, i64> {
    let mut seen: BTreeMap<&str, i64> = BTreeMap::new();
    for start in starts {
        let at = start.at.as_second();
        seen.entry(identity(start)).and_modify(|first| *first = at.min(*first)).or_insert(at);
    }
    seen
}

impl ComparedPoint {
    /// The geometric mean over starts of one number (the plain mean where a value is not positive).
    #[must_use]
    pub fn typical(&self, measure: Measure) -> Option<f64> {
        let values: Vec<f64> =
            self.starts.iter().filter_map(|start| start.summary.get(measure)).collect();
        if values.is_empty() {
            return None;
        }
        #[allow(clippy::cast_precision_loss)]
        let n = values.len() as f64;
        if values.iter().all(|v| *v > 0.0) {
            Some((values.iter().map(|v| v.ln()).sum::<f64>() / n).exp())
        } else {
            Some(values.iter().sum::<f64>() / n)
        }
    }
}

/// Why the two sides cannot be compared at all; `None` if they can.
#[must_use]
pub fn incomparable(base: &Facts, new: &Facts) -> Option<String> {
    let differs = |what: &str, a: &BTreeSet<String>, b: &BTreeSet<String>| {
        let list = |names: &BTreeSet<String>| {
            names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")
        };
        (!a.is_empty() && !b.is_empty() && a != b)
            .then(|| format!("{what} differ: {} against {}", list(a), list(b)))
    };
    differs("the definitions of the metrics", &base.definitions, &new.definitions)
        .or_else(|| differs("the models", &base.models, &new.models))
        .or_else(|| differs("the APIs", &base.apis, &new.apis))
}

/// That the two sides were measured from different machines, whose own share of a latency differs.
#[must_use]
pub fn other_client(base: &Facts, new: &Facts) -> Option<String> {
    let list = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
    let (one, other) = (&base.clients, &new.clients);
    (!one.is_empty() && !other.is_empty() && one != other).then(|| {
        format!(
            "the machines of the client differ ({} against {}): latencies hold a part of the client's own",
            list(one),
            list(other)
        )
    })
}

/// Why one load point cannot be compared; `None` if it can.
#[must_use]
pub fn incomparable_point(
    (base, base_facts): (&ComparedPoint, &Facts),
    (new, new_facts): (&ComparedPoint, &Facts),
) -> Option<String> {
    if base.point.input != new.point.input || base.point.output != new.point.output {
        return Some("the lengths asked for differ".into());
    }
    if let Some(reason) = other_prompts((base, base_facts), (new, new_facts)) {
        return Some(reason);
    }
    let per_request = |point: &ComparedPoint, tokens: fn(&MeasuredStart) -> u64| {
        let total: u64 = point.starts.iter().map(tokens).sum();
        let requests: u64 = point.starts.iter().map(|s| s.summary.completed).sum();
        #[allow(clippy::cast_precision_loss)]
        (requests > 0 && total > 0).then(|| total as f64 / requests as f64)
    };
    // docs/statistics.md, section 2: totals that differ by more than 0.5 % make throughput and E2E incomparable.
    for (what, tokens) in [
        (
            "prompt tokens",
            (|s: &MeasuredStart| s.summary.input_tokens) as fn(&MeasuredStart) -> u64,
        ),
        ("output tokens", |s: &MeasuredStart| s.summary.output_tokens),
    ] {
        if let (Some(a), Some(b)) = (per_request(base, tokens), per_request(new, tokens))
            && (a / b - 1.0).abs() > 0.005
            && base.point.lengths_are_fixed()
        {
            return Some(format!("{what} per request differ: {a:.1} against {b:.1}"));
        }
    }
    None
}

/// Whether the prompts differ: by the content of their files where it is known, else by name.
fn other_prompts(
    (base, base_facts): (&ComparedPoint, &Facts),
    (new, new_facts): (&ComparedPoint, &Facts),
) -> Option<String> {
    let hash = |prompt: &PromptSpec, facts: &Facts| match prompt {
        PromptSpec::Jsonl { path } => facts.datasets.get(&path.display().to_string()).cloned(),
        PromptSpec::Synthetic => None,
    };
    let known = (hash(&base.point.prompt, base_facts), hash(&new.point.prompt, new_facts));
    match known {
        (Some(a), Some(b)) => (a != b).then(|| "the prompt files hold other prompts".into()),
        _ => (base.point.prompt != new.point.prompt)
            .then(|| "the prompts come from other sources".into()),
    }
}
