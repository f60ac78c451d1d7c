//! The search for the highest load that meets an SLO, within one start: bracket, then bisect.

use crate::scenario::Load;

/// Neighbouring loads tried at the end are this near: 5 %.
const STEP: f64 = 1.05;
/// Beyond these no search goes on up: one client cannot hold or pace more.
const MOST_IN_FLIGHT: f64 = 16_384.0;
const MOST_PER_S: f64 = 100_000.0;
/// Below this rate it does not go on down.
const LEAST_PER_S: f64 = 0.01;

/// What is known of one scenario in one start so far.
#[derive(Debug, Clone)]
pub struct Search {
    begin: Load,
    /// The highest load that met the SLO below the lowest that missed it.
    met: Option<f64>,
    missed: Option<f64>,
}

impl Search {
    /// A search that begins at this load.
    #[must_use]
    pub fn from(begin: Load) -> Self {
        Self { begin, met: None, missed: None }
    }

    /// The load to try next; `None` once the highest that meets the SLO is known to a step, or lies
    /// beyond what can be tried.
    #[must_use]
    pub fn next(&self) -> Option<Load> {
        let level = match (self.met, self.missed) {
            (None, None) => return Some(self.begin),
            (Some(met), None) => self.doubled(met)?,
            (None, Some(missed)) => self.halved(missed)?,
            (Some(met), Some(missed)) => self.between(met, missed)?,
        };
        Some(at(self.begin, level))
    }

    /// Notes whether a load met the SLO.
    pub fn note(&mut self, load: Load, met: bool) {
        let level = load.level();
        if met {
            self.met = Some(self.met.map_or(level, |known| known.max(level)));
        } else {
            self.missed = Some(self.missed.map_or(level, |known| known.min(level)));
        }
    }

    fn doubled(&self, met: f64) -> Option<f64> {
        let most = match self.begin {
            Load::Concurrency(_) => MOST_IN_FLIGHT,
            Load::RequestRate(_) => MOST_PER_S,
        };
        (met < most).then(|| (2.0 * met).min(most))
    }

    fn halved(&self, missed: f64) -> Option<f64> {
        let least = match self.begin {
            Load::Concurrency(_) => 1.0,
            Load::RequestRate(_) => LEAST_PER_S,
        };
        (missed > least).then(|| (missed / 2.0).max(least))
    }

    fn between(&self, met: f64, missed: f64) -> Option<f64> {
        let middle = at(self.begin, (met * missed).sqrt()).level();
        let is_new = met < middle && middle < missed;
        (is_new && missed / met > STEP).then_some(middle)
    }
}

/// A load of the same kind at another level: whole requests in flight, or a rate of three digits.
fn at(load: Load, level: f64) -> Load {
    match load {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
        Load::Concurrency(_) => Load::Concurrency((level.round() as u32).max(1)),
        Load::RequestRate(mut rate) => {
            let unit = 10_f64.powf(level.log10().floor() - 2.0);
            // Through text: 12.3, not 12.300000000000001.
            let digits = format!("{:e}", ((level / unit).round() * unit) as f32);
            rate.per_s = digits.parse().unwrap_or(level);
            Load::RequestRate(rate)
        }
    }
}

/// One load tried in a start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tried {
    /// Requests in flight, or per second.
    pub level: f64,
    /// Good / attempted requests.
    pub good_share: f64,
    /// The logarithm of latency / limit that the least share of good requests stays below: 0 at the
    /// capacity. Not finite where too many failed.
    pub excess: f64,
    /// Whether it met the SLO.
    pub met: bool,
}

/// The capacity of one start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Capacity {
    /// Between the highest load that met the SLO and the lowest that missed it.
    At(f64),
    /// It was met at every load tried, up to this.
    AtLeast(f64),
    /// It was missed at every load tried, down to this.
    Below(f64),
}

/// Loads within this factor of the bracket's middle tell where the capacity lies.
const NEAR: f64 = 1.35;

/// The capacity of a start from the loads tried there. Between the highest load that met the SLO and the
/// lowest that missed it a straight line through the excess of the loads about them (in ln load, by least
/// squares) says where the capacity lies; the middle of the two where something else ended it
/// (errors, a growing backlog). `None` without loads.
#[must_use]
pub fn capacity(tried: &[Tried]) -> Option<Capacity> {
    let by_level = |a: &&Tried, b: &&Tried| a.level.total_cmp(&b.level);
    let lowest_missed = tried.iter().filter(|t| !t.met).min_by(by_level);
    let below = lowest_missed.map_or(f64::INFINITY, |missed| missed.level);
    let highest_met = tried.iter().filter(|t| t.met && t.level < below).max_by(by_level);
    Some(match (highest_met, lowest_missed) {
        (None, None) => return None,
        (Some(met), None) => Capacity::AtLeast(met.level),
        (None, Some(missed)) => Capacity::Below(missed.level),
        (Some(met), Some(missed)) => {
            let middle = (met.level * missed.level).sqrt();
            let by_limit = missed.excess > 0.0;
            let crossed = by_limit.then(|| crossing(tried, middle)).flatten();
            Capacity::At(crossed.unwrap_or(middle))
        }
    })
}

/// Where the line through the excess of the loads about `middle` is 0; `None` where it does not rise or
/// leaves those loads.
fn crossing(tried: &[Tried], middle: f64) -> Option<f64> {
    let near: Vec<(f64, f64)> = tried
        .iter()
        .filter(|t| t.excess.is_finite() && (t.level / middle).ln().abs() <= NEAR.ln())
        .map(|t| ((t.level / middle).ln(), t.excess))
        .collect();
    #[allow(clippy::cast_precision_loss)] // a few loads
    let n = near.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| near.iter().map(of).sum::<f64>() / n;
    let (mid_x, mid_y) = (mean(|p| p.0), mean(|p| p.1));
    let spread: f64 = near.iter().map(|(x, _)| (x - mid_x).powi(2)).sum();
    let slope = near.iter().map(|(x, y)| (x - mid_x) * (y - mid_y)).sum::<f64>() / spread;
    let at = mid_x - mid_y / slope;
    (slope > 0.0 && at.abs() <= NEAR.ln()).then(|| middle * at.exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(begin: Load, truth: f64) -> (Vec<f64>, Option<Capacity>) {
        let (mut search, mut tried) = (Search::from(begin), Vec::new());
        while let Some(load) = search.next() {
            let met = load.level() <= truth;
            search.note(load, met);
            let excess = (load.level() / truth).ln();
            tried.push(Tried { level: load.level(), good_share: 0.95, excess, met });
            assert!(tried.len() < 40, "{tried:?}");
        }
        (tried.iter().map(|t| t.level).collect(), capacity(&tried))
    }

    #[test]
    fn the_capacity_is_found_to_a_step_wherever_it_lies() {
        for truth in [1.0, 1.7, 3.0, 10.0, 44.0, 63.9, 64.0, 500.0, 9000.0] {
            for begin in [1, 16, 300] {
                let (levels, capacity) = found(Load::concurrency(begin), truth);
                let Some(Capacity::At(at)) = capacity else { panic!("{capacity:?}") };
                let step = (truth * 0.051).max(1.0);
                assert!((at - truth).abs() <= step, "from {begin} to {truth}: {at} by {levels:?}");
                assert!(levels.len() <= 22, "{levels:?}");
                let mut once = levels.clone();
                once.sort_by(f64::total_cmp);
                once.dedup();
                assert_eq!(once.len(), levels.len(), "no load is tried twice: {levels:?}");
            }
            let rate = Load::from(Load::request_rate(4.0).burstiness(0.5));
            let (levels, capacity) = found(rate, truth);
            let Some(Capacity::At(at)) = capacity else { panic!("{capacity:?}") };
            assert!((at / truth).ln().abs() <= 0.051, "{truth}: {at} by {levels:?}");
        }
    }

    #[test]
    fn bounds_are_no_capacity() {
        assert_eq!(found(Load::concurrency(4), 0.5).1, Some(Capacity::Below(1.0)));
        assert_eq!(found(Load::concurrency(4), 1e9).1, Some(Capacity::AtLeast(16_384.0)));
        assert_eq!(found(Load::request_rate(1.0).into(), 1e-9).1, Some(Capacity::Below(0.01)));
        assert_eq!(capacity(&[]), None);
    }

    #[test]
    fn the_excess_of_the_loads_about_it_places_it() {
        let tried = |level, excess: f64, met| Tried { level, good_share: 0.95, excess, met };
        let at = |tried: &[Tried]| match capacity(tried) {
            Some(Capacity::At(level)) => level,
            other => panic!("{other:?}"),
        };
        // Two loads: linear between them, a quarter of the way.
        let two = [tried(100.0, -0.01, true), tried(105.0, 0.03, false)];
        assert!((at(&two) - 100.0 * 1.05_f64.powf(0.25)).abs() < 1e-9, "{}", at(&two));
        // One that was missed by chance is outvoted; one far away has no voice.
        let line = |level: f64| (level / 110.0).ln();
        let mut five: Vec<Tried> =
            [95.0, 105.0, 115.0, 125.0].map(|l| tried(l, line(l), l < 110.0)).to_vec();
        five.push(tried(100.0, 0.001, false));
        five.push(tried(400.0, 9.0, false));
        assert!((at(&five) - 110.0).abs() < 4.0, "{}", at(&five));
        // Missed by a backlog that grows, or by failures.
        for excess in [-0.2, f64::INFINITY] {
            let middle = at(&[tried(100.0, -0.3, true), tried(105.0, excess, false)]);
            assert!((middle - 100.0 * 1.05_f64.sqrt()).abs() < 1e-9, "{middle}");
        }
    }

    #[test]
    fn a_rate_keeps_its_shape_and_reads_well() {
        let Load::RequestRate(rate) = at(Load::request_rate(4.0).burstiness(0.5).into(), 12.3456)
        else {
            panic!()
        };
        assert_eq!((rate.per_s, rate.burstiness), (12.3, 0.5));
        assert_eq!(at(Load::request_rate(1.0).into(), 1234.0).id(), "r1230");
        assert_eq!(at(Load::request_rate(1.0).into(), 0.0707).id(), "r0.0707");
    }
}
