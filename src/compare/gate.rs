//! The gate: exit codes, and what decides them. The codes stand here and in the README alone.

use super::{Cell, Comparison, GateResult, SuiteResult, Verdict};
use crate::error::{Error, ErrorKind, Result};
use crate::metric::{Better, Measure, Metric};
use crate::settings::JudgeSettings;
use crate::units;

/// Nothing stands against it.
pub const FINE: u8 = 0;
/// A regression, or a required limit missed.
pub const REGRESSION: u8 = 1;
/// A usage or scenario error, or a baseline that does not exist.
pub const USAGE: u8 = 2;
/// Preflight failed, or the server is unusable.
pub const SERVER: u8 = 3;
/// A gated cell is invalid, incomparable or implausible, nothing was measured, or the client ran out of
/// descriptors or ports.
pub const INVALID: u8 = 4;
/// Interrupted by the user.
pub const INTERRUPTED: u8 = 130;

/// The exit code of an error.
#[must_use]
pub fn exit_code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Usage | ErrorKind::Scenario | ErrorKind::NotFound | ErrorKind::Store => USAGE,
        ErrorKind::Preflight | ErrorKind::Server | ErrorKind::Client => SERVER,
        ErrorKind::Interrupted => INTERRUPTED,
    }
}

/// What a comparison says to the gate.
#[must_use]
pub fn gate(comparison: &Comparison, settings: &JudgeSettings) -> GateResult {
    let mut result = GateResult::default();
    if settings.no_fail {
        return result;
    }
    for suite in comparison.suite.iter().filter(|s| s.verdict == Verdict::Regressed) {
        let change = suite.change.map(units::change).unwrap_or_default();
        result.fail(REGRESSION, format!("{}: {change}", suite_words(suite)));
    }
    let gated = || comparison.cells.iter().filter(|cell| cell.gated);
    for cell in gated() {
        let name = cell_words(cell);
        let change = cell.change.map(units::change).unwrap_or_default();
        let reason = cell.reason.as_deref().unwrap_or("no reason known");
        match cell.verdict {
            Verdict::Regressed => result.fail(REGRESSION, format!("{name} regressed: {change}")),
            Verdict::Inconclusive if settings.fail_on_inconclusive => {
                result.fail(REGRESSION, format!("{name} is inconclusive"));
            }
            Verdict::Invalid | Verdict::Incomparable if comparison.advice.is_none() => {
                result.fail(INVALID, format!("{name} is {}: {reason}", cell.verdict.label()));
            }
            // Advice gates nothing, whatever it shows.
            _ if comparison.advice.is_some() => {}
            _ if !settings.accept_gain && is_implausible(cell.measure, cell.change) => {
                result.fail(
                    INVALID,
                    format!(
                        "{name} {GAIN} ({change}): check what was measured, or pass `--accept-gain`"
                    ),
                );
            }
            _ => {}
        }
    }
    if gated().next().is_none() && comparison.advice.is_none() {
        result.fail(INVALID, "nothing was measured on both sides".to_owned());
    }
    result
}

/// How the reason of a gain that is too good begins, after its cell.
const GAIN: &str = "is implausibly good";

/// How the reasons of a cell begin.
fn cell_words(cell: &Cell) -> String {
    format!("{} at {}", cell.measure.label(), cell.point)
}

/// How the reason of all load points together begins.
fn suite_words(suite: &SuiteResult) -> String {
    format!("{} regressed over all load points", suite.measure.label())
}

/// Whether a reason is one of this cell's.
#[must_use]
pub fn is_of_cell(reason: &str, cell: &Cell) -> bool {
    reason.strip_prefix(&cell_words(cell)).is_some_and(|rest| rest.starts_with(' '))
}

/// Whether a reason is that of all load points together.
#[must_use]
pub fn is_of_suite(reason: &str, suite: &SuiteResult) -> bool {
    reason.strip_prefix(&suite_words(suite)).is_some_and(|rest| rest.starts_with(':'))
}

/// Whether a reason speaks of a gain that is too good to be believed.
#[must_use]
pub fn is_of_a_gain(reason: &str) -> bool {
    reason.contains(GAIN)
}

/// Whether a reason is that of a required limit: these begin with the limit as written.
#[must_use]
pub fn is_of_a_limit(reason: &str) -> bool {
    reason.starts_with('`')
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

impl GateResult {
    /// Adds a cause. 1 comes before 4: a regression is not hidden by an invalid cell.
    pub fn fail(&mut self, code: u8, reason: String) {
        if self.reasons.contains(&reason) {
            return;
        }
        let outranks = self.exit_code == FINE || (code == REGRESSION && self.exit_code == INVALID);
        if outranks {
            self.exit_code = code;
            self.reasons.insert(0, reason);
        } else {
            self.reasons.push(reason);
        }
    }

    /// Adds what another side's comparison says, under its name.
    pub fn join(&mut self, name: &str, other: &Self) {
        for reason in &other.reasons {
            self.fail(other.exit_code, format!("{name}: {reason}"));
        }
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
    /// Why `value` misses the limit at `point`; none where it is met. A value that was not
    /// measured misses it.
    #[must_use]
    pub fn missed(&self, point: &str, value: Option<f64>) -> Option<String> {
        let Some(value) = value else {
            return Some(format!("`{}` at {point}: not measured", self.text));
        };
        let met = if self.below { value < self.limit } else { value > self.limit };
        let shown = if self.measure.metric == Metric::ErrorRate {
            format!("{} %", units::significant(value * 100.0))
        } else {
            format!("{} {}", units::significant(value), self.measure.metric.unit())
        };
        (!met).then(|| format!("`{}` at {point}: {shown}", self.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_regression_comes_before_an_invalid_cell() {
        let mut gate = GateResult::default();
        gate.fail(INVALID, "invalid".into());
        gate.fail(REGRESSION, "regressed".into());
        assert_eq!((gate.exit_code, gate.reasons[0].as_str()), (REGRESSION, "regressed"));
        gate.fail(INVALID, "invalid".into());
        assert_eq!(gate.reasons.len(), 2, "a cause is told once");
    }

    #[test]
    fn a_regression_of_a_third_side_fails_too() {
        let mut gate = GateResult::default();
        let mut third = GateResult::default();
        third.fail(INVALID, "invalid".into());
        gate.join("B", &third);
        assert_eq!(gate.exit_code, INVALID);
        third.fail(REGRESSION, "regressed".into());
        gate.join("C", &third);
        assert_eq!((gate.exit_code, gate.reasons[0].as_str()), (REGRESSION, "C: regressed"));
    }
}
