//! How a verdict came about, in words and numbers that suffice to redo it by hand.

use std::fmt::Write as _;

use crate::compare::working::{Correction, Model, Rank, StoredVariance, Working};
use crate::compare::{Cell, Comparison};
use crate::metric::{Better, Metric};
use crate::stats::distribution::t_upper;

/// The working of one cell of a comparison.
#[must_use]
pub fn explain(comparison: &Comparison, cell: &Cell) -> String {
    let mut text = format!(
        "{} at {}: {}\n",
        cell.measure.label(),
        cell.point,
        cell.verdict.label().to_lowercase()
    );
    line(&mut text, format!("base {}, new {}", comparison.base_label, comparison.new_label));
    let Some(working) = cell.working.as_deref() else {
        let why = match cell.measure.metric {
            Metric::ErrorRate => "failed requests have a test of their own: docs/statistics.md",
            _ => cell.reason_text(),
        };
        line(&mut text, format!("Nothing was tested: {why}."));
        return text;
    };
    values(&mut text, cell, working);
    variances(&mut text, working);
    test(&mut text, cell, working);
    decision(&mut text, cell, working);
    text
}

fn line(text: &mut String, line: impl AsRef<str>) {
    text.push_str(line.as_ref());
    text.push('\n');
}

/// A named number and what it is.
fn number(text: &mut String, name: &str, value: &str, what: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{name:<20} {value:>14}  {what}");
}

/// Eight significant digits.
fn exact(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let magnitude = value.abs().log10().floor();
    if !(-6.0..=8.0).contains(&magnitude) {
        return format!("{value:.7e}");
    }
    let decimals = (7.0 - magnitude).clamp(0.0, 13.0) as usize;
    format!("{value:.decimals$}")
}

fn values(text: &mut String, cell: &Cell, working: &Working) {
    let higher = cell.measure.metric.better() == Better::Higher;
    let logs = if higher { "-ln(new / base)" } else { "ln(new / base)" };
    let unit = cell.measure.metric.unit();
    let shown = |value: Option<f64>| value.map_or_else(|| "left out".into(), exact);
    let in_pairs = matches!(working.model, Model::PairsAndPosition | Model::Pairs);
    line(text, format!("\nValues in {unit}; d = {logs}, so that + is worse."));
    if in_pairs {
        line(
            text,
            format!("{:<6} {:<6} {:>14} {:>14} {:>14}", "pair", "first", "base", "new", "d"),
        );
    } else {
        line(text, format!("{:<6} {:<6} {:>14} {:>14}", "start", "", "base", "new"));
    }
    for place in 0..working.base.len().max(working.new.len()) {
        let of = |side: &[Option<f64>]| side.get(place).copied().flatten();
        let (base, new) = (of(&working.base), of(&working.new));
        let first = match working.base_first.get(place) {
            Some(true) => "base",
            Some(false) => "new",
            None => "",
        };
        let has = |side: &[Option<f64>], value| {
            if place < side.len() { shown(value) } else { String::new() }
        };
        let (base_text, new_text) = (has(&working.base, base), has(&working.new, new));
        let d = match (base, new) {
            (Some(base), Some(new)) if in_pairs => {
                let d = (new / base).ln();
                exact(if higher { -d } else { d })
            }
            _ => String::new(),
        };
        let row = format!("{:<6} {first:<6} {base_text:>14} {new_text:>14} {d:>14}", place + 1);
        line(text, row.trim_end());
    }
    line(text, format!("\n{}", model(working)));
}

/// The model in a sentence that names its formulas.
fn model(working: &Working) -> String {
    let trimmed = match working.trim {
        0 => String::new(),
        trim => format!(
            " The mean is trimmed by {trim} at each end, and the variance is the Winsorised one times (n - 1) / (kept - 1)."
        ),
    };
    let model = match working.model {
        Model::PairsAndPosition => {
            "Least squares of d on side and position: the mean of the mean d of pairs that the base began and the mean d of pairs that the new side began. Variance: squares around these two means / (n - 2); weight: (1 / n1 + 1 / n2) / 4."
        }
        Model::Pairs => "The mean of d (paired t). Variance: that of d; weight: 1 / n.",
        Model::Apart => {
            "Difference of the mean logs of independent restarts (Welch). The variance is that of the difference: var / n of each side, added."
        }
        Model::Prediction => {
            "Difference of the mean logs; the variance is that of the base's restarts times (1 / n base + 1 / n new)."
        }
        Model::Nights => {
            "Difference of the mean logs of nights (pooled two-sample t). The variance is that of the difference: pooled variance × (1 / n base + 1 / n new)."
        }
        Model::Assumed => {
            "Difference of the mean logs. The variance is that which restarts are assumed to have at most, or the larger one that was seen; weight: 1 / days of the base + 1 / days of the new side."
        }
    };
    format!("{model}{trimmed}")
}

fn variances(text: &mut String, working: &Working) {
    number(text, "estimate", &exact(working.estimate), "mean difference of logs");
    spread(text, "raw variance", working.own, "of these values");
    if working.joined != working.own {
        spread(text, "with calibration", working.joined, "the larger of raw and pooled");
    }
    if let Some(prior) = working.prior {
        spread(text, "common variance", prior, "of the load points of this metric");
        let how = "the larger of its own and the mean of both, weighted by degrees of freedom";
        spread(text, "moderated variance", working.used, how);
    }
    number(text, "weight", &exact(working.weight), "");
    if working.day_variance > 0.0 {
        let what = "added to the squared error: the days of both sides";
        number(text, "variance of days", &exact(working.day_variance), what);
    }
    if working.resolution > 0.0 {
        let what = "the standard error is never taken as smaller";
        number(text, "resolution", &exact(working.resolution), what);
    }
    let days = if working.day_variance > 0.0 { " + variance of days" } else { "" };
    number(text, "standard error", &exact(working.se), &format!("sqrt(variance × weight{days})"));
}

fn spread(text: &mut String, name: &str, spread: StoredVariance, what: &str) {
    let df = match spread.df {
        Some(df) => format!("{} degrees of freedom", exact(df)),
        None => "taken as known".into(),
    };
    number(text, name, &exact(spread.variance), &format!("{df}; {what}"));
}

fn test(text: &mut String, cell: &Cell, working: &Working) {
    let law = match working.df {
        Some(df) => format!("Student's t with {} degrees of freedom", exact(df)),
        None => "the normal distribution".into(),
    };
    let t = if working.se > 0.0 { working.estimate / working.se } else { 0.0 };
    number(text, "t", &exact(t), "estimate / standard error");
    number(text, "p", &exact(working.p), &format!("two-sided, {law}"));
    let Rank { correction, place, of, level } = working.rank;
    let how = match correction {
        Correction::Holm => format!(
            "Holm: place {place} of {of} gated cells; p × {}, or the value of a smaller place if that is larger",
            of + 1 - place
        ),
        Correction::Bonferroni => format!("Bonferroni: p × {of} gated cells"),
        Correction::BenjaminiHochberg => {
            format!("Benjamini-Hochberg: place {place} of {of} observed cells")
        }
    };
    number(text, "adjusted p", &exact(working.p_adjusted), &how);
    number(text, "level", &exact(level), "of all these cells together");
    let floor = format!("ln(1 + {}): the smallest change that counts", exact(cell.floor));
    number(text, "floor", &exact(cell.floor.ln_1p()), &floor);
    let (low, high) = working.interval90;
    let t = t_upper(0.05, working.df.unwrap_or(f64::INFINITY));
    let interval = format!("estimate ± {} × standard error", exact(t));
    number(text, "90 % interval", &format!("{} to {}", exact(low), exact(high)), &interval);
    if let Some(deviation) = working.deviation {
        let what = format!(
            "against the median of the load points; p after Holm {}, level {}",
            exact(deviation.p_holm),
            exact(deviation.level)
        );
        number(text, "deviation", &exact(deviation.estimate), &what);
    }
}

/// The rule with the numbers of this cell in it.
fn decision(text: &mut String, cell: &Cell, working: &Working) {
    let (p, level) = (working.p_adjusted, working.rank.level);
    let floor = cell.floor.ln_1p();
    let significant = p <= level;
    let (low, high) = working.interval90;
    let beyond = working.estimate.abs() >= floor;
    let inside = low > -floor && high < floor;
    let yes = |holds| if holds { "yes" } else { "no" };
    line(text, "");
    line(text, format!("adjusted p at most the level: {}", yes(significant)));
    line(text, format!("estimate reaches the floor: {}", yes(beyond)));
    line(text, format!("90 % interval within the floor: {}", yes(inside)));
    line(
        text,
        "Regressed or improved: the first two. Unchanged: the third. Within noise: the first alone. Else inconclusive.",
    );
    if let Some(deviation) = working.deviation.filter(|it| it.p_holm <= it.level) {
        let reaches = deviation.estimate.abs() >= floor;
        line(
            text,
            format!(
                "The load point also differs from the others: p at most its level, reaches the floor: {}.",
                yes(reaches)
            ),
        );
    }
    let verdict = cell.verdict.label().to_lowercase();
    let why = match cell.reason.as_ref() {
        Some(reason) => format!(" ({})", reason.text),
        None => String::new(),
    };
    line(text, format!("verdict: {verdict}{why}"));
    if !cell.gated {
        line(text, "This figure is shown only: it never fails the gate.");
    }
}
