//! The input of a report: sides, load points and comparisons, gathered by the caller.

use std::collections::BTreeMap;

use crate::compare::capacity::SloCapacity;
use crate::compare::knee::Knee;
use crate::compare::{Comparison, GateResult};
use crate::metric::Measure;
use crate::plan::{Phase, Side};
use crate::record::stored::{Health, RoundStatus, WarmUp};
use crate::record::{Finding, RequestRecord, ServerState, StoredRun};
use crate::scenario::LoadPoint;
use crate::summary::Summary;

/// Everything a report is made of, gathered by the caller from store, summary and compare.
#[derive(Debug, Clone, Default)]
pub struct ReportInput {
    /// The sides: one, or the base first and what is compared with it after it. The last is the
    /// one that single-sided views show.
    pub sides: Vec<SideInput>,
    /// References and load points, in the order of the plan.
    pub points: Vec<PointInput>,
    /// One comparison with the base for each side after the first; `None` if there is none.
    pub comparisons: Vec<Comparison>,
    /// What the gate reports of all of it: comparisons, limits, whether anything was measured.
    pub gate: GateResult,
    /// Latency against throughput, per scenario and side.
    pub knees: Vec<Knee>,
    /// What searches found, per scenario and side.
    pub capacities: Vec<SloCapacity>,
    /// Findings beyond those stored in the runs.
    pub findings: Vec<Finding>,
}

/// One side: a run, one side of a run, or the runs of a baseline.
#[derive(Debug, Clone)]
pub struct SideInput {
    /// What people call it: `A`, `main`, `new`.
    pub name: String,
    /// Which side of its runs it is.
    pub side: Side,
    /// Its runs, the newest last.
    pub runs: Vec<StoredRun>,
}

/// One load point, on every side.
#[derive(Debug, Clone)]
pub struct PointInput {
    /// `group/scenario/load`.
    pub id: String,
    /// Reference or load.
    pub phase: Phase,
    /// What it is.
    pub point: LoadPoint,
    /// What was measured, in the order of [`ReportInput::sides`]; `None` if a side lacks it.
    pub sides: Vec<Option<PointSide>>,
}

/// One load point on one side.
#[derive(Debug, Clone)]
pub struct PointSide {
    /// All its starts pooled.
    pub summary: Summary,
    /// Each start by itself.
    pub starts: Vec<StartSummary>,
    /// The worst status of its rounds.
    pub status: RoundStatus,
    /// What happened to the server, the gravest of its rounds.
    pub server: ServerState,
    /// The health of the round that fared worst.
    pub health: Health,
    /// The warm-up before the last round.
    pub warm_up: Option<WarmUp>,
    /// Intervals of values over starts, in the measure's unit, where there are enough starts.
    pub intervals: BTreeMap<String, (f64, f64)>,
    /// Values of single requests, for distributions; at most some thousands each.
    pub samples: Samples,
    /// Name → (seconds since the window opened, value), at most 600 each; `itl_by_position_ms` is
    /// over token positions instead. The names that charts
    /// know are listed in `view/point.rs`; others get a chart of their own.
    pub series: BTreeMap<String, Vec<(f64, f64)>>,
    /// Its slowest requests by E2EL, at most 20.
    pub slowest: Vec<RequestRecord>,
    /// Failed requests with their evidence, at most 20.
    pub failed: Vec<RequestRecord>,
    /// Prompt and answer lengths, asked against got.
    pub lengths: Lengths,
}

/// One start of a load point.
#[derive(Debug, Clone)]
pub struct StartSummary {
    /// Which block.
    pub block: u32,
    /// Ordinal in its run.
    pub start: u32,
    /// Its rounds pooled.
    pub summary: Summary,
}

/// Latencies of single requests, ms, in any order.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    /// Times to first token.
    pub ttft_ms: Vec<f64>,
    /// Times per output token.
    pub tpot_ms: Vec<f64>,
    /// End-to-end latencies.
    pub e2el_ms: Vec<f64>,
}

/// Mean lengths in tokens, asked and got; `None` if not known.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lengths {
    /// Mean prompt length asked for.
    pub input_asked: Option<f64>,
    /// Mean prompt length as the server counted it.
    pub input_got: Option<f64>,
    /// Mean answer length asked for.
    pub output_asked: Option<f64>,
    /// Mean answer length that came.
    pub output_got: Option<f64>,
}

impl ReportInput {
    /// The side that single-sided views show.
    #[must_use]
    pub fn subject(&self) -> usize {
        self.sides.len().saturating_sub(1)
    }

    /// The newest run of the side that single-sided views show.
    #[must_use]
    pub fn run(&self) -> Option<&StoredRun> {
        self.sides.last()?.runs.last()
    }

    /// The findings of all runs and of the report, each once, the gravest first.
    #[must_use]
    pub fn all_findings(&self) -> Vec<&Finding> {
        let runs = self.sides.iter().flat_map(|s| &s.runs);
        let mut all: Vec<&Finding> = Vec::new();
        for finding in self.findings.iter().chain(runs.flat_map(|r| &r.findings)) {
            if !all.contains(&finding) {
                all.push(finding);
            }
        }
        all.sort_by_key(|f| std::cmp::Reverse(f.severity));
        all
    }

    /// Whether a group has a load point beside its reference.
    #[must_use]
    pub fn has_load(&self, group: &str) -> bool {
        self.points.iter().any(|p| p.point.group == group && p.phase.is_judged())
    }

    /// Whether any load point has an SLO.
    #[must_use]
    pub fn has_slo(&self) -> bool {
        self.points.iter().any(|p| p.point.slo.is_some())
    }

    /// The names of the groups, in the order of the points.
    #[must_use]
    pub fn groups(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for point in &self.points {
            if !names.contains(&point.point.group.as_str()) {
                names.push(&point.point.group);
            }
        }
        names
    }
}

impl PointInput {
    /// The figures of a side.
    #[must_use]
    pub fn side(&self, side: usize) -> Option<&PointSide> {
        self.sides.get(side)?.as_ref()
    }

    /// One number of a side.
    #[must_use]
    pub fn get(&self, side: usize, measure: Measure) -> Option<f64> {
        self.side(side)?.summary.get(measure).filter(|v| v.is_finite())
    }
}
