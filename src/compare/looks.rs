//! Looks: deciding early on growing data without more false alarms.

use std::str::FromStr;

use crate::error::{Error, Result};

use super::decision::Decision;

/// More looks than this only dilute the error they share.
const MAX_LOOKS: usize = 10;

/// The numbers of blocks at which the data are looked at, ascending. Every look is made at
/// alpha / L (Bonferroni), so that all of them together keep alpha. At 5, 8 and 12 blocks an A/A
/// run changes in 0.17 %, and 3 % everywhere is found after 8.4 blocks on average (STATISTICS C.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looks(Vec<u32>);

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

impl Looks {
    /// One look, after all the blocks.
    #[must_use]
    pub fn once(blocks: u32) -> Self {
        Self(vec![blocks])
    }

    /// These looks: at most ten, ascending, of at least 2 blocks; `None` for anything else.
    #[must_use]
    pub fn at(blocks: &[u32]) -> Option<Self> {
        let ascending = blocks.windows(2).all(|pair| pair[0] < pair[1]);
        let enough = blocks.first().is_some_and(|first| *first >= 2);
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

    /// What to do with `blocks` blocks and, where this is a look, its decision. Between looks
    /// nothing is decided, so that a lucky block cannot stop a run.
    #[must_use]
    pub fn after(&self, blocks: u32, decision: &Decision) -> Step {
        let is_look = self.0.contains(&blocks);
        match self.0.iter().find(|look| **look > blocks) {
            Some(_) if is_look && decision.changed() => Step::Stop,
            Some(next) => Step::Continue { until: *next },
            None => Step::Stop,
        }
    }
}

impl FromStr for Looks {
    type Err = Error;

    /// Reads `5,8,12`: ascending numbers of blocks, at least 2 each.
    fn from_str(text: &str) -> Result<Self> {
        let bad = || {
            Error::usage(format!("`{text}` is not a list of looks"))
                .with_hint("write up to ten ascending numbers of starts, for example `5,8,12`")
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
        let looks: Looks = "5, 8,12".parse().unwrap();
        assert_eq!((looks.count(), looks.most_blocks()), (3, 12));
        for bad in ["", "8,5", "5,5", "1,2", "x", "2,3,4,5,6,7,8,9,10,11,12"] {
            assert!(bad.parse::<Looks>().is_err(), "{bad}");
        }
    }

    #[test]
    fn without_a_change_the_last_look_ends_it() {
        let looks: Looks = "5,8".parse().unwrap();
        let nothing = Decision::default();
        assert_eq!(looks.after(1, &nothing), Step::Continue { until: 5 });
        assert_eq!(looks.after(5, &nothing), Step::Continue { until: 8 });
        assert_eq!(looks.after(8, &nothing), Step::Stop);
        assert_eq!(Looks::once(8).after(9, &nothing), Step::Stop);
    }
}
