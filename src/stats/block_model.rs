//! The block model: values of several sides that ran side by side in blocks, in known orders.
//!
//! ln value = block + side + position in the block + error, by least squares. With two sides it is
//! the AB/BA crossover with its period effect (Senn, Cross-over Trials in Clinical Research, 2nd
//! ed., 2002, chapter 3). Assumes: errors of one variance, independent between starts; whatever
//! all starts of a block share cancels, and so does a drift that is linear within blocks.

use super::moments::{mean, variance};
use super::quantile::sorted;
use super::t_test::Estimate;

/// With two sides and fewer complete blocks than this the position is not fitted: the degrees of
/// freedom that it costs are worth more than the drift that it removes.
pub const LEAST_BLOCKS_FOR_POSITION: usize = 8;
/// A column shorter than this share of itself after projection lies in the span of the others.
const DEPENDENT: f64 = 1e-9;

/// One block: its sides in the order in which they ran, each with its value (none: left out).
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Index of the side and its value, first started first.
    pub runs: Vec<(usize, Option<f64>)>,
}

/// A contrast against side 0, its variance kept apart from its weight, so that the variance can
/// be moderated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contrast {
    /// The difference of the sides.
    pub mean: f64,
    /// `se² = residual variance × weight`.
    pub weight: f64,
}

/// What least squares finds.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockFit {
    /// Blocks with at least two values.
    pub blocks: usize,
    /// Observations less the rank of the model.
    pub df: f64,
    /// The residual variance of one observation.
    pub residual_variance: f64,
    /// Sides 1, 2, … against side 0; `None` if the data cannot tell the side from the position.
    pub contrasts: Vec<Option<Contrast>>,
    /// Positions 2, 3, … against the first; empty where the position is not fitted.
    pub position_effects: Vec<Option<f64>>,
}

impl BlockFit {
    /// A contrast with its standard error from this fit's own variance.
    #[must_use]
    pub fn estimate(&self, side: usize) -> Option<Estimate> {
        let contrast = (*self.contrasts.get(side.checked_sub(1)?)?)?;
        let se = (self.residual_variance * contrast.weight).sqrt();
        Some(Estimate { mean: contrast.mean, se, df: self.df })
    }
}

/// Fits the model. `None` where no contrast can be estimated or no degree of freedom is left.
#[must_use]
pub fn fit(blocks: &[Block], sides: usize) -> Option<BlockFit> {
    let kept: Vec<Vec<Run>> = blocks.iter().map(runs).filter(|runs| runs.len() >= 2).collect();
    let with_position = sides > 2 || kept.len() >= LEAST_BLOCKS_FOR_POSITION;
    let positions = if with_position { sides } else { 1 };
    let column = |is: &dyn Fn(&Run) -> bool| -> Vec<f64> {
        centred(&kept, |run| if is(run) { 1.0 } else { 0.0 })
    };
    let mut columns: Vec<Vec<f64>> =
        (1..positions).map(|position| column(&|run| run.position == position)).collect();
    columns.extend((1..sides).map(|side| column(&|run| run.side == side)));
    let values = centred(&kept, |run| run.value);
    let all = Basis::of(columns.iter());
    let observations: usize = kept.iter().map(Vec::len).sum();
    let df = observations.checked_sub(kept.len() + all.rank()).filter(|df| *df > 0)? as f64;
    let residual_variance = square(&all.residual(&values)) / df;
    let alone = |index: usize| -> Option<Contrast> {
        let others = columns.iter().enumerate().filter(|(i, _)| *i != index).map(|(_, c)| c);
        let rest = Basis::of(others).residual(&columns[index]);
        let length = square(&rest);
        if length.sqrt() <= DEPENDENT * (observations as f64).sqrt() {
            return None;
        }
        Some(Contrast { mean: dot(&rest, &values) / length, weight: 1.0 / length })
    };
    let contrasts: Vec<_> = (positions - 1..columns.len()).map(alone).collect();
    contrasts.iter().any(Option::is_some).then_some(())?;
    let position_effects =
        (0..positions - 1).map(|index| alone(index).map(|effect| effect.mean)).collect();
    Some(BlockFit { blocks: kept.len(), df, residual_variance, contrasts, position_effects })
}

/// One value of a block.
struct Run {
    side: usize,
    position: usize,
    value: f64,
}

fn runs(block: &Block) -> Vec<Run> {
    let run = |(position, (side, value)): (usize, &(usize, Option<f64>))| {
        value.filter(|value| value.is_finite()).map(|value| Run { side: *side, position, value })
    };
    block.runs.iter().enumerate().filter_map(run).collect()
}

/// A number of every run, less the mean of its block: the block effects are fitted by this.
fn centred(blocks: &[Vec<Run>], number: impl Fn(&Run) -> f64) -> Vec<f64> {
    let mut column = Vec::new();
    for block in blocks {
        let values: Vec<f64> = block.iter().map(&number).collect();
        let centre = mean(&values).unwrap_or(0.0);
        column.extend(values.into_iter().map(|value| value - centre));
    }
    column
}

/// Orthonormal columns that span a model (modified Gram-Schmidt).
struct Basis(Vec<Vec<f64>>);

impl Basis {
    fn of<'a>(columns: impl Iterator<Item = &'a Vec<f64>>) -> Self {
        let mut basis = Self(Vec::new());
        for column in columns {
            let rest = basis.residual(column);
            let length = square(&rest).sqrt();
            if length > DEPENDENT * (rest.len() as f64).sqrt() {
                basis.0.push(rest.into_iter().map(|v| v / length).collect());
            }
        }
        basis
    }

    fn rank(&self) -> usize {
        self.0.len()
    }

    /// What the columns leave of a vector.
    fn residual(&self, vector: &[f64]) -> Vec<f64> {
        let mut rest = vector.to_vec();
        for column in &self.0 {
            let share = dot(column, &rest);
            for (value, part) in rest.iter_mut().zip(column) {
                *value -= share * part;
            }
        }
        rest
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn square(vector: &[f64]) -> f64 {
    dot(vector, vector)
}

/// One pair of two sides: how much the new side differs, and whether the base ran first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// ln new − ln base.
    pub difference: f64,
    /// The order of the two.
    pub base_first: bool,
}

/// The mean of paired differences with its variance apart from its weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedFit {
    /// The estimate.
    pub mean: f64,
    /// The variance of one difference.
    pub variance: f64,
    /// `se² = variance × weight`.
    pub weight: f64,
    /// Degrees of freedom of the variance.
    pub df: f64,
}

/// Paired differences whose order is not known or does not matter: the mean trimmed by `trim`
/// values at each end with the Winsorised variance (Tukey and McLaughlin, Sankhyā A 25, 1963;
/// Yuen, Biometrika 61, 1974); with `trim` 0 the plain paired t. `None` where fewer than two stay.
#[must_use]
pub fn fit_differences(differences: &[f64], trim: usize) -> Option<PairedFit> {
    trimmed(differences, trim, 1)
}

/// Two sides: [`fit`] of their pairs. Where something is trimmed, the position's effect is taken
/// off first, and then as [`fit_differences`]. `None` where all pairs ran in one order, from 8
/// pairs on: side and position cannot be distinguished; or where fewer than two pairs are there.
#[must_use]
pub fn fit_pairs(pairs: &[Pair], trim: usize) -> Option<PairedFit> {
    let differences: Vec<f64> = pairs.iter().map(|pair| pair.difference).collect();
    if differences.len() < LEAST_BLOCKS_FOR_POSITION {
        return fit_differences(&differences, trim);
    }
    let of_order = |base_first: bool| -> Vec<f64> {
        pairs.iter().filter(|p| p.base_first == base_first).map(|p| p.difference).collect()
    };
    let (first, second) = (of_order(true), of_order(false));
    let (mean_first, mean_second) = (mean(&first)?, mean(&second)?);
    let position = 0.5 * (mean_first - mean_second);
    if trim > 0 {
        let off = |pair: &Pair| if pair.base_first { position } else { -position };
        let without: Vec<f64> = pairs.iter().map(|pair| pair.difference - off(pair)).collect();
        return trimmed(&without, trim, 2);
    }
    let rest = |p: &Pair| p.difference - if p.base_first { mean_first } else { mean_second };
    let squares: f64 = pairs.iter().map(|pair| rest(pair).powi(2)).sum();
    let df = (differences.len() - 2) as f64;
    let weight = 0.25 * (1.0 / first.len() as f64 + 1.0 / second.len() as f64);
    let mean = 0.5 * (mean_first + mean_second);
    Some(PairedFit { mean, variance: squares / df, weight, df })
}

/// The trimmed mean; `fitted` degrees of freedom of the values that are kept went to the model.
fn trimmed(values: &[f64], trim: usize, fitted: usize) -> Option<PairedFit> {
    let mut sorted = sorted(values);
    let count = sorted.len();
    let kept = count.checked_sub(2 * trim).filter(|kept| *kept > fitted)?;
    let centre = mean(&sorted[trim..count - trim])?;
    let (lowest, highest) = (sorted[trim], sorted[count - 1 - trim]);
    for value in &mut sorted {
        *value = value.clamp(lowest, highest);
    }
    let spread = variance(&sorted)? * (count - 1) as f64 / (kept - 1) as f64;
    let df = (kept - fitted) as f64;
    Some(PairedFit { mean: centre, variance: spread, weight: 1.0 / kept as f64, df })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks in alternating order whose new side is 0.1 above the base and whose second start is
    /// `drift` above the first; `noise` by block.
    fn blocks(noise: &[f64], drift: f64) -> Vec<Pair> {
        let pair = |(index, noise): (usize, &f64)| {
            let base_first = index % 2 == 0;
            let position = if base_first { drift } else { -drift };
            Pair { difference: 0.1 + position + noise, base_first }
        };
        noise.iter().enumerate().map(pair).collect()
    }

    const NOISE: [f64; 16] = [
        0.01, -0.02, 0.0, 0.01, -0.01, 0.02, 0.0, -0.01, 0.01, 0.0, -0.02, 0.02, 0.0, 0.01, -0.01,
        0.0,
    ];

    fn as_blocks(pairs: &[Pair]) -> Vec<Block> {
        let block = |pair: &Pair| {
            let (base, new) = ((0, Some(0.0)), (1, Some(pair.difference)));
            Block { runs: if pair.base_first { vec![base, new] } else { vec![new, base] } }
        };
        pairs.iter().map(block).collect()
    }

    #[test]
    fn pairs_are_the_block_model_of_two_sides() {
        for count in [5, 8, 11] {
            let pairs = blocks(&NOISE[..count], 0.03);
            let (own, model) = (fit_pairs(&pairs, 0).unwrap(), fit(&as_blocks(&pairs), 2).unwrap());
            let estimate = model.estimate(1).unwrap();
            assert!((own.mean - estimate.mean).abs() < 1e-12, "{count}");
            assert!(((own.variance * own.weight).sqrt() - estimate.se).abs() < 1e-12, "{count}");
            assert!((own.variance - 2.0 * model.residual_variance).abs() < 1e-12, "{count}");
            assert_eq!(own.df, estimate.df);
        }
    }

    #[test]
    fn a_drift_within_blocks_does_not_widen_the_error_from_8_blocks_on() {
        for count in [8, 16] {
            let calm = fit_pairs(&blocks(&NOISE[..count], 0.0), 0).unwrap();
            let drifting = fit_pairs(&blocks(&NOISE[..count], 0.5), 0).unwrap();
            assert!((calm.mean - drifting.mean).abs() < 1e-12);
            assert!((calm.variance - drifting.variance).abs() < 1e-12);
        }
        assert!(fit_pairs(&blocks(&NOISE[..6], 0.5), 0).unwrap().variance > 0.1);
    }

    #[test]
    fn sixteen_blocks_lose_one_value_at_each_end() {
        let mut noise = NOISE;
        noise[3] = 5.0;
        let fit = fit_pairs(&blocks(&noise, 0.0), 1).unwrap();
        assert_eq!((fit.df, fit.weight), (12.0, 1.0 / 14.0));
    }

    #[test]
    fn one_order_alone_tells_nothing_from_8_blocks_on() {
        let mut pairs = blocks(&NOISE[..9], 0.0);
        pairs.iter_mut().for_each(|pair| pair.base_first = true);
        assert_eq!(fit_pairs(&pairs, 0), None);
        assert!(fit(&as_blocks(&pairs), 2).is_none());
        assert!(fit_pairs(&pairs[..7], 0).is_some());
        assert!(fit_pairs(&[], 0).is_none());
    }

    #[test]
    fn a_side_that_never_gave_a_value_does_not_take_the_others_along() {
        let runs = |order: [usize; 3], shift: f64| Block {
            runs: order
                .map(|side| (side, (side < 2).then_some(shift + side as f64 * 0.1)))
                .to_vec(),
        };
        let orders = [[0, 1, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0], [0, 2, 1], [1, 0, 2]];
        let blocks: Vec<Block> =
            orders.iter().enumerate().map(|(i, order)| runs(*order, i as f64)).collect();
        let fit = fit(&blocks, 3).unwrap();
        assert!((fit.contrasts[0].unwrap().mean - 0.1).abs() < 1e-9);
        assert_eq!(fit.contrasts[1], None);
    }
}
