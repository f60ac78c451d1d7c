//! A calibration: how noisy a server is, measured by the server against itself.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::decision::worth_finding;
use super::options::Sharing;
use crate::metric::Measure;
use crate::scenario::LoadPoint;
use crate::stats::day_variance::DayVariance;
use crate::stats::moderated_variance::Variance;
use crate::stats::moments::mean;
use crate::stats::planning::{Plan, detectable_effect};
use crate::units;

/// Calibrations closer together than this share a day: a night's work that crosses midnight is one.
const DAY_APART_S: i64 = 6 * 3600;
/// The blocks that the stored smallest detectable change is for: the default of a pull request.
pub const PLANNED_BLOCKS: u32 = 8;
/// More calibrations of one server than this are not kept; the oldest go first.
const MOST_CALIBRATIONS: usize = 100;

/// All calibrations of one model on one engine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The model's name.
    pub model: String,
    /// The engine's name; empty where it does not tell.
    pub engine: String,
    /// One for each time it was measured, oldest first.
    pub times: Vec<CalibratedTime>,
}

/// One calibration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CalibratedTime {
    /// When, UTC.
    pub at: Timestamp,
    /// The run it was measured in.
    pub run: String,
    /// What the server is called: its command or URL.
    pub server: String,
    /// Blocks of one start of each side.
    pub blocks: u32,
    /// Rounds within a start.
    pub rounds: u32,
    /// Wall time of a block, seconds.
    pub block_s: f64,
    /// The noise of each load point and measure.
    pub cells: Vec<CellNoise>,
}

/// The noise of one measure at one load point; spreads are standard deviations of ln.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellNoise {
    /// The load point's id, for people.
    pub point: String,
    /// The work of the load point: lengths, prompts and load, whatever it is called.
    pub work: String,
    /// The number.
    pub measure: Measure,
    /// Between the rounds of one start.
    pub within_sd: Option<f64>,
    /// Between starts, without what the rounds explain.
    pub start_sd: Option<f64>,
    /// Between the differences of pairs: what a comparison sees.
    pub pair_sd: f64,
    /// The mean of ln over all starts of both sides: its spread over days is the days' own.
    pub level: f64,
    /// The change that [`PLANNED_BLOCKS`] find with 95 %, as a ratio minus one.
    pub detectable: f64,
    /// Rounds within a start that give the smallest error for the time; `None` if starts do not
    /// differ.
    pub best_rounds: Option<u32>,
}

/// What calibrations say of one cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// The change that [`PLANNED_BLOCKS`] find, of the latest calibration.
    pub detectable: f64,
    /// The variance of a pair, pooled over calibrations, with its degrees of freedom.
    pub pair: Variance,
    /// The spread between days; `None` if it was measured on one day only.
    pub days: Option<DayVariance>,
}

/// The work of a load point, as text: equal for equal lengths, prompts and loads.
#[must_use]
pub fn work_of(point: &LoadPoint) -> String {
    // `Debug` of numbers is exact.
    format!("{:?} {:?} {:?} {:?}", point.input, point.output, point.prompt, point.load)
}

impl CellNoise {
    /// The change that `blocks` blocks find with 95 %, as a ratio minus one.
    #[must_use]
    pub fn detectable_with(pair_sd: f64, blocks: u32, sharing: Sharing) -> f64 {
        let blocks = blocks.max(2);
        let Sharing { alpha, cells, freedom } = sharing;
        detectable_effect(pair_sd / f64::from(blocks).sqrt(), freedom.of(blocks), alpha, cells)
    }

    /// The blocks that find a change of `effect` (a ratio minus one, above the floor) with 95 %.
    #[must_use]
    pub fn blocks_for(&self, effect: f64, sharing: Sharing) -> Option<u32> {
        let Sharing { alpha, cells, freedom } = sharing;
        let (sd, floor) = (self.pair_sd.max(1e-4), self.measure.floor());
        let plan = Plan { sd, effect, floor, alpha, cells, freedom };
        // Fewer than five carry no gate.
        plan.blocks_needed().map(|blocks| blocks.max(5))
    }
}

impl Calibration {
    /// Adds a calibration.
    pub fn add(&mut self, time: CalibratedTime) {
        self.times.push(time);
        self.times.sort_by_key(|time| time.at);
        let surplus = self.times.len().saturating_sub(MOST_CALIBRATIONS);
        self.times.drain(..surplus);
    }

    /// The number of days it was measured on: calibrations at least six hours apart.
    #[must_use]
    pub fn days(&self) -> usize {
        self.sessions().len()
    }

    /// What is known of a measure of a load point; `None` if it was never calibrated.
    #[must_use]
    pub fn noise(&self, point: &LoadPoint, measure: Measure) -> Option<Noise> {
        let work = work_of(point);
        let cell_of = |time: &&CalibratedTime| -> Option<CellNoise> {
            time.cells.iter().find(|c| c.measure == measure && c.work == work).cloned()
        };
        let known: Vec<(f64, CellNoise)> = self
            .times
            .iter()
            .filter_map(|time| Some((f64::from(time.blocks.max(2)) - 1.0, cell_of(&time)?)))
            .collect();
        let day_levels: Vec<f64> = self
            .sessions()
            .iter()
            .filter_map(|times| {
                let levels: Vec<f64> = times.iter().filter_map(cell_of).map(|c| c.level).collect();
                mean(&levels)
            })
            .collect();
        let df: f64 = known.iter().map(|(df, _)| df).sum();
        let squares: f64 = known.iter().map(|(df, cell)| df * cell.pair_sd.powi(2)).sum();
        let (_, latest) = known.last()?;
        Some(Noise {
            detectable: latest.detectable,
            pair: Variance { value: squares / df, df },
            // Not corrected for the starts' own spread: a little too large is the safe side.
            days: DayVariance::of_levels(&day_levels),
        })
    }

    fn sessions(&self) -> Vec<Vec<&CalibratedTime>> {
        let mut sessions: Vec<Vec<&CalibratedTime>> = Vec::new();
        for time in &self.times {
            let last = sessions.last().and_then(|session| session.last());
            let same = last.is_some_and(|l| time.at.as_second() - l.at.as_second() < DAY_APART_S);
            match sessions.last_mut().filter(|_| same) {
                Some(session) => session.push(time),
                None => sessions.push(vec![time]),
            }
        }
        sessions
    }
}

/// How many days these times cover: groups at least six hours apart.
#[must_use]
pub fn days_of(seconds: Vec<i64>) -> usize {
    nights(&seconds).into_iter().max().map_or(0, |last| last + 1)
}

/// The night of each of these times (seconds), counted from 0 in order of time: a new one begins
/// after six hours without any.
pub(super) fn nights(seconds: &[i64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..seconds.len()).collect();
    order.sort_by_key(|index| seconds[*index]);
    let mut nights = vec![0; seconds.len()];
    for pair in order.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        let new = seconds[after] - seconds[before] >= DAY_APART_S;
        nights[after] = nights[before] + usize::from(new);
    }
    nights
}

/// The changes that a plan speaks of: the first columns of the planning table, one and a half
/// times the floor and more.
fn spoken_effects(measure: Measure) -> [f64; 2] {
    let floor = measure.floor();
    [worth_finding(floor), 2.5 * floor]
}

/// What a calibration reports in words: how many restarts find which change, and how long they take.
/// One line a measure, for its noisiest load point; the tests share the
/// `budget` of a report of all these cells.
#[must_use]
pub fn sentences(time: &CalibratedTime, cells: &[CellNoise], budget: f64) -> Vec<String> {
    let gated = [Measure::ITL_P50, Measure::TPOT_MEAN, Measure::THROUGHPUT, Measure::TTFT_P50];
    let tested = cells.iter().filter(|cell| gated.contains(&cell.measure)).count();
    let works: BTreeSet<&str> = cells.iter().map(|cell| cell.work.as_str()).collect();
    let sharing = Sharing::of_report(budget, works.len(), tested);
    let noisiest = |measure: Measure| {
        let of_measure = cells.iter().filter(move |cell| cell.measure == measure);
        of_measure.max_by(|a, b| a.pair_sd.total_cmp(&b.pair_sd))
    };
    let line = |cell: &CellNoise| {
        let parts = spoken_effects(cell.measure).map(|effect| {
            let percent = (effect * 1e4).round() / 100.0;
            match cell.blocks_for(effect, sharing) {
                Some(blocks) => {
                    let takes = units::duration(f64::from(blocks) * time.block_s);
                    format!("a {percent} % change needs {blocks} pairs of restarts, about {takes}")
                }
                None => format!("a {percent} % change is beyond any sensible number of restarts"),
            }
        });
        format!("{} (at {}): {}", cell.measure.label(), cell.point, parts.join("; "))
    };
    gated.into_iter().filter_map(noisiest).map(line).collect()
}
