//! Series: how a round went over time, for charts.

use serde::{Deserialize, Serialize};

use super::RoundInput;
use crate::record::request::Part;
use crate::record::{Outcome, RequestRecord, Window};
use crate::units::ns_to_s;

const SECOND_NS: u64 = 1_000_000_000;

/// The most bins of a series: a chart is not wider. Longer rounds get wider bins, in whole seconds.
const MOST_BINS: u64 = 600;

/// Rounds shorter than this many seconds get bins shorter than one: three bins are no series.
const FEWEST_BINS: u64 = 10;

/// Bins of short rounds, ns: tenths, fiftieths and hundredths of a second, so that they add up to one.
const SHORT_BINS_NS: [u64; 5] = [500_000_000, 200_000_000, 100_000_000, 20_000_000, 10_000_000];

/// The most dots of a series; more are thinned evenly.
const MOST_DOTS: usize = 4_000;

/// A round over time. Times are seconds since its first send.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Width of a bin, s; 1 unless the round is longer than ten minutes or shorter than 10 s.
    pub bin_s: f64,
    /// When the window opened, s.
    pub open_s: f64,
    /// When it closed, s.
    pub close_s: f64,
    /// What happened, bin by bin without a gap; empty where the ends of requests are not known.
    pub bins: Vec<Bin>,
    /// One dot a request that got a token (every n-th where there are very many).
    pub dots: Vec<Dot>,
}

/// What happened in one bin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Its beginning, s.
    pub at_s: f64,
    /// Time average of requests in flight.
    pub in_flight: f64,
    /// Completed requests per second.
    pub completions_per_s: f64,
    /// Failed requests.
    pub failures: u32,
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Dot {
    /// When its clock started, s; requests due before the first send have a negative time.
    pub at_s: f64,
    /// TTFT, ms.
    pub ttft_ms: f64,
    /// Ramp, measured or tail.
    pub part: Part,
}

impl Series {
    /// The series of a round; empty where nothing was sent.
    #[must_use]
    pub fn of(input: &RoundInput<'_>) -> Self {
        let records = input.records;
        let window = Window::of(input.round);
        let Some(origin_ns) = records.iter().filter_map(|record| record.sent_ns).min() else {
            return Self::default();
        };
        // No client sends two requests in the same nanosecond: an imported file without send times
        // has them all at 0, and nothing is known over time.
        if records.len() > 1 && records.iter().all(|record| record.sent_ns == Some(origin_ns)) {
            return Self::default();
        }
        let ends = records.iter().filter_map(RequestRecord::ended_ns);
        let end_ns = ends.max().unwrap_or(origin_ns).max(window.close_ns);
        let grid = Grid { origin_ns, bin_ns: bin_ns(end_ns.saturating_sub(origin_ns)), end_ns };
        Self {
            bin_s: ns_to_s(grid.bin_ns),
            open_s: grid.since(window.open_ns),
            close_s: grid.since(window.close_ns),
            bins: if tells_ends(records) { grid.bins(records) } else { Vec::new() },
            dots: grid.dots(records),
        }
    }
}

/// Whether it is known when requests ended: an imported file may keep no ends, and then nobody knows
/// how many were in flight.
fn tells_ends(records: &[RequestRecord]) -> bool {
    let mut completed = records.iter().filter(|r| r.outcome == Outcome::Completed).peekable();
    completed.peek().is_none() || completed.any(|record| record.ended_ns().is_some())
}

/// The width of a bin for a round of this length.
fn bin_ns(length_ns: u64) -> u64 {
    let seconds = length_ns.div_ceil(SECOND_NS).max(1);
    if seconds >= FEWEST_BINS {
        return seconds.div_ceil(MOST_BINS) * SECOND_NS;
    }
    let enough = |bin_ns: &u64| length_ns / bin_ns >= FEWEST_BINS;
    SHORT_BINS_NS.into_iter().find(enough).unwrap_or(SHORT_BINS_NS[SHORT_BINS_NS.len() - 1])
}

/// Bins of one width from an origin to an end.
#[derive(Debug, Clone, Copy)]
struct Grid {
    origin_ns: u64,
    bin_ns: u64,
    end_ns: u64,
}

impl Grid {
    /// Seconds since the origin, below zero before it.
    fn since(self, at_ns: u64) -> f64 {
        if at_ns >= self.origin_ns {
            ns_to_s(at_ns - self.origin_ns)
        } else {
            -ns_to_s(self.origin_ns - at_ns)
        }
    }

    fn index(self, at_ns: u64) -> usize {
        let index = at_ns.saturating_sub(self.origin_ns) / self.bin_ns;
        usize::try_from(index).unwrap_or(usize::MAX)
    }

    fn bins(self, records: &[RequestRecord]) -> Vec<Bin> {
        // An end on the last edge belongs to the last bin.
        let last = self.index(self.end_ns.saturating_sub(1).max(self.origin_ns));
        let mut bins = vec![Bin::default(); last + 1];
        let width_s = ns_to_s(self.bin_ns);
        let mut at_ns = self.origin_ns;
        for bin in &mut bins {
            bin.at_s = self.since(at_ns);
            at_ns = at_ns.saturating_add(self.bin_ns);
        }
        for record in records {
            self.add_flight(&mut bins, record);
            let Some(end_ns) = record.ended_ns() else { continue };
            let bin = &mut bins[self.index(end_ns).min(last)];
            match record.outcome {
                Outcome::Completed => bin.completions_per_s += 1.0 / width_s,
                Outcome::Failed => bin.failures += 1,
                Outcome::Cancelled => {}
            }
        }
        bins
    }

    fn add_flight(self, bins: &mut [Bin], record: &RequestRecord) {
        let Some(sent_ns) = record.sent_ns else { return };
        let end_ns = record.ended_ns().unwrap_or(self.end_ns);
        let first = self.index(sent_ns);
        for (index, bin) in bins.iter_mut().enumerate().skip(first) {
            let open_ns = self.origin_ns.saturating_add(index as u64 * self.bin_ns);
            if open_ns >= end_ns {
                break;
            }
            let close_ns = open_ns.saturating_add(self.bin_ns);
            let flight_ns = end_ns.min(close_ns).saturating_sub(sent_ns.max(open_ns));
            bin.in_flight += ns_to_s(flight_ns) / ns_to_s(self.bin_ns);
        }
    }

    fn dots(self, records: &[RequestRecord]) -> Vec<Dot> {
        let dots = records.iter().filter_map(|record| {
            let at_s = self.since(record.clock_start_ns()?);
            Some(Dot { at_s, ttft_ms: record.ttft_ms()?, part: record.part })
        });
        let step = records.len().div_ceil(MOST_DOTS).max(1);
        dots.step_by(step).collect()
    }
}
