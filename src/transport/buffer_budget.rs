//! A budget for unfinished events: what all streams of a client may hold together. One stream has its own
//! limit; a thousand of them at that limit would take the machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What all unfinished events of a client may take, bytes: thirty-two streams at their own limit.
pub(super) const MOST_BUFFERED: usize = 512 * 1024 * 1024;

/// What the streams of one client hold now, bytes.
#[derive(Debug, Clone, Default)]
pub(super) struct BufferBudget(Arc<AtomicUsize>);

/// One stream's part of it, given back when the stream ends.
#[derive(Debug)]
pub(super) struct Buffered {
    budget: BufferBudget,
    bytes: usize,
}

impl BufferBudget {
    /// The part of a stream that holds nothing yet.
    pub(super) fn part(&self) -> Buffered {
        Buffered { budget: self.clone(), bytes: 0 }
    }
}

impl Buffered {
    /// The stream holds this many bytes now. Whether all streams are within `most` together.
    pub(super) fn holds(&mut self, bytes: usize, most: usize) -> bool {
        if bytes == self.bytes {
            return true; // the common case: nothing, and nothing before
        }
        let all = &self.budget.0;
        let others = all.fetch_sub(self.bytes, Ordering::Relaxed) - self.bytes;
        all.fetch_add(bytes, Ordering::Relaxed);
        self.bytes = bytes;
        others + bytes <= most
    }
}

impl Drop for Buffered {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_share_the_budget_and_give_it_back() {
        let budget = BufferBudget::default();
        let (mut a, mut b) = (budget.part(), budget.part());
        assert!(a.holds(60, 100) && b.holds(40, 100));
        assert!(!b.holds(41, 100), "101 of 100");
        assert!(b.holds(0, 100) && a.holds(100, 100));
        drop(a);
        assert!(b.holds(100, 100));
        drop(b);
        assert_eq!(budget.0.load(Ordering::Relaxed), 0);
    }
}
