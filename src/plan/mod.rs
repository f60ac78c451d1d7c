//! The plan: every start, round and request before a byte is sent. Pure.

pub mod arrivals;
mod budget;
pub mod describe;
pub mod estimate;
pub mod phase;
pub mod search;
mod select;
pub mod starts;

pub use arrivals::{PlannedRequest, Schedule};
pub use describe::{ListFormat, list};
pub use estimate::Expectation;
pub use phase::{Phase, RoundPlan, Side, StartPlan, StopRule};
pub use select::{Matching, select};
pub use starts::build_points;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::rng::Seed;
use crate::scenario::{Load, LoadPoint, PromptSpec, content_hash::fnv1a_128};

/// Where the hash of the caller's own prompts stands among those of files: no file has this path.
pub const OWN_PROMPTS: &str = "";

/// How the sides of a run are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Design {
    /// One side only.
    OneSided,
    /// Blocks of one start of each side, order alternating.
    Interleaved,
    /// Rounds of two URLs alternating within one start.
    Routes,
}

/// Everything a run will do.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// One side or two.
    pub design: Design,
    /// The load points, in the order they run up.
    pub points: Vec<LoadPoint>,
    /// The rate-1 references, one per pair of lengths and prompts.
    pub references: Vec<LoadPoint>,
    /// The starts, in the order they happen (`Routes`: one per side, at once).
    pub starts: Vec<StartPlan>,
    /// Whether each side is started once before the first pair, without being measured.
    pub burn_in: bool,
    /// The root of lengths and arrivals.
    pub seed: Seed,
    /// A hash of lengths, arrivals, loads, counts, seed and dataset, without the per-run salt of the
    /// prompts and the number of starts: starts of runs with the same hash did the same work.
    pub workload_hash: String,
    /// How fast the server is expected to be; assumed until something was measured.
    pub expected: Expectation,
    /// What `--budget` took away, a sentence each.
    pub given_up: Vec<String>,
}

/// One step of a run: a round of a start.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// The start it belongs to.
    pub start: &'a StartPlan,
    /// The round.
    pub round: &'a RoundPlan,
}

impl Plan {
    /// The rounds in the order they happen: start by start, or, for `Routes`, from side to side, the
    /// first of each pair alternating (ABBA).
    pub fn steps(&self) -> Vec<Step<'_>> {
        fn steps_of(start: &StartPlan) -> impl Iterator<Item = Step<'_>> {
            start.rounds.iter().map(move |round| Step { start, round })
        }
        match (self.design, self.starts.as_slice()) {
            (Design::Routes, [first, second]) => {
                let pairs = steps_of(first).zip(steps_of(second)).enumerate();
                pairs
                    .flat_map(|(i, (a, b))| if i.is_multiple_of(2) { [a, b] } else { [b, a] })
                    .collect()
            }
            _ => self.starts.iter().flat_map(steps_of).collect(),
        }
    }

    /// Whether it searches for the SLO capacity.
    #[must_use]
    pub fn searches(&self) -> bool {
        self.starts.iter().flat_map(|start| &start.rounds).any(|r| r.phase == Phase::Search)
    }

    /// The reference that this load point is expressed against; `None` if references are left out.
    #[must_use]
    pub fn reference_of(&self, point: &LoadPoint) -> Option<&LoadPoint> {
        self.references.iter().find(|reference| same_lengths(reference, point))
    }

    /// The number of the prompt that the first request of this round takes from its file, so that
    /// the rounds of a start take different prompts as long as the file has enough (a prefix cache
    /// would serve the second asking). 0 where the round is not one of the start's.
    #[must_use]
    pub fn first_prompt(start: &StartPlan, round: &RoundPlan) -> u64 {
        let place = start.rounds.iter().position(|other| other == round).unwrap_or(0);
        let before = start.rounds.iter().take(place);
        before
            .filter(|other| other.point.prompt == round.point.prompt)
            .map(|other| {
                // Ramp and drain send too: about as many as are in flight.
                let slots = match other.point.load {
                    Load::Concurrency(n) => n,
                    Load::RequestRate(_) => other.stop.requests,
                };
                u64::from(other.stop.requests) + 2 * u64::from(slots)
            })
            .sum()
    }

    /// Takes the hashes of prompt files into the workload hash (the plan itself reads no file).
    pub fn note_datasets(&mut self, hashes: &BTreeMap<PathBuf, String>) {
        self.workload_hash = self.hash(hashes);
    }

    fn hash(&self, datasets: &BTreeMap<PathBuf, String>) -> String {
        let mut text = format!("seed {}\n", self.seed.0);
        let rounds = self.starts.first().map(|start| start.rounds.as_slice()).unwrap_or_default();
        for round in rounds {
            let point = &round.point;
            let dataset = match &point.prompt {
                PromptSpec::Synthetic => {
                    datasets.get(Path::new(OWN_PROMPTS)).map_or("synthetic", String::as_str)
                }
                PromptSpec::Jsonl { path } => datasets.get(path).map_or("unread", String::as_str),
            };
            // `Debug` of numbers is exact, and each part is named; a path is not part of the work.
            // Arrivals were not always scaled: those of before are other work.
            let arrivals = match (round.phase, point.load) {
                (Phase::Load | Phase::Search, Load::RequestRate(_)) => " scaled",
                _ => "",
            };
            text.push_str(&format!(
                "{:?} {} {} {:?} {:?} {:?} {dataset} {:?}{arrivals}\n",
                round.phase,
                point.id(),
                round.round,
                point.input,
                point.output,
                point.load,
                round.stop
            ));
        }
        fnv1a_128(text.as_bytes())
    }
}

/// Whether two load points ask for the same lengths from the same prompts.
fn same_lengths(a: &LoadPoint, b: &LoadPoint) -> bool {
    a.input == b.input && a.output == b.output && a.prompt == b.prompt
}
