//! Where the limit is: multiples against the reference, the crossover, the knee, the best value.

use crate::metric::Measure;
use crate::record::stored::RoundStatus;
use crate::record::{Finding, FindingCode, Severity};
use crate::scenario::{Load, LoadPoint, REFERENCE_PER_S};
use crate::stats::crossover::{Bounds, Crossover, Curve, Located, Steadiness, excess};
use crate::summary::Summary;
use crate::summary::measured::MeasuredSide;
use crate::units::{change, significant};

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
    /// The standard error of the logarithm of the reference's latency, where it is what multiples are
    /// relative to.
    pub reference_error: Option<f64>,
}

impl Knee {
    /// The finding that the reference is slower than a load, beyond two standard errors and 2 %: its
    /// multiples are then too low, and the crossover too high.
    #[must_use]
    pub fn slow_reference(&self) -> Option<Finding> {
        const SLOWER: f64 = 0.98;
        let error = self.reference_error?;
        let surely = |m: &&Multiple| m.latency < SLOWER && m.latency.ln() < -2.0 * error;
        let fastest =
            self.multiples.iter().filter(surely).min_by(|a, b| a.latency.total_cmp(&b.latency))?;
        let text = format!(
            "the reference (1 request/s) is slower than {}: {} is ×\u{a0}{} there; multiples and crossover \
             are those of a server whose clocks or caches were cold",
            fastest.load,
            self.measure.label(),
            significant(fastest.latency)
        );
        let hint = "lock the clocks of the device, or take the lowest load in its place (`--no-reference`)";
        let point = format!("{}/{}/{}", self.group, self.scenario, fastest.load);
        Some(
            Finding::new(FindingCode::SlowReference, Severity::Warning, text)
                .with_hint(hint)
                .at(point),
        )
    }
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

impl Place<'_> {
    /// A measure of it. The QPS of the reference is what was offered, which has no edges of a window.
    fn value(&self, summary: &Summary, measure: Measure) -> Option<f64> {
        match self.at {
            At::Reference if measure == Measure::QPS => Some(REFERENCE_PER_S),
            _ => summary.get(measure),
        }
    }
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
    let base = &places[0];
    let multiples: Vec<Multiple> =
        places.iter().filter_map(|place| multiple(place, base, measure)).collect();
    if multiples.len() < 2 {
        return None;
    }
    let (latency, throughput) = rows(&places, measure);
    let loads: Vec<f64> = places.iter().map(|p| p.in_flight).collect();
    let steadiness: Vec<Steadiness> = places.iter().map(steadiness).collect();
    let reference_error = match base.at {
        At::Reference => error_of(&base.measured.pooled, measure),
        At::Load(_) => None,
    };
    let stats = Curve {
        load: &loads,
        latency: &latency,
        throughput: &throughput,
        steadiness: &steadiness,
        reference_error: reference_error.unwrap_or(0.0),
    };
    let crossover = stats.crossover().map(|c| crossover_words(&c, &multiples, measure));
    Some(Knee {
        group: first.group.clone(),
        scenario: first.scenario.clone(),
        side: curve.side,
        measure,
        relative_to,
        crossover: crossover.unwrap_or_default(),
        knee: stats.knee().map(|k| located_words(&k)).unwrap_or_default(),
        best_value: best_value(&multiples),
        multiples,
        reference_error,
    })
}

/// The standard error of the logarithm of a mean over requests that met no other.
#[allow(clippy::cast_precision_loss)] // a count of requests
fn error_of(summary: &Summary, measure: Measure) -> Option<f64> {
    let requests = summary.distributions.get(&measure.metric)?;
    let (mean, std) = (requests.mean?, requests.std?);
    (mean > 0.0).then(|| std / mean / (requests.count as f64).sqrt())
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
    let steady = |measured: &MeasuredSide| {
        measured.starts.iter().all(|start| start.status == RoundStatus::Complete)
    };
    let reference = curve.reference.filter(|r| usable(r) && steady(r)).and_then(|measured| {
        let in_flight = in_flight(measured).filter(|n| *n > 0.0 && *n < lowest)?;
        Some(Place { at: At::Reference, measured, in_flight })
    });
    reference.into_iter().chain(places).collect()
}

fn multiple(place: &Place<'_>, base: &Place<'_>, measure: Measure) -> Option<Multiple> {
    let ratio = |m| {
        let of = |place: &Place<'_>| place.value(&place.measured.pooled, m);
        Some(of(place)? / of(base)?)
    };
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
        starts.get(start).and_then(|s| place.value(&s.summary, m)).filter(|v| *v > 0.0)
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

fn crossover_words(crossover: &Crossover, multiples: &[Multiple], measure: Measure) -> Turning {
    match crossover {
        Crossover::At(located) => {
            let inner = located_words(located);
            let flat = flat_at(located.load, multiples).unwrap_or_default();
            Turning { state: inner.state + &flat, ..inner }
        }
        Crossover::BeyondSaturation(located) => {
            let inner = located_words(located);
            let flat = flat_at(located.load, multiples).unwrap_or_default();
            Turning {
                state: format!("beyond saturation ({}, unsteady){flat}", inner.state),
                ..inner
            }
        }
        Crossover::NotReached { throughput_multiple, latency_multiple } => Turning {
            state: format!(
                "not reached: at the highest load QPS is ×\u{a0}{}, latency ×\u{a0}{}{}",
                significant(*throughput_multiple),
                significant(*latency_multiple),
                by_little(*throughput_multiple, multiples, measure).unwrap_or_default()
            ),
            ..Turning::default()
        },
        Crossover::NoGain => Turning {
            state: "below the lowest load: from there on latency grows faster than QPS".into(),
            ..Turning::default()
        },
    }
}

/// Words where QPS no longer rises at a load: by less than 5 % for twice the requests in flight.
fn flat_at(load: f64, multiples: &[Multiple]) -> Option<String> {
    const FLAT: f64 = 1.05;
    let around = multiples.windows(2).find(|pair| load <= pair[1].in_flight)?;
    let (below, above) = (&around[0], &around[1]);
    let rise = above.qps / below.qps;
    let doublings = (above.in_flight / below.in_flight).log2();
    (rise < FLAT.powf(doublings)).then(|| {
        format!(
            "; QPS is flat there already ({} from {} to {}): what is added only waits",
            change(rise - 1.0),
            below.load,
            above.load
        )
    })
}

/// Where the crossover would lie if QPS rose no further: by Little's law E2EL multiple × QPS multiple is
/// the multiple of requests in flight, so both are equal where it is the square of QPS.
fn by_little(qps: f64, multiples: &[Multiple], measure: Measure) -> Option<String> {
    let (first, last) = (multiples.first()?, multiples.last()?);
    let at = first.in_flight * qps * qps;
    (measure == Measure::E2EL_MEAN && at > last.in_flight).then(|| {
        format!(
            "; if QPS rose no further, it would lie at {} in flight (Little's law)",
            significant(at)
        )
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn multiples(rows: &[(f64, f64, f64)]) -> Vec<Multiple> {
        let row = |(in_flight, latency, qps): &(f64, f64, f64)| Multiple {
            load: format!("c{in_flight}"),
            in_flight: *in_flight,
            latency: *latency,
            qps: *qps,
        };
        rows.iter().map(row).collect()
    }

    fn knee_of(rows: &[(f64, f64, f64)], reference_error: Option<f64>) -> Knee {
        Knee {
            group: "chat".into(),
            scenario: "short".into(),
            side: 0,
            measure: Measure::E2EL_MEAN,
            relative_to: "rate 1".into(),
            multiples: multiples(rows),
            crossover: Turning::default(),
            knee: Turning::default(),
            best_value: None,
            reference_error,
        }
    }

    #[test]
    fn a_reference_slower_than_a_load_is_a_warning_where_it_is_no_chance() {
        let rows = [(0.5, 1.0, 1.0), (1.0, 0.9, 2.0), (4.0, 1.5, 6.0)];
        let found = knee_of(&rows, Some(0.01)).slow_reference().unwrap();
        assert_eq!(
            (found.severity, found.point.as_deref()),
            (Severity::Warning, Some("chat/short/c1"))
        );
        assert!(found.text.contains("slower than c1"), "{}", found.text);
        assert_eq!(knee_of(&rows, Some(0.06)).slow_reference(), None, "within its error");
        assert_eq!(knee_of(&rows, None).slow_reference(), None, "there is no reference");
        let near = [(0.5, 1.0, 1.0), (1.0, 0.985, 2.0)];
        assert_eq!(knee_of(&near, Some(0.001)).slow_reference(), None, "within 2 %");
    }

    #[test]
    fn flat_qps_at_the_crossover_is_said() {
        let rows = multiples(&[(1.0, 1.0, 1.0), (64.0, 6.0, 10.0), (128.0, 12.0, 10.2)]);
        let words = flat_at(100.0, &rows).unwrap();
        assert!(words.contains("flat there already") && words.contains("c64 to c128"), "{words}");
        assert_eq!(flat_at(8.0, &rows), None);
    }

    #[test]
    fn a_crossover_that_was_not_reached_lies_at_the_square_of_qps_by_littles_law() {
        let rows = multiples(&[(0.5, 1.0, 1.0), (32.0, 5.3, 12.0)]);
        let words = by_little(12.0, &rows, Measure::E2EL_MEAN).unwrap();
        assert!(words.contains("at 72.0 in flight"), "{words}");
        assert_eq!(
            by_little(12.0, &rows, Measure::TTFT_P50),
            None,
            "Little's law is of whole requests"
        );
    }
}
