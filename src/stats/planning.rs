//! Planning: how many blocks find a change, and which change was findable.

use statrs::function::gamma::ln_gamma;

use super::block_model::LEAST_BLOCKS_FOR_POSITION;
use super::distribution::{normal_cdf, t_upper};
use super::moderated_variance::LEAST_POINTS;

/// The chance to find a change that a plan aims at.
pub const POWER: f64 = 0.95;
/// More blocks than this is not a plan but a different machine.
pub const MAX_BLOCKS: u32 = 500;
/// Panels of Simpson's rule, even: the power is then exact to four digits.
const PANELS: u32 = 240;

/// How many degrees of freedom a variance has with this many blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freedom {
    /// Those of pairs: blocks − 1.
    Paired,
    /// Those of the block model: one more goes to the position from 8 blocks on.
    Blocks,
    /// Those of the block model, doubled by moderation over four load points or more.
    Moderated,
}

impl Freedom {
    /// That of a report of this many load points.
    #[must_use]
    pub fn of_points(load_points: usize) -> Self {
        if load_points >= LEAST_POINTS { Self::Moderated } else { Self::Blocks }
    }

    /// The degrees of freedom; an approximation for moderated variances below 8 blocks, on the safe
    /// side.
    #[must_use]
    pub fn of(self, blocks: u32) -> f64 {
        let fitted = blocks as usize >= LEAST_BLOCKS_FOR_POSITION;
        match self {
            Self::Blocks if fitted => f64::from(blocks - 2),
            Self::Moderated if fitted => f64::from(2 * (blocks - 2)),
            _ => f64::from(blocks.saturating_sub(1)),
        }
    }
}

/// What is to be found, and among how many cells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// The standard deviation of one block's log ratio.
    pub sd: f64,
    /// The change to be found, as a ratio minus one, above zero.
    pub effect: f64,
    /// The smallest change that counts, as a ratio minus one.
    pub floor: f64,
    /// The family-wise error.
    pub alpha: f64,
    /// How many cells share it.
    pub cells: usize,
    /// How well the variance is known.
    pub freedom: Freedom,
}

impl Plan {
    /// The chance that `blocks` blocks find the change: significant by a t test at
    /// alpha / cells (what Holm asks of the smallest p-value), and at least the floor. The mean is
    /// normal, the variance chi-squared and independent of it (docs/statistics.md, section 6).
    #[must_use]
    pub fn power(&self, blocks: u32) -> f64 {
        if blocks < 2 || self.sd.is_nan() {
            return 0.0;
        }
        let nu = self.freedom.of(blocks);
        let critical = t_upper(tail(self.alpha, self.cells), nu);
        let se = (self.sd / f64::from(blocks).sqrt()).max(f64::MIN_POSITIVE);
        let (target, least) = (self.effect.ln_1p(), self.floor.ln_1p());
        // Density of the estimated over the true standard deviation: a scaled chi.
        let ln_scale = std::f64::consts::LN_2 + 0.5 * nu * (0.5 * nu).ln() - ln_gamma(0.5 * nu);
        let density = |u: f64| (ln_scale + (nu - 1.0) * u.ln() - 0.5 * nu * u * u).exp();
        let found = |u: f64| normal_cdf((target - least.max(critical * se * u)) / se);
        // Nine standard deviations of that ratio hold all of it that an f64 can show.
        let reach = 9.0 / (2.0 * nu).sqrt();
        let (from, to) = ((1.0 - reach).max(1e-9), 1.0 + reach);
        let step = (to - from) / f64::from(PANELS);
        let sum: f64 = (0..=PANELS)
            .map(|i| {
                let u = from + step * f64::from(i);
                let weight = match i {
                    0 | PANELS => 1.0,
                    _ if i % 2 == 1 => 4.0,
                    _ => 2.0,
                };
                weight * density(u) * found(u)
            })
            .sum();
        (sum * step / 3.0).min(1.0)
    }

    /// The fewest blocks with a chance of at least [`POWER`]; `None` beyond [`MAX_BLOCKS`].
    #[must_use]
    pub fn blocks_needed(&self) -> Option<u32> {
        (2..=MAX_BLOCKS).find(|blocks| self.power(*blocks) >= POWER)
    }
}

/// The smallest change that would have been found with 95 % at this error, as a ratio minus one.
#[must_use]
pub fn detectable_effect(se: f64, df: f64, alpha: f64, cells: usize) -> f64 {
    ((t_upper(tail(alpha, cells), df) + t_upper(1.0 - POWER, df)) * se).exp_m1()
}

/// Each side's share of the error of one cell.
fn tail(alpha: f64, cells: usize) -> f64 {
    alpha / (2.0 * cells.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan {
        sd: 0.0028,
        effect: 0.01,
        floor: 0.005,
        alpha: 0.005,
        cells: 20,
        freedom: Freedom::Moderated,
    };

    #[test]
    fn a_decode_step_1_percent_slower_is_found_in_nine_blocks() {
        // The pair spread of the median ITL on an H200: sqrt 2 times 0.2 %.
        assert!(PLAN.blocks_needed().unwrap() <= 9, "{:?}", PLAN.blocks_needed());
    }

    #[test]
    fn what_cannot_be_found_has_no_plan() {
        assert_eq!(Plan { effect: 0.004, ..PLAN }.blocks_needed(), None);
        assert_eq!(Plan { sd: f64::NAN, ..PLAN }.blocks_needed(), None);
        assert_eq!(PLAN.power(1), 0.0);
    }
}
