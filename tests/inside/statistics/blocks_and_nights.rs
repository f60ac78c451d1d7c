//! Blocks, moderated variances, days, nights and change points against another implementation.

use inferometer::stats::block_model::{Block, fit};
use inferometer::stats::change_points::{change_points, critical, largest_split};
use inferometer::stats::day_variance::DayVariance;
use inferometer::stats::moderated_variance::{Variance, moderate, prior, with_calibration};
use inferometer::stats::moments::mean;
use inferometer::stats::nights::{LEAST_NIGHTS, STARTS_TO_CONFIRM, pooled_t};
use inferometer::stats::quantile::median;
use serde_json::Value;

use super::{Case, Vectors, number, numbers, rows};

fn count(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

/// The blocks of a case: each value at its side's place in the order.
fn blocks(input: &Value) -> Vec<Block> {
    let orders = input["order"].as_array().unwrap();
    let values = input["ln_value"].as_array().unwrap();
    let block = |(order, values): (&Value, &Value)| {
        let run = |side: &Value| (count(side), values[count(side)].as_f64());
        Block { runs: order.as_array().unwrap().iter().map(run).collect() }
    };
    orders.iter().zip(values).map(block).collect()
}

#[test]
fn block_side_and_position() {
    for case in Vectors::read(include_str!("../../vectors/crossover_ols.json")).cases() {
        let found = fit(&blocks(case.input), count(&case.input["sides"]));
        assert_eq!(found.is_none(), case.expected.is_null(), "{}", case.name);
        let Some(found) = found else { continue };
        assert_eq!(found.blocks, count(&case.expected["blocks"]), "{}", case.name);
        case.field("df", found.df);
        case.field("residual_variance", found.residual_variance);
        let fitted = case.expected["position_fitted"].as_bool().unwrap();
        assert_eq!(!found.position_effects.is_empty(), fitted, "{}", case.name);
        for (index, effect) in found.position_effects.iter().enumerate() {
            case.check("position", effect.unwrap(), &case.expected["position_effect"][index]);
        }
        for index in 0..found.contrasts.len() {
            let estimate = found.estimate(index + 1).unwrap();
            case.check("estimate", estimate.mean, &case.expected["estimate"][index]);
            case.check("se", estimate.se, &case.expected["se"][index]);
            case.check("p", estimate.p().unwrap(), &case.expected["p"][index]);
        }
    }
}

fn variances(value: &Value) -> Vec<Variance> {
    let pair = |(value, df): (f64, f64)| Variance { value, df };
    numbers(&value["variance"]).into_iter().zip(numbers(&value["df"])).map(pair).collect()
}

#[test]
fn variances_of_load_points_are_moderated() {
    for case in Vectors::read(include_str!("../../vectors/moderated_variance.json")).cases() {
        let own = variances(case.input);
        let joined: Vec<Variance> = match &case.input["calibration"] {
            Value::Null => own.clone(),
            known => {
                own.iter().zip(variances(known)).map(|(o, c)| with_calibration(*o, c)).collect()
            }
        };
        if let Some(kept) = case.expected["calibration_kept"].as_array() {
            let ours: Vec<bool> = own.iter().zip(&joined).map(|(o, j)| o.df < j.df).collect();
            assert_eq!(ours, kept.iter().map(|k| k.as_bool().unwrap()).collect::<Vec<_>>());
        }
        let common = prior(&joined);
        assert_eq!(common.is_none(), case.expected["s0_squared"].is_null(), "{}", case.name);
        if let Some(common) = common {
            let df_smyth = &case.expected["d0_smyth"];
            match number(df_smyth).is_finite() {
                true => case.field("d0_smyth", common.df_smyth),
                false => assert_eq!(common.df_smyth, f64::INFINITY, "{}", case.name),
            }
            case.field("d0", common.df);
            relative(&case, "s0²", common.variance, number(&case.expected["s0_squared"]));
        }
        let expected = variances(case.expected);
        for (moderated, expected) in moderate(&joined).iter().zip(expected) {
            relative(&case, "variance", moderated.value, expected.value);
            relative(&case, "df", moderated.df, expected.df);
        }
    }
}

/// Variances are far below 1: an absolute tolerance would hold nothing.
fn relative(case: &Case<'_>, what: &str, got: f64, expected: f64) {
    let error = (got / expected - 1.0).abs();
    assert!(error <= case.tolerance, "{} {what}: {got} is not {expected}", case.name);
}

#[test]
fn days_of_a_saved_baseline() {
    for case in Vectors::read(include_str!("../../vectors/satterthwaite.json")).cases() {
        let days = DayVariance::of_levels(&numbers(&case.input["ln_day_levels"])).unwrap();
        let expected = |field: &str| number(&case.expected[field]);
        relative(&case, "measured", days.measured(), expected("day_variance"));
        relative(&case, "used", days.used(), expected("day_variance_used"));
        let value = number(&case.input["moderated_variance"]) / number(&case.input["blocks"]);
        let of_mean = Variance { value, df: number(&case.input["df"]) };
        let estimate = days.add_to(0.0, of_mean);
        relative(&case, "se", estimate.se, expected("se"));
        relative(&case, "df", estimate.df, expected("df"));
    }
}

#[test]
fn nights_of_a_history() {
    for case in Vectors::read(include_str!("../../vectors/history_nights.json")).cases() {
        let means = |side: &str| -> Vec<f64> {
            rows(&case.input[side]).iter().map(|night| mean(night).unwrap()).collect()
        };
        let (base, new) = (means("base_nights"), means("new_nights"));
        assert_eq!(base.len() < LEAST_NIGHTS, case.expected.is_null(), "{}", case.name);
        if case.expected.is_null() {
            continue;
        }
        let found = pooled_t(&base, &new).unwrap();
        case.field("estimate", found.mean);
        case.field("se", found.se);
        case.field("df", found.df);
        case.field("p", found.p().unwrap());
        let interval = found.interval(0.95);
        case.check("low", interval.low, &case.expected["ci95"][0]);
        case.check("high", interval.high, &case.expected["ci95"][1]);
        let Some(confirmable) = case.expected["confirmable"].as_bool() else { continue };
        let starts = &rows(&case.input["new_nights"])[0];
        assert_eq!(starts.len() >= STARTS_TO_CONFIRM, confirmable, "{}", case.name);
        if confirmable {
            let confirmed = pooled_t(&base, &[median(starts).unwrap()]).unwrap();
            case.field("median_estimate", confirmed.mean);
            case.field("median_p", confirmed.p().unwrap());
        }
    }
}

#[test]
fn critical_values_of_change_points() {
    for case in Vectors::read(include_str!("../../vectors/change_point_critical.json")).cases() {
        let series = count(&case.input["family"]);
        for (index, nights) in numbers(&case.input["n"]).into_iter().enumerate() {
            case.check("c", critical(nights as usize, series).unwrap(), &case.expected["c"][index]);
        }
    }
}

#[test]
fn levels_of_a_series_of_nights() {
    for case in Vectors::read(include_str!("../../vectors/change_points.json")).cases() {
        let values = numbers(&case.input["ln_value"]);
        let least = count(&case.input["least"]);
        let split = largest_split(&values, least).unwrap();
        case.field("max_t", split.t);
        assert_eq!(split.at, count(&case.expected["at"]), "{}", case.name);
        let points = change_points(&values, least, count(&case.input["family"]));
        let splits: Vec<f64> = points.iter().map(|point| point.at as f64).collect();
        assert_eq!(splits, numbers(&case.expected["splits"]), "{}", case.name);
        let found: Vec<f64> = points.iter().map(|point| point.found_after as f64).collect();
        assert_eq!(found, numbers(&case.expected["found_after_nights"]), "{}", case.name);
        for (index, point) in points.iter().enumerate() {
            let expected = &case.expected["changes"][index];
            case.check("shift", point.shift, &expected["shift"]);
            case.check("low", point.ci95.low, &expected["ci95"][0]);
            case.check("high", point.ci95.high, &expected["ci95"][1]);
        }
    }
}
