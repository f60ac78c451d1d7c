//! A world: made-up values of starts whose truth is known.
//!
//! The generator is Gaussian: the log of a start's value is a part common to all cells of the start
//! plus a part of the cell's own.

use rand::rngs::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use crate::metric::{Better, Measure};
use crate::rng::Seed;

use crate::compare::cell::Cell;

/// The spread of one cell.
#[derive(Debug, Clone, Copy)]
pub struct CellNoise {
    /// Which load point.
    pub scenario: usize,
    /// Which number.
    pub measure: Measure,
    /// Its floor, as a ratio minus one.
    pub floor: f64,
    /// Standard deviation of one block's log ratio, without the common part.
    pub own_sd: f64,
}

/// A server whose starts are made up.
#[derive(Debug, Clone)]
pub struct World {
    /// Its cells, by number and then load point.
    pub cells: Vec<CellNoise>,
    /// The part of a block's log ratio that all its cells share, as a standard deviation.
    pub common_sd: f64,
    /// The offset of a side's day, as a standard deviation; both sides have a day of their own.
    pub day_sd: f64,
    /// How much slower the server becomes over the whole run, as a log.
    pub drift: f64,
}

/// How much slower the new side truly is, as a ratio minus one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Effect {
    /// Every load point by this much; 0 for a server against itself.
    Everywhere(f64),
    /// Only the first load point.
    OneScenario(f64),
}

/// How many starts each side has.
#[derive(Debug, Clone, Copy)]
pub struct Starts {
    /// The base side.
    pub base: usize,
    /// The new side.
    pub new: usize,
}

impl Starts {
    /// As many on both sides.
    #[must_use]
    pub fn blocks(blocks: usize) -> Self {
        Self { base: blocks, new: blocks }
    }
}

/// The spread of each load point over the median one: TPOT of the 20 load points of the reports
/// whose exact counts the tests know.
const SPREADS: [f64; 20] = [
    0.97, 0.96, 0.97, 0.94, 0.98, 0.96, 1.02, 0.97, 1.01, 0.98, 1.05, 0.97, 0.99, 1.06, 1.10, 1.22,
    1.25, 1.05, 1.27, 1.54,
];

impl World {
    /// The simulated server of the statistics page: pair spreads of C.3, of which 1.37 % are common
    /// to all load points of a block.
    #[must_use]
    pub fn simulated(scenarios: usize) -> Self {
        let numbers = [
            (Measure::THROUGHPUT, 0.02, 0.0146),
            (Measure::TPOT_MEAN, 0.02, 0.0185),
            (Measure::TTFT_P50, 0.05, 0.027),
            (Measure::TTFT_P99, 0.10, 0.048),
        ];
        let common_sd = 0.0137_f64;
        let cells = numbers.into_iter().flat_map(|(measure, floor, pair_sd)| {
            (0..scenarios).map(move |scenario| {
                let total: f64 = pair_sd * SPREADS[scenario % SPREADS.len()];
                let own_sd = (total.powi(2) - common_sd.powi(2)).max(0.0).sqrt();
                CellNoise { scenario, measure, floor, own_sd }
            })
        });
        Self { cells: cells.collect(), common_sd, day_sd: 0.0, drift: 0.0 }
    }

    /// Five measures at this many load points whose starts all differ by this much (as a standard
    /// deviation), with nothing in common.
    #[must_use]
    pub fn even(scenarios: usize, start_sd: f64) -> Self {
        let measures = [
            Measure::ITL_P50,
            Measure::THROUGHPUT,
            Measure::TPOT_MEAN,
            Measure::TTFT_P50,
            Measure::TTFT_P99,
        ];
        let own_sd = start_sd * std::f64::consts::SQRT_2;
        let cells = measures.into_iter().flat_map(|measure| {
            let floor = measure.floor();
            (0..scenarios).map(move |scenario| CellNoise { scenario, measure, floor, own_sd })
        });
        Self { cells: cells.collect(), common_sd: 0.0, day_sd: 0.0, drift: 0.0 }
    }

    /// How many load points it has.
    #[must_use]
    pub fn points(&self) -> usize {
        self.cells.iter().map(|cell| cell.scenario + 1).max().unwrap_or(0)
    }

    /// The same with starts that differ by 2 % instead of 1 % (0.9 % of it common, 0.4 % own).
    #[must_use]
    pub fn with_doubled_start_spread(mut self) -> Self {
        // Twice the spread is three variances more, on each of the two sides.
        let more = |sd: f64| 3.0 * 2.0 * sd * sd;
        self.common_sd = (self.common_sd.powi(2) + more(0.009)).sqrt();
        for cell in &mut self.cells {
            cell.own_sd = (cell.own_sd.powi(2) + more(0.004)).sqrt();
        }
        self
    }

    /// The spreads between starts seen on an H200, with no part in common: three closed-loop and
    /// three open-loop load points, the latter far noisier.
    #[must_use]
    pub fn h200() -> Self {
        const CLOSED: [(Measure, f64); 4] = [
            (Measure::THROUGHPUT, 0.020),
            (Measure::TPOT_MEAN, 0.024),
            (Measure::TTFT_P50, 0.045),
            (Measure::ITL_P50, 0.002),
        ];
        const OPEN: [(Measure, f64); 3] =
            [(Measure::TPOT_MEAN, 0.08), (Measure::TTFT_P50, 0.25), (Measure::ITL_P50, 0.002)];
        let noises = |scenario: usize| match scenario {
            0..3 => &CLOSED[..],
            _ => &OPEN[..],
        };
        let cells = (0..6).flat_map(|scenario| {
            noises(scenario).iter().map(move |(measure, start_sd)| CellNoise {
                scenario,
                measure: *measure,
                floor: measure.floor(),
                own_sd: start_sd * std::f64::consts::SQRT_2,
            })
        });
        Self { cells: cells.collect(), common_sd: 0.0, day_sd: 0.0, drift: 0.0 }
    }

    /// The cells of a report.
    #[must_use]
    pub fn report(&self, starts: Starts, effect: Effect, seed: Seed) -> Vec<Cell> {
        let mut rng = seed.rng();
        // Blocks alternate: the base runs first in the even ones.
        let base = self.side(starts.base, |block| block % 2, &mut rng);
        let new = self.side(starts.new, |block| 1 - block % 2, &mut rng);
        let sides = base.into_iter().zip(new);
        self.cells
            .iter()
            .zip(sides)
            .map(|(noise, (base, new))| cell(noise, base, new, effect))
            .collect()
    }

    /// The logs of one side's starts, by cell; more is worse. A side has half a pair's variance.
    fn side(
        &self,
        starts: usize,
        position: impl Fn(usize) -> usize,
        rng: &mut ChaCha8Rng,
    ) -> Vec<Vec<f64>> {
        let half = std::f64::consts::FRAC_1_SQRT_2;
        let day = self.day_sd * normal(rng);
        let steps = 2.0 * starts.max(1) as f64;
        let drifted = |start: usize| self.drift * (2 * start + position(start)) as f64 / steps;
        let common: Vec<f64> = (0..starts)
            .map(|start| day + drifted(start) + half * self.common_sd * normal(rng))
            .collect();
        let of_cell = |noise: &CellNoise| {
            common.iter().map(|common| common + half * noise.own_sd * normal(rng)).collect()
        };
        self.cells.iter().map(of_cell).collect()
    }
}

/// A standard normal number.
fn normal(rng: &mut ChaCha8Rng) -> f64 {
    StandardNormal.sample(rng)
}

fn cell(noise: &CellNoise, base: Vec<f64>, new: Vec<f64>, effect: Effect) -> Cell {
    let shift = match effect {
        Effect::Everywhere(ratio) => ratio.ln_1p(),
        Effect::OneScenario(ratio) if noise.scenario == 0 => ratio.ln_1p(),
        Effect::OneScenario(_) => 0.0,
    };
    let sign = match noise.measure.metric.better() {
        Better::Lower => 1.0,
        Better::Higher => -1.0,
    };
    let values = |logs: Vec<f64>, shift: f64| {
        logs.into_iter().map(|log| Some((sign * (log + shift)).exp())).collect()
    };
    let cell = Cell::gated(noise.scenario, noise.measure, values(base, 0.0), values(new, shift));
    let cell = cell.alternating();
    Cell { floor: noise.floor, margin: noise.floor, ..cell }
}
