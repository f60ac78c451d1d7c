//! Calibrating: the server against itself, to know how noisy it is and what a gate can find.

use std::collections::BTreeMap;

use super::session::Extent;
use super::{Harness, server_handle};
use crate::analysis::measure::{self, Unit};
use crate::analysis::runs::RunSet;
use crate::analysis::{self, Conclusion};
use crate::clock::Clock;
use crate::compare::Comparison;
use crate::compare::calibration::{
    CalibratedTime, Calibration, CellNoise, PLANNED_BLOCKS, work_of,
};
use crate::compare::options::Sharing;
use crate::drive::Interrupt;
use crate::error::{Error, Result};
use crate::metric::Measure;
use crate::plan::{Phase, Side};
use crate::record::StoredRun;
use crate::record::stored::StoredPoint;
use crate::report::progress::Reporter;
use crate::settings::{BaselineChoice, Launch, Settings};
use crate::stats::components::{VarianceComponents, variance_components};
use crate::stats::moments::{mean, sd};
use crate::store::Store;

/// The fewest blocks that tell a spread: with eight it is known to about a quarter
/// (docs/statistics.md, section 7).
const LEAST_BLOCKS: u32 = 8;
/// Two rounds within a start are the fewest that tell their spread from that of the starts.
const LEAST_ROUNDS: u32 = 2;

/// What a calibration found.
#[derive(Debug, Clone)]
pub struct Calibrated {
    /// The report of the server against itself; any change in it is a false alarm.
    pub conclusion: Conclusion,
    /// All that is known of this server, the newest last.
    pub calibration: Calibration,
    /// The error of a whole report that the detectable changes are for.
    pub budget: f64,
    /// The gated cells that share it.
    pub cells: usize,
}

impl Harness {
    /// Measures the server against itself and stores how noisy it is.
    ///
    /// # Errors
    /// Where nothing can restart the server, and as [`Harness::run`].
    pub async fn calibrate(
        &self,
        reporter: &mut dyn Reporter,
        interrupt: &Interrupt,
    ) -> Result<Calibrated> {
        let mut harness = self.settled()?;
        harness.settings = against_itself(&harness.settings)?;
        let settings = &harness.settings;
        let store = Store::open(&settings.output_dir)?;
        let clock = Clock::start();
        let measured = harness.measure(&store, clock, Extent::Whole, reporter, interrupt).await?;
        let run = &measured.run;
        let conclusion = analysis::conclude_run(&store, settings, run, clock, measured.told)?;
        let comparison = conclusion.report.input().comparisons.first();
        let comparison = comparison.ok_or_else(|| {
            Error::server("the server was not measured on both sides: there is nothing to compare")
        })?;
        let cells = comparison.cells.iter().filter(|cell| cell.gated).count();
        let loads = run.points.iter().filter(|point| point.phase == Phase::Load).count();
        let budget = settings.judge.significance_level;
        let sharing = Sharing::of_report(budget, loads, cells);
        let time = calibrated_time(&store, run, comparison, sharing)?;
        let calibration = keep(&store, run, time)?;
        Ok(Calibrated { conclusion, calibration, budget, cells })
    }
}

/// The same server on both sides, with restarts and rounds enough; nothing else is compared.
fn against_itself(given: &Settings) -> Result<Settings> {
    if given.target.launch == Launch::External {
        return Err(Error::usage("a server that nobody restarts cannot be calibrated")
            .with_hint("add `--server-cmd COMMAND` or `--restart-cmd COMMAND`: how much restarts differ is what is measured"));
    }
    let mut settings = given.clone();
    settings.against = Some(given.target.clone());
    settings.starts = Some(given.starts.unwrap_or(0).max(LEAST_BLOCKS));
    settings.rounds = given.rounds.max(LEAST_ROUNDS);
    settings.looks.clear();
    settings.baseline = BaselineChoice::default();
    settings.skip.reference = true;
    // A flag is a warning here, not a regression; and the noise is not known beforehand.
    settings.judge.no_fail = true;
    settings.judge.require.clear();
    Ok(settings)
}

/// Adds a calibration to what is known of the server.
fn keep(store: &Store, run: &StoredRun, time: CalibratedTime) -> Result<Calibration> {
    let factions = RunSet::sides_of(run);
    let key = factions.last().and_then(RunSet::calibration_key);
    let key = key.ok_or_else(|| Error::server("the server's model is not known"))?;
    let mut known: Calibration = store.load_calibration(&key)?.unwrap_or_default();
    if let Some(side) = run.sides.get(&Side::New) {
        known.model.clone_from(&side.model);
        known.engine = side.engine.clone().unwrap_or_default();
    }
    known.add(time);
    store.save_calibration(&key, &known)?;
    Ok(known)
}

fn calibrated_time(
    store: &Store,
    run: &StoredRun,
    comparison: &Comparison,
    sharing: Sharing,
) -> Result<CalibratedTime> {
    let blocks = run.starts.iter().map(|start| start.block + 1).max().unwrap_or(1);
    let ended = run.ended_at.unwrap_or(run.started_at);
    #[allow(clippy::cast_precision_loss)]
    let wall_s = (ended.as_millisecond() - run.started_at.as_millisecond()) as f64 / 1e3;
    let cost = Cost::of(run, wall_s);
    let mut found = Vec::new();
    for point in &run.points {
        let rows = Rows::read(store, run, point)?;
        for cell in comparison.cells.iter().filter(|cell| cell.point == point.id) {
            if cell.measure != Measure::ERROR_RATE {
                found.extend(rows.noise(point, cell, sharing, cost));
            }
        }
    }
    let server = run.sides.get(&Side::New).map(|side| side.label.clone()).unwrap_or_default();
    Ok(CalibratedTime {
        at: run.started_at,
        run: run.id.clone(),
        server,
        blocks,
        rounds: run.rounds.iter().map(|round| round.round + 1).max().unwrap_or(1),
        block_s: wall_s / f64::from(blocks.max(1)),
        cells: found,
    })
}

/// What a start and a round cost, seconds.
#[derive(Clone, Copy)]
struct Cost {
    start_s: f64,
    round_s: f64,
}

impl Cost {
    fn of(run: &StoredRun, wall_s: f64) -> Self {
        let windows_s: f64 = run
            .rounds
            .iter()
            .map(|round| {
                let window_ns = round.window_close_ns.saturating_sub(round.window_open_ns);
                crate::units::ns_to_s(window_ns) + round.warm_up.map_or(0.0, |w| w.seconds)
            })
            .sum();
        #[allow(clippy::cast_precision_loss)]
        let per = |seconds: f64, count: usize| seconds.max(1e-3) / count.max(1) as f64;
        Self {
            start_s: per(wall_s - windows_s, run.starts.len()),
            round_s: per(windows_s, run.rounds.len()),
        }
    }
}

/// The rounds of one load point, by side and start.
struct Rows {
    rounds: BTreeMap<(Side, u32), Vec<crate::summary::Summary>>,
}

impl Rows {
    fn read(store: &Store, run: &StoredRun, point: &StoredPoint) -> Result<Self> {
        let mut rounds: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for side in [Side::Base, Side::New] {
            let Some(data) = measure::point_data(store, run, &point.id, side, Unit::Round)? else {
                continue;
            };
            for start in data.side.starts {
                rounds.entry((side, start.start)).or_default().push(start.summary);
            }
        }
        Ok(Self { rounds })
    }

    /// The spread of one measure, from the pairs of its cell and from its rounds.
    fn noise(
        &self,
        point: &StoredPoint,
        cell: &crate::compare::Cell,
        sharing: Sharing,
        cost: Cost,
    ) -> Option<CellNoise> {
        let log = |value: Option<f64>| value.filter(|v| *v > 0.0).map(f64::ln);
        let pairs = cell.pairs.iter().filter_map(|(base, new)| Some((log(*base)?, log(*new)?)));
        let pairs: Vec<(f64, f64)> = pairs.collect();
        let differences: Vec<f64> = pairs.iter().map(|(base, new)| new - base).collect();
        let levels: Vec<f64> = pairs.iter().flat_map(|(base, new)| [*base, *new]).collect();
        let pair_sd = sd(&differences)?;
        let split = self.split(cell.measure);
        Some(CellNoise {
            point: point.id.clone(),
            work: work_of(&point.point),
            measure: cell.measure,
            within_sd: split.map(|split| split.within.sqrt()),
            start_sd: split.map(|split| split.between.sqrt()),
            pair_sd,
            level: mean(&levels)?,
            detectable: CellNoise::detectable_with(pair_sd, PLANNED_BLOCKS, sharing),
            best_rounds: split.and_then(|split| split.best_rounds(cost.start_s, cost.round_s)),
        })
    }

    fn split(&self, measure: Measure) -> Option<VarianceComponents> {
        let row = |rounds: &Vec<crate::summary::Summary>| -> Option<Vec<f64>> {
            let log = |s: &crate::summary::Summary| s.get(measure).filter(|v| *v > 0.0);
            rounds.iter().map(|summary| log(summary).map(f64::ln)).collect()
        };
        let rows: Vec<Vec<f64>> = self.rounds.values().filter_map(row).collect();
        let most = rows.iter().map(Vec::len).max()?;
        // A start that was cut short says little of the spread of rounds.
        let whole: Vec<Vec<f64>> = rows.into_iter().filter(|row| row.len() == most).collect();
        variance_components(&whole)
    }
}

impl Harness {
    /// What earlier calibrations of this server say of this plan: how many restarts a change needs
    /// and how long they take; a sentence a line. Empty where it was never calibrated.
    ///
    /// # Errors
    /// Where the plan is wrong, or a calibration cannot be read.
    pub fn foresee(&self) -> Result<Vec<String>> {
        let harness = self.settled()?;
        let settings = &harness.settings;
        // A look at the plan leaves no folder behind.
        if !crate::store::files::exists(&settings.output_dir) {
            return Ok(Vec::new());
        }
        let store = Store::open(&settings.output_dir)?;
        let label = server_handle::label(&settings.target);
        let points = harness.points()?;
        let known: Vec<Calibration> = store.load_calibrations()?;
        let mut lines = Vec::new();
        for calibration in known {
            let Some(time) = calibration.times.iter().rfind(|time| time.server == label) else {
                continue;
            };
            let works: Vec<String> = points.iter().map(work_of).collect();
            let cells = time.cells.iter().filter(|cell| works.contains(&cell.work));
            let cells: Vec<CellNoise> = cells.cloned().collect();
            lines.extend(crate::compare::calibration::sentences(
                time,
                &cells,
                settings.judge.significance_level,
            ));
        }
        Ok(lines)
    }
}
