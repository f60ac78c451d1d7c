//! Seeds: every random number comes from a named place in a tree of seeds, never from a shared stream.

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// A place in the tree of seeds.
///
/// A child is named by a word or a number, so that adding a consumer never moves another's numbers
/// (counter-based generators: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

impl Seed {
    /// The child of this name.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        // FNV-1a over the name, started from this seed; then mixed.
        let mut hash = self.0 ^ 0xcbf2_9ce4_8422_2325;
        for byte in name.bytes() {
            hash ^= u64::from(byte);
            hash = hash.wrapping_mul(0x0000_0100_0000_01b3);
        }
        Self(mix(hash))
    }

    /// The child of this number.
    #[must_use]
    pub fn nth(self, index: u64) -> Self {
        Self(mix(self.0 ^ mix(index.wrapping_add(0x9e37_79b9_7f4a_7c15))))
    }

    /// A generator that starts here: ChaCha with 8 rounds, the same on every platform.
    #[must_use]
    pub fn rng(self) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(self.0)
    }

    /// One number in [0, 1), without building a generator.
    #[must_use]
    pub fn unit(self) -> f64 {
        // 53 bits, the width of an f64's mantissa.
        #[allow(clippy::cast_precision_loss)]
        let numerator = (mix(self.0) >> 11) as f64;
        numerator / (1_u64 << 53) as f64
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a bijection that mixes every bit.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_differ_and_are_stable() {
        let root = Seed(7);
        assert_eq!(root.named("a"), root.named("a"));
        assert_ne!(root.named("a"), root.named("b"));
        assert_ne!(root.nth(0), root.nth(1));
        assert_ne!(root.named("a").nth(1), root.nth(1).named("a"));
    }

    #[test]
    fn unit_is_even() {
        let mean = (0..10_000).map(|i| Seed(1).nth(i).unit()).sum::<f64>() / 10_000.0;
        // 5 standard errors of a uniform mean.
        assert!((mean - 0.5).abs() < 5.0 * (1.0 / 12.0_f64 / 10_000.0).sqrt(), "{mean}");
    }
}
