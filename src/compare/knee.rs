//! Where the limit is: multiples against the reference, the crossover, the knee, the best value.

use crate::metric::Measure;
use crate::record::stored::RoundStatus;
use crate::scenario::{Load, LoadPoint};
use crate::stats::crossover::{Bounds, Crossover, Curve, Located, Steadiness, excess};
use crate::summary::Summary;
use crate::summary::measured::MeasuredSide;
use crate::units::significant;

/// Loads whose QPS per latency lies within this share of the best count as best value.
const BEST_VALUE_SHARE: f64 = 0.10;

/// Latency multiple against QPS multiple over the loads of one scenario on one side.
#[derive(Debug, Clone, PartialEq)]
pub struct Knee {
    /// The group's name.
    pub group: String,
    /// The scenario's name.
    pub scenario: String,
    /// Which side, by its place in the report.
    pub side: usize,
    /// The latency that is compared with QPS.
    pub measure: Measure,
    /// What the multiples are relative to: `rate 1`, `concurrency 1`.
    pub relative_to: String,
    /// The loads in rising order.
    pub multiples: Vec<Multiple>,
    /// Where the latency multiple overtakes the QPS multiple.
    pub crossover: Turning,
    /// Where QPS / latency peaks.
    pub knee: Turning,
    /// The best-value range in words, always there where there are loads.
    pub best_value: Option<String>,
}

/// One load as multiples of the reference.
#[derive(Debug, Clone, PartialEq)]
pub struct Multiple {
    /// The load's short name: `c16`, `r20`.
    pub load: String,
    /// Mean requests in flight.
    pub in_flight: f64,
    /// Latency / reference latency.
    pub latency: f64,
    /// QPS / reference QPS.
    pub qps: f64,
}

/// A turning point of a curve: words, and the number where there is one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turning {
    /// The state in words.
    pub state: String,
    /// Requests in flight, where there is a point.
    pub in_flight: Option<f64>,
    /// Its 95 % interval.
    pub interval: Option<(f64, f64)>,
}

/// The loads of one scenario, each with what was measured there.
#[derive(Debug, Clone)]
pub struct LoadCurve<'a> {
    /// The rate-1 reference, where it was measured and was steady.
    pub reference: Option<&'a MeasuredSide>,
    /// The load points with their measurements, in any order.
    pub points: Vec<(&'a LoadPoint, &'a MeasuredSide)>,
    /// Which side, by its place in the report.
    pub side: usize,
}

/// Where on the curve.
enum At {
    /// The rate-1 reference.
    Reference,
    /// A load point.
    Load(Load),
}

impl At {
    /// Its short name: `reference`, `c16`, `r20`.
    fn id(&self) -> String {
        match self {
            Self::Reference => "reference".to_owned(),
            Self::Load(load) => load.id(),
        }
    }
}

/// One place on the curve.
struct Place<'a> {
    at: At,
    measured: &'a MeasuredSide,
    in_flight: f64,
}

/// The knee and crossover of one scenario (docs/statistics.md, section 8); `None` if fewer than two places
/// have a latency and a QPS.
#[must_use]
pub fn knee(curve: &LoadCurve<'_>, measure: Measure) -> Option<Knee> {
    let first = curve.points.first()?.0;
    let places = places(curve, measure);
    let relative_to = match &places.first()?.at {
        At::Reference => "rate 1".to_owned(),
        At::Load(load) => format!("the lowest load ({})", load.id()),
    };
    let base = &places[0].measured.pooled;
    let multiples: Vec<Multiple> =
        places.iter().filter_map(|place| multiple(place, base, measure)).collect();
    if multiples.len() < 2 {
        return None;
    }
    let (latency, throughput) = rows(&places, measure);
    let loads: Vec<f64> = places.iter().map(|p| p.in_flight).collect();
    let steadiness: Vec<Steadiness> = places.iter().map(steadiness).collect();
    let stats =
        Curve { load: &loads, latency: &latency, throughput: &throughput, steadiness: &steadiness };
    Some(Knee {
        group: first.group.clone(),
        scenario: first.scenario.clone(),
        side: curve.side,
        measure,
        relative_to,
        crossover: stats.crossover().map(|c| crossover_words(&c)).unwrap_or_default(),
        knee: stats.knee().map(|k| located_words(&k)).unwrap_or_default(),
        best_value: best_value(&multiples),
        multiples,
    })
}

/// The reference first, then the loads by mean requests in flight.
fn places<'a>(curve: &LoadCurve<'a>, measure: Measure) -> Vec<Place<'a>> {
    let usable = |measured: &MeasuredSide| {
        if measured.starts.iter().any(|start| start.status.is_failing()) {
            return false; // what survivors did is no measure of the server
        }
        let positive = |m| measured.pooled.get(m).is_some_and(|v| v > 0.0);
        positive(measure) && positive(Measure::QPS)
    };
    let in_flight = |measured: &MeasuredSide| measured.pooled.concurrency_mean;
    let mut places: Vec<Place<'a>> = curve
        .points
        .iter()
        .filter(|(_, measured)| usable(measured))
        .filter_map(|(point, measured)| {
            let in_flight = in_flight(measured).filter(|n| *n > 0.0)?;
            Some(Place { at: At::Load(point.load), measured, in_flight })
        })
        .collect();
    places.sort_by(|a, b| a.in_flight.total_cmp(&b.in_flight));
    places.dedup_by(|a, b| a.in_flight <= b.in_flight);
    // A slow server has more than one request in flight at rate 1: then the lowest load is the
    // denominator, and `relative_to` says so.
    let lowest = places.first().map_or(f64::INFINITY, |place| place.in_flight);
    let reference = curve.reference.filter(|r| usable(r)).and_then(|measured| {
        let in_flight = in_flight(measured).filter(|n| *n > 0.0 && *n < lowest)?;
        Some(Place { at: At::Reference, measured, in_flight })
    });
    reference.into_iter().chain(places).collect()
}

fn multiple(place: &Place<'_>, base: &Summary, measure: Measure) -> Option<Multiple> {
    let ratio = |m| Some(place.measured.pooled.get(m)? / base.get(m)?);
    Some(Multiple {
        load: place.at.id(),
        in_flight: place.in_flight,
        latency: ratio(measure)?,
        qps: ratio(Measure::QPS)?,
    })
}

/// Latency and QPS by start and place. The reference is measured once per side, so every start is
/// taken against the same; a start that lacks a place is left out.
fn rows(places: &[Place<'_>], measure: Measure) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
    let most = places.iter().map(|p| p.measured.starts.len()).max().unwrap_or(0);
    let value = |place: &Place<'_>, start: usize, m| {
        let starts = &place.measured.starts;
        let start = if starts.len() == 1 { 0 } else { start };
        starts.get(start).and_then(|s| s.summary.get(m)).filter(|v| *v > 0.0)
    };
    let row = |start: usize, m| -> Option<Vec<f64>> {
        places.iter().map(|place| value(place, start, m)).collect()
    };
    (0..most).filter_map(|start| Some((row(start, measure)?, row(start, Measure::QPS)?))).unzip()
}

fn steadiness(place: &Place<'_>) -> Steadiness {
    let unsteady = place.measured.starts.iter().any(|s| s.status != RoundStatus::Complete);
    if unsteady { Steadiness::Unsteady } else { Steadiness::Steady }
}

fn located_words(located: &Located) -> Turning {
    let at = located.load;
    let (state, interval) = match located.bounds {
        Bounds::Within(ci) => (
            format!("at {at:.1} in flight [{:.1}, {:.1}]", ci.low, ci.high),
            Some((ci.low, ci.high)),
        ),
        Bounds::AtLeast(low) => (format!("at {at:.1} in flight, at least {low:.1}"), None),
        Bounds::Unknown => (format!("at {at:.1} in flight (one start: no interval)"), None),
    };
    Turning { state, in_flight: Some(at), interval }
}

fn crossover_words(crossover: &Crossover) -> Turning {
    match crossover {
        Crossover::At(located) => located_words(located),
        Crossover::BeyondSaturation(located) => {
            let inner = located_words(located);
            Turning { state: format!("beyond saturation ({}, unsteady)", inner.state), ..inner }
        }
        Crossover::NotReached { throughput_multiple, latency_multiple } => Turning {
            state: format!(
                "not reached: at the highest load QPS is ×\u{a0}{}, latency ×\u{a0}{}",
                significant(*throughput_multiple),
                significant(*latency_multiple)
            ),
            ..Turning::default()
        },
        Crossover::NoGain => Turning {
            state: "below the lowest load: from there on latency grows faster than QPS".into(),
            ..Turning::default()
        },
    }
}

fn best_value(multiples: &[Multiple]) -> Option<String> {
    let latency: Vec<f64> = multiples.iter().map(|m| m.latency).collect();
    let qps: Vec<f64> = multiples.iter().map(|m| m.qps).collect();
    let excess = excess(&latency, &qps)?;
    let best = excess.iter().copied().fold(f64::INFINITY, f64::min);
    let near: Vec<&str> = multiples
        .iter()
        .zip(&excess)
        .filter(|(_, f)| **f <= best + BEST_VALUE_SHARE.ln_1p())
        .map(|(m, _)| m.load.as_str())
        .collect();
    let (first, last) = (near.first()?, near.last()?);
    Some(if first == last { (*first).to_owned() } else { format!("{first} to {last}") })
}
