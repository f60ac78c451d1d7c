//! Rows of the SLO capacity: searches on the simulated server, in virtual time.

use super::Figure;
use super::requests::Amount;
use super::server::{Load as Played, Round, Start};
use crate::compare::capacity::interval;
use crate::compare::cell::Cell;
use crate::compare::decide::decide;
use crate::compare::options::Options;
use crate::compare::verdict::Verdict;
use crate::metric::Measure;
use crate::plan::search::{Capacity, Search, Tried, capacity};
use crate::rng::Seed;
use crate::scenario::Load;
use crate::stats::moments::mean;
use crate::stats::quantile::quantile;

/// Starts of a side where its capacity is told, and where it is judged.
const STARTS: u64 = 8;
const BLOCKS: u64 = 20;
/// A request is good up to this TPOT and TTFT, ms.
const TPOT_MS: f64 = 12.5;
const TTFT_MS: f64 = 200.0;
/// The share of them that has to be.
const LEAST: f64 = 0.95;
/// Requests of a load where the truth is looked for.
const MANY: usize = 2048;

/// The two kinds of load that a search raises.
#[derive(Debug, Clone, Copy)]
pub enum Axis {
    /// From concurrency 16 on.
    Concurrency,
    /// From 4 requests a second on.
    Rate,
}

/// The logarithm of latency / limit that 95 % of the requests stay below.
fn excess(round: &Round) -> f64 {
    let (ttfts, tpots) = (round.ttfts_ms(), round.tpots_ms());
    let ratios = ttfts.iter().zip(&tpots).map(|(t, p)| (t / TTFT_MS).max(p / TPOT_MS).ln());
    quantile(&ratios.collect::<Vec<_>>(), LEAST).unwrap_or(f64::INFINITY)
}

/// The capacity of one start, from rounds of as many requests as the product takes, or of `requests`.
fn of_start(axis: Axis, mut start: Start, requests: Option<usize>) -> Option<f64> {
    let begin = match axis {
        Axis::Concurrency => Load::concurrency(16),
        Axis::Rate => Load::request_rate(4.0).into(),
    };
    let (mut search, mut tried) = (Search::from(begin), Vec::new());
    while let Some(load) = search.next() {
        let level = load.level();
        let (played, usual) = match load {
            Load::Concurrency(n) => (Played::Spread(n as usize), 256.max(8 * n as usize)),
            Load::RequestRate(rate) => {
                (Played::Scaled(rate.per_s), 256.max((20.0 * level) as usize))
            }
        };
        let excess = excess(&start.round_by_load(played, requests.unwrap_or(usual)));
        let met = excess <= 0.0;
        search.note(load, met);
        tried.push(Tried { level, good_share: LEAST, excess, met });
    }
    match capacity(&tried)? {
        Capacity::At(value) => Some(value),
        Capacity::AtLeast(_) | Capacity::Below(_) => None,
    }
}

fn of_side(axis: Axis, starts: u64, seed: Seed, (side, slowdown): (&str, f64)) -> Vec<Option<f64>> {
    (0..starts).map(|block| of_start(axis, Start::new(seed, side, block, slowdown), None)).collect()
}

/// The capacity that long rounds of many starts have.
fn truth(axis: Axis, seed: Seed, starts: u32, slowdown: f64) -> f64 {
    let of = |block: u32| {
        let start = Start::new(seed.named("truth"), "base", block.into(), slowdown);
        of_start(axis, start, Some(MANY)).map(f64::ln)
    };
    mean(&(0..starts).filter_map(of).collect::<Vec<_>>()).map_or(f64::NAN, f64::exp)
}

/// How often a search of eight starts is within 5 % of the truth, and how often its interval holds it.
#[must_use]
pub fn search_figures(axis: Axis, amount: Amount, seed: Seed) -> [Figure; 2] {
    let truth = truth(axis, seed, amount.truth_starts, 1.0);
    let (mut near, mut held) = (0_u32, 0_u32);
    for report in 0..amount.reports {
        let values = of_side(axis, STARTS, seed.nth(report.into()), ("base", 1.0));
        let logs: Vec<f64> = values.into_iter().flatten().map(f64::ln).collect();
        let Some((ours, ci)) = mean(&logs).map(f64::exp).zip(interval(&logs)) else { continue };
        near += u32::from((ours / truth - 1.0).abs() <= 0.05);
        held += u32::from(ci.low <= truth && truth <= ci.high);
    }
    let share = |hits: u32| f64::from(hits) / f64::from(amount.reports.max(1));
    let figure = |name, accepted, ours| Figure {
        name,
        published: "-",
        accepted,
        ours,
        reports: amount.reports,
    };
    let names = match axis {
        Axis::Concurrency => [
            "SLO capacity in flight within 5 % of the truth, M = 8",
            "its interval holds the truth",
        ],
        Axis::Rate => {
            ["SLO capacity in req/s within 5 % of the truth, M = 8", "its interval holds the truth"]
        }
    };
    [figure(names[0], 1.0..=1.0, share(near)), figure(names[1], 0.90..=1.0, share(held))]
}

/// How often a gate finds a capacity that is 5 % smaller, and how often it finds one of the same server.
#[must_use]
pub fn gate_figures(amount: Amount, seed: Seed) -> [Figure; 2] {
    let axis = Axis::Concurrency;
    // The slowdown that costs 5 %: the capacity is smooth in it over so little.
    let (whole, slower) =
        (truth(axis, seed, amount.truth_starts, 1.0), truth(axis, seed, amount.truth_starts, 1.02));
    let per_percent = (slower / whole).ln() / 0.02;
    let slowdown = 1.0 + 0.95_f64.ln() / per_percent;
    let regressed = |base: Vec<Option<f64>>, new| {
        let cell = Cell::gated(0, Measure::SLO_CAPACITY, base, new).alternating();
        decide(&[cell], &Options::for_points(1)).cells[0].verdict == Verdict::Regressed
    };
    let (mut found, mut false_alarms) = (0_u32, 0_u32);
    for report in 0..amount.reports {
        let seed = seed.nth(report.into());
        let side = |name, slowdown| of_side(axis, BLOCKS, seed, (name, slowdown));
        let base = side("base", 1.0);
        let same = side("same", 1.0);
        found += u32::from(regressed(base.clone(), side("smaller", slowdown)));
        false_alarms += u32::from(regressed(base, same));
    }
    let share = |hits: u32| f64::from(hits) / f64::from(amount.reports.max(1));
    let figure = |name, accepted, ours| Figure {
        name,
        published: "-",
        accepted,
        ours,
        reports: amount.reports,
    };
    println!("truth {whole:.2}, a slowdown of {slowdown:.4} costs 5 %");
    [
        figure("SLO capacity −5 % found, 20 blocks", 0.80..=1.0, share(found)),
        figure("SLO capacity of the same server called smaller", 0.0..=0.02, share(false_alarms)),
    ]
}
