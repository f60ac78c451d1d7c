//! Rows of sides that were not measured side by side: nights, saved baselines, assumed spreads.

use rand::rngs::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::Figure;
use crate::compare::assumed_spread::assumed_sd;
use crate::compare::cell::{Cell, KnownNoise};
use crate::compare::decide::decide;
use crate::compare::decision::Decision;
use crate::compare::options::{ErrorTerm, Levels, Options};
use crate::metric::{Better, Measure};
use crate::rng::Seed;
use crate::settings::REPORT_BUDGET;
use crate::stats::day_variance::DayVariance;
use crate::stats::moments::mean;
use crate::stats::quantile::median;

const MEASURES: [Measure; 5] = [
    Measure::ITL_P50,
    Measure::THROUGHPUT,
    Measure::TPOT_MEAN,
    Measure::TTFT_P50,
    Measure::TTFT_P99,
];
/// Load points of these rows.
const POINTS: usize = 5;

/// The rows.
pub(super) fn figures(reports: u32, seed: Seed) -> Vec<Figure> {
    let mut figures = night_figures(reports, seed.named("nights"));
    figures.extend(saved_figures(reports, seed.named("saved")));
    figures.extend(assumed_figures(reports, seed.named("assumed")));
    figures
}

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    StandardNormal.sample(rng)
}

/// Every cell of a report, made one by one.
fn cells(mut make: impl FnMut(Measure) -> Cell) -> Vec<Cell> {
    let mut all = Vec::new();
    for measure in MEASURES {
        for point in 0..POINTS {
            all.push(Cell { scenario: point, ..make(measure) });
        }
    }
    all
}

/// A value from a log of which more is worse.
fn value(measure: Measure, log: f64) -> Option<f64> {
    let worse_is_more = measure.metric.better() == Better::Lower;
    Some(if worse_is_more { log.exp() } else { (-log).exp() })
}

/// The share of reports of which something is true.
fn share(reports: u32, seed: Seed, is: impl Fn(&mut ChaCha8Rng) -> bool) -> f64 {
    let hits = (0..reports).filter(|report| is(&mut seed.nth(u64::from(*report)).rng())).count();
    hits as f64 / f64::from(reports.max(1))
}

/// Nights of some starts each, whose day and start spreads are these.
struct Nights {
    base: usize,
    new: usize,
    starts: usize,
    day_sd: f64,
    start_sd: f64,
    slower: f64,
}

impl Nights {
    fn decision(&self, rng: &mut ChaCha8Rng) -> Decision {
        let days: Vec<f64> = (0..self.base + self.new).map(|_| self.day_sd * normal(rng)).collect();
        let cells = cells(|measure| {
            let mut night = |day: f64, shift: f64| -> Vec<f64> {
                (0..self.starts).map(|_| day + shift + self.start_sd * normal(rng)).collect()
            };
            let (base, new) = days.split_at(self.base);
            let base: Vec<Vec<f64>> = base.iter().map(|day| night(*day, 0.0)).collect();
            let new: Vec<Vec<f64>> = new.iter().map(|day| night(*day, self.slower)).collect();
            let of = |nights: &[Vec<f64>]| {
                nights.iter().map(|night| value(measure, mean(night)?)).collect()
            };
            let cell = Cell::gated(0, measure, of(&base), of(&new));
            let middle = new.first().filter(|_| self.starts >= 5).and_then(|night| median(night));
            let night_median = middle.and_then(|log| value(measure, log));
            Cell { night_median, ..cell }
        });
        let error_term = ErrorTerm::Nights;
        decide(&cells, &Options { error_term, ..Options::for_points(POINTS) })
    }
}

fn night_figures(reports: u32, seed: Seed) -> Vec<Figure> {
    let several = Nights { base: 5, new: 2, starts: 5, day_sd: 0.02, start_sd: 0.01, slower: 0.0 };
    let one = Nights { base: 10, new: 1, starts: 1, ..several };
    let found = Nights { base: 10, new: 1, starts: 5, day_sd: 0.0, slower: 0.10, ..several };
    let figure =
        |name, published, accepted, ours| Figure { name, published, accepted, ours, reports };
    vec![
        figure(
            "nights: A/A any flag, 5 x 5 starts, two new",
            "<= .24 %",
            0.0..=0.01,
            share(reports, seed.named("several"), |rng| several.decision(rng).changed()),
        ),
        figure(
            "nights: A/A any flag confirmed, one start a night",
            ".05 %",
            0.0..=0.005,
            share(reports, seed.named("one"), |rng| one.decision(rng).changed()),
        ),
        figure(
            "nights: +10 % found in one night of 5 starts",
            "-",
            0.95..=1.0,
            share(reports, seed.named("found"), |rng| found.decision(rng).regressed()),
        ),
    ]
}

/// A saved baseline of 8 starts whose spread between days is known from this many.
fn saved(days: usize, rng: &mut ChaCha8Rng) -> Decision {
    const BLOCKS: usize = 8;
    const DAY_SD: f64 = 0.005;
    const PAIR_SD: f64 = 0.0185;
    let calibrated: Vec<f64> = (0..days).map(|_| DAY_SD * normal(rng)).collect();
    let apart = DAY_SD * (normal(rng) - normal(rng));
    let cells = cells(|measure| {
        let new = (0..BLOCKS).map(|_| value(measure, apart + PAIR_SD * normal(rng))).collect();
        let known =
            KnownNoise { days: DayVariance::of_levels(&calibrated), ..KnownNoise::default() };
        Cell { known, ..Cell::gated(0, measure, vec![Some(1.0); BLOCKS], new) }
    });
    let error_term = ErrorTerm::PairedAcrossDays { day_sd: 0.0 };
    decide(&cells, &Options { error_term, ..Options::for_points(POINTS) })
}

fn saved_figures(reports: u32, seed: Seed) -> Vec<Figure> {
    let row = |name, published, days| Figure {
        name,
        published,
        accepted: 0.0..=0.015,
        ours: share(reports, seed.named(name), |rng| saved(days, rng).changed()),
        reports,
    };
    vec![
        row("saved, day sd from 2 days: any flag", "1.05 %", 2),
        row("saved, day sd from 3 days: any flag", ".75 %", 3),
        row("saved, day sd from 5 days: any flag", ".8 %", 5),
    ]
}

/// One start against one, at nearly the assumed spreads, every latency `slower` as a log.
fn assumed(slower: f64, rng: &mut ChaCha8Rng) -> Decision {
    let cells = cells(|measure| {
        let sd = match measure {
            Measure::ITL_P50 => 0.11,
            Measure::TTFT_P50 => 0.35,
            Measure::TTFT_P99 => 0.50,
            _ => 0.14,
        };
        let base = vec![value(measure, sd * normal(rng))];
        let new = vec![value(measure, slower + sd * normal(rng))];
        let assumed_sd = Some(assumed_sd(measure));
        let known = KnownNoise { assumed_sd, ..KnownNoise::default() };
        Cell { known, ..Cell::gated(0, measure, base, new) }
    });
    let error_term = ErrorTerm::Assumed { base_days: 1, new_days: 1 };
    let levels = Levels::of_bound(REPORT_BUDGET);
    decide(&cells, &Options { error_term, levels, ..Options::for_points(POINTS) })
}

fn assumed_figures(reports: u32, seed: Seed) -> Vec<Figure> {
    vec![
        Figure {
            name: "assumed spread, one against one: A/A any flag",
            published: ".64 %",
            accepted: 0.0..=0.01,
            ours: share(reports, seed.named("same"), |rng| assumed(0.0, rng).changed()),
            reports,
        },
        Figure {
            name: "assumed spread, one against one: all doubled",
            published: "97.5-98.7 %",
            accepted: 0.95..=1.0,
            ours: share(reports, seed.named("slower"), |rng| {
                assumed(std::f64::consts::LN_2, rng).regressed()
            }),
            reports,
        },
    ]
}
