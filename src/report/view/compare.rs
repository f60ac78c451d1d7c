//! The view of named configurations side by side: what differs, and the engineers' table.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::value;
use crate::metric::{Measure, Metric, Statistic};
use crate::record::{Finding, FindingCode, Severity};
use crate::report::chart::Chart;
use crate::report::{ReportInput, SideInput};
use crate::scenario::Load;

/// The measures of the table as inference engineers write it.
pub const ENGINEERS: [Measure; 5] = [
    Measure::of(Metric::Ttft, Statistic::Mean),
    Measure::TTFT_P99,
    Measure::TPOT_MEAN,
    Measure::of(Metric::Tpot, Statistic::P99),
    Measure::THROUGHPUT,
];

/// Groups whose charts are on the page; every group has its own page.
const GROUPS_DRAWN: usize = 4;

/// Everything the comparison page shows.
#[derive(Debug, Clone, Serialize)]
pub struct CompareView {
    /// The names of the sides.
    pub sides: Vec<String>,
    /// The class of the column of loads.
    pub load_class: String,
    /// What differs between them: a row per parameter.
    pub parameters: Vec<ParameterRow>,
    /// Charts of the first groups, the sides overlaid.
    pub charts: Vec<Chart>,
    /// Head of the table, without the scenario: that has rows of its own.
    pub head: Vec<CompareHead>,
    /// A row per load point and side.
    pub rows: Vec<CompareRow>,
}

/// A column's head.
#[derive(Debug, Clone, Serialize)]
pub struct CompareHead {
    /// What it is.
    pub label: String,
    /// Its unit; empty for texts.
    pub unit: String,
    /// Its definition; empty for texts.
    pub definition: String,
    /// `num`, `text`, or `parameter`: one that is also in the table of what differs.
    pub class: String,
}

/// A parameter that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ParameterRow {
    /// Its name.
    pub name: String,
    /// Its value on each side; `–` where the side does not say.
    pub values: Vec<String>,
}

/// One row of the engineers' table.
#[derive(Debug, Clone, Serialize)]
pub struct CompareRow {
    /// The scenario, where this is its first row.
    pub scenario: String,
    /// The scenario, in every row.
    pub place: String,
    /// The side's name.
    pub side: String,
    /// Its colour's number.
    pub series: usize,
    /// The values of the parameters that the head names.
    pub parameters: Vec<String>,
    /// The load.
    pub load: String,
    /// The numbers, and whether each is the best of its load point.
    pub numbers: Vec<BestOf>,
}

/// A number in a column that has a best one.
#[derive(Debug, Clone, Serialize)]
pub struct BestOf {
    /// The number.
    pub text: String,
    /// Whether no side has a better one. It gives no information about certainty.
    pub best: bool,
}

/// The facts of the client's machine, its GPU and its driver that may explain a difference.
const MACHINE: [&str; 6] =
    ["client_version", "hostname", "cpu_model", "cpu_cores", "gpu", "gpu_driver"];

/// The settings and facts of a side, as far as they may explain a difference.
fn parameters(side: &SideInput) -> BTreeMap<String, String> {
    let Some(run) = side.runs.last() else { return BTreeMap::new() };
    let mut all = BTreeMap::new();
    if let Some(server) = run.sides.get(&side.side) {
        all.insert("model".to_owned(), server.model.clone());
        if !server.label.is_empty() {
            all.insert("server".to_owned(), server.label.clone());
        }
        let named = [
            ("engine", &server.engine),
            ("engine version", &server.engine_version),
            ("command", &server.command),
        ];
        for (name, value) in named {
            if let Some(value) = value {
                all.insert(name.to_owned(), value.clone());
            }
        }
        all.extend(server.engine_settings.clone());
    }
    let machine = MACHINE.into_iter().filter_map(|name| run.environment.get_key_value(name));
    all.extend(machine.map(|(name, value)| (name.to_owned(), value.clone())));
    all.extend(run.metadata.clone());
    all
}

/// The parameters whose values are not the same on every side.
#[must_use]
pub fn differing(input: &ReportInput) -> Vec<ParameterRow> {
    let sides: Vec<_> = input.sides.iter().map(parameters).collect();
    let names: BTreeSet<&String> = sides.iter().flat_map(BTreeMap::keys).collect();
    let row = |name: &String| ParameterRow {
        name: name.clone(),
        values: sides.iter().map(|s| s.get(name).cloned().unwrap_or_else(|| "–".into())).collect(),
    };
    let differs = |row: &ParameterRow| row.values.iter().any(|v| *v != row.values[0]);
    names.into_iter().map(row).filter(differs).collect()
}

/// The names of the user's own facts that differ: the columns of the engineers' table.
#[must_use]
pub fn differing_metadata(input: &ReportInput) -> Vec<ParameterRow> {
    let facts: BTreeSet<&String> =
        input.sides.iter().flat_map(|s| s.runs.last()).flat_map(|r| r.metadata.keys()).collect();
    differing(input).into_iter().filter(|row| facts.contains(&row.name)).collect()
}

/// A finding for each pair of sides without any difference: a comparison of a thing with itself.
#[must_use]
pub fn identical_sides(input: &ReportInput) -> Vec<Finding> {
    let all: Vec<_> = input.sides.iter().map(|s| (s, parameters(s))).collect();
    let mut findings = Vec::new();
    for (index, (side, own)) in all.iter().enumerate() {
        let same = all.iter().skip(index + 1).filter(|(_, other)| own == other);
        for (other, _) in same {
            let text = format!(
                "`{}` and `{}` have identical settings: no known parameter differs",
                side.name, other.name
            );
            findings.push(
                Finding::new(FindingCode::IdenticalSettings, Severity::Warning, text)
                    .with_hint("give what differs with `--metadata NAME=VALUE`"),
            );
        }
    }
    findings
}

/// Makes the view.
#[must_use]
pub fn view(input: &ReportInput) -> CompareView {
    let facts = differing_metadata(input);
    let text = |label: &str, class: &str| CompareHead {
        label: label.to_owned(),
        unit: String::new(),
        definition: String::new(),
        class: class.to_owned(),
    };
    let mut head = vec![text("configuration", "text")];
    head.extend(facts.iter().map(|f| text(&f.name, "parameter")));
    let load = load_head(input);
    let load_class = if load == CONCURRENCY { "num text" } else { "text" };
    head.push(text(load, load_class));
    head.extend(ENGINEERS.iter().map(|m| CompareHead {
        label: m.label(),
        unit: m.metric.unit().to_owned(),
        definition: m.metric.definition().to_owned(),
        class: "num".to_owned(),
    }));
    CompareView {
        sides: input.sides.iter().map(|s| s.name.clone()).collect(),
        load_class: load_class.to_owned(),
        parameters: differing(input),
        charts: charts(input),
        head,
        rows: rows(input, &facts),
    }
}

fn charts(input: &ReportInput) -> Vec<Chart> {
    let groups = input.groups();
    let several = groups.iter().filter(|g| input.has_load(g)).count() > 1;
    let named = |group: &&str| {
        let mut charts = super::group::card_charts(input, group);
        for chart in charts.iter_mut().filter(|_| several) {
            chart.title = format!("{}: {}", super::shorten(group, 40), chart.title);
        }
        charts
    };
    let with_load = groups.iter().filter(|g| input.has_load(g));
    with_load.take(GROUPS_DRAWN).flat_map(named).collect()
}

/// The rows of the engineers' table, load point by load point.
#[must_use]
pub fn rows(input: &ReportInput, facts: &[ParameterRow]) -> Vec<CompareRow> {
    let mut rows = Vec::new();
    let closed = load_head(input) == CONCURRENCY;
    let mut last_scenario = String::new();
    for point in input.points.iter().filter(|p| p.phase.is_judged()) {
        let scenario = format!("{}/{}", point.point.group, point.point.scenario);
        let best = ENGINEERS.map(|m| best(m, (0..input.sides.len()).map(|s| point.get(s, m))));
        for (index, side) in input.sides.iter().enumerate() {
            if point.side(index).is_none() {
                continue;
            }
            let shown = if scenario == last_scenario { String::new() } else { scenario.clone() };
            last_scenario.clone_from(&scenario);
            let number = |(measure, best): (&Measure, &Option<f64>)| {
                let own = point.get(index, *measure);
                BestOf { text: value(*measure, own), best: own.is_some() && own == *best }
            };
            rows.push(CompareRow {
                scenario: shown,
                place: scenario.clone(),
                side: side.name.clone(),
                series: super::color(input, index),
                parameters: facts.iter().map(|f| f.values[index].clone()).collect(),
                load: match (closed, point.point.load) {
                    (true, Load::Concurrency(n)) => n.to_string(),
                    (_, load) => super::load_words(load),
                },
                numbers: ENGINEERS.iter().zip(&best).map(number).collect(),
            });
        }
    }
    rows
}

/// What the column of loads is called where every load is a concurrency, and so a number.
pub const CONCURRENCY: &str = "concurrency";

/// What the column of loads is called: engineers say concurrency where every load is one.
#[must_use]
pub fn load_head(input: &ReportInput) -> &'static str {
    let mut loads = input.points.iter().filter(|p| p.phase.is_judged()).map(|p| p.point.load);
    if loads.all(|l| matches!(l, Load::Concurrency(_))) { CONCURRENCY } else { "load" }
}

fn best(measure: Measure, values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.flatten().collect();
    if values.len() < 2 {
        return None; // alone is not best
    }
    values.into_iter().reduce(|a, b| {
        let b_wins = super::is_better(measure, b - a) == Some(true);
        if b_wins { b } else { a }
    })
}
