//! The health of a round as its records show it: what was in flight, offered, sent and answered, and
//! whether requests ran in lockstep. Own runs and imported ones go by the same rules.

use std::f64::consts::TAU;

use super::stored::Health;
use super::{Outcome, RequestRecord, Window};
use crate::units::ns_to_s;

/// What was offered to the server in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfferedLoad {
    /// The slots of a closed loop, or the cap on requests in flight.
    pub cap: u32,
    /// Arrivals due in the window; `None` in a closed loop.
    pub arrivals: Option<u64>,
}

impl Health {
    /// What the records of a round show; figures that need a window are `None` if it never opened.
    /// What the client measures of itself (its lags and CPU) is not in them and stays `None`.
    #[must_use]
    pub fn of(records: &[RequestRecord], window: Window, load: OfferedLoad) -> Self {
        let length_s = window.seconds();
        let per_s = |n: f64| (length_s > 0.0).then(|| n / length_s);
        let flights: Vec<Span> = records.iter().filter_map(Span::of).collect();
        let ended_inside = |record: &&RequestRecord| {
            record.outcome == Outcome::Completed
                && record.end_ns.is_some_and(|ns| window.contains(ns))
        };
        let completed: Vec<&RequestRecord> = records.iter().filter(ended_inside).collect();
        let sent: Vec<u64> = sends_inside(records, window).collect();
        let events: u64 = records.iter().map(|r| u64::from(r.events)).sum();
        let coalesced: u64 = records.iter().map(|r| u64::from(r.coalesced_events)).sum();
        let flown_s: f64 =
            flights.iter().map(|s| ns_to_s(window.overlap_ns(s.from_ns, s.to_ns))).sum();
        let stay_s: f64 = completed.iter().filter_map(|r| Span::of(r)).map(Span::seconds).sum();
        Self {
            in_flight_mean: per_s(flown_s),
            // Little: QPS x mean stay = (n / T) x (sum / n).
            little: per_s(stay_s),
            at_cap_share: per_s(at_cap_s(&flights, load.cap, window)),
            lockstep: if load.arrivals.is_none() && load.cap > 1 {
                median_e2el_ns(&completed).and_then(|period_ns| lockstep(&sent, period_ns))
            } else {
                // Arrivals do not follow answers, and one slot alone is no wave.
                None
            },
            coalesced_share: ratio(coalesced, events),
            offered_per_s: load.arrivals.and_then(|n| per_s(as_f64(n))),
            sent_per_s: per_s(as_f64(sent.len() as u64)),
            completion_ratio: load.arrivals.and_then(|n| ratio(completed.len() as u64, n)),
            resent: records.iter().filter(|r| r.resent).count() as u64,
            ..Self::default()
        }
    }
}

/// The send times inside the window, ns.
pub fn sends_inside(records: &[RequestRecord], window: Window) -> impl Iterator<Item = u64> + '_ {
    records.iter().filter_map(|r| r.sent_ns).filter(move |ns| window.contains(*ns))
}

/// A request's time in flight.
#[derive(Debug, Clone, Copy)]
struct Span {
    from_ns: u64,
    to_ns: u64,
}

impl Span {
    fn of(record: &RequestRecord) -> Option<Self> {
        Some(Self { from_ns: record.sent_ns?, to_ns: record.end_ns? })
    }

    fn seconds(self) -> f64 {
        ns_to_s(self.to_ns.saturating_sub(self.from_ns))
    }
}

/// Seconds of the window with at least `cap` in flight.
fn at_cap_s(flights: &[Span], cap: u32, window: Window) -> f64 {
    let mut steps: Vec<(u64, i64)> =
        flights.iter().flat_map(|s| [(s.from_ns, 1), (s.to_ns, -1)]).collect();
    // Ends before starts at one moment: a refilled slot is not two requests.
    steps.sort_unstable();
    let (mut in_flight, mut since_ns, mut at_cap_ns) = (0_i64, 0, 0);
    for (at_ns, change) in steps {
        if in_flight >= i64::from(cap) {
            at_cap_ns += window.overlap_ns(since_ns, at_ns);
        }
        in_flight += change;
        since_ns = at_ns;
    }
    ns_to_s(at_cap_ns)
}

/// |mean of exp(2πi·t/P)| of send times t: 0 if they are even over the period P, the median E2EL; 1 if
/// all come at once (the resultant length of circular statistics: Mardia & Jupp, "Directional
/// Statistics", 2.3). `None` for fewer than two sends or no period.
#[must_use]
pub fn lockstep(times_ns: &[u64], period_ns: u64) -> Option<f64> {
    let first = *times_ns.iter().min()?;
    if period_ns == 0 || times_ns.len() < 2 {
        return None;
    }
    let angle = |t: &u64| TAU * as_f64((t - first) % period_ns) / as_f64(period_ns);
    let cos: f64 = times_ns.iter().map(|t| angle(t).cos()).sum();
    let sin: f64 = times_ns.iter().map(|t| angle(t).sin()).sum();
    Some(cos.hypot(sin) / times_ns.len() as f64)
}

fn median_e2el_ns(completed: &[&RequestRecord]) -> Option<u64> {
    let mut e2el_ns: Vec<u64> =
        completed.iter().filter_map(|r| Some(r.end_ns?.saturating_sub(r.sent_ns?))).collect();
    e2el_ns.sort_unstable();
    e2el_ns.get(e2el_ns.len() / 2).copied()
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| as_f64(part) / as_f64(whole))
}

#[allow(clippy::cast_precision_loss)] // exact below 2^53
fn as_f64(n: u64) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { open_ns: 1_000_000_000, close_ns: 3_000_000_000 };

    #[test]
    fn the_resultant_tells_waves_from_even_sends() {
        let period = 1_000;
        let even: Vec<u64> = (0..100).map(|i| i * 10).collect();
        assert!(lockstep(&even, period).unwrap() < 1e-9);
        let waves: Vec<u64> = (0..100).map(|i| (i / 10) * period).collect();
        assert!((lockstep(&waves, period).unwrap() - 1.0).abs() < 1e-9);
        // Two waves half a period apart cancel; a quarter apart give cos 45°.
        let quarter: Vec<u64> = (0..100).map(|i| (i % 2) * period / 4).collect();
        assert!((lockstep(&quarter, period).unwrap() - 0.5_f64.sqrt()).abs() < 1e-9);
        assert_eq!(lockstep(&[5], period), None);
        assert_eq!(lockstep(&[5, 6], 0), None);
    }

    #[test]
    fn time_at_the_cap_is_cut_to_the_window() {
        let span = |from_s: u64, to_s: u64| Span {
            from_ns: from_s * 1_000_000_000,
            to_ns: to_s * 1_000_000_000,
        };
        let flights = [span(0, 2), span(0, 4), span(2, 4)];
        assert!((at_cap_s(&flights, 2, WINDOW) - 2.0).abs() < 1e-9);
        assert!(at_cap_s(&flights, 3, WINDOW).abs() < 1e-9);
        assert!((at_cap_s(&flights[..1], 1, WINDOW) - 1.0).abs() < 1e-9);
    }
}
