//! A cell: one number of one load point on both sides, as values of starts.

use crate::metric::{Better, Measure};
use crate::stats::day_variance::DayVariance;
use crate::stats::moderated_variance::Variance;

/// Whether a cell can fail a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// It can; it takes part in the correction for many tests.
    Gated,
    /// It is shown only.
    Observed,
}

impl Role {
    /// The role of a cell whose smallest detectable change is known from `calibrate` (both as a
    /// ratio minus one). A detectable change far beyond the floor (five times: only gross changes
    /// would be found, and of what is found much would be noise) makes a cell one that is shown.
    #[must_use]
    pub fn by_detectable(detectable: f64, floor: f64) -> Self {
        if detectable <= 5.0 * floor { Self::Gated } else { Self::Observed }
    }
}

/// One number of one load point on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Which load point: any index that the caller understands.
    pub scenario: usize,
    /// Which number.
    pub measure: Measure,
    /// Whether it can fail a gate.
    pub role: Role,
    /// The smallest change that counts, as a ratio minus one.
    pub floor: f64,
    /// The margin of "unchanged", as a ratio minus one; the floor by default.
    pub margin: f64,
    /// The resolution of the values as a log ratio: a standard error is never taken as smaller.
    /// 1e-4 for quantiles of a histogram, 0 for values kept raw.
    pub resolution: f64,
    /// What is known of its noise besides these values.
    pub known: KnownNoise,
    /// The base side by block (paired), by start, or by night; `None` if the start is not valid.
    pub base: Vec<Option<f64>>,
    /// The new side; in the paired modes the same place is the same block.
    pub new: Vec<Option<f64>>,
    /// Of each block, whether the base ran first; empty where the order is not known or means
    /// nothing.
    pub base_first: Vec<bool>,
    /// Where the new side is a single night: the median of its starts, if it has enough of them to
    /// confirm an alarm.
    pub night_median: Option<f64>,
}

/// What is known of a cell's noise from elsewhere, in logs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct KnownNoise {
    /// The variance of a pair, by a calibration of the same work.
    pub calibration: Option<Variance>,
    /// The spread between days, by calibrations of several days.
    pub days: Option<DayVariance>,
    /// The most that starts are assumed to differ, as a standard deviation.
    pub assumed_sd: Option<f64>,
}

/// The resolution of a quantile that was read from a histogram of four significant digits.
pub const HISTOGRAM_RESOLUTION: f64 = 1e-4;

impl Cell {
    /// A gated cell with the measure's own floor, and of raw values.
    #[must_use]
    #[cfg(test)]
    pub fn gated(
        scenario: usize,
        measure: Measure,
        base: Vec<Option<f64>>,
        new: Vec<Option<f64>>,
    ) -> Self {
        let floor = measure.floor();
        let role = Role::Gated;
        Self {
            scenario,
            measure,
            role,
            floor,
            margin: floor,
            resolution: 0.0,
            known: KnownNoise::default(),
            base,
            new,
            base_first: Vec::new(),
            night_median: None,
        }
    }

    /// The same in blocks of alternating order, the base first in the first one.
    #[must_use]
    #[cfg(test)]
    pub fn alternating(self) -> Self {
        let base_first = (0..self.base.len()).map(|block| block.is_multiple_of(2)).collect();
        Self { base_first, ..self }
    }

    /// Turns values into logs of which more is worse. Values that have no logarithm are missing.
    pub(super) fn oriented(&self, values: &[Option<f64>]) -> Vec<Option<f64>> {
        let sign = match self.measure.metric.better() {
            Better::Lower => 1.0,
            Better::Higher => -1.0,
        };
        values
            .iter()
            .map(|value| value.map(f64::ln).filter(|log| log.is_finite()).map(|log| sign * log))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_worse_after_orientation() {
        let cell = Cell::gated(0, Measure::THROUGHPUT, vec![], vec![]);
        let logs = cell.oriented(&[Some(1.0_f64.exp()), Some(0.0), None, Some(f64::NAN)]);
        assert_eq!(logs, vec![Some(-1.0), None, None, None]);
    }
}
