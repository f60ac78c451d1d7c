//! Which of several sides may be the best: selection with the best (Hsu, Ann. Statist. 12, 1984,
//! 1136–1144), its quantile bounded by Bonferroni's.
//!
//! A side is out once some other side is better than it for sure. The best side is out only if a
//! test of it against one of the K − 1 others errs, so that it stays in with probability 1 − alpha
//! whichever it is, and however many others are equal to it. Assumes what [`block_model`] assumes.

use super::block_model::{self, Block};
use super::distribution::t_upper;
use super::t_test::{Estimate, NO_VARIATION};

/// The sides, best first.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking {
    /// Each side that has values next to the best's.
    pub ranks: Vec<Ranked>,
}

/// One side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked {
    /// Its index.
    pub side: usize,
    /// ln of its objective less that of the first of the ranking; none: it is the first itself.
    pub behind: Option<Estimate>,
    /// Whether no other side is better for sure.
    pub may_be_best: bool,
}

/// Ranks `sides` sides by an objective of which more is better, given as its logarithm. `alpha` is
/// the probability that the best is not among those that may be best. `None` with fewer than two
/// sides or where the blocks cannot tell them apart.
#[must_use]
pub fn rank(blocks: &[Block], sides: usize, alpha: f64) -> Option<Ranking> {
    let against = |base: usize| block_model::fit(&swapped(blocks, base), sides);
    let first = against(0)?;
    let mean = |side: usize| match side {
        0 => Some(0.0),
        side => first.estimate(side).map(|estimate| estimate.mean),
    };
    let mut order: Vec<(usize, f64)> =
        (0..sides).filter_map(|side| Some((side, mean(side)?))).collect();
    if order.len() < 2 {
        return None;
    }
    order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let best = order[0].0;
    let others = (order.len() - 1) as f64;
    let ranked = |&(side, _): &(usize, f64)| -> Option<Ranked> {
        let fit = against(side)?;
        let beaten = (0..sides).filter(|other| *other != side).any(|other| {
            let lead = fit.estimate(swap(other, side));
            lead.is_some_and(|lead| is_positive(&lead, alpha / others))
        });
        let lead = fit.estimate(swap(best, side)).filter(|_| side != best);
        let behind = lead.map(|lead| Estimate { mean: -lead.mean, ..lead });
        Some(Ranked { side, behind, may_be_best: !beaten })
    };
    Some(Ranking { ranks: order.iter().filter_map(ranked).collect() })
}

/// Whether a mean is above zero, one-sided.
fn is_positive(estimate: &Estimate, alpha: f64) -> bool {
    if estimate.se < NO_VARIATION {
        return estimate.mean > NO_VARIATION;
    }
    estimate.mean / estimate.se > t_upper(alpha, estimate.df)
}

/// The blocks with `side` in the place of side 0, against which the model's contrasts stand.
fn swapped(blocks: &[Block], side: usize) -> Vec<Block> {
    let run = |(index, value): &(usize, Option<f64>)| (swap(*index, side), *value);
    blocks.iter().map(|block| Block { runs: block.runs.iter().map(run).collect() }).collect()
}

fn swap(index: usize, side: usize) -> usize {
    match index {
        0 => side,
        index if index == side => 0,
        index => index,
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;
    use crate::rng::Seed;

    /// Blocks in rotating order; the value of a run is that of its side, its block and its noise.
    fn blocks(means: &[f64], count: usize, sd: f64, seed: Seed) -> Vec<Block> {
        let mut rng = seed.rng();
        let mut normal = || {
            let uniform: f64 = rng.random::<f64>().max(1e-12);
            (-2.0 * uniform.ln()).sqrt() * (std::f64::consts::TAU * rng.random::<f64>()).cos()
        };
        let mut block = |number: usize| {
            let shared = normal();
            let run = |place: usize| {
                let side = (place + number) % means.len();
                (side, means[side] + shared)
            };
            let runs: Vec<_> = (0..means.len()).map(run).collect();
            Block {
                runs: runs.into_iter().map(|(side, v)| (side, Some(v + sd * normal()))).collect(),
            }
        };
        (0..count).map(&mut block).collect()
    }

    #[test]
    fn the_best_of_equal_sides_is_dropped_no_more_often_than_alpha() {
        let out = |means: &[f64], blocks_each: usize| {
            let tries = 1000;
            let dropped = (0..tries).filter(|seed| {
                let seed = Seed(7).named("best").nth(*seed);
                let ranking = rank(&blocks(means, blocks_each, 0.02, seed), means.len(), 0.05);
                let ranks = ranking.unwrap().ranks;
                !ranks.iter().find(|ranked| ranked.side == 2).unwrap().may_be_best
            });
            dropped.count() as f64 / tries as f64
        };
        // Three Monte Carlo errors above 5 % of 1000.
        let limit = 0.05 + 3.0 * (0.05 * 0.95 / 1000.0_f64).sqrt();
        for means in [&[0.0; 4][..], &[-0.1, 0.0, 0.0, -0.01], &[0.0; 3]] {
            for count in [5, 8] {
                let share = out(means, count);
                assert!(share <= limit, "{means:?}, {count} blocks: {share}");
            }
        }
    }

    #[test]
    fn a_side_that_is_worse_for_sure_is_out_and_an_equal_one_is_not() {
        let means = [0.0, 0.20, 0.19, -0.10];
        let ranking = rank(&blocks(&means, 8, 0.02, Seed(3)), 4, 0.05).unwrap();
        let sides: Vec<usize> = ranking.ranks.iter().map(|ranked| ranked.side).collect();
        assert_eq!(sides[2..], [0, 3]);
        let may: Vec<bool> = ranking.ranks.iter().map(|ranked| ranked.may_be_best).collect();
        assert_eq!(may, [true, true, false, false]);
        let last = ranking.ranks[3].behind.unwrap();
        assert!(last.interval(0.95).low < -0.30 && last.interval(0.95).high > -0.30, "{last:?}");
        assert_eq!(ranking.ranks[0].behind, None);
    }

    #[test]
    fn sides_that_were_dropped_early_keep_their_place() {
        let mut all = blocks(&[0.0, 0.1, -0.2], 8, 0.01, Seed(5));
        for block in &mut all[5..] {
            block.runs.retain(|(side, _)| *side != 2);
        }
        let ranking = rank(&all, 3, 0.05).unwrap();
        let sides: Vec<usize> = ranking.ranks.iter().map(|ranked| ranked.side).collect();
        assert_eq!(sides, [1, 0, 2]);
        assert!(!ranking.ranks[2].may_be_best);
    }

    #[test]
    fn one_side_or_no_block_ranks_nothing() {
        assert_eq!(rank(&[], 3, 0.05), None);
        let alone = Block { runs: vec![(0, Some(1.0))] };
        assert_eq!(rank(&[alone.clone(), alone], 1, 0.05), None);
    }
}
