//! The crossover, where latency has grown as much as throughput, and the knee before it.

use super::Interval;
use super::distribution::t_upper;
use super::jackknife;
use super::moments::mean;

/// Latency and throughput over ascending loads, measured in several starts.
#[derive(Debug, Clone, Copy)]
pub struct Curve<'a> {
    /// The load of each point: the mean number of requests in flight; point 0 is the reference.
    pub load: &'a [f64],
    /// Latency by start and point, in any unit, above zero.
    pub latency: &'a [Vec<f64>],
    /// Throughput by start and point, in any unit, above zero.
    pub throughput: &'a [Vec<f64>],
    /// Whether each point was steady.
    pub steadiness: &'a [Steadiness],
    /// The standard error of the logarithm of latency at point 0 where all starts share it: it moves
    /// them together, so that their spread does not tell of it. 0 where each has its own.
    pub reference_error: f64,
}

/// Whether a load point held its load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steadiness {
    /// The server kept up.
    Steady,
    /// A queue grew, or less than 95 % of the offered load was served.
    Unsteady,
}

/// Where the latency multiple overtakes the throughput multiple.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Crossover {
    /// At this load.
    At(Located),
    /// At about this load, but next to a point that was not steady.
    BeyondSaturation(Located),
    /// Nowhere up to the highest load.
    NotReached {
        /// Throughput at the highest load over that of the reference.
        throughput_multiple: f64,
        /// Latency at the highest load over that of the reference.
        latency_multiple: f64,
    },
    /// From the first step on latency grows more than throughput.
    NoGain,
}

/// A load and what is known of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Located {
    /// The load.
    pub load: f64,
    /// How sure that is.
    pub bounds: Bounds,
}

/// How sure a located load is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bounds {
    /// The 95 % interval.
    Within(Interval),
    /// Without one of the starts there is no such load: only a lower bound.
    AtLeast(f64),
    /// Fewer than two starts.
    Unknown,
}

/// f: by how much ln latency has grown more than ln throughput since point 0, at each point.
/// `None` where a value is not above zero or the lengths differ.
#[must_use]
pub fn excess(latency: &[f64], throughput: &[f64]) -> Option<Vec<f64>> {
    if latency.len() != throughput.len() || latency.is_empty() {
        return None;
    }
    let cost: Vec<f64> = latency.iter().zip(throughput).map(|(l, q)| l.ln() - q.ln()).collect();
    cost.iter().all(|c| c.is_finite()).then(|| cost.iter().map(|c| c - cost[0]).collect())
}

/// The load at which `excess` first rises through zero after its lowest point, linear in ln load,
/// and the point below it. `None` where it never does (docs/statistics.md, section 8).
#[must_use]
pub fn crossing(load: &[f64], excess: &[f64]) -> Option<(f64, usize)> {
    let lowest = first_lowest(excess)?;
    let last = load.len().min(excess.len()).checked_sub(1)?;
    let below = (lowest..last).find(|i| excess[*i] <= 0.0 && excess[i + 1] > 0.0)?;
    let (f0, f1) = (excess[below], excess[below + 1]);
    let (x0, x1) = (load[below].ln(), load[below + 1].ln());
    Some(((x0 + (x1 - x0) * -f0 / (f1 - f0)).exp(), below))
}

fn first_lowest(values: &[f64]) -> Option<usize> {
    let lowest = values.iter().copied().min_by(f64::total_cmp)?;
    values.iter().position(|v| *v == lowest)
}

impl Curve<'_> {
    /// The mean excess over the starts, one start left out where asked.
    fn mean_excess(&self, left_out: Option<usize>) -> Option<Vec<f64>> {
        let rows: Vec<Vec<f64>> = self
            .latency
            .iter()
            .zip(self.throughput)
            .enumerate()
            .filter(|(start, _)| Some(*start) != left_out)
            .map(|(_, (latency, throughput))| excess(latency, throughput))
            .collect::<Option<_>>()?;
        let points = self.load.len();
        let ascends = self.load.windows(2).all(|pair| 0.0 < pair[0] && pair[0] < pair[1]);
        if points == 0 || !ascends || rows.iter().any(|row| row.len() != points) {
            return None;
        }
        (0..points).map(|i| mean(&rows.iter().map(|row| row[i]).collect::<Vec<_>>())).collect()
    }

    /// The crossover. `None` where the curve is empty, ragged, does not ascend or holds a value not
    /// above zero.
    #[must_use]
    pub fn crossover(&self) -> Option<Crossover> {
        let excess = self.mean_excess(None)?;
        if excess.get(1).is_some_and(|f| *f > 0.0) {
            return Some(Crossover::NoGain);
        }
        let Some((load, below)) = crossing(self.load, &excess) else {
            return Some(self.not_reached());
        };
        let cross = |f: &[f64]| crossing(self.load, f).map(|(load, _)| load);
        let bounds = self.bounds(load, self.reference_share(&excess, cross), cross);
        let located = Located { load, bounds };
        let unsteady = [below, below + 1]
            .iter()
            .any(|i| self.steadiness.get(*i) == Some(&Steadiness::Unsteady));
        Some(match unsteady {
            true => Crossover::BeyondSaturation(located),
            false => Crossover::At(located),
        })
    }

    fn not_reached(&self) -> Crossover {
        let multiple = |rows: &[Vec<f64>]| {
            let logs: Vec<f64> =
                rows.iter().filter_map(|row| Some(row.last()?.ln() - row.first()?.ln())).collect();
            mean(&logs).map_or(f64::NAN, f64::exp)
        };
        Crossover::NotReached {
            throughput_multiple: multiple(self.throughput),
            latency_multiple: multiple(self.latency),
        }
    }

    /// The knee: the load with the most throughput per latency, by the parabola (in ln load)
    /// through the best point and its neighbours, kept between them. `None` as [`Self::crossover`].
    #[must_use]
    pub fn knee(&self) -> Option<Located> {
        let load = knee_load(self.load, &self.mean_excess(None)?)?;
        // A shift of the whole curve does not move its lowest point.
        Some(Located { load, bounds: self.bounds(load, Some(0.0), |f| knee_load(self.load, f)) })
    }

    /// The share of the reference in the standard error of a load's logarithm: half of what one
    /// standard error up and down moves it. `None` where one of them leaves no such load.
    fn reference_share(
        &self,
        excess: &[f64],
        locate: impl Fn(&[f64]) -> Option<f64>,
    ) -> Option<f64> {
        let at = |shift: f64| {
            let moved = |(i, f): (usize, &f64)| if i == 0 { *f } else { f + shift };
            locate(&excess.iter().enumerate().map(moved).collect::<Vec<_>>()).map(f64::ln)
        };
        let error = self.reference_error;
        if error == 0.0 { Some(0.0) } else { Some((at(-error)? - at(error)?).abs() / 2.0) }
    }

    /// The delete-one-start jackknife of a load's logarithm, by Student's t, with the share of the
    /// reference.
    fn bounds(
        &self,
        load: f64,
        reference_share: Option<f64>,
        locate: impl Fn(&[f64]) -> Option<f64>,
    ) -> Bounds {
        let starts = self.latency.len();
        if starts < 2 {
            return Bounds::Unknown;
        }
        let without = |start| self.mean_excess(Some(start)).and_then(|f| locate(&f)).map(f64::ln);
        match jackknife::standard_error(starts, without).zip(reference_share) {
            Some((of_starts, of_reference)) => {
                let se = of_starts.hypot(of_reference);
                let half_width = t_upper(0.025, (starts - 1) as f64) * se;
                Bounds::Within(Interval::around(load.ln(), half_width).map(f64::exp))
            }
            None => {
                let lowest = (0..starts).filter_map(without).fold(load.ln(), f64::min);
                Bounds::AtLeast(lowest.exp())
            }
        }
    }
}

fn knee_load(load: &[f64], excess: &[f64]) -> Option<f64> {
    let best = first_lowest(excess)?;
    if best == 0 || best + 1 >= excess.len() {
        return load.get(best).copied();
    }
    let x = [load[best - 1].ln(), load[best].ln(), load[best + 1].ln()];
    let left = (excess[best] - excess[best - 1]) / (x[1] - x[0]);
    let right = (excess[best + 1] - excess[best]) / (x[2] - x[1]);
    // The slope of the parabola is linear between the middles of the two chords.
    let (mid_left, mid_right) = (0.5 * (x[0] + x[1]), 0.5 * (x[1] + x[2]));
    let vertex = mid_left - left * (mid_right - mid_left) / (right - left);
    let vertex = if vertex.is_finite() { vertex } else { x[1] };
    Some(vertex.clamp(x[0], x[2]).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve_of(
        latency: &[Vec<f64>],
        throughput: &[Vec<f64>],
    ) -> (Option<Crossover>, Option<Located>) {
        let curve = Curve {
            load: &[1.0, 2.0, 4.0, 8.0],
            latency,
            throughput,
            steadiness: &[Steadiness::Steady; 4],
            reference_error: 0.0,
        };
        (curve.crossover(), curve.knee())
    }

    #[test]
    fn states_are_told_apart() {
        let qps = vec![vec![1.0, 2.0, 4.0, 5.0]];
        let (crossover, knee) = curve_of(&[vec![10.0, 12.0, 30.0, 200.0]], &qps);
        assert!(matches!(crossover, Some(Crossover::At(Located { bounds: Bounds::Unknown, .. }))));
        assert!((2.0..=8.0).contains(&knee.unwrap().load));
        let (crossover, _) = curve_of(&[vec![10.0, 25.0, 30.0, 200.0]], &qps);
        assert_eq!(crossover, Some(Crossover::NoGain));
        let (crossover, _) = curve_of(&[vec![10.0, 11.0, 12.0, 14.0]], &qps);
        let Some(Crossover::NotReached { throughput_multiple, latency_multiple }) = crossover
        else {
            panic!("{crossover:?}");
        };
        assert!(
            (throughput_multiple - 5.0).abs() < 1e-12 && (latency_multiple - 1.4).abs() < 1e-12
        );
        assert_eq!(curve_of(&[vec![0.0, 1.0, 1.0, 1.0]], &qps).0, None);
    }

    #[test]
    fn a_start_without_a_crossing_leaves_a_lower_bound() {
        let qps = vec![vec![1.0, 2.0, 4.0, 8.0]; 2];
        let latency = [vec![1.0, 1.0, 1.0, 20.0], vec![1.0, 1.0, 1.0, 7.0]];
        let (crossover, _) = curve_of(&latency, &qps);
        assert!(matches!(
            crossover,
            Some(Crossover::At(Located { bounds: Bounds::AtLeast(_), .. }))
        ));
    }

    #[test]
    fn the_reference_has_its_share_of_the_interval() {
        // f = ln latency - ln QPS is −ln 2 at 4 and ln 2 at 8: the crossing is at 4·√2, and a shift of
        // f by e moves ln load by e / 2. Starts that agree leave the interval to the reference alone.
        let (latency, qps) = (vec![vec![1.0, 1.0, 2.0, 8.0]; 3], vec![vec![1.0, 2.0, 4.0, 4.0]; 3]);
        let curve = |reference_error| Curve {
            load: &[1.0, 2.0, 4.0, 8.0],
            latency: &latency,
            throughput: &qps,
            steadiness: &[Steadiness::Steady; 4],
            reference_error,
        };
        let width = |error| match curve(error).crossover() {
            Some(Crossover::At(Located { load, bounds: Bounds::Within(ci) })) => {
                assert!((load - 4.0 * 2.0_f64.sqrt()).abs() < 1e-9, "{load}");
                (ci.high / ci.low).ln()
            }
            other => panic!("{other:?}"),
        };
        assert!(width(0.0) < 1e-9);
        // t at 2 degrees of freedom is 4.303; both sides of e / 2.
        assert!((width(0.1) - 2.0 * 4.303 * 0.05).abs() < 1e-3, "{}", width(0.1));
        // So unsure that it may not be there at all.
        let unsure = curve(0.8).crossover();
        assert!(
            matches!(unsure, Some(Crossover::At(Located { bounds: Bounds::AtLeast(_), .. }))),
            "{unsure:?}"
        );
    }

    #[test]
    fn loads_that_do_not_ascend_have_no_knee_and_are_no_panic() {
        let rows = vec![vec![1.0, 1.1, 1.3, 4.0]];
        let throughput = vec![vec![1.0, 3.0, 5.0, 6.0]];
        let steadiness = [Steadiness::Steady; 4];
        for load in [[1.3, 1.0, 4.0, 8.0], [1.0, 4.0, 4.0, 8.0], [0.0, 1.0, 2.0, 3.0]] {
            let curve = Curve {
                load: &load,
                latency: &rows,
                throughput: &throughput,
                steadiness: &steadiness,
                reference_error: 0.0,
            };
            assert_eq!((curve.knee(), curve.crossover()), (None, None));
        }
    }
}
