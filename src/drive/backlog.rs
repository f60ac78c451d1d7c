//! The backlog of an open loop: requests that are due and not yet answered, and whether they grow.

use crate::record::Window;

/// Equal parts of the window; the mean backlog of each is looked at.
const PARTS: usize = 8;
/// A server that serves less than 95 % of what is offered does not keep up (docs/statistics.md, section 5).
const LEAST_GROWTH: f64 = 0.05;
/// Steps between neighbouring parts that have to go up, of seven: chance alone does that in a third
/// of one per cent where they are independent.
const FEWEST_RISES: usize = 6;

/// The mean number of requests due and unanswered, in each part of the window.
#[derive(Debug)]
pub(super) struct Backlog {
    parts: [f64; PARTS],
    /// Arrivals due in the window.
    arrivals: f64,
}

impl Backlog {
    /// Of all requests that fell due: when, and when each ended (`None`: not at all, or never sent).
    #[allow(clippy::cast_precision_loss)] // ns of a round and counts of requests
    pub(super) fn of(window: Window, requests: impl Iterator<Item = (u64, Option<u64>)>) -> Self {
        let length_ns = window.close_ns.saturating_sub(window.open_ns);
        let bound = |part: usize| window.open_ns + length_ns / PARTS as u64 * part as u64;
        let mut backlog = Self { parts: [0.0; PARTS], arrivals: 0.0 };
        for (due_ns, end_ns) in requests {
            if window.contains(due_ns) {
                backlog.arrivals += 1.0;
            }
            for (part, mean) in backlog.parts.iter_mut().enumerate() {
                let part = Window { open_ns: bound(part), close_ns: bound(part + 1) };
                let inside_ns = part.overlap_ns(due_ns, end_ns.unwrap_or(u64::MAX));
                *mean +=
                    inside_ns as f64 / part.close_ns.saturating_sub(part.open_ns).max(1) as f64;
            }
        }
        backlog
    }

    /// Whether it grows: by more than 5 % of the arrivals from end to end and in the second half at
    /// that pace still (what rises while the load comes up does not), from part to part all but once,
    /// and by more than chance moves the number in flight between two moments (about Poisson for a
    /// server that keeps up: the difference of two has the variance 2L, and two standard deviations
    /// are allowed).
    #[allow(clippy::cast_precision_loss)] // eight parts
    pub(super) fn grows(&self) -> bool {
        let (first, second) = self.parts.split_at(PARTS / 2);
        let growth = slope(&self.parts) * PARTS as f64;
        let late_growth = slope(second) * second.len() as f64;
        let at_first = (first.iter().sum::<f64>() / first.len() as f64).min(self.parts[0]).max(1.0);
        let rises = self.parts.windows(2).filter(|pair| pair[1] > pair[0]).count();
        growth > LEAST_GROWTH * self.arrivals
            && late_growth > LEAST_GROWTH * self.arrivals / 2.0
            && growth > 2.0 * (2.0 * at_first).sqrt()
            && rises >= FEWEST_RISES
    }
}

/// The slope of the least squares line through values at 0, 1, 2 …
#[allow(clippy::cast_precision_loss)] // a few values
fn slope(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let (mid_x, mid_y) = ((n - 1.0) / 2.0, values.iter().sum::<f64>() / n);
    let offsets = || (0..values.len()).map(|i| i as f64 - mid_x);
    let rise: f64 = offsets().zip(values).map(|(x, y)| x * (y - mid_y)).sum();
    rise / offsets().map(|x| x * x).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;
    use crate::units::s_to_ns;
    use rand::RngExt;

    /// Poisson arrivals at `rho` of the capacity of 64 servers that take 1 to 3 s; before the window
    /// opens the load has come up for `ramp_s`.
    fn backlog(rho: f64, requests: u64, ramp_s: f64, seed: u64) -> Backlog {
        let mut rng = Seed(seed).rng();
        let per_s = 32.0 * rho;
        let mut free_s = vec![0.0_f64; 64];
        let (mut at_s, mut measured, mut close_s, mut all) = (0.0, 0, 0.0_f64, Vec::new());
        // The load is kept up until the last of the measured has ended.
        while measured < requests || at_s < close_s {
            at_s += -(1.0 - rng.random::<f64>()).ln() / per_s;
            let next = free_s.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
            *next = at_s.max(*next) + rng.random_range(1.0..3.0);
            if at_s >= ramp_s && measured < requests {
                measured += 1;
                close_s = close_s.max(*next);
            }
            all.push((s_to_ns(at_s), Some(s_to_ns(*next))));
        }
        let window = Window { open_ns: s_to_ns(ramp_s), close_ns: s_to_ns(close_s) };
        Backlog::of(window, all.into_iter())
    }

    fn share_that_grows(rho: f64, requests: u64, ramp_s: f64) -> f64 {
        (0..200).filter(|seed| backlog(rho, requests, ramp_s, *seed).grows()).count() as f64 / 200.0
    }

    #[test]
    fn a_server_that_keeps_up_is_not_saturated_though_its_load_has_just_come_up() {
        for (rho, ramp_s) in [(0.5, 0.6), (0.8, 0.6), (0.9, 0.6), (0.8, 2.0), (0.9, 2.0)] {
            let share = share_that_grows(rho, 200, ramp_s);
            assert!(share <= 0.08, "at {rho} of its capacity, ramp {ramp_s} s: {share}");
        }
    }

    #[test]
    fn a_server_beyond_its_capacity_is() {
        for (rho, least) in [(1.25, 0.8), (1.5, 0.99), (2.0, 0.99)] {
            let share = share_that_grows(rho, 200, 2.0);
            assert!(share >= least, "at {rho} of its capacity: {share}");
        }
    }

    #[test]
    fn nothing_sent_and_an_empty_window_do_not_grow() {
        let empty = Window { open_ns: 5, close_ns: 5 };
        assert!(!Backlog::of(empty, std::iter::empty()).grows());
        assert!(!Backlog::of(empty, [(1, None), (5, Some(5))].into_iter()).grows());
    }
}
