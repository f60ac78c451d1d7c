//! What is printed of a verdict suffices to redo it.

use std::collections::BTreeMap;

use inferometer::compare::design::{DaySpread, Pairing};
use inferometer::compare::side::{ComparedPoint, ComparedSide};
use inferometer::compare::{Comparison, Verdict};
use inferometer::metric::Measure;
use inferometer::report::explain::explain;
use inferometer::rng::Seed;
use inferometer::stats::distribution::{t_two_sided, t_upper};

use super::modes::{contender, judged, start};

const POINTS: u64 = 5;

/// Nine pairs in alternating order at five load points; one load point is `factor` slower.
fn side(new: bool, factor: f64) -> ComparedSide {
    let mut side = contender(if new { "new" } else { "base" }, Vec::new());
    let point = side.points[0].point.clone();
    side.points = (0..POINTS)
        .map(|index| {
            let starts = (0..9_u32).map(|block| {
                let seed = Seed(7).nth(index).nth(block.into()).nth(new.into());
                let changed = if new && index == 2 { factor } else { 1.0 };
                let ms = 10.0 * changed * (1.0 + 0.01 * (seed.unit() - 0.5));
                let second = new != (block % 2 == 1);
                let at = 600 * i64::from(2 * block + u32::from(second));
                let identity = format!("boot {new} {block}");
                let mut start = start(block, at, Some(&identity), ms);
                start.start = 2 * block + u32::from(second);
                start
            });
            let id = format!("chat/p{index}/c4");
            ComparedPoint {
                id,
                starts: starts.collect(),
                point: point.clone(),
                ..side.points[0].clone()
            }
        })
        .collect();
    side
}

fn compared(factor: f64) -> Comparison {
    judged(&side(false, 1.0), &side(true, factor), Pairing::Blocks, DaySpread::None)
}

fn texts(comparison: &Comparison, measure: Measure) -> Vec<(Verdict, String)> {
    let cells = comparison.cells.iter().filter(|cell| cell.measure == measure);
    cells.map(|cell| (cell.verdict, explain(comparison, cell))).collect()
}

/// The named numbers of a text, and the pairs `(base first, base, new)`.
fn read(text: &str) -> (BTreeMap<String, f64>, Vec<(bool, f64, f64)>) {
    let (mut numbers, mut pairs) = (BTreeMap::new(), Vec::new());
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [place, first @ ("base" | "new"), base, new, _] = words[..]
            && place.parse::<u32>().is_ok()
        {
            pairs.push((first == "base", base.parse().unwrap(), new.parse().unwrap()));
        }
        if line.len() > 35
            && let Ok(value) = line[21..35].trim().parse()
        {
            numbers.insert(line[..20].trim().to_owned(), value);
            for (word, next) in words.iter().skip(1).zip(words.iter().skip(2)) {
                if let (Ok(df), true) = (word.parse(), *next == "degrees") {
                    numbers.insert(format!("df of {}", line[..20].trim()), df);
                }
            }
        }
    }
    (numbers, pairs)
}

fn near(got: f64, right: f64, what: &str) {
    let wide = 2e-4 * right.abs() + 1e-9;
    assert!((got - right).abs() <= wide, "{what}: {got} against {right}");
}

/// The estimate and variance of pairs by side and position, written anew.
fn fitted(pairs: &[(bool, f64, f64)]) -> (f64, f64, f64) {
    let of = |first: bool| -> Vec<f64> {
        let order = pairs.iter().filter(|pair| pair.0 == first);
        order.map(|(_, base, new)| (new / base).ln()).collect()
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (a, b) = (of(true), of(false));
    let squares = |values: &[f64]| values.iter().map(|v| (v - mean(values)).powi(2)).sum::<f64>();
    let variance = (squares(&a) + squares(&b)) / (pairs.len() as f64 - 2.0);
    let weight = 0.25 * (1.0 / a.len() as f64 + 1.0 / b.len() as f64);
    (0.5 * (mean(&a) + mean(&b)), variance, weight)
}

/// Each step from what is printed before it; the verdict that follows.
fn redone(text: &str) -> Verdict {
    let (told, pairs) = read(text);
    assert_eq!(pairs.len(), 9, "{text}");
    let (estimate, variance, weight) = fitted(&pairs);
    near(told["estimate"], estimate, "estimate");
    near(told["raw variance"], variance, "raw variance");
    near(told["weight"], weight, "weight");
    let (d, d0) = (told["df of raw variance"], told["df of common variance"]);
    let shrunk = (d0 * told["common variance"] + d * variance) / (d0 + d);
    let moderated = variance.max(shrunk);
    near(told["moderated variance"], moderated, "moderated variance");
    near(told["df of moderated variance"], d + d0, "degrees of freedom");
    let se = (moderated * weight).sqrt().max(told.get("resolution").copied().unwrap_or(0.0));
    near(told["standard error"], se, "standard error");
    near(told["t"], estimate / se, "t");
    near(told["p"], t_two_sided(told["t"], d + d0), "p");
    let half = t_upper(0.05, d + d0) * se;
    let floor = told["floor"];
    let significant = told["adjusted p"] <= told["level"];
    if significant && estimate >= floor {
        Verdict::Regressed
    } else if significant && estimate <= -floor {
        Verdict::Improved
    } else if (estimate - half) > -floor && (estimate + half) < floor {
        Verdict::Unchanged
    } else if significant {
        Verdict::WithinNoise
    } else {
        Verdict::Inconclusive
    }
}

#[test]
fn a_verdict_is_redone_from_what_is_printed_of_it() {
    let mut seen = Vec::new();
    for factor in [1.0, 1.05, 0.93] {
        let comparison = compared(factor);
        for measure in [Measure::TPOT_MEAN, Measure::ITL_P50] {
            let texts = texts(&comparison, measure);
            assert_eq!(texts.len() as u64, POINTS);
            for (verdict, text) in texts {
                assert_eq!(redone(&text), verdict, "{text}");
                seen.push(verdict);
            }
        }
    }
    for verdict in [Verdict::Regressed, Verdict::Improved, Verdict::Unchanged] {
        assert!(seen.contains(&verdict), "{verdict:?} never came up");
    }
}

#[test]
fn holms_adjusted_values_follow_from_the_printed_p_values() {
    let comparison = compared(1.05);
    let mut printed: Vec<(f64, f64)> = comparison
        .cells
        .iter()
        .filter(|cell| cell.gated && cell.working.is_some())
        .map(|cell| read(&explain(&comparison, cell)).0)
        .map(|told| (told["p"], told["adjusted p"]))
        .collect();
    printed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut largest: f64 = 0.0;
    for (place, (p, adjusted)) in printed.iter().enumerate() {
        largest = largest.max((p * (printed.len() - place) as f64).min(1.0));
        near(*adjusted, largest, "Holm");
    }
    assert!(printed.len() as u64 >= 3 * POINTS);
}

#[test]
fn the_working_survives_the_file() {
    let comparison = compared(1.05);
    let text = serde_json::to_string(&comparison).unwrap();
    let read: Comparison = serde_json::from_str(&text).unwrap();
    assert_eq!(texts(&read, Measure::TPOT_MEAN), texts(&comparison, Measure::TPOT_MEAN));
}
