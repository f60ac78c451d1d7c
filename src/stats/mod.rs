//! Statistics on `&[f64]`: knows nothing of metrics, requests or servers.
//!
//! Every function is pure and names its source. `None` means that the data cannot give the figure
//! (too few values, a value that is not finite); it never means zero.

#[allow(dead_code)] // of the race between configurations
pub mod best_set;
#[allow(dead_code)] // of the verdicts to come
pub mod block_model;
#[allow(dead_code)] // of the verdicts to come
pub mod change_points;
pub mod components;
pub mod crossover;
#[allow(dead_code)] // of the verdicts to come
pub mod day_variance;
pub mod distribution;
#[allow(dead_code)] // of the verdicts to come
pub mod gamma;
pub mod jackknife;
#[allow(dead_code)] // of the verdicts to come
pub mod moderated_variance;
pub mod moments;
pub mod mser;
pub mod multiple;
#[allow(dead_code)] // of the verdicts to come
pub mod nights;
pub mod planning;
#[allow(dead_code)] // of the verdicts to come
pub mod precedence;
pub mod proportion;
pub mod quantile;
pub mod t_test;

/// A closed range of values, in the unit of what it is a range of.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end; never below `low`.
    pub high: f64,
}

impl Interval {
    /// `centre` and as much on either side of it.
    #[must_use]
    pub fn around(centre: f64, half_width: f64) -> Self {
        Self { low: centre - half_width, high: centre + half_width }
    }

    /// Whether every value of it lies strictly between the ends of `outer`.
    #[must_use]
    pub fn strictly_inside(self, outer: Self) -> bool {
        outer.low < self.low && self.high < outer.high
    }

    /// Both ends through an increasing function.
    #[must_use]
    pub fn map(self, increasing: impl Fn(f64) -> f64) -> Self {
        Self { low: increasing(self.low), high: increasing(self.high) }
    }
}
