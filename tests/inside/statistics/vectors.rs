//! Every method against the values of another implementation.

use inferometer::stats::components::variance_components;
use inferometer::stats::crossover::{crossing, excess};
use inferometer::stats::distribution::{
    beta_inc, normal_cdf, normal_quantile, t_cdf, t_sf, t_upper,
};
use inferometer::stats::gamma::{digamma, trigamma, trigamma_inverse};
use inferometer::stats::mser::{SearchEnd, mser5};
use inferometer::stats::multiple::{benjamini_hochberg, holm};
use inferometer::stats::outlier::tukey;
use inferometer::stats::planning::{Freedom, Plan};
use inferometer::stats::proportion::{
    Count, clopper_pearson, deflate, fisher_more, newcombe, wilson,
};
use inferometer::stats::quantile::{
    harrell_davis, harrell_davis_se, order_ranks, quantile, sorted,
};
use inferometer::stats::starts::pooled_quantile;
use inferometer::stats::t_test::{Estimate, trimmed, welch};
use inferometer::stats::{Interval, jackknife};
use serde_json::Value;

use super::{Case, Vectors, number, numbers, rows};

fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn logs(values: &[f64]) -> Vec<f64> {
    values.iter().map(|v| v.ln()).collect()
}

fn differences(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| b - a).collect()
}

impl Case<'_> {
    fn interval(&self, what: &str, got: Interval, expected: &Value) {
        self.check(what, got.low, &expected[0]);
        self.check(what, got.high, &expected[1]);
    }

    /// A grid of a function of two numbers, row by row.
    fn grid(&self, first: &str, second: &str, f: impl Fn(f64, f64) -> f64) {
        for (i, a) in numbers(&self.input[first]).into_iter().enumerate() {
            for (j, b) in numbers(&self.input[second]).into_iter().enumerate() {
                self.check(&format!("{a} {b}"), f(a, b), &self.expected[i][j]);
            }
        }
    }

    fn each(&self, f: impl Fn(f64) -> f64) {
        for (i, x) in numbers(self.input).into_iter().enumerate() {
            self.check(&x.to_string(), f(x), &self.expected[i]);
        }
    }
}

#[test]
fn special_functions() {
    let vectors = Vectors::read(include_str!("../../vectors/special.json"));
    let mut used = 0;
    for case in vectors.cases() {
        used += 1;
        match case.name {
            "t_sf" => case.grid("t", "df", t_sf),
            "t_ppf" => case.grid("p", "df", |p, df| t_upper(1.0 - p, df)),
            "norm_ppf" => case.each(normal_quantile),
            "norm_cdf" => case.each(normal_cdf),
            "digamma" => case.each(digamma),
            "trigamma" => case.each(trigamma),
            "trigamma_inverse" => case.each(trigamma_inverse),
            "betainc" => {
                let b = numbers(&case.input["b"]);
                let x = numbers(&case.input["x"]);
                for (i, a) in numbers(&case.input["a"]).into_iter().enumerate() {
                    for (j, x) in x.iter().enumerate() {
                        case.check("I", beta_inc(a, b[i], *x), &case.expected[i][j]);
                    }
                }
            }
            _ => used -= 1,
        }
    }
    assert_eq!(used, 8);
}

#[test]
fn the_far_tail_keeps_its_digits() {
    // From the grid of special.json: 4.95e-17 at t = 10 with 100 degrees of freedom.
    assert!((t_sf(10.0, 100.0) / 4.950_844_492_297_065e-17 - 1.0).abs() < 1e-10);
    assert!((beta_inc(50.0, 2.0, 0.01) / 5.05e-99 - 1.0).abs() < 1e-10);
}

#[test]
fn percentiles_of_type_7() {
    for case in Vectors::read(include_str!("../../vectors/percentile_linear.json")).cases() {
        let x = numbers(&case.input["x"]);
        for (i, q) in numbers(&case.input["q"]).into_iter().enumerate() {
            case.check(&q.to_string(), quantile(&x, q).unwrap(), &case.expected[i]);
        }
    }
}

#[test]
fn harrell_davis_and_its_error() {
    for case in Vectors::read(include_str!("../../vectors/harrell_davis.json")).cases() {
        let x = sorted(&numbers(&case.input["x"]));
        for (i, q) in numbers(&case.input["q"]).into_iter().enumerate() {
            case.check("hd", harrell_davis(&x, q).unwrap(), &case.expected["hd"][i]);
            let se = harrell_davis_se(&x, q).unwrap();
            case.check("se", se, &case.expected["jackknife_se"][i]);
        }
    }
}

#[test]
fn order_statistic_intervals() {
    for case in Vectors::read(include_str!("../../vectors/quantile_order_stat_ci.json")).cases() {
        let n = whole(&case.input["n"]) as usize;
        let (q, confidence) = (number(&case.input["q"]), number(&case.input["confidence"]));
        let ranks = order_ranks(n, q, confidence);
        let lower = case.expected["lower_rank"].as_u64().filter(|rank| *rank > 0);
        assert_eq!(ranks.lower.map(|rank| rank as u64), lower, "{}", case.name);
        let upper = case.expected["upper_rank"].as_u64();
        assert_eq!(ranks.upper.map(|rank| rank as u64), upper, "{}", case.name);
        case.field("coverage", ranks.coverage);
    }
}

#[test]
fn quantiles_over_starts() {
    let vectors = Vectors::read(include_str!("../../vectors/quantile_by_start.json"));
    let first = vectors.cases().next().unwrap();
    let (a, b) = (rows(&first.input["a"]), rows(&first.input["b"]));
    for case in vectors.cases() {
        let q = number(&case.input["q"]);
        let views = |rows: &[Vec<f64>]| pooled_quantile(&slices(rows), q, 0.95).unwrap();
        let (of_a, of_b) = (views(&a), views(&b));
        case.field("a_pooled", of_a.value);
        case.interval("between", of_a.between_starts, &case.expected["a_ci95_display"]);
        case.field("log_ratio", (of_b.value / of_a.value).ln());
        let without = |rows: &[Vec<f64>], skip: usize| {
            let rest: Vec<f64> = rows
                .iter()
                .enumerate()
                .filter(|(i, _)| *i != skip)
                .flat_map(|(_, r)| r.clone())
                .collect();
            quantile(&rest, q).map(f64::ln)
        };
        let se_a = jackknife::standard_error(a.len(), |skip| without(&a, skip)).unwrap();
        case.field("a_se_log_jack", se_a);
        let ratio = |skip| Some(without(&b, skip)? - without(&a, skip)?);
        case.field("se_jack", jackknife::standard_error(a.len(), ratio).unwrap());
    }
}

fn slices(rows: &[Vec<f64>]) -> Vec<&[f64]> {
    rows.iter().map(Vec::as_slice).collect()
}

#[test]
fn paired_and_trimmed_t() {
    for case in Vectors::read(include_str!("../../vectors/paired_t.json")).cases() {
        let d = differences(&numbers(&case.input["a"]), &numbers(&case.input["b"]));
        let got = trimmed(&d, 0).unwrap();
        case.field("d", got.mean);
        case.field("t", got.mean / got.se);
        case.field("df", got.df);
        case.field("p", got.p().unwrap());
        case.interval("ci95", got.interval(0.95), &case.expected["ci95"]);
    }
    for case in Vectors::read(include_str!("../../vectors/trimmed_t.json")).cases() {
        let trim = whole(&case.input["k"]) as usize;
        let got = trimmed(&numbers(&case.input["d"]), trim).unwrap();
        case.field("mean", got.mean);
        case.field("se", got.se);
        case.field("df", got.df);
        case.field("p", got.p().unwrap());
    }
}

#[test]
fn welch_t() {
    for case in Vectors::read(include_str!("../../vectors/welch_t.json")).cases() {
        let (a, b) = (numbers(&case.input["a"]), numbers(&case.input["b"]));
        let raw = welch(&a, &b).unwrap();
        case.field("mean_diff_b_minus_a", raw.mean);
        case.field("t", raw.mean / raw.se);
        case.field("df", raw.df);
        case.field("p", raw.p().unwrap());
        case.interval("ci95", raw.interval(0.95), &case.expected["ci95"]);
        let log = welch(&logs(&a), &logs(&b)).unwrap();
        let expected = &case.expected["log"];
        case.check("log d", log.mean, &expected["d"]);
        case.check("log df", log.df, &expected["df"]);
        case.check("log p", log.p().unwrap(), &expected["p"]);
        let ratio = log.interval(0.95).map(f64::exp_m1);
        case.interval("ratio", ratio, &expected["ratio_ci95"]);
    }
}

#[test]
fn equivalence() {
    for case in Vectors::read(include_str!("../../vectors/tost.json")).cases() {
        let (a, b) = (logs(&numbers(&case.input["a"])), logs(&numbers(&case.input["b"])));
        let margin = number(&case.input["margin_ratio"]).ln_1p();
        let check = |what: &str, got: Estimate| {
            let expected = &case.expected[what];
            case.check("d", got.mean, &expected["d"]);
            case.check("se", got.se, &expected["se"]);
            case.check("df", got.df, &expected["df"]);
            case.check("p_tost", got.equivalence_p(margin), &expected["p_tost"]);
            // The interval and the two tests must agree: that is how the verdict decides it.
            let inside = got.interval(0.9).strictly_inside(Interval::around(0.0, margin));
            assert_eq!(inside, got.equivalence_p(margin) < 0.05, "{} {what}", case.name);
        };
        check("welch", welch(&a, &b).unwrap());
        check("paired", trimmed(&differences(&a, &b), 0).unwrap());
    }
    // P(T ≤ t) is the other tail.
    assert!((t_cdf(1.3, 7.0) + t_sf(1.3, 7.0) - 1.0).abs() < 1e-12);
}

#[test]
fn corrections_for_many_tests() {
    for case in Vectors::read(include_str!("../../vectors/multiplicity.json")).cases() {
        let p = numbers(&case.input["p"]);
        for (i, (holm, bh)) in holm(&p).into_iter().zip(benjamini_hochberg(&p)).enumerate() {
            case.check("holm", holm, &case.expected["holm"][i]);
            case.check("bh", bh, &case.expected["bh"][i]);
        }
    }
}

#[test]
fn proportions() {
    for case in Vectors::read(include_str!("../../vectors/proportions.json")).cases() {
        let count = |hits: &str, trials: &str| Count {
            hits: whole(&case.input[hits]),
            trials: whole(&case.input[trials]),
        };
        let (base, new) = (count("base_err", "base_n"), count("new_err", "new_n"));
        let expected = case.expected;
        case.interval("newcombe", newcombe(base, new, 0.95).unwrap(), &expected["newcombe95"]);
        for (side, count) in [("base", base), ("new", new)] {
            let score = wilson(count, 0.95).unwrap();
            case.interval("wilson", score, &expected[format!("wilson95_{side}")]);
            let exact = clopper_pearson(count, 0.95).unwrap();
            case.interval("exact", exact, &expected[format!("clopper_pearson95_{side}")]);
        }
        case.field("fisher_greater", fisher_more(base, new));
    }
}

#[test]
fn clustered_errors() {
    for case in Vectors::read(include_str!("../../vectors/errors_rao_scott.json")).cases() {
        let trials = whole(&case.input["n_per_start"]);
        let starts = |field: &str| -> Vec<Count> {
            let hits = case.input[field].as_array().unwrap();
            hits.iter().map(|hits| Count { hits: whole(hits), trials }).collect()
        };
        let got = deflate(&starts("base_errors_per_start"), &starts("new_errors_per_start"));
        case.field("phi", got.design_effect);
        assert_eq!(got.base.hits, whole(&case.expected["x1"]), "{}", case.name);
        assert_eq!(got.new.hits, whole(&case.expected["x2"]), "{}", case.name);
        assert_eq!(got.base.trials, whole(&case.expected["m"]), "{}", case.name);
        case.field("p_greater", fisher_more(got.base, got.new));
    }
}

#[test]
fn tukey_fences() {
    for case in Vectors::read(include_str!("../../vectors/tukey.json")).cases() {
        let got = tukey(&numbers(&case.input["x"])).unwrap();
        for (i, fence) in got.fences.into_iter().enumerate() {
            case.check("fence", fence, &case.expected["fences"][i]);
        }
        let classes = [
            ("low_severe", got.low_severe),
            ("low_mild", got.low_mild),
            ("normal", got.normal),
            ("high_mild", got.high_mild),
            ("high_severe", got.high_severe),
        ];
        for (class, count) in classes {
            assert_eq!(count as u64, whole(&case.expected[class]), "{} {class}", case.name);
        }
    }
}

#[test]
fn truncation_by_mser5() {
    for case in Vectors::read(include_str!("../../vectors/mser5.json")).cases() {
        let got = mser5(&numbers(&case.input["x"])).unwrap();
        let expected = case.expected;
        case.field("mser", got.mser);
        assert_eq!(got.values as u64, whole(&expected["truncate"]), "{}", case.name);
        assert_eq!(got.batches as u64, whole(&expected["n_batches"]), "{}", case.name);
        assert_eq!(got.searched as u64, whole(&expected["max_d_searched"]), "{}", case.name);
        assert_eq!(got.end == SearchEnd::AtLimit, expected["at_search_limit"].as_bool().unwrap());
    }
}

#[test]
fn variance_split() {
    for case in Vectors::read(include_str!("../../vectors/variance_components.json")).cases() {
        let got = variance_components(&rows(&case.input["y"])).unwrap();
        case.field("T1", got.within);
        case.field("S2", got.of_start_means);
        case.field("T2", got.between);
        case.field("se", got.se);
        let (start, round) =
            (number(&case.input["cost_start_s"]), number(&case.input["cost_round_s"]));
        let rounds = got.best_rounds(start, round).unwrap();
        assert_eq!(u64::from(rounds), whole(&case.expected["J_opt"]));
    }
}

#[test]
fn crossovers() {
    for case in Vectors::read(include_str!("../../vectors/crossover.json")).cases() {
        let load = numbers(&case.input["load"]);
        let (latency, qps) = (numbers(&case.input["latency"]), numbers(&case.input["qps"]));
        let got = excess(&latency, &qps).unwrap();
        for (i, f) in got.iter().enumerate() {
            case.check("f", *f, &case.expected["f"][i]);
        }
        let crossed = crossing(&load, &got);
        match &case.expected["crossover_load"] {
            Value::Null => assert_eq!(crossed, None, "{}", case.name),
            expected => case.check("load", crossed.unwrap().0, expected),
        }
        let best = got.iter().copied().fold(f64::INFINITY, f64::min);
        let best = got.iter().position(|f| *f == best).unwrap();
        assert_eq!(best as u64, whole(&case.expected["argmax_power_index"]), "{}", case.name);
    }
}

#[test]
fn plans() {
    for case in Vectors::read(include_str!("../../vectors/planning.json")).cases() {
        let input = |field: &str| number(&case.input[field]);
        let plan = Plan {
            sd: input("s"),
            effect: input("effect"),
            floor: input("floor"),
            alpha: input("alpha"),
            cells: whole(&case.input["G"]) as usize,
            freedom: Freedom::Paired,
        };
        case.field("power_at_12", plan.power(12));
        // The file grants one start either way.
        let blocks = plan.blocks_needed().unwrap();
        assert!(u64::from(blocks).abs_diff(whole(&case.expected["M"])) <= 1, "{}", case.name);
    }
}
