//! The acceptance table: how often the decision is right, beside the published figures.
//!
//! The rows here are those of the statistics page (docs/statistics.md, section 9) that need no
//! requests: values of starts are made up. [`requests`] has the others.

mod apart;
pub mod capacity;
pub mod criterion;
pub mod h200;
mod long;
pub mod order_statistics;
pub mod requests;
pub mod server;
pub mod virtual_run;
pub mod world;

use std::ops::RangeInclusive;

use rand::rngs::ChaCha8Rng;
use rand_distr::{Beta, Binomial, Distribution};

use crate::metric::Measure;
use crate::rng::Seed;
use crate::stats::proportion::Count;

use crate::compare::cell::Cell;
use crate::compare::decide::decide;
use crate::compare::decision::{Decision, Deviation, Flag};
use crate::compare::failures::{FailureCounts, FailureFlag, FailureOptions, judge};
use crate::compare::interim_looks::{InterimLooks, Step};
use crate::compare::options::{ErrorTerm, Options};
use crate::compare::verdict::Verdict;
use world::{Effect, Starts, World};

/// What is counted in a report: how often it happened, of how often it could have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Reports in which any test found a change.
    AnyFlag,
    /// Reports that fail a gate.
    GateFails,
    /// Reports in which TPOT of the first load point is found to be worse.
    FirstFound,
    /// Cells with p < 0.05.
    Below5Percent,
    /// TPOT cells that are "unchanged".
    UnchangedTpot,
    /// Reports in which a load point deviates from the others.
    AnyDeviation,
}

impl Counted {
    fn of(self, decision: &Decision) -> (u32, u32) {
        let tpot = || decision.cells.iter().filter(|cell| cell.measure == Measure::TPOT_MEAN);
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        match self {
            Self::AnyFlag => (decision.changed().into(), 1),
            Self::GateFails => (decision.regressed().into(), 1),
            Self::FirstFound => {
                let found = tpot().next().is_some_and(|cell| cell.verdict == Verdict::Regressed);
                (found.into(), 1)
            }
            Self::Below5Percent => {
                let tests: Vec<f64> =
                    decision.cells.iter().filter_map(|cell| Some(cell.test?.p)).collect();
                let below = tests.iter().filter(|p| **p < 0.05).count();
                (count(below), count(tests.len()))
            }
            Self::UnchangedTpot => {
                let unchanged = tpot().filter(|cell| cell.verdict == Verdict::Unchanged).count();
                (count(unchanged), count(tpot().count()))
            }
            Self::AnyDeviation => {
                let deviates = |d: Deviation| d.flag != Flag::None;
                (decision.cells.iter().any(|cell| cell.deviation.is_some_and(deviates)).into(), 1)
            }
        }
    }
}

/// The share of what is counted over many reports.
#[must_use]
pub fn share(world: &World, trial: &Trial, reports: u32, seed: Seed) -> f64 {
    shares(world, trial, [trial.counted], reports, seed)[0]
}

/// The shares of several things, counted in the same reports.
#[must_use]
pub fn shares<const N: usize>(
    world: &World,
    trial: &Trial,
    counted: [Counted; N],
    reports: u32,
    seed: Seed,
) -> [f64; N] {
    let mut hits = [0_u32; N];
    let mut of = [0_u32; N];
    for report in 0..reports {
        let cells = world.report(trial.starts, trial.effect, seed.nth(report.into()));
        let decision = decide(&cells, &trial.options);
        for (i, counted) in counted.into_iter().enumerate() {
            let (hit, possible) = counted.of(&decision);
            hits[i] += hit;
            of[i] += possible;
        }
    }
    std::array::from_fn(|i| f64::from(hits[i]) / f64::from(of[i].max(1)))
}

/// One way to make reports and to count in them.
#[derive(Debug, Clone, Copy)]
pub struct Trial {
    /// How many starts.
    pub starts: Starts,
    /// The truth.
    pub effect: Effect,
    /// What is counted.
    pub counted: Counted,
    /// How it is decided.
    pub options: Options,
}

impl Trial {
    /// The default way to decide this world's reports, in blocks.
    #[must_use]
    pub fn of(world: &World, blocks: usize, effect: Effect, counted: Counted) -> Self {
        let options = Options::for_points(world.points());
        Self { starts: Starts::blocks(blocks), effect, counted, options }
    }

    /// The default way to decide, in blocks of four load points or more.
    #[must_use]
    pub fn paired(blocks: usize, effect: Effect, counted: Counted) -> Self {
        Self { starts: Starts::blocks(blocks), effect, counted, options: Options::default() }
    }
}

/// A row of the acceptance table.
#[derive(Debug, Clone)]
pub struct Figure {
    /// What was counted.
    pub name: &'static str,
    /// The figure of the statistics page.
    pub published: &'static str,
    /// What is accepted.
    pub accepted: RangeInclusive<f64>,
    /// What came out.
    pub ours: f64,
    /// Of how many reports.
    pub reports: u32,
}

impl Figure {
    /// Whether it is accepted.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.accepted.contains(&self.ours)
    }

    /// Whether a share of few reports is within two of their Monte Carlo errors of what is accepted.
    #[must_use]
    pub fn is_near_accepted(&self) -> bool {
        let (low, high) = (self.accepted.start(), self.accepted.end());
        let error = |share: f64| (share * (1.0 - share) / f64::from(self.reports.max(1))).sqrt();
        (low - 2.0 * error(*low)..=high + 2.0 * error(*high)).contains(&self.ours)
    }
}

/// What a row asks for.
struct Row {
    name: &'static str,
    published: &'static str,
    accepted: RangeInclusive<f64>,
    world: World,
    trial: Trial,
}

const SAME: Effect = Effect::Everywhere(0.0);

fn wide() -> World {
    World::simulated(20)
}

/// Rows of a server against itself.
fn unchanged_rows() -> Vec<Row> {
    use Counted::{AnyFlag, Below5Percent, GateFails, UnchangedTpot};
    let row = |name, published, most, world, blocks, counted| {
        let trial = Trial::paired(blocks, SAME, counted);
        Row { name, published, accepted: 0.0..=most, world, trial }
    };
    let doubled = wide().with_doubled_start_spread();
    vec![
        row("A/A any flag, 20x4, M = 5", ".17 %", 0.01, wide(), 5, AnyFlag),
        row("A/A any flag, 20x4, M = 8", ".33 %", 0.01, wide(), 8, AnyFlag),
        row("A/A any flag, 20x4, M = 12", ".17 %", 0.01, wide(), 12, AnyFlag),
        row("A/A gate fails, M = 5", "0 %", 0.01, wide(), 5, GateFails),
        row("A/A gate fails, M = 8", ".25 %", 0.01, wide(), 8, GateFails),
        row("A/A gate fails, M = 12", "0 %", 0.01, wide(), 12, GateFails),
        row("A/A any flag, 6x4, M = 8", ".25 %", 0.01, World::simulated(6), 8, AnyFlag),
        row("A/A any flag, start sd 2 %, M = 8", ".54 %", 0.01, doubled, 8, AnyFlag),
        Row {
            accepted: 0.035..=0.065,
            ..row("A/A cells with p < .05", "4-6 %", 1.0, wide(), 8, Below5Percent)
        },
        Row {
            accepted: 0.80..=0.97,
            ..row("unchanged TPOT, A/A, M = 12", ".87", 1.0, wide(), 12, UnchangedTpot)
        },
    ]
}

/// Rows of a server against itself at five measures, whatever its spread and however few its load
/// points.
fn even_rows() -> Vec<Row> {
    let row = |name, published, points, start_sd, blocks| {
        let world = World::even(points, start_sd);
        let trial = Trial::of(&world, blocks, SAME, Counted::AnyFlag);
        Row { name, published, accepted: 0.0..=0.01, world, trial }
    };
    vec![
        row("A/A any flag, 5x5, start sd 1 %, M = 5", "<= .45 %", 5, 0.01, 5),
        row("A/A any flag, 5x5, start sd 8 %, M = 5", "<= .45 %", 5, 0.08, 5),
        row("A/A any flag, 5x5, start sd 4 %, M = 8", "<= .54 %", 5, 0.04, 8),
        row("A/A any flag, 5x5, start sd 8 %, M = 12", "<= .69 %", 5, 0.08, 12),
        row("A/A any flag, 2x5, start sd 8 %, M = 8", "<= .69 %", 2, 0.08, 8),
        row("A/A any flag, 1x5, start sd 8 %, M = 8", "<= .69 %", 1, 0.08, 8),
        row("A/A any flag, 20x5, start sd 8 %, M = 8", "<= .69 %", 20, 0.08, 8),
    ]
}

/// Rows that drift or have few load points.
fn few_points_rows() -> Vec<Row> {
    use Counted::{AnyFlag, FirstFound, GateFails};
    use Effect::{Everywhere, OneScenario};
    let row = |name, published, least, world: World, blocks, effect, counted| {
        let trial = Trial::of(&world, blocks, effect, counted);
        Row { name, published, accepted: least..=1.0, world, trial }
    };
    let drifting = |start_sd: f64| {
        let mut world = World { drift: 0.10, ..World::even(5, start_sd) };
        world.cells.retain(|cell| cell.measure == Measure::ITL_P50);
        world
    };
    let simulated = World::simulated;
    let (slower, one) = (Everywhere(0.01), OneScenario);
    let drift = World { drift: 0.10, ..World::even(5, 0.01) };
    vec![
        row(
            "+1 % ITL p50, drift 10 %, M = 9",
            "99.9 %",
            0.95,
            drifting(0.002),
            9,
            slower,
            GateFails,
        ),
        row(
            "+3 % all, drift 10 %, M = 8",
            "100 %",
            0.95,
            drift.clone(),
            8,
            Everywhere(0.03),
            GateFails,
        ),
        row("one of 5 +3 %, M = 12", "90.9 %", 0.88, simulated(5), 12, one(0.03), FirstFound),
        row("one of 5 +3 %, M = 13", "95.0 %", 0.92, simulated(5), 13, one(0.03), FirstFound),
        row("one of 5 +5 %, M = 8", "97.6 %", 0.95, simulated(5), 8, one(0.05), FirstFound),
        row("one point +5 %, M = 8", "88 %", 0.85, simulated(1), 8, one(0.05), FirstFound),
        row("one point +10 %, M = 5", "93 %", 0.90, simulated(1), 5, one(0.10), FirstFound),
        Row {
            accepted: 0.0..=0.01,
            ..row("A/A any flag, drift 10 %, M = 8", "<= .85 %", 0.0, drift, 8, SAME, AnyFlag)
        },
    ]
}

/// Rows of a slower server.
fn slower_rows() -> Vec<Row> {
    use Counted::{FirstFound, GateFails, UnchangedTpot};
    use Effect::{Everywhere, OneScenario};
    let row = |name, published, least, blocks, effect, counted| {
        let trial = Trial::paired(blocks, effect, counted);
        Row { name, published, accepted: least..=1.0, world: wide(), trial }
    };
    vec![
        row("gate, +3 % all, M = 10", ".94", 0.88, 10, Everywhere(0.03), GateFails),
        row("gate, +3 % all, M = 12", ".99", 0.95, 12, Everywhere(0.03), GateFails),
        row("gate, +5 % all, M = 6", ".97", 0.92, 6, Everywhere(0.05), GateFails),
        row("gate, +5 % all, M = 8", "1.0", 0.98, 8, Everywhere(0.05), GateFails),
        row("one scenario +5 %, M = 8", ".97", 0.92, 8, OneScenario(0.05), FirstFound),
        row("one scenario +3 %, M = 12", ".95", 0.90, 12, OneScenario(0.03), FirstFound),
        row("gate, +10 % all, M = 5", "1.0", 0.98, 5, Everywhere(0.10), GateFails),
        Row {
            accepted: 0.0..=0.06,
            ..row(
                "wrong unchanged at the margin",
                "3.2-3.9 %",
                0.0,
                8,
                Everywhere(0.02),
                UnchangedTpot,
            )
        },
    ]
}

/// Rows of sides that were measured on different days.
fn day_rows() -> Vec<Row> {
    use Counted::{AnyDeviation, AnyFlag, GateFails};
    let row = |name, published, accepted, blocks, effect, counted| {
        let world = World { day_sd: 0.005, ..wide() };
        Row { name, published, accepted, world, trial: Trial::paired(blocks, effect, counted) }
    };
    let calibrated = |row: Row| {
        let error_term = ErrorTerm::PairedAcrossDays { day_sd: 0.005 };
        let options = Options { error_term, ..Options::default() };
        Row { trial: Trial { options, ..row.trial }, ..row }
    };
    let slower = Effect::Everywhere(0.10);
    vec![
        row("day sd .5 %: deviation flags, M = 12", "0", 0.0..=0.005, 12, SAME, AnyDeviation),
        calibrated(row("day sd .5 % known: any flag, M = 8", "0", 0.0..=0.01, 8, SAME, AnyFlag)),
        calibrated(row(
            "day sd .5 % known: +10 % all, M = 8",
            "1.0",
            0.98..=1.0,
            8,
            slower,
            GateFails,
        )),
    ]
}

/// The acceptance table (docs/statistics.md, section 9): every row that needs only values of starts.
#[must_use]
pub fn table(reports: u32, seed: Seed) -> Vec<Figure> {
    let rows = unchanged_rows().into_iter().chain(even_rows()).chain(slower_rows());
    let rows = rows.chain(few_points_rows()).chain(day_rows());
    let mut figures: Vec<Figure> = rows
        .map(|row| {
            let Row { name, published, accepted, world, trial } = row;
            let ours = share(&world, &trial, reports, seed.named(name));
            Figure { name, published, accepted, ours, reports }
        })
        .collect();
    figures.extend(apart::figures(reports, seed.named("apart")));
    figures.extend(look_figures(reports, seed.named("looks")));
    figures.extend(failure_figures(reports, seed.named("failures")));
    figures
}

/// InterimLooks at 5, 8 and 12 blocks with a third of the error each.
fn look_figures(reports: u32, seed: Seed) -> Vec<Figure> {
    let world = World::simulated(20);
    let looks = [5, 8, 12];
    let figure =
        |name, published, accepted, ours| Figure { name, published, accepted, ours, reports };
    let unchanged = run_looks(&world, &looks, Effect::Everywhere(0.0), reports, seed.named("same"));
    let slower = run_looks(&world, &looks, Effect::Everywhere(0.03), reports, seed.named("slower"));
    vec![
        figure("looks 5, 8, 12: A/A any flag", ".17 %", 0.0..=0.01, unchanged.changed),
        figure("looks 5, 8, 12: +3 % all found", ".96", 0.90..=1.0, slower.changed),
        figure("looks 5, 8, 12: +3 % all, mean blocks", "8.4", 5.0..=9.5, slower.mean_blocks),
    ]
}

struct LookShares {
    changed: f64,
    mean_blocks: f64,
}

fn run_looks(world: &World, at: &[u32], effect: Effect, reports: u32, seed: Seed) -> LookShares {
    let looks = InterimLooks::at(at).unwrap_or_else(|| InterimLooks::once(8));
    let options = Options { looks: looks.count(), ..Options::default() };
    let (mut changed, mut blocks_taken) = (0_u32, 0_u32);
    for report in 0..reports {
        let starts = Starts::blocks(looks.most_blocks() as usize);
        let cells = world.report(starts, effect, seed.nth(report.into()));
        for blocks in at {
            let decision = decide(&first_blocks(&cells, *blocks as usize), &options);
            if looks.after(*blocks, decision.changed()) == Step::Stop {
                changed += u32::from(decision.changed());
                blocks_taken += blocks;
                break;
            }
        }
    }
    let reports = f64::from(reports.max(1));
    LookShares {
        changed: f64::from(changed) / reports,
        mean_blocks: f64::from(blocks_taken) / reports,
    }
}

fn first_blocks(cells: &[Cell], blocks: usize) -> Vec<Cell> {
    let first = |values: &[Option<f64>]| values.iter().take(blocks).copied().collect();
    cells
        .iter()
        .map(|cell| {
            let (base, new) = (first(&cell.base), first(&cell.new));
            Cell { base, new, base_first: Vec::new(), ..cell.clone() }.alternating()
        })
        .collect()
}

/// The failures of a made-up side.
struct Failing {
    /// The true rate.
    rate: f64,
    /// The correlation of failures within a start: 0 for independent requests.
    correlation: f64,
    /// How many starts of 128 requests.
    starts: usize,
}

impl Failing {
    fn counts(&self, rng: &mut ChaCha8Rng) -> Vec<Count> {
        const TRIALS: u64 = 128;
        // Bursts: each start draws its rate from a beta distribution with a + b = 1 / rho − 1.
        let size = 1.0 / self.correlation - 1.0;
        let rates = Beta::new(self.rate * size, (1.0 - self.rate) * size).ok();
        let mut one = || {
            let rate = match (&rates, self.correlation > 0.0 && self.rate > 0.0) {
                (Some(rates), true) => rates.sample(rng),
                _ => self.rate,
            };
            let hits = Binomial::new(TRIALS, rate).map_or(0, |failures| failures.sample(rng));
            Count { hits, trials: TRIALS }
        };
        (0..self.starts).map(|_| one()).collect()
    }
}

/// Failures. The page names a correlation only for the server against itself; the published power
/// is that of independent failures (with a correlation of 0.01 it is 0.73).
fn failure_figures(reports: u32, seed: Seed) -> Vec<Figure> {
    let share = |base: &Failing, new: &Failing, options: FailureOptions, seed: Seed| {
        let regressed = |report: u32| {
            let mut rng = seed.nth(report.into()).rng();
            let (base, new) = (base.counts(&mut rng), new.counts(&mut rng));
            let point = FailureCounts { scenario: 0, base, new };
            judge(&[point], &options).iter().any(|result| result.flag == FailureFlag::Regressed)
        };
        let found = (0..reports).filter(|report| regressed(*report)).count();
        found as f64 / f64::from(reports.max(1))
    };
    let bursts = Failing { rate: 0.01, correlation: 0.01, starts: 12 };
    let none = Failing { rate: 0.0, correlation: 0.0, starts: 20 };
    let some = Failing { rate: 0.01, correlation: 0.0, starts: 20 };
    // The bare test, without the floor that would hide its level.
    let bare = FailureOptions { alpha: 0.01, floor: 0.0, ..FailureOptions::default() };
    let strict = FailureOptions { alpha: 0.001, ..FailureOptions::default() };
    vec![
        Figure {
            name: "errors, A/A 1 %, rho .01, alpha .01",
            published: ".011",
            accepted: 0.0..=0.02,
            ours: share(&bursts, &bursts, bare, seed.named("same")),
            reports,
        },
        Figure {
            name: "errors, 0 to 1 %, N = 2560, alpha .001",
            published: ".996",
            accepted: 0.97..=1.0,
            ours: share(&none, &some, strict, seed.named("more")),
            reports,
        },
    ]
}
