//! Phases, starts and rounds, as planned.

use serde::{Deserialize, Serialize};

use crate::rng::Seed;
use crate::scenario::LoadPoint;

/// What a round is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Never measured.
    WarmUp,
    /// Open loop at 1 request/s: the denominator of the multiples.
    Reference,
    /// A load point.
    Load,
    /// A load tried in search of the highest that meets the SLO. In a plan: where the search begins.
    Search,
}

impl Phase {
    /// Whether its figures are judged: those of load points and of searches.
    #[must_use]
    pub fn is_judged(self) -> bool {
        matches!(self, Self::Load | Self::Search)
    }
}

/// Which side of a comparison. A run without another side is all `New`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// What is compared against.
    Base,
    /// What is judged.
    New,
}

impl Side {
    /// Its name in words, files and seeds.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::New => "new",
        }
    }
}

/// When a round ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StopRule {
    /// Measured requests: at least this many.
    pub requests: u32,
    /// And at least this long, seconds; whichever comes later.
    pub min_time_s: f64,
    /// But the window never sends longer than this, seconds.
    pub max_time_s: f64,
}

/// One round as planned.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundPlan {
    /// What it is for.
    pub phase: Phase,
    /// What it measures (a reference is a load point of rate 1).
    pub point: LoadPoint,
    /// Which pass of the load point within its start, from 0.
    pub round: u32,
    /// The root of this round's lengths and arrivals: the same on both sides of a block.
    pub seed: Seed,
    /// When it ends.
    pub stop: StopRule,
    /// The number of the first prompt that it takes from a file, after those of the rounds before it.
    pub first_prompt: u64,
}

impl RoundPlan {
    /// The warm-up before this round: the same lengths and load from other seeds, so that no prompt
    /// of it is measured later.
    #[must_use]
    pub fn warm_up(&self) -> Self {
        Self { phase: Phase::WarmUp, seed: self.seed.named("warm_up"), ..self.clone() }
    }
}

/// One launch of a server as planned.
#[derive(Debug, Clone, PartialEq)]
pub struct StartPlan {
    /// Whose server.
    pub side: Side,
    /// Which block, from 0. Starts of one side number their blocks too.
    pub block: u32,
    /// Ordinal of the start in the run, from 0.
    pub start: u32,
    /// Its rounds in order; warm-up precedes each and is not listed.
    pub rounds: Vec<RoundPlan>,
}
