//! The assumed spread: how much starts may differ at most where nothing was measured of it.

use crate::metric::{Measure, Metric, Statistic};

/// The most that one start of a server is taken to differ from the next, its day included, as a
/// standard deviation of ln. Bounds for any engine on any machine: real servers are quieter, and
/// `calibrate` says by how much.
#[must_use]
pub fn assumed_sd(measure: Measure) -> f64 {
    match (measure.metric, measure.statistic) {
        (_, Some(Statistic::P99 | Statistic::P95 | Statistic::P90)) | (Metric::WorstGap, _) => 0.60,
        (Metric::Itl | Metric::Icl, _) => 0.12,
        (Metric::Ttft | Metric::Ttfo | Metric::TtftFromSent, _) => 0.40,
        _ => 0.15,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_decode_step_is_the_quietest_and_tails_are_the_noisiest() {
        let order = [Measure::ITL_P50, Measure::TPOT_MEAN, Measure::TTFT_P50, Measure::TTFT_P99];
        assert!(order.windows(2).all(|pair| assumed_sd(pair[0]) < assumed_sd(pair[1])));
        assert_eq!(assumed_sd(Measure::THROUGHPUT), 0.15);
    }
}
