//! Rows that need requests: the simulator's engine, played in virtual time.

use super::Figure;
use super::capacity::{Axis, gate_figures, search_figures};
use super::criterion;
use super::order_statistics::{order_ranks, pooled_quantile};
use super::server::{Load, Round, Start};
use crate::compare::cell::Cell;
use crate::compare::decide::decide;
use crate::compare::options::{Levels, Options};
use crate::compare::verdict::Verdict;
use crate::metric::Measure;
use crate::rng::Seed;
use crate::stats::Interval;
use crate::stats::crossover::{Bounds, Crossover, Curve, Located, Steadiness};
use crate::stats::moments::mean;
use crate::stats::quantile::{quantile, sorted};

/// How much is simulated.
#[derive(Debug, Clone, Copy)]
pub struct Amount {
    /// Reports in which something is counted.
    pub reports: u32,
    /// Starts that make the truth which intervals must hold: many times those of a report.
    pub truth_starts: u32,
}

/// The rows that need requests.
#[must_use]
pub fn table(amount: Amount, seed: Seed) -> Vec<Figure> {
    let mut figures = tail_figures(amount.reports, seed.named("tail"));
    figures.extend(hull_figures(amount, seed.named("hull")));
    figures.push(crossover_figure(amount, seed.named("crossover")));
    for axis in [Axis::Concurrency, Axis::Rate] {
        figures.extend(search_figures(axis, amount, seed.named("capacity")));
    }
    figures.extend(gate_figures(amount, seed.named("smaller capacity")));
    figures.push(criterion::figure(amount.reports, seed.named("criterion")));
    figures
}

/// Shares of reports in which a regression was found.
struct Found {
    unchanged: f64,
    slower: f64,
}

/// The p99 of TTFT: 12 blocks of 512 requests, floor 5 %, at 0.05 over 80 figures, against the same
/// server and against one 10 % slower. One figure is judged at an eightieth of the error, which is
/// what Holm's correction leaves the first of 80.
fn tail_found(load: Load, reports: u32, seed: Seed) -> Found {
    const BLOCKS: u64 = 12;
    let options = Options {
        levels: Levels { cells: 0.05 / 80.0, suite: 0.0, deviation: 0.0 },
        ..Options::for_points(1)
    };
    let regressed = |base: &[Option<f64>], new: Vec<Option<f64>>| {
        let cell = Cell::gated(0, Measure::TTFT_P99, base.to_vec(), new);
        let cell = Cell { floor: 0.05, margin: 0.05, ..cell.alternating() };
        decide(&[cell], &options).cells[0].verdict == Verdict::Regressed
    };
    let (mut unchanged, mut slower) = (0_u32, 0_u32);
    for report in 0..reports {
        let seed = seed.nth(report.into());
        let side = |name: &str, slowdown: f64| -> Vec<Option<f64>> {
            let of = |block| {
                let round = Start::new(seed, name, block, slowdown).round(load, 512);
                quantile(&round.ttfts_ms(), 0.99)
            };
            (0..BLOCKS).map(of).collect()
        };
        let base = side("base", 1.0);
        unchanged += u32::from(regressed(&base, side("same", 1.0)));
        slower += u32::from(regressed(&base, side("slower", 1.10)));
    }
    let share = |hits: u32| f64::from(hits) / f64::from(reports.max(1));
    Found { unchanged: share(unchanged), slower: share(slower) }
}

/// The rows of a change of 10 % at the tail, at concurrency 16.
#[must_use]
pub fn tail_figures(reports: u32, seed: Seed) -> Vec<Figure> {
    let together = tail_found(Load::Closed(16), reports, seed.named("together"));
    let spread = tail_found(Load::Spread(16), reports, seed.named("spread"));
    let figure =
        |name, published, accepted, ours| Figure { name, published, accepted, ours, reports };
    vec![
        figure("p99 TTFT +10 %, C = 16, 12 x 512", ".93", 0.85..=1.0, together.slower),
        figure("p99 TTFT +0 %, the same", "-", 0.0..=0.01, together.unchanged),
        // With the slots spread the two sides' iterations hold different requests, and pairs differ
        // more. No figure was published for that.
        figure("p99 TTFT +10 %, slots spread", "-", 0.30..=1.0, spread.slower),
        figure("p99 TTFT +0 %, slots spread", "-", 0.0..=0.01, spread.unchanged),
    ]
}

/// How often intervals of a quantile hold the true one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coverage {
    /// The interval that is shown: the hull of the starts' spread and the order statistics.
    pub hull: f64,
    /// Order statistics alone, as if the requests were independent.
    pub order: f64,
}

/// The rows of the intervals of p50, p90 and p99, in a closed and an open loop.
#[must_use]
pub fn hull_figures(amount: Amount, seed: Seed) -> Vec<Figure> {
    let published = [".94-.99", ".93-.98", ".93-.99"];
    let rows = [
        (
            Load::Closed(16),
            [
                "hull CI of TTFT p50, C = 16, M = 10, N = 512",
                "hull CI of TTFT p90, C = 16",
                "hull CI of TTFT p99, C = 16",
            ],
        ),
        (
            Load::Poisson(28.0),
            [
                "hull CI of TTFT p50, 28/s, M = 10, N = 512",
                "hull CI of TTFT p90, 28/s",
                "hull CI of TTFT p99, 28/s",
            ],
        ),
    ];
    let mut figures = Vec::new();
    for (load, names) in rows {
        let coverage = hull_coverage(load, amount, seed.named(names[0]));
        for ((name, published), coverage) in names.into_iter().zip(published).zip(coverage) {
            let (accepted, reports) = (0.91..=0.995, amount.reports);
            figures.push(Figure { name, published, accepted, ours: coverage.hull, reports });
        }
    }
    figures
}

/// How often the intervals of p50, p90 and p99 of TTFT hold the true value: ten starts of 512
/// requests. The truth is the quantile of the requests of `truth_starts` other starts.
#[must_use]
pub fn hull_coverage(load: Load, amount: Amount, seed: Seed) -> [Coverage; 3] {
    const STARTS: u64 = 10;
    const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];
    let ttfts = |seed: Seed, starts: u64| -> Vec<Vec<f64>> {
        let of = |start| Start::new(seed, "base", start, 1.0).round(load, 512).ttfts_ms();
        (0..starts).map(of).collect()
    };
    let all = ttfts(seed.named("truth"), amount.truth_starts.into()).concat();
    let truths = QUANTILES.map(|q| quantile(&all, q).unwrap_or(f64::NAN));
    let mut held = [(0_u32, 0_u32); 3];
    for report in 0..amount.reports {
        let starts = ttfts(seed.nth(report.into()), STARTS);
        let views: Vec<&[f64]> = starts.iter().map(Vec::as_slice).collect();
        let pooled = sorted(&starts.concat());
        for ((held, q), truth) in held.iter_mut().zip(QUANTILES).zip(truths) {
            let hull = pooled_quantile(&views, q, 0.95).map(|found| found.hull);
            held.0 += u32::from(hull.is_some_and(|hull| holds(hull, truth)));
            held.1 += u32::from(by_order(&pooled, q).is_some_and(|order| holds(order, truth)));
        }
    }
    let share = |held: u32| f64::from(held) / f64::from(amount.reports.max(1));
    held.map(|(hull, order)| Coverage { hull: share(hull), order: share(order) })
}

fn holds(interval: Interval, truth: f64) -> bool {
    (interval.low..=interval.high).contains(&truth)
}

fn by_order(sorted: &[f64], q: f64) -> Option<Interval> {
    let ranks = order_ranks(sorted.len(), q, 0.95);
    Some(Interval { low: sorted[ranks.lower? - 1], high: sorted[ranks.upper? - 1] })
}

/// The loads of the curve: the reference, then closed loops on both sides of the 256 sequences that
/// the server runs at once. Beyond them requests wait, and TTFT overtakes QPS.
const CURVE: [Load; 5] =
    [Load::Poisson(1.0), Load::Closed(16), Load::Closed(64), Load::Closed(256), Load::Closed(384)];

/// Median TTFT and QPS of one start at each load of the curve.
struct Climb {
    ttft: Vec<f64>,
    qps: Vec<f64>,
    /// Requests in flight at the reference (Little's law).
    reference_in_flight: f64,
}

impl Climb {
    fn of(seed: Seed, start: u64) -> Self {
        let mut server = Start::new(seed, "base", start, 1.0);
        let rounds: Vec<Round> = CURVE
            .iter()
            .map(|load| match load {
                Load::Poisson(_) | Load::Scaled(_) => server.round(*load, 60),
                Load::Closed(n) | Load::Spread(n) => server.round(*load, (2 * n).max(128)),
            })
            .collect();
        Self {
            ttft: rounds.iter().filter_map(|r| quantile(&r.ttfts_ms(), 0.5)).collect(),
            qps: rounds.iter().map(|r| r.qps).collect(),
            reference_in_flight: rounds[0].qps * mean(&rounds[0].e2els_ms()).unwrap_or(0.0) / 1e3,
        }
    }
}

fn crossover(climbs: &[Climb]) -> Option<Located> {
    let reference: Vec<f64> = climbs.iter().map(|climb| climb.reference_in_flight).collect();
    let reference = mean(&reference)?;
    let load = CURVE.map(|load| match load {
        Load::Closed(concurrency) | Load::Spread(concurrency) => concurrency as f64,
        Load::Poisson(_) | Load::Scaled(_) => reference,
    });
    let latency: Vec<Vec<f64>> = climbs.iter().map(|climb| climb.ttft.clone()).collect();
    let throughput: Vec<Vec<f64>> = climbs.iter().map(|climb| climb.qps.clone()).collect();
    let steadiness = [Steadiness::Steady; CURVE.len()];
    let curve = Curve {
        load: &load,
        latency: &latency,
        throughput: &throughput,
        steadiness: &steadiness,
        reference_error: 0.0,
    };
    match curve.crossover()? {
        Crossover::At(located) => Some(located),
        _ => None,
    }
}

/// How often the interval of the crossover of five starts holds that of `truth_starts` others. A
/// report without an interval does not.
fn crossover_coverage(amount: Amount, seed: Seed) -> f64 {
    const STARTS: u64 = 5;
    let climbs = |seed: Seed, starts: u64| -> Vec<Climb> {
        (0..starts).map(|start| Climb::of(seed, start)).collect()
    };
    let Some(truth) = crossover(&climbs(seed.named("truth"), amount.truth_starts.into())) else {
        return 0.0;
    };
    let covers = |report: u32| match crossover(&climbs(seed.nth(report.into()), STARTS)) {
        Some(Located { bounds: Bounds::Within(interval), .. }) => holds(interval, truth.load),
        _ => false,
    };
    let held = (0..amount.reports).filter(|report| covers(*report)).count();
    held as f64 / f64::from(amount.reports.max(1))
}

/// The row of the crossover.
#[must_use]
pub fn crossover_figure(amount: Amount, seed: Seed) -> Figure {
    Figure {
        name: "crossover of TTFT, jackknife-t coverage, M = 5",
        published: ".96-.97",
        accepted: 0.91..=0.995,
        ours: crossover_coverage(amount, seed),
        reports: amount.reports,
    }
}
