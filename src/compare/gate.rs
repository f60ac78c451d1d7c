//! The gate: what decides the exit code of a comparison, and the limits that a user sets.

pub use super::exit::{FINE, INTERRUPTED, INVALID, REGRESSION, SERVER, USAGE, exit_code};
use super::gate_reason::{GAIN, NOTHING_TO_COMPARE, cell_words, limit_missed, suite_words};
use super::{Cell, Comparison, GateCause, GateResult, Verdict};
use crate::error::{Error, Result};
use crate::metric::{Better, Measure, Metric};
use crate::settings::JudgeSettings;
use crate::units;

/// What a comparison reports to the gate.
#[must_use]
pub fn gate(comparison: &Comparison, settings: &JudgeSettings) -> GateResult {
    let mut result = GateResult::default();
    if settings.no_fail {
        return result;
    }
    for suite in comparison.suite.iter().filter(|s| s.verdict == Verdict::Regressed) {
        let change = suite.change.map(units::change).unwrap_or_default();
        let text = format!("{}: {change}", suite_words(suite.measure));
        result.fail(REGRESSION, GateCause::Suite(suite.measure), text);
    }
    let gated = || comparison.cells.iter().filter(|cell| cell.gated);
    // Advice gates nothing, whatever it shows, save regressions and what the user asked to fail on.
    let is_advice = comparison.advice.is_some();
    for cell in gated() {
        gate_cell(cell, is_advice, settings, &mut result);
    }
    if gated().next().is_none() && !is_advice {
        result.fail(INVALID, GateCause::NothingToCompare, NOTHING_TO_COMPARE.to_owned());
    }
    result
}

fn gate_cell(cell: &Cell, is_advice: bool, settings: &JudgeSettings, result: &mut GateResult) {
    let name = cell_words(cell.measure, &cell.point);
    let change = cell.change.map(units::change).unwrap_or_default();
    let (point, measure) = (cell.point.clone(), cell.measure);
    let of_cell = GateCause::Cell { point: point.clone(), measure };
    match cell.verdict {
        Verdict::Regressed => {
            result.fail(REGRESSION, of_cell, format!("{name} regressed: {change}"));
        }
        Verdict::Inconclusive if settings.fail_on_inconclusive => {
            result.fail(REGRESSION, of_cell, format!("{name} is inconclusive"));
        }
        Verdict::Invalid | Verdict::Incomparable if !is_advice => {
            let (verdict, reason) = (cell.verdict.label(), cell.reason_text());
            result.fail(INVALID, of_cell, format!("{name} is {verdict}: {reason}"));
        }
        _ if is_advice => {}
        _ if !settings.accept_gain && is_implausible(measure, cell.change) => {
            let remedy = "check what was measured, or pass `--accept-gain`";
            let text = format!("{name} {GAIN} ({change}): {remedy}");
            result.fail(INVALID, GateCause::Gain { point, measure }, text);
        }
        _ => {}
    }
}

/// A latency halved or a throughput doubled is more often a broken benchmark than a better server.
fn is_implausible(measure: Measure, change: Option<f64>) -> bool {
    let Some(change) = change else { return false };
    match (measure.metric, measure.metric.better()) {
        (Metric::ErrorRate, _) => false,
        (_, Better::Lower) => change <= -0.5,
        (_, Better::Higher) => change >= 1.0,
    }
}

/// An absolute limit: `ttft_p99<500ms`.
#[derive(Debug, Clone, PartialEq)]
pub struct Requirement {
    /// What is limited.
    pub measure: Measure,
    /// Whether the value must stay below (or above).
    pub below: bool,
    /// The limit, in the measure's unit (ms, per second, or a share).
    pub limit: f64,
    /// As written.
    pub text: String,
}

impl std::str::FromStr for Requirement {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || {
            Error::usage(format!("`{text}` is not a limit")).with_hint(
                "write for example `ttft_p99<500ms`, `error_rate<1%` or `throughput>1000`",
            )
        };
        let at = text.find(['<', '>']).ok_or_else(bad)?;
        let below = text[at..].starts_with('<');
        let measure: Measure = text[..at].trim().parse()?;
        let value = text[at + 1..].trim_start_matches('=').trim();
        let limit = match measure.metric {
            Metric::ErrorRate => match value.strip_suffix('%') {
                Some(percent) => percent.trim().parse::<f64>().map_err(|_| bad())? / 100.0,
                None => value.parse().map_err(|_| bad())?,
            },
            metric if metric.is_distribution() => match value.parse::<f64>() {
                Ok(_) => {
                    return Err(Error::usage(format!("the limit in `{text}` has no unit"))
                        .with_hint("write `500ms` or `1.5s`"));
                }
                Err(_) => units::parse_duration(value)?.as_secs_f64() * 1e3,
            },
            _ => value.parse().map_err(|_| bad())?,
        };
        Ok(Self { measure, below, limit, text: text.to_owned() })
    }
}

impl Requirement {
    /// Why `value` misses the limit at `point`; `None` if it is met. A value that was not
    /// measured misses it.
    #[must_use]
    pub fn missed(&self, point: &str, value: Option<f64>) -> Option<String> {
        let Some(value) = value else {
            return Some(limit_missed(&self.text, point, "not measured"));
        };
        let met = if self.below { value < self.limit } else { value > self.limit };
        let found = if self.measure.metric == Metric::ErrorRate {
            format!("{} %", units::significant(value * 100.0))
        } else {
            format!("{} {}", units::significant(value), self.measure.metric.unit())
        };
        (!met).then(|| limit_missed(&self.text, point, &found))
    }

    /// The miss at a point whose number says nothing of the server.
    #[must_use]
    pub fn unfounded(&self, point: &str, why: &str) -> String {
        limit_missed(&self.text, point, &format!("not valid ({why})"))
    }

    /// The cause of a miss at `point`.
    #[must_use]
    pub fn cause(&self, point: &str) -> GateCause {
        GateCause::Limit { limit: self.text.clone(), point: point.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_halved_or_a_throughput_doubled_is_implausible_and_less_is_not() {
        let is = |measure, change| is_implausible(measure, Some(change));
        assert_eq!((is(Measure::TTFT_P50, -0.5), is(Measure::TTFT_P50, -0.49)), (true, false));
        assert_eq!((is(Measure::THROUGHPUT, 1.0), is(Measure::THROUGHPUT, 0.99)), (true, false));
        assert!(!is(Measure::TTFT_P50, 9.0) && !is(Measure::THROUGHPUT, -0.9), "worse is no gain");
        assert!(!is(Measure::ERROR_RATE, -1.0) && !is_implausible(Measure::TTFT_P50, None));
    }

    #[test]
    fn limits_need_units_and_are_read_in_the_measures_own() {
        let limit: Requirement = "ttft_p99<0.5s".parse().unwrap();
        assert_eq!((limit.measure, limit.below, limit.limit), (Measure::TTFT_P99, true, 500.0));
        let limit: Requirement = "error_rate<1%".parse().unwrap();
        assert_eq!(limit.limit, 0.01);
        assert!(limit.missed("p", Some(0.02)).unwrap().contains("2.00 %"));
        assert_eq!(limit.missed("p", Some(0.0)), None);
        assert!(limit.missed("p", None).is_some());
        for bad in ["ttft_p99<500", "ttft_p99", "nonsense<1ms", "error_rate<x"] {
            assert!(bad.parse::<Requirement>().is_err(), "{bad}");
        }
    }
}
