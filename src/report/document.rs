//! The document: what `report.json` and `--output-format json` hold.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Knee, PointInput, PointSide, ReportInput, SideInput};
use crate::compare::capacity::{SearchedStart, SloCapacity};
use crate::compare::{Cell, Comparison, GateResult, Mode, SuiteResult};
use crate::metric::{Measure, Metric, Statistic};
use crate::plan::Phase;
use crate::record::stored::{Health, RoundStatus, StoredSide};
use crate::record::{Finding, ServerState};
use crate::scenario::{Load, Slo};
use crate::summary::Summary;
use crate::transport::FailureKind;

/// The schema of the document.
pub const SCHEMA: u32 = 1;

/// The whole document.
#[derive(Debug, Clone, Serialize)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The run that is reported.
    pub run: Option<RunDocument>,
    /// The sides, the base first.
    pub sides: Vec<SideDocument>,
    /// What the comparison reports; `None` without one.
    pub verdict: Option<VerdictDocument>,
    /// What the gate reports of all of it.
    pub gate: GateResult,
    /// What limits trust, the gravest first.
    pub findings: Vec<Finding>,
    /// The figures.
    pub groups: Vec<GroupDocument>,
    /// Latency against throughput.
    pub multiples: Vec<MultiplesDocument>,
    /// What searches found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slo_capacities: Vec<CapacityDocument>,
}

/// What a run is known by.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)] // the fields of `StoredRun` of the same names
pub struct RunDocument {
    pub id: String,
    pub name: Option<String>,
    pub started_at: jiff::Timestamp,
    pub ended_at: Option<jiff::Timestamp>,
    pub status: crate::record::stored::RunStatus,
    pub tool: String,
    pub definitions: String,
    pub command_line: Vec<String>,
    pub design: crate::plan::Design,
    pub seed: u64,
    pub workload_hash: String,
    pub environment: BTreeMap<String, String>,
    pub metadata: BTreeMap<String, String>,
    pub settings: BTreeMap<String, String>,
}

/// One side.
#[derive(Debug, Clone, Serialize)]
pub struct SideDocument {
    /// Its name.
    pub name: String,
    /// The ids of its runs.
    pub runs: Vec<String>,
    /// The server as it was found; `None` if the run does not report it.
    pub server: Option<StoredSide>,
    /// Facts the user gave.
    pub metadata: BTreeMap<String, String>,
}

/// What the comparisons say together.
#[derive(Debug, Clone, Serialize)]
pub struct VerdictDocument {
    /// One word for the banner.
    pub outcome: super::view::Outcome,
    /// The highest claim of the comparisons.
    pub comparisons: Vec<ComparisonDocument>,
}

/// One comparison, without its cells.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)] // the fields of `Comparison` of the same names
pub struct ComparisonDocument {
    pub mode: Mode,
    pub base: String,
    pub new: String,
    pub blocks: u32,
    pub advice: Option<String>,
    pub gate: GateResult,
    pub counts: BTreeMap<&'static str, u64>,
    pub suite: Vec<SuiteResult>,
}

/// A group.
#[derive(Debug, Clone, Serialize)]
pub struct GroupDocument {
    /// Its name.
    pub name: String,
    /// Its references and load points.
    pub load_points: Vec<PointDocument>,
}

/// A load point: the figures of the side that is reported, then those of the others.
#[derive(Debug, Clone, Serialize)]
pub struct PointDocument {
    /// `group/scenario/load`.
    pub id: String,
    /// The scenario's name.
    pub scenario: String,
    /// The load.
    pub load: Load,
    /// Reference or load.
    pub phase: Phase,
    /// The figures; all null where this side lacks the point.
    #[serde(flatten)]
    pub figures: FiguresDocument,
    /// The other sides by name.
    pub others: BTreeMap<String, FiguresDocument>,
    /// The cells of each comparison, by the new side's name.
    pub comparison: BTreeMap<String, Vec<Cell>>,
}

/// What one side measured at one load point.
#[derive(Debug, Clone, Default, Serialize)]
#[allow(missing_docs)]
pub struct FiguresDocument {
    pub status: Option<RoundStatus>,
    pub metrics: Option<Map<String, Value>>,
    pub server: Option<ServerState>,
    pub failures: BTreeMap<String, u64>,
    pub failure_statuses: BTreeMap<FailureKind, BTreeMap<u16, u64>>,
    pub health: Option<Health>,
    pub starts: Vec<Map<String, Value>>,
}

/// Latency against throughput of one scenario on one side.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)] // the fields of `Knee` of the same names
pub struct MultiplesDocument {
    pub group: String,
    pub scenario: String,
    pub side: String,
    pub latency: Measure,
    pub relative_to: String,
    pub crossover: TurningDocument,
    pub knee: TurningDocument,
    pub best_value: Option<String>,
    pub points: Vec<Map<String, Value>>,
}

/// A turning point.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct TurningDocument {
    pub state: String,
    pub in_flight: Option<f64>,
    pub interval: Option<(f64, f64)>,
}

/// The SLO capacity of one scenario on one side.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)] // the fields of `SloCapacity` of the same names
pub struct CapacityDocument {
    pub group: String,
    pub scenario: String,
    pub side: String,
    pub unit: &'static str,
    pub slo: Slo,
    pub capacity: Option<f64>,
    pub interval: Option<(f64, f64)>,
    pub limited_by: Option<&'static str>,
    pub words: String,
    pub starts: Vec<CapacityStart>,
}

/// One start of a search; `capacity` is null where it was not found.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct CapacityStart {
    pub block: u32,
    pub capacity: Option<f64>,
    pub tried: Vec<CapacityTried>,
}

/// A load that was tried.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct CapacityTried {
    pub load: f64,
    pub good_share: f64,
    pub met: bool,
}

impl Document {
    /// The document of `input`.
    #[must_use]
    pub fn new(input: &ReportInput) -> Self {
        Self {
            schema: SCHEMA,
            run: input.run().map(run_document),
            sides: input.sides.iter().map(side_document).collect(),
            verdict: (!input.comparisons.is_empty()).then(|| VerdictDocument {
                outcome: super::view::Outcome::of(input),
                comparisons: input.comparisons.iter().map(comparison_document).collect(),
            }),
            gate: input.gate.clone(),
            findings: input.all_findings().into_iter().cloned().collect(),
            groups: input.groups().into_iter().map(|g| group_document(input, g)).collect(),
            multiples: input.knees.iter().map(|k| multiples_document(input, k)).collect(),
            slo_capacities: input.capacities.iter().map(|c| capacity_document(input, c)).collect(),
        }
    }
}

fn run_document(run: &crate::record::StoredRun) -> RunDocument {
    RunDocument {
        id: run.id.clone(),
        name: run.name.clone(),
        started_at: run.started_at,
        ended_at: run.ended_at,
        status: run.status,
        tool: run.tool.clone(),
        definitions: run.definitions.clone(),
        command_line: run.command_line.clone(),
        design: run.design,
        seed: run.seed.0,
        workload_hash: run.workload_hash.clone(),
        environment: run.environment.clone(),
        metadata: run.metadata.clone(),
        settings: run.settings.clone(),
    }
}

fn side_document(side: &SideInput) -> SideDocument {
    let last = side.runs.last();
    SideDocument {
        name: side.name.clone(),
        runs: side.runs.iter().map(|r| r.id.clone()).collect(),
        server: last.and_then(|r| r.sides.get(&side.side)).cloned(),
        metadata: last.map(|r| r.metadata.clone()).unwrap_or_default(),
    }
}

fn comparison_document(comparison: &Comparison) -> ComparisonDocument {
    let mut counts = BTreeMap::new();
    for cell in &comparison.cells {
        *counts.entry(cell.verdict.key()).or_insert(0) += 1;
    }
    ComparisonDocument {
        mode: comparison.mode,
        base: comparison.base_label.clone(),
        new: comparison.new_label.clone(),
        blocks: comparison.blocks,
        advice: comparison.advice.clone(),
        gate: comparison.gate.clone(),
        counts,
        suite: comparison.suite.clone(),
    }
}

fn group_document(input: &ReportInput, group: &str) -> GroupDocument {
    let points = input.points.iter().filter(|p| p.point.group == group);
    GroupDocument {
        name: group.to_owned(),
        load_points: points.map(|p| point_document(input, p)).collect(),
    }
}

fn point_document(input: &ReportInput, point: &PointInput) -> PointDocument {
    let subject = input.subject();
    let others = input.sides.iter().enumerate().filter(|(i, _)| *i != subject);
    let others =
        others.filter_map(|(i, side)| Some((side.name.clone(), figures(point.side(i)?)))).collect();
    let cells = |c: &Comparison| c.cells.iter().filter(|x| x.point == point.id).cloned().collect();
    PointDocument {
        id: point.id.clone(),
        scenario: point.point.scenario.clone(),
        load: point.point.load,
        phase: point.phase,
        figures: point.side(subject).map(figures).unwrap_or_default(),
        others,
        comparison: input
            .comparisons
            .iter()
            .map(|c| (c.new_label.clone(), cells(c)))
            .filter(|(_, cells): &(String, Vec<Cell>)| !cells.is_empty())
            .collect(),
    }
}

fn figures(side: &PointSide) -> FiguresDocument {
    let start = |s: &super::StartSummary| {
        let mut fields = Map::new();
        fields.insert("block".into(), s.block.into());
        fields.insert("start".into(), s.start.into());
        fields.insert("metrics".into(), Value::Object(metrics(&s.summary)));
        fields
    };
    FiguresDocument {
        status: Some(side.status),
        metrics: Some(metrics(&side.summary)),
        server: Some(side.server.clone()),
        failures: failures(&side.summary),
        failure_statuses: side.summary.failure_statuses.clone(),
        health: Some(side.health.clone()),
        starts: side.starts.iter().map(start).collect(),
    }
}

/// Failures by the name of their kind.
pub(super) fn failures(summary: &Summary) -> BTreeMap<String, u64> {
    summary.failures.iter().map(|(kind, n)| (kind.name().to_owned(), *n)).collect()
}

/// DESIGN's `metrics`: names with units, null where undefined.
fn metrics(summary: &Summary) -> Map<String, Value> {
    let mut fields = Map::new();
    for metric in Metric::DISTRIBUTIONS {
        let distribution = summary.distributions.get(&metric).copied().unwrap_or_default();
        let mut numbers = Map::new();
        numbers.insert("count".into(), distribution.count.into());
        let named =
            [("std", distribution.std), ("min", distribution.min), ("max", distribution.max)];
        let statistics = Statistic::ALL.map(|s| (s.name(), distribution.get(s)));
        for (name, value) in statistics.into_iter().chain(named) {
            numbers.insert(name.into(), number(value));
        }
        fields.insert(metric.key(), Value::Object(numbers));
    }
    for measure in [Metric::RequestThroughput, Metric::OutputThroughput] {
        fields.insert(measure.key(), number(summary.get(Measure::rate(measure))));
    }
    for measure in
        [Metric::TotalTokenThroughput, Metric::Goodput, Metric::GoodShare, Metric::ErrorRate]
    {
        fields.insert(measure.key(), number(summary.get(Measure::rate(measure))));
    }
    fields.insert("completed".into(), summary.completed.into());
    fields.insert("failed".into(), summary.failed.into());
    fields.insert("input_tokens".into(), summary.input_tokens.into());
    fields.insert("output_tokens".into(), summary.output_tokens.into());
    fields.insert("concurrency_mean".into(), number(summary.concurrency_mean));
    fields.insert("duration_s".into(), number(Some(summary.duration_s)));
    fields
}

/// JSON has no NaN: what is not finite is null.
fn number(value: Option<f64>) -> Value {
    value.map_or(Value::Null, Value::from)
}

fn capacity_document(input: &ReportInput, found: &SloCapacity) -> CapacityDocument {
    let start = |start: &SearchedStart| CapacityStart {
        block: start.block,
        capacity: start.value(),
        tried: start
            .tried
            .iter()
            .map(|t| CapacityTried { load: t.level, good_share: t.good_share, met: t.met })
            .collect(),
    };
    CapacityDocument {
        group: found.group.clone(),
        scenario: found.scenario.clone(),
        side: input.sides.get(found.side).map(|s| s.name.clone()).unwrap_or_default(),
        unit: found.axis.unit(),
        slo: found.slo,
        capacity: found.value,
        interval: found.interval.map(|ci| (ci.low, ci.high)),
        limited_by: found.limited_by,
        words: found.words(),
        starts: found.starts.iter().map(start).collect(),
    }
}

fn multiples_document(input: &ReportInput, knee: &Knee) -> MultiplesDocument {
    let turning = |t: &super::Turning| TurningDocument {
        state: t.state.clone(),
        in_flight: t.in_flight,
        interval: t.interval,
    };
    let point = |m: &super::Multiple| {
        let mut fields = Map::new();
        fields.insert("load".into(), m.load.clone().into());
        fields.insert("in_flight".into(), number(Some(m.in_flight)));
        fields.insert("latency_multiple".into(), number(Some(m.latency)));
        fields.insert("qps_multiple".into(), number(Some(m.qps)));
        fields
    };
    MultiplesDocument {
        group: knee.group.clone(),
        scenario: knee.scenario.clone(),
        side: input.sides.get(knee.side).map(|s| s.name.clone()).unwrap_or_default(),
        latency: knee.measure,
        relative_to: knee.relative_to.clone(),
        crossover: turning(&knee.crossover),
        knee: turning(&knee.knee),
        best_value: knee.best_value.clone(),
        points: knee.multiples.iter().map(point).collect(),
    }
}
