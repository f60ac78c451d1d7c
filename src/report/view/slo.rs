//! The SLO over a sweep: up to which measured load a side meets it.

use crate::metric::Measure;
use crate::report::{PointInput, PointSide, ReportInput};
use crate::scenario::Slo;
use crate::summary::good::MOST_ERRORS;

/// Up to which of the measured loads a scenario's SLO is met on one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MetUpTo {
    /// Up to this load, the highest that was measured.
    Highest(String),
    /// Up to the first load; at the second it is missed.
    Load(String, String),
    /// Missed at the lowest load that was measured.
    Nowhere(String),
}

impl MetUpTo {
    /// `met up to c64, the highest load measured`.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Highest(load) => format!("met up to {load}, the highest load measured"),
            Self::Load(met, missed) => format!("met up to {met}, missed at {missed}"),
            Self::Nowhere(load) => format!("missed at {load}, the lowest load measured"),
        }
    }

    /// `c64`, or a dash if it is met nowhere.
    pub(super) fn load(&self) -> &str {
        match self {
            Self::Highest(load) | Self::Load(load, _) => load,
            Self::Nowhere(_) => "–",
        }
    }
}

/// The limits in words: `TTFT ≤ 200 ms, TPOT ≤ 30 ms`.
pub(super) fn words(slo: &Slo) -> String {
    let limits = [("TTFT", slo.ttft_ms), ("TPOT", slo.tpot_ms), ("E2EL", slo.e2el_ms)];
    let limit = |(name, ms): (&str, Option<f64>)| Some(format!("{name} ≤ {} ms", ms?));
    limits.into_iter().filter_map(limit).collect::<Vec<_>>().join(", ")
}

/// Whether a load point meets its SLO; `None` if it has none or no request was measured.
pub(in crate::report) fn meets(slo: &Slo, side: &PointSide) -> Option<bool> {
    side.summary.meets(slo, side.status).or_else(|| meets_as_told(slo, side))
}

/// The same by the rates of another tool, which knows of no single requests.
fn meets_as_told(slo: &Slo, side: &PointSide) -> Option<bool> {
    let good = side.summary.get(Measure::GOODPUT)?;
    let completed = side.summary.get(Measure::QPS).filter(|qps| *qps > 0.0)?;
    let errors = side.summary.get(Measure::ERROR_RATE).unwrap_or(0.0);
    // Goodput counts completed requests; those that failed are not good either.
    let share = good / completed * (1.0 - errors);
    Some(share >= slo.least_share() && errors <= MOST_ERRORS)
}

/// The load, with the limit that stopped most requests there: `c128 by TTFT`.
fn missed_words(point: &PointInput, side: usize) -> String {
    let limit = point.side(side).and_then(|figures| figures.summary.good?.limit());
    let limit = limit.map(|limit| format!(" by {limit}")).unwrap_or_default();
    format!("{}{limit}", point.point.load.id())
}

/// The answer for one scenario and side; `None` without an SLO or figures. A load above one that misses it does not count.
pub(super) fn met_up_to(
    input: &ReportInput,
    group: &str,
    scenario: &str,
    side: usize,
) -> Option<MetUpTo> {
    let here = |p: &&PointInput| {
        p.phase.is_judged()
            && p.point.group == group
            && p.point.scenario == scenario
            && p.point.slo.is_some()
    };
    let mut points: Vec<&PointInput> = input.points.iter().filter(here).collect();
    points.sort_by(|a, b| a.point.load.level().total_cmp(&b.point.load.level()));
    let judged: Vec<(&PointInput, bool)> = points
        .into_iter()
        .filter_map(|p| Some((p, meets(&p.point.slo?, p.side(side)?)?)))
        .collect();
    let missed = judged.iter().position(|(_, met)| !met);
    let load = |at: usize| judged.get(at).map(|(point, _)| point.point.load.id());
    Some(match missed {
        None => MetUpTo::Highest(load(judged.len().checked_sub(1)?)?),
        Some(0) => MetUpTo::Nowhere(missed_words(judged[0].0, side)),
        Some(at) => MetUpTo::Load(load(at - 1)?, missed_words(judged[at].0, side)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_in_words() {
        let slo = Slo::new().ttft_ms(200).e2el_ms(1500);
        assert_eq!(words(&slo), "TTFT ≤ 200 ms, E2EL ≤ 1500 ms");
    }

    #[test]
    fn answers_name_what_was_measured() {
        let highest = MetUpTo::Highest("c64".into());
        assert_eq!(highest.words(), "met up to c64, the highest load measured");
        let between = MetUpTo::Load("c16".into(), "c64".into());
        assert_eq!(
            (between.load(), between.words().as_str()),
            ("c16", "met up to c16, missed at c64")
        );
        assert_eq!(MetUpTo::Nowhere("c1".into()).load(), "–");
    }
}
