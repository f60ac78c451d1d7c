//! The report as text: terminal, Markdown, JSON, CSV, JUnit, and the view models behind them.

use inferometer::compare::{Cell, GateCause, GateReason, Verdict, gate, gate_reason};
use inferometer::metric::{Measure, Metric};
use inferometer::report::chart::{self, Dash, Point, Series};
use inferometer::report::detail::Detail;
use inferometer::report::terminal::Color;
use inferometer::report::view::{banner, figures};
use inferometer::report::{Report, ReportInput, csv, json, junit, markdown, terminal};
use inferometer::scenario::Load;
use inferometer::settings::JudgeSettings;
use serde_json::Value;

use super::fixture;

fn on_terminal(input: ReportInput) -> String {
    terminal::render(&Report::new(input), 80, Color::Never, Detail::Normal)
}

#[test]
fn terminal_of_one_side() {
    insta::assert_snapshot!(on_terminal(fixture::one_sided()));
}

#[test]
fn terminal_of_two_sides() {
    insta::assert_snapshot!(on_terminal(fixture::two_sided(2)));
}

#[test]
fn terminal_of_a_run_that_failed() {
    insta::assert_snapshot!(on_terminal(fixture::all_failed("CUDA out of memory")));
}

#[test]
fn a_run_that_was_stopped_before_it_measured_completed_nothing() {
    let mut input = fixture::all_failed("CUDA out of memory");
    for figures in input.points.iter_mut().flat_map(|p| p.sides.iter_mut().flatten()) {
        figures.summary.failed = 0;
        figures.summary.failures.clear();
    }
    let text = on_terminal(input);
    assert!(text.contains("Nothing completed: no request completed"), "{text}");
    assert!(text.contains("nothing was measured") && text.contains("CUDA out of memory"));
    assert!(!text.contains("none failed"), "{text}");
}

#[test]
fn no_terminal_line_is_wider_than_80() {
    let inputs =
        [fixture::one_sided(), fixture::two_sided(3), fixture::configurations(), fixture::rates()];
    for input in inputs {
        for line in on_terminal(input).lines() {
            assert!(terminal::cells(line) <= 80, "{line}");
        }
    }
    let hostile = on_terminal(fixture::hostile());
    assert!(hostile.lines().all(|l| terminal::cells(l) <= 80), "{hostile}");
    let many = on_terminal(fixture::two_sided(20));
    assert!(many.contains("60 more load points in the report") && many.lines().count() < 200);
    assert!(hostile.chars().all(|c| c == '\n' || !c.is_control()));
}

#[test]
fn markdown_of_two_sides() {
    let report = Report::new(fixture::two_sided(2));
    insta::assert_snapshot!(markdown::render(&report, Some("https://ci.example/artifact")));
}

#[test]
fn markdown_of_three_configurations() {
    insta::assert_snapshot!(markdown::configurations(&Report::new(fixture::configurations())));
}

#[test]
fn markdown_fits_a_comment() {
    let many = Report::new(fixture::two_sided(60));
    let text = markdown::render(&many, Some("https://ci.example/artifact"));
    assert!(text.len() < markdown::LIMIT_BYTES, "{}", text.len());
    assert!(text.contains("more rows are in the full report"));
    assert!(text.ends_with("[The whole report](https://ci.example/artifact)\n"));
    assert_eq!(text.matches("<details>").count(), text.matches("</details>").count());
    let hostile = markdown::render(&Report::new(fixture::hostile()), None);
    assert!(hostile.len() < markdown::LIMIT_BYTES);
    assert!(!hostile.contains("<script") && !hostile.contains("@team"));
}

#[test]
fn the_banner_says_what_changed() {
    let input = fixture::two_sided(2);
    let banner = banner::banner(&input, &figures::ranked_cells(&input, None));
    insta::assert_snapshot!(serde_json::to_string_pretty(&banner).unwrap());
}

#[test]
fn json_names_units_and_has_no_nan() {
    let text = json::render(&Report::new(fixture::one_sample())).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let point = &document["groups"][0]["load_points"][0];
    assert_eq!(document["schema"], 1);
    assert_eq!(point["id"], "chat/short/c1");
    assert_eq!(point["load"]["concurrency"], 1);
    assert_eq!(point["metrics"]["ttft_ms"]["p50"], 22.5);
    assert_eq!(point["metrics"]["ttft_ms"]["std"], Value::Null);
    assert_eq!(point["metrics"]["tpot_ms"]["mean"], Value::Null);
    assert_eq!(point["metrics"]["request_throughput"], Value::Null, "NaN is null");
    assert_eq!(document["verdict"], Value::Null);
    let failed = json::render(&Report::new(fixture::all_failed("no"))).unwrap();
    let failed: Value = serde_json::from_str(&failed).unwrap();
    assert_eq!(failed["groups"][0]["load_points"][0]["failures"]["idle_timeout"], 4);
}

#[test]
fn json_of_a_comparison_has_cells_and_the_other_side() {
    let text = json::render(&Report::new(fixture::two_sided(2))).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["verdict"]["outcome"], "regressed");
    assert_eq!(document["verdict"]["comparisons"][0]["mode"], "interleaved");
    let point = &document["groups"][0]["load_points"][5];
    assert_eq!(point["id"], "chat/s1/c1");
    assert_eq!(point["comparison"]["this"][0]["measure"], "itl_p50");
    assert_eq!(point["comparison"]["this"][0]["verdict"], "regressed");
    let (base, new) = (&point["others"]["main"]["metrics"], &point["metrics"]);
    let mean = |metrics: &Value| metrics["tpot_ms"]["mean"].as_f64().unwrap();
    assert!((mean(new) / mean(base) - 1.04).abs() < 1e-9);
    assert_eq!(point["starts"].as_array().unwrap().len(), 8);
}

#[test]
fn csv_is_tidy() {
    let text = csv::render(&Report::new(fixture::one_sided()));
    let columns = csv::COLUMNS.split(',').count();
    assert!(text.lines().all(|l| l.split(',').count() == columns), "fixed columns");
    let row = "now,chat,short,c64,load,,,tpot,mean,ms,8.477,512";
    assert!(text.lines().any(|l| l == row), "{text}");
    assert!(text.lines().any(|l| l == "now,chat,short,c64,load,,,error_rate,,share,0,512"));
}

#[test]
fn junit_fails_what_the_gate_fails() {
    let input = fixture::two_sided(2);
    let gated = input.comparisons[0].cells.iter().filter(|c| c.gated);
    let regressed = gated.filter(|c| c.verdict == inferometer::compare::Verdict::Regressed).count();
    let text = junit::render(&Report::new(input));
    assert!(regressed > 0);
    assert_eq!(text.matches("<failure ").count(), regressed);
    // 60 cells, and the mean over all load points of one number.
    assert!(text.contains(&format!("tests=\"61\" failures=\"{regressed}\" errors=\"0\"")));
    assert!(text.contains("classname=\"chat\" name=\"s1/c1 tpot_mean\""));
    assert!(!junit::render(&Report::new(fixture::hostile())).contains("<script>"));
}

/// One load point with a cell of every verdict, gated and observed, the least interesting first.
fn every_verdict() -> ReportInput {
    let mut input = fixture::two_sided(1);
    let comparison = &mut input.comparisons[0];
    let cell = comparison.cells[0].clone();
    let of = |verdict: &Verdict, gated: bool, change: f64| Cell {
        verdict: *verdict,
        gated,
        change: Some(change),
        reason: Some("because".to_owned().into()),
        ..cell.clone()
    };
    let pairs = Verdict::ALL.iter().rev().flat_map(|v| [(v, false), (v, true)]);
    comparison.cells = pairs.flat_map(|(v, g)| [of(v, g, 0.01), of(v, g, -0.02)]).collect();
    comparison.suite.clear();
    comparison.gate = gate::gate(comparison, &JudgeSettings::default());
    input.gate = comparison.gate.clone();
    input
}

#[test]
fn an_improvement_beside_a_much_worse_latency_is_mixed_and_names_it() {
    let input = fixture::two_sided(1);
    let cell = input.comparisons[0].cells[0].clone();
    let of = |measure: Measure, change: f64, verdict: Verdict, gated: bool| {
        let reason = None;
        Cell { measure, change: Some(change), verdict, gated, reason, ..cell.clone() }
    };
    let better = of(Measure::TPOT_MEAN, -0.10, Verdict::Improved, true);
    let itl_p99: Measure = "itl_p99".parse().unwrap();
    for (worse, mixed) in [
        (of(itl_p99, 0.85, Verdict::Inconclusive, false), true),
        (of(itl_p99, 0.85, Verdict::Invalid, false), true),
        (of(itl_p99, 0.15, Verdict::Inconclusive, false), false),
        (of(itl_p99, -0.85, Verdict::Improved, false), false),
        (
            Cell {
                point: "elsewhere".to_owned(),
                ..of(itl_p99, 0.85, Verdict::Inconclusive, false)
            },
            false,
        ),
    ] {
        let mut input = input.clone();
        let comparison = &mut input.comparisons[0];
        comparison.cells = vec![better.clone(), worse];
        comparison.suite.clear();
        comparison.gate = gate::gate(comparison, &JudgeSettings::default());
        input.gate = comparison.gate.clone();
        let banner = banner::banner(&input, &[]);
        assert_eq!(banner.label, if mixed { "Mixed" } else { "Improved" }, "{}", banner.sentence);
        let named = format!("but ITL p99 at {} is higher: +85.0\u{a0}% (not gated)", better.point);
        let sentence = banner.sentence.replace(' ', "\u{a0}");
        assert_eq!(sentence.contains(&named.replace(' ', "\u{a0}")), mixed, "{sentence}");
        assert_eq!(on_terminal(input).contains("is higher"), mixed);
    }
}

#[test]
fn what_changed_comes_first_and_what_is_only_observed_last() {
    let input = every_verdict();
    let ranked = figures::ranked_cells(&input, None);
    let order: Vec<(Verdict, bool)> = ranked.iter().map(|(_, c)| (c.verdict, c.gated)).collect();
    let order: Vec<(Verdict, bool)> = order.chunks(2).map(|pair| pair[0]).collect();
    let verdicts = [
        Verdict::Regressed,
        Verdict::Improved,
        Verdict::Inconclusive,
        Verdict::Invalid,
        Verdict::Incomparable,
    ];
    let right: Vec<(Verdict, bool)> = verdicts.iter().map(|v| (*v, true)).collect();
    assert_eq!(order[..5], right);
    // Load points that only one side has count as what gates.
    let one_sided = [Verdict::Removed, Verdict::New];
    assert!(order[5..9].iter().all(|(v, _)| one_sided.contains(v)), "{order:?}");
    let stayed = [Verdict::Saturated, Verdict::WithinNoise, Verdict::Unchanged];
    assert_eq!(order[9..12], stayed.map(|v| (v, true)));
    let observed: Vec<Verdict> = order[12..].iter().map(|(v, _)| *v).collect();
    assert_eq!(observed[..5], verdicts);
    assert_eq!(observed[5..], stayed);
    assert!(order[12..].iter().all(|(_, gated)| !gated));
    // Of the same verdict, the larger change.
    let sizes: Vec<f64> = ranked[..2].iter().map(|(_, c)| c.change.unwrap().abs()).collect();
    assert_eq!(sizes, [0.02, 0.01]);
    // An observed number without a verdict is folded away; one that changed is not.
    let text = markdown::render(&Report::new(input), None);
    let (told, folded) = text.split_once("<details>").unwrap();
    assert!(told.contains("! invalid |") && !told.contains("! invalid, observed"), "{told}");
    assert!(told.contains("▼ regressed, observed"), "{told}");
    assert!(folded.contains("! invalid, observed") && !folded.contains("▼ regressed"), "{folded}");
}

#[test]
fn bars_reach_as_far_as_the_changes_even_where_nothing_is_decided() {
    let mut input = every_verdict();
    let cells = &mut input.comparisons[0].cells;
    for (cell, change) in cells.iter_mut().zip([-0.30, 0.10, 0.02].into_iter().cycle()) {
        cell.verdict = Verdict::Inconclusive;
        cell.change = Some(change);
        cell.interval = Some((change - 5.0, change + 80.0));
    }
    let reach = figures::bar_reach(cells.iter());
    assert!((0.30..0.35).contains(&reach), "{reach}");
    let places = |input: &ReportInput| -> Vec<(String, String)> {
        let comparison = &input.comparisons[0];
        let cells = comparison.cells.iter().take(3);
        let rows = cells.map(|c| figures::change_row(input, comparison, c, reach).bar.unwrap());
        rows.map(|bar| (bar.at, bar.beyond)).collect()
    };
    assert!(places(&input).iter().all(|(at, beyond)| beyond.is_empty() && at != "0.0"));
    // What is decided sets the reach alone, so that it can be read beside what is not.
    let cells = &mut input.comparisons[0].cells;
    cells[1].verdict = Verdict::Regressed;
    cells[1].interval = Some((0.05, 0.15));
    assert!((0.15..0.17).contains(&figures::bar_reach(cells.iter())));
    cells[1].verdict = Verdict::Inconclusive;
    // What lies beyond the widest bar is an arrow.
    input.comparisons[0].cells[0].change = Some(3.5);
    assert_eq!(places(&input)[0], ("100.0".into(), "high".into()));
}

#[test]
fn what_says_nothing_is_told_once_for_each_reason() {
    let mut input = fixture::two_sided(2);
    let gated = input.comparisons[0].cells.iter_mut().filter(|c| c.gated);
    for (index, cell) in gated.enumerate() {
        cell.verdict = Verdict::Invalid;
        let text = ["6 completed requests", "sent late"][usize::from(index == 0)];
        cell.reason = Some(text.to_owned().into());
    }
    let lines = banner::banner(&input, &figures::ranked_cells(&input, None)).changed;
    let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    let many = "59 numbers invalid, here and at 9 more load points: 6 completed requests";
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts.contains(&many) && texts.contains(&"1 number invalid: sent late"), "{texts:?}");
}

fn missed_limit(point: &str, ms: f64) -> GateReason {
    let limit: gate::Requirement = "ttft_p99<500ms".parse().unwrap();
    GateReason { cause: limit.cause(point), text: limit.missed(point, Some(ms)).unwrap() }
}

#[test]
fn junit_tells_what_belongs_to_no_cell() {
    let mut input = fixture::two_sided(2);
    let comparison = &mut input.comparisons[0];
    comparison.suite[0].verdict = Verdict::Regressed;
    comparison.cells[0].change = Some(-0.7);
    comparison.cells[0].verdict = Verdict::Improved;
    comparison.gate = gate::gate(comparison, &JudgeSettings::default());
    let limit = missed_limit("chat/short/c64", 831.0);
    comparison.gate.fail(gate::REGRESSION, limit.cause, limit.text);
    let text = gate_reason::ended_early("killed");
    comparison.gate.fail(gate::INVALID, GateCause::EndedEarly, text);
    let cells = comparison.cells.iter().filter(|c| c.gated && c.verdict == Verdict::Regressed);
    let regressed = cells.count();
    let text = junit::render(&Report::new(input));
    assert_eq!(text.matches("<failure type=\"regressed\"").count(), regressed + 1);
    assert!(text.contains("classname=\"all load points\" name=\"tpot_mean\""), "{text}");
    assert!(text.contains("name=\"ttft_p99&lt;500ms at chat/short/c64\""), "{text}");
    assert!(text.contains("<failure type=\"limit\""), "{text}");
    assert!(text.contains("<error type=\"implausible\""), "{text}");
    assert!(text.contains("message=\"the run ended before its plan did: killed\""), "{text}");
    assert!(text.contains(&format!("failures=\"{}\" errors=\"2\"", regressed + 2)), "{text}");
}

#[test]
fn junit_fails_without_a_comparison_too() {
    let mut input = fixture::one_sided();
    let text = junit::render(&Report::new(input.clone()));
    assert_eq!(
        text.matches("<testcase").count(),
        input.points.len(),
        "one for each load point's server"
    );
    assert!(!text.contains("<failure") && !text.contains("<error"), "{text}");
    let text = gate_reason::NOTHING_MEASURED.to_owned();
    input.gate.fail(gate::INVALID, GateCause::NothingMeasured, text);
    let text = junit::render(&Report::new(input.clone()));
    assert!(text.contains("tests=\"1\" failures=\"0\" errors=\"1\""), "{text}");
    assert!(on_terminal(input).contains("nothing was measured"));
}

#[test]
fn a_missed_limit_is_the_verdict() {
    let mut input = fixture::one_sided();
    let limit = missed_limit("chat/short/c64", 831.0);
    let other = missed_limit("chat/short/c128", 900.0);
    input.gate.fail(gate::REGRESSION, limit.cause.clone(), limit.text.clone());
    input.gate.fail(gate::REGRESSION, other.cause, other.text);
    let banner = banner::banner(&input, &[]);
    assert_eq!((banner.class.as_str(), banner.label.as_str()), ("bad", "Limit missed"));
    assert_eq!(banner.sentence, format!("{}, and 1 more limit", limit.text));
    // A regression says more.
    let mut input = fixture::two_sided(2);
    input.gate.fail(gate::REGRESSION, limit.cause, limit.text);
    assert_eq!(banner::banner(&input, &[]).label, "Regressed");
}

#[test]
fn junit_is_well_formed_whatever_is_in_it() {
    for input in [fixture::two_sided(1), fixture::hostile(), ReportInput::default()] {
        let text = junit::render(&Report::new(input));
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text}");
        let mut open: Vec<&str> = Vec::new();
        for tag in text.split('<').skip(2).map(|t| t.split_once('>').unwrap().0) {
            let name = tag.split([' ', '/']).find(|n| !n.is_empty()).unwrap();
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name));
            } else if !tag.ends_with('/') {
                assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
                open.push(name);
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }
}

#[test]
fn svg_of_a_load_chart() {
    let point = |x: f64, y: f64| Point { interval: Some((y * 0.9, y * 1.1)), ..Point::new(x, y) };
    let line = |color: usize, factor: f64| Series {
        name: format!("side {color}"),
        color,
        points: vec![
            point(0.0, 20.0 * factor),
            point(1.0, 30.0 * factor),
            Point { is_hollow: color == 1, ..point(2.0, 90.0 * factor) },
        ],
        end_label: (color == 0).then(|| "p50".to_owned()),
        ..Series::default()
    };
    let against = chart::load::Against {
        title: "TTFT",
        metric: Metric::Ttft,
        x_label: "concurrent requests",
        loads: &["c1", "c16", "c64"].map(String::from),
        limits: vec![chart::frame::Limit { y: 200.0, label: "SLO 200 ms".into() }],
        tokens_per_request: None,
    };
    let dotted = Series { dash: Dash::Dots, ..line(1, 1.4) };
    let chart = chart::load::chart(against, vec![line(0, 1.0), line(1, 1.2), dotted]);
    insta::assert_snapshot!(chart.svg.replace("/>", "/>\n"));
    assert_eq!(chart.rows[2][..3], ["c64", "90.0 [81.0, 99.0]", "108 [97.2, 119]"]);
}

#[test]
fn loads_are_read_as_people_say_them() {
    use inferometer::report::view::{load_words, value_unit};
    assert_eq!(load_words(Load::Concurrency(64)), "64 in flight");
    assert_eq!(value_unit(Measure::THROUGHPUT, Some(5612.9)), "5613 tok/s");
    assert_eq!(value_unit(Measure::THROUGHPUT, None), "–");
}
