//! An axis: its range, its scale, and ticks that do not overlap.

use crate::units;

/// How values map to lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// From zero.
    Linear,
    /// Round the values, without zero: for small differences. The chart must say so.
    Tight,
    /// By the logarithm, for values that span more than a factor.
    Log,
}

/// Where a linear axis would press most values into a corner.
const LOG_ABOVE_RATIO: f64 = 25.0;

/// What an axis shows.
#[derive(Debug, Clone, Default)]
pub struct AxisSpec {
    /// The quantity and its unit: `requests in flight`, `ms`.
    pub label: String,
    /// The scale; none: by the data.
    pub scale: Option<Scale>,
    /// Values that get a tick each, where there is room; empty: round numbers.
    pub ticks: Vec<f64>,
    /// The end of the axis, where it is not the data's: 100 % of an ECDF.
    pub end: Option<f64>,
    /// The axis reaches at least this value.
    pub at_least: Option<f64>,
    /// Names in place of numbers, at 0, 1, 2, …: the loads of a sweep.
    pub names: Vec<String>,
}

/// An axis ready to draw on.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    /// Where each tick is, and what it says.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Fits an axis to `values`; without any, it runs from 0 to 1.
    pub(super) fn fit(spec: &AxisSpec, values: impl Iterator<Item = f64>) -> Self {
        if !spec.names.is_empty() {
            return Self::named(&spec.names);
        }
        let finite: Vec<f64> =
            values.chain(spec.ticks.iter().copied()).filter(|v| v.is_finite()).collect();
        let least = finite.iter().copied().filter(|v| *v > 0.0).reduce(f64::min);
        let most = finite
            .iter()
            .copied()
            .chain(spec.end)
            .chain(spec.at_least)
            .reduce(f64::max)
            .unwrap_or(1.0);
        let lowest = finite.iter().copied().fold(0.0, f64::min);
        let wide = least.is_some_and(|l| most / l > LOG_ABOVE_RATIO) && lowest >= 0.0;
        let all_positive = !finite.is_empty() && finite.iter().all(|v| *v > 0.0);
        let scale = spec.scale.unwrap_or(if wide { Scale::Log } else { Scale::Linear });
        match (scale, least) {
            (Scale::Log, Some(least)) if all_positive => Self::log(spec, least, most),
            (Scale::Tight, _) if !finite.is_empty() => {
                let low = finite.iter().copied().fold(f64::INFINITY, f64::min);
                // Values that are all the same get a tenth of room to either side.
                let room = if most > low { (most - low) * 0.15 } else { low.abs() * 0.1 };
                Self::linear(spec, low - room, most + room)
            }
            _ => Self::linear(spec, lowest, most),
        }
    }

    /// An axis of names, with room at both ends.
    fn named(names: &[String]) -> Self {
        #[allow(clippy::cast_precision_loss)] // some loads
        let ticks: Vec<(f64, String)> =
            names.iter().enumerate().map(|(i, name)| (i as f64, name.clone())).collect();
        #[allow(clippy::cast_precision_loss)]
        let high = names.len() as f64 - 0.75;
        Self { scale: Scale::Linear, low: -0.25, high, ticks }
    }

    /// Round values between `low` and `high`, with their texts.
    pub(super) fn round_ticks(low: f64, high: f64) -> Vec<(f64, String)> {
        let step = nice_step((high - low).max(f64::MIN_POSITIVE) / 5.0);
        let first = (low / step).ceil();
        // 12 is beyond what a step of a fifth can give; it bounds the loop.
        let all = (0..12_u8).map(|i| (first + f64::from(i)) * step);
        all.take_while(|t| *t <= high).map(|t| (t, tick_text(t))).collect()
    }

    /// The value at a place of the axis, 0 to 1: the reverse of [`Axis::place`].
    pub(super) fn value_at(&self, place: f64) -> f64 {
        match self.scale {
            Scale::Linear | Scale::Tight => self.low + place * (self.high - self.low),
            Scale::Log => self.low * (self.high / self.low).powf(place),
        }
    }

    fn linear(spec: &AxisSpec, low: f64, most: f64) -> Self {
        let span = (most - low).max(f64::MIN_POSITIVE);
        let high = spec.end.unwrap_or(if most > low { most + 0.06 * span } else { low + 1.0 });
        let ticks = if spec.ticks.is_empty() {
            Self::round_ticks(low, high)
        } else {
            spec.ticks.iter().map(|t| (*t, tick_text(*t))).collect()
        };
        Self { scale: Scale::Linear, low, high, ticks }
    }

    fn log(spec: &AxisSpec, least: f64, most: f64) -> Self {
        // One value, or equal ones, still need an axis of some length.
        let (low, high) =
            if most / least < 1.5 { (least / 2.0, most * 2.0) } else { (least, most) };
        let pad = (high / low).powf(0.05);
        let (low, high) = (low / pad, high * pad);
        let ticks = if spec.ticks.is_empty() { log_ticks(low, high) } else { spec.ticks.clone() };
        let ticks = ticks.into_iter().map(|t| (t, tick_text(t))).collect();
        Self { scale: Scale::Log, low, high, ticks }
    }

    /// Where `value` lies: 0 at the low end, 1 at the high end, clamped to the axis.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear | Scale::Tight => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// The ticks whose texts, `width` of the axis long per character, leave room between them. The
    /// last one is always there: it is how far the load went.
    pub(super) fn roomy_ticks(&self, width: f64) -> Vec<&(f64, String)> {
        #[allow(clippy::cast_precision_loss)] // texts of some characters
        let half = |tick: &(f64, String)| (tick.1.chars().count() as f64 / 2.0 + 0.8) * width;
        let Some((last, others)) = self.ticks.split_last() else { return Vec::new() };
        let free_to = self.place(last.0) - half(last);
        let mut kept: Vec<&(f64, String)> = Vec::new();
        let mut free_from = f64::NEG_INFINITY;
        for tick in others {
            let place = self.place(tick.0);
            if place - half(tick) >= free_from && place + half(tick) <= free_to {
                free_from = place + half(tick);
                kept.push(tick);
            }
        }
        kept.push(last);
        kept
    }
}

/// 1, 2 or 5 times a power of ten, at least `raw`.
fn nice_step(raw: f64) -> f64 {
    let power = 10_f64.powf(raw.max(f64::MIN_POSITIVE).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    steps.into_iter().map(|s| s * power).find(|s| *s >= raw * 0.999).unwrap_or(10.0 * power)
}

/// Powers of ten; with fewer than two of them in range also their 2- and 5-folds.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = (high / low).log10();
    let folds: &[f64] = if decades > 2.2 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let first = low.log10().floor();
    let powers = (0..40_u8).map(|i| 10_f64.powf(first + f64::from(i)));
    let powers = powers.take_while(|p| *p <= high);
    powers
        .flat_map(|p| folds.iter().map(move |f| f * p))
        .filter(|t| (low..=high).contains(t))
        .collect()
}

/// A tick's text: `0.5`, `20`, `5k`, `1.5M`.
fn tick_text(value: f64) -> String {
    if value < 0.0 {
        return format!("−{}", tick_text(-value));
    }
    let magnitude = value.abs();
    let short = |scaled: f64, unit: &str| {
        let text = format!("{:.*}", usize::from((scaled * 10.0).round() % 10.0 != 0.0), scaled);
        format!("{text}{unit}")
    };
    if magnitude >= 1e6 {
        short(value / 1e6, "M")
    } else if magnitude >= 1e4 {
        short(value / 1e3, "k")
    } else if magnitude >= 0.001 || magnitude == 0.0 {
        // Rounded first: 0.30000000000000004 is 0.3.
        let rounded = (value * 1e4).round() / 1e4;
        if magnitude < 1e3 { format!("{rounded}") } else { units::significant(rounded) }
    } else {
        format!("{value:.0e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|t| t.1.as_str()).collect()
    }

    #[test]
    fn round_ticks_from_zero() {
        let axis = Axis::fit(&AxisSpec::default(), [3.0, 9.0].into_iter());
        assert_eq!(texts(&axis), ["0", "2", "4", "6", "8"]);
        let axis = Axis::fit(&AxisSpec::default(), [0.3].into_iter());
        assert_eq!(texts(&axis), ["0", "0.1", "0.2", "0.3"]);
    }

    #[test]
    fn wide_data_get_a_log_axis() {
        let axis = Axis::fit(&AxisSpec::default(), [1.0, 10_000.0].into_iter());
        assert_eq!(texts(&axis), ["1", "10", "100", "1000", "10k"]);
        assert!((axis.place(100.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn odd_data_do_no_harm() {
        for data in [vec![], vec![0.0], vec![0.0, 0.0], vec![f64::NAN], vec![5.0], vec![-1.0, 1.0]]
        {
            for scale in [None, Some(Scale::Log), Some(Scale::Linear)] {
                let spec = AxisSpec { scale, ..AxisSpec::default() };
                let axis = Axis::fit(&spec, data.iter().copied());
                let place = axis.place(data.first().copied().unwrap_or(0.0));
                assert!((0.0..=1.0).contains(&place), "{data:?} {place}");
                assert!(axis.ticks.len() <= 12, "{data:?}");
            }
        }
    }

    #[test]
    fn ticks_below_zero_have_a_minus_and_no_hyphen() {
        let axis = Axis::fit(&AxisSpec::default(), [-0.4, 0.4].into_iter());
        assert_eq!(texts(&axis), ["−0.4", "−0.2", "0", "0.2", "0.4"]);
    }

    #[test]
    fn crowded_ticks_are_thinned() {
        let spec = AxisSpec { ticks: vec![1.0, 2.0, 3.0, 64.0, 128.0], ..AxisSpec::default() };
        let axis = Axis::fit(&spec, std::iter::empty());
        assert_eq!(axis.roomy_ticks(0.03).len(), 4); // on the log axis 3 is too near to 2
        // The highest load stays where it crowds the one before.
        let spec = AxisSpec { ticks: vec![1.0, 16.0, 48.0, 64.0], ..AxisSpec::default() };
        let axis = Axis::fit(&spec, std::iter::empty());
        let kept: Vec<&str> = axis.roomy_ticks(0.03).iter().map(|t| t.1.as_str()).collect();
        assert_eq!(kept, ["1", "16", "64"]);
    }
}
