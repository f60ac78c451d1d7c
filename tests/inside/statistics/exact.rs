//! Whole reports whose every figure is known.

use inferometer::compare::cell::Cell;
use inferometer::compare::decide::decide;
use inferometer::compare::decision::{CellResult, Decision, Flag};
use inferometer::compare::options::{DeviationTest, Levels, Moderation, Options};
use inferometer::compare::verdict::Verdict;
use inferometer::metric::{Better, Measure};
use serde_json::Value;

use super::{Case, Vectors, number, rows};

#[test]
fn five_reports_end_to_end() {
    let vectors = Vectors::read(include_str!("../../vectors/report_verdict.json"));
    for case in vectors.cases() {
        let metrics: Vec<String> =
            serde_json::from_value(case.expected["metrics"].clone()).unwrap();
        let decision = decide(&cells(&case, &metrics), &options(case.input));
        let scenarios = decision.cells.len() / metrics.len();
        for (k, results) in decision.cells.chunks(scenarios).enumerate() {
            for (s, result) in results.iter().enumerate() {
                check_cell(&case, result, k, s);
            }
            check_suite(&case, &decision, k);
        }
        assert_eq!(decision.regressed(), case.expected["gate_fails"].as_bool().unwrap());
    }
}

fn cells(case: &Case<'_>, metrics: &[String]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for metric in metrics {
        let measure: Measure = metric.parse().unwrap();
        let floor = number(&case.input["floors"][metric]);
        let sides =
            rows(&case.input["base"][metric]).into_iter().zip(rows(&case.input["new"][metric]));
        for (scenario, (base, new)) in sides.enumerate() {
            let some = |values: Vec<f64>| values.into_iter().map(Some).collect();
            let cell = Cell::gated(scenario, measure, some(base), some(new));
            cells.push(Cell { floor, margin: floor, ..cell });
        }
    }
    cells
}

fn options(input: &Value) -> Options {
    let cells = number(&input["alpha"]);
    Options {
        levels: Levels { cells, suite: number(&input["alpha_suite"]), deviation: cells },
        deviation: DeviationTest::FromScenarios(8),
        moderation: Moderation::Off,
        ..Options::default()
    }
}

fn check_cell(case: &Case<'_>, result: &CellResult, k: usize, s: usize) {
    let expected = |field: &str| &case.expected[field][k][s];
    let test = result.test.unwrap();
    let check = |field: &str, got: f64| {
        case.check(&format!("{field} of cell {k} {s}"), got, expected(field));
    };
    check("d", result.mean.unwrap());
    check("se", test.estimate.se);
    check("df", test.estimate.df);
    check("p", test.p);
    check("p_holm", test.p_adjusted);
    check("ci95_ratio_lo", test.ci95.low.exp_m1());
    check("ci95_ratio_hi", test.ci95.high.exp_m1());
    check("mde_ratio", test.detectable);
    let verdict = serde_json::to_value(result.verdict).unwrap();
    assert_eq!(&verdict, expected("verdict"), "{} cell {k} {s}", case.name);
    let deviation = &case.expected["deviation"];
    if deviation.is_null() {
        assert_eq!(result.deviation, None);
        return;
    }
    let got = result.deviation.unwrap();
    case.check("deviation", got.mean, &deviation["mean"][k][s]);
    case.check("deviation p", got.p_holm, &deviation["p_holm"][k][s]);
    assert_eq!(flag_name(got.flag), deviation["flag"][k][s], "{} cell {k} {s}", case.name);
}

fn check_suite(case: &Case<'_>, decision: &Decision, k: usize) {
    let (got, expected) = (&decision.suite[k], &case.expected["suite"]);
    case.check("suite d", got.estimate.mean, &expected["d"][k]);
    case.check("suite se", got.estimate.se, &expected["se"][k]);
    case.check("suite p", got.p_holm, &expected["p_holm"][k]);
    assert_eq!(flag_name(got.flag), expected["verdict"][k], "{} suite {k}", case.name);
}

fn flag_name(flag: Flag) -> &'static str {
    match flag {
        Flag::None => "none",
        Flag::Improved => "improved",
        Flag::Regressed => "regressed",
    }
}

/// The counts of `calibration.json`, by field and then by metric.
#[derive(Default)]
struct Counts {
    any_flag: u64,
    gate_fail: u64,
    suite_regressed: [u64; 4],
    cell_regressed: [u64; 4],
    cell_improved: [u64; 4],
    deviation_regressed: [u64; 4],
    unchanged: [u64; 4],
    /// Whether a better deviation leaves a cell unchanged; the first rule said no.
    counts_deviating: bool,
}

fn is_deviating(result: &CellResult) -> bool {
    result.deviation.is_some_and(|deviation| deviation.flag != Flag::None)
}

impl Counts {
    fn add(&mut self, decision: &Decision, scenarios: usize) {
        self.any_flag += u64::from(decision.changed());
        self.gate_fail += u64::from(decision.regressed());
        for (k, results) in decision.cells.chunks(scenarios).enumerate() {
            let of = |flag| results.iter().filter(|r| r.own == flag).count() as u64;
            self.cell_regressed[k] += of(Flag::Regressed);
            self.cell_improved[k] += of(Flag::Improved);
            let unchanged = |r: &&CellResult| {
                r.verdict == Verdict::Unchanged && (self.counts_deviating || !is_deviating(r))
            };
            self.unchanged[k] += results.iter().filter(unchanged).count() as u64;
            let deviating =
                |r: &&CellResult| r.deviation.is_some_and(|d| d.flag == Flag::Regressed);
            self.deviation_regressed[k] += results.iter().filter(deviating).count() as u64;
            self.suite_regressed[k] += u64::from(decision.suite[k].flag == Flag::Regressed);
        }
    }

    fn check(&self, expected: &Value, what: &str) {
        let by_metric = |field: &str| -> [u64; 4] {
            serde_json::from_value(expected[format!("{field}_by_metric")].clone()).unwrap()
        };
        assert_eq!(self.any_flag, expected["reports_any_flag"], "any flag, {what}");
        assert_eq!(self.gate_fail, expected["reports_gate_fail"], "gate fails, {what}");
        assert_eq!(self.suite_regressed, by_metric("suite_regressed"), "suite, {what}");
        assert_eq!(self.cell_regressed, by_metric("cell_regressed"), "regressed, {what}");
        assert_eq!(self.cell_improved, by_metric("cell_improved"), "improved, {what}");
        assert_eq!(self.deviation_regressed, by_metric("deviation_regressed"), "deviation, {what}");
        assert_eq!(self.unchanged, by_metric("unchanged"), "unchanged, {what}");
    }
}

/// The paired log ratios of `calibration.json`, by report, start, metric and scenario.
struct Ratios<'a> {
    bytes: &'a [u8],
    scale: f64,
    shape: [usize; 3],
}

impl Ratios<'_> {
    fn at(&self, place: [usize; 4]) -> f64 {
        let [starts, metrics, scenarios] = self.shape;
        let [report, start, metric, scenario] = place;
        let index = ((report * starts + start) * metrics + metric) * scenarios + scenario;
        f64::from(i16::from_le_bytes([self.bytes[2 * index], self.bytes[2 * index + 1]]))
            * self.scale
    }

    /// The cells of a report of which only the first blocks are used.
    fn cells(&self, report: usize, blocks: usize, metrics: &[(Measure, f64)]) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (k, (measure, floor)) in metrics.iter().enumerate() {
            let sign = if measure.metric.better() == Better::Higher { -1.0 } else { 1.0 };
            for scenario in 0..self.shape[2] {
                let ratio = |start| Some((sign * self.at([report, start, k, scenario])).exp());
                let new = (0..blocks).map(ratio).collect();
                let cell = Cell::gated(scenario, *measure, vec![Some(1.0); blocks], new);
                cells.push(Cell { floor: *floor, margin: *floor, ..cell });
            }
        }
        cells
    }
}

/// The reports of `calibration.json` and how they are laid out.
struct Reports {
    file: Value,
    shape: [usize; 3],
    metrics: Vec<(Measure, f64)>,
}

impl Reports {
    fn read() -> Self {
        let file: Value =
            serde_json::from_str(include_str!("../../vectors/calibration.json")).unwrap();
        let shape: Vec<usize> = serde_json::from_value(file["shape_tail"].clone()).unwrap();
        let names: Vec<String> = serde_json::from_value(file["metrics"].clone()).unwrap();
        let floors: Vec<f64> = serde_json::from_value(file["floors"].clone()).unwrap();
        let metrics = names.iter().map(|name| name.parse().unwrap()).zip(floors).collect();
        Self { shape: [shape[0], shape[1], shape[2]], metrics, file }
    }

    /// The counts of the first `reports` reports of a file, by their first `blocks` blocks.
    fn counts(
        &self,
        file: &str,
        reports: usize,
        blocks: usize,
        options: &Options,
        ordered: fn(Cell) -> Cell,
    ) -> Counts {
        let bytes: &[u8] = match file {
            "calib_aa.i16" => include_bytes!("../../vectors/calib_aa.i16"),
            "calib_tpot3.i16" => include_bytes!("../../vectors/calib_tpot3.i16"),
            _ => include_bytes!("../../vectors/calib_tpot5.i16"),
        };
        assert_eq!(bytes.len(), reports * self.shape.iter().product::<usize>() * 2);
        let ratios = Ratios { bytes, scale: number(&self.file["scale"]), shape: self.shape };
        let counts_deviating = options.moderation == Moderation::ByMeasure;
        let mut counts = Counts { counts_deviating, ..Counts::default() };
        for report in 0..reports {
            let cells = ratios.cells(report, blocks, &self.metrics).into_iter().map(ordered);
            counts.add(&decide(&cells.collect::<Vec<_>>(), options), self.shape[2]);
        }
        counts
    }
}

#[test]
fn counts_of_270_reports_are_exact() {
    let all = Reports::read();
    for set in all.file["files"].as_array().unwrap() {
        let reports = set["reports"].as_u64().unwrap() as usize;
        for blocks in [5, 8, 12] {
            let file = set["file"].as_str().unwrap();
            let counts = all.counts(file, reports, blocks, &options(&all.file), |cell| cell);
            let what = format!("{} {blocks}", set["name"]);
            counts.check(&set["expected"][format!("M{blocks}")], &what);
        }
    }
}

#[test]
fn counts_of_270_reports_in_blocks_with_moderated_variances_are_exact() {
    let all = Reports::read();
    for case in Vectors::read(include_str!("../../vectors/calibration_amended.json")).cases() {
        let whole = |field: &str| case.input[field].as_u64().unwrap() as usize;
        let (reports, blocks) = (whole("reports"), whole("blocks"));
        let file = case.input["file"].as_str().unwrap();
        let counts = all.counts(file, reports, blocks, &Options::default(), Cell::alternating);
        counts.check(case.expected, case.name);
    }
}
