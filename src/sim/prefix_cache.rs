//! Prefix cache: which prompt heads the engine has seen, in whole blocks.

use std::collections::{HashSet, VecDeque};

use crate::rng::Seed;

/// Tokens in a block: vLLM's default on GPUs.
const BLOCK_TOKENS: usize = 16;

/// Heads seen, oldest forgotten first.
#[derive(Debug)]
pub(crate) struct PrefixCache {
    known: HashSet<u64>,
    order: VecDeque<u64>,
    limit: usize,
}

impl PrefixCache {
    pub(crate) fn new(capacity_tokens: u64) -> Self {
        let blocks = usize::try_from(capacity_tokens).unwrap_or(usize::MAX) / BLOCK_TOKENS;
        // More than this would only cost memory here.
        Self { known: HashSet::new(), order: VecDeque::new(), limit: blocks.min(1_000_000) }
    }

    /// Tokens at the prompt's head that were seen before; remembers the prompt.
    pub(crate) fn look_up(&mut self, prompt: &[u32]) -> u32 {
        let mut head = Seed(0);
        let (mut cached, mut unbroken) = (0, true);
        for block in prompt.chunks_exact(BLOCK_TOKENS) {
            head = block.iter().fold(head, |head, id| head.nth(u64::from(*id)));
            unbroken &= self.known.contains(&head.0);
            if unbroken {
                cached += BLOCK_TOKENS;
            } else if self.known.insert(head.0) {
                self.order.push_back(head.0);
            }
        }
        while self.order.len() > self.limit
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        u32::try_from(cached).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serves_whole_blocks_of_a_common_head() {
        let mut cache = PrefixCache::new(1600);
        let first: Vec<u32> = (0..50).collect();
        assert_eq!(cache.look_up(&first), 0);
        assert_eq!(cache.look_up(&first), 48);
        let mut other = first.clone();
        other[20] = 99;
        assert_eq!(cache.look_up(&other), 16);
        assert_eq!(cache.look_up(&first[1..]), 0);
    }

    #[test]
    fn forgets_the_oldest() {
        let mut cache = PrefixCache::new(32);
        cache.look_up(&[1; 32]);
        cache.look_up(&[2; 32]);
        assert_eq!(cache.look_up(&[1; 32]), 0);
    }
}
