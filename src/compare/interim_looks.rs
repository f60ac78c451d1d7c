//! Interim looks: deciding early on growing data without more false alarms.

use std::str::FromStr;

use super::design::LEAST_STARTS;
use crate::error::{Error, Result};

/// More looks than this only dilute the error they share.
const MAX_LOOKS: usize = 10;

/// The numbers of blocks at which the data are looked at, ascending. Every look is made at
/// alpha / L (Bonferroni), so that all of them together keep alpha. At 5, 8 and 12 blocks an A/A
/// run changes in 0.17 %, and 3 % everywhere is found after 8.4 blocks on average (docs/statistics.md, section 9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterimLooks(Vec<u32>);

/// What to do after a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Take blocks until there are this many.
    Continue {
        /// The next look.
        until: u32,
    },
    /// Enough: a change was found, or this was the last look.
    Stop,
}

impl InterimLooks {
    /// One look, after all the blocks.
    #[must_use]
    #[cfg(test)]
    pub fn once(blocks: u32) -> Self {
        Self(vec![blocks])
    }

    /// These looks: at most ten, ascending, of at least 5 blocks (fewer decide nothing early); `None` for anything else.
    #[must_use]
    pub fn at(blocks: &[u32]) -> Option<Self> {
        let ascending = blocks.windows(2).all(|pair| pair[0] < pair[1]);
        let enough = blocks.first().is_some_and(|first| *first as usize >= LEAST_STARTS);
        (ascending && enough && blocks.len() <= MAX_LOOKS).then(|| Self(blocks.to_vec()))
    }

    /// L: how many looks share the error, for `Options::looks`.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// The most blocks that a run may take.
    #[must_use]
    pub fn most_blocks(&self) -> u32 {
        self.0.last().copied().unwrap_or(0)
    }

    /// These looks in a run of at most `blocks` blocks, whose end is a look in any case.
    #[must_use]
    pub fn within(at: &[u32], blocks: u32) -> Self {
        let mut looks: Vec<u32> = at.iter().copied().filter(|look| *look < blocks).collect();
        looks.push(blocks);
        Self(looks)
    }

    /// Whether the data are looked at after this many blocks and may end the run early.
    #[must_use]
    pub fn is_early(&self, blocks: u32) -> bool {
        self.0.contains(&blocks) && blocks < self.most_blocks()
    }

    /// What to do with `blocks` blocks and, where this is a look, whether a change was found.
    /// Between looks nothing is decided, so that a lucky block cannot stop a run.
    #[must_use]
    pub fn after(&self, blocks: u32, changed: bool) -> Step {
        match self.0.iter().find(|look| **look > blocks) {
            Some(_) if changed && self.is_early(blocks) => Step::Stop,
            Some(next) => Step::Continue { until: *next },
            None => Step::Stop,
        }
    }
}

impl FromStr for InterimLooks {
    type Err = Error;

    /// Reads `5,8,12`: ascending numbers of blocks, at least 5 each.
    fn from_str(text: &str) -> Result<Self> {
        let bad = || {
            Error::usage(format!("`{text}` is not a list of looks"))
                .with_hint("write up to ten ascending numbers of starts, each at least 5, for example `5,8,12`")
        };
        let looks: Vec<u32> = text
            .split(',')
            .map(|look| look.trim().parse().map_err(|_| bad()))
            .collect::<Result<_>>()?;
        Self::at(&looks).ok_or_else(bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_ascend() {
        let looks: InterimLooks = "5, 8,12".parse().unwrap();
        assert_eq!((looks.count(), looks.most_blocks()), (3, 12));
        for bad in ["", "8,5", "5,5", "4,8", "x", "5,6,7,8,9,10,11,12,13,14,15"] {
            assert!(bad.parse::<InterimLooks>().is_err(), "{bad}");
        }
    }

    #[test]
    fn without_a_change_the_last_look_ends_it() {
        let looks: InterimLooks = "5,8".parse().unwrap();
        assert_eq!(looks.after(1, false), Step::Continue { until: 5 });
        assert_eq!(looks.after(5, false), Step::Continue { until: 8 });
        assert_eq!(looks.after(8, false), Step::Stop);
        assert_eq!(InterimLooks::once(8).after(9, false), Step::Stop);
    }

    #[test]
    fn only_a_change_at_a_look_stops_early_and_the_end_is_a_look() {
        let looks = InterimLooks::within(&[5, 8, 12], 10);
        assert_eq!((looks.count(), looks.most_blocks()), (3, 10));
        assert_eq!(looks.after(5, true), Step::Stop);
        assert_eq!(looks.after(6, true), Step::Continue { until: 8 });
        assert_eq!(InterimLooks::within(&[], 5), InterimLooks::once(5));
        assert!(!looks.is_early(10));
    }
}
