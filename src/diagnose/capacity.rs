//! Capacity: the load up to which this client is proven, and which load lies beyond it.

use crate::drive::RoundOutcome;
use crate::record::{Finding, FindingCode, RequestRecord, Severity, Window};
use crate::units::{count, significant};

/// What is known of this client on this machine.
#[derive(Debug)]
pub(crate) enum ProvenCapacity {
    /// The load up to which the latest self-test, of a machine like this one, measured truly; `None`
    /// if not even one stream.
    UpTo(Option<ProvenLoad>),
    /// Nothing, and why: no claim is made.
    Missing(String),
}

/// The highest load that a self-test proved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ProvenLoad {
    /// Streams at once.
    pub(crate) streams: u32,
    /// Events per second.
    pub(crate) events_per_s: f64,
}

/// What a client had to read at once.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ClientLoad {
    /// Streams in flight, on average.
    pub(crate) streams: f64,
    /// Events that arrived in the window, per second.
    pub(crate) events_per_s: f64,
}

impl ClientLoad {
    /// That of a round; events of failed and cancelled requests had to be read too.
    pub(crate) fn of(outcome: &RoundOutcome) -> Self {
        let window = Window { open_ns: outcome.window_open_ns, close_ns: outcome.window_close_ns };
        let events: f64 = outcome.records.iter().map(events_inside).sum();
        let seconds = window.seconds();
        Self {
            streams: outcome.health.in_flight_mean.unwrap_or(0.0),
            events_per_s: if seconds > 0.0 { events / seconds } else { 0.0 },
        }
    }

    /// The heavier of two, figure by figure.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            streams: self.streams.max(other.streams),
            events_per_s: self.events_per_s.max(other.events_per_s),
        }
    }
}

/// Events inside the window: of all its events as many as of its tokens.
fn events_inside(record: &RequestRecord) -> f64 {
    match record.output_tokens {
        Some(tokens) if tokens > 0 => {
            f64::from(record.events) * f64::from(record.window_tokens) / f64::from(tokens)
        }
        _ => 0.0,
    }
}

impl ProvenCapacity {
    /// That nothing is known, to be said once a run.
    pub(crate) fn missing(&self) -> Option<Finding> {
        let Self::Missing(why) = self else { return None };
        let text = format!("{why}: client accuracy at this load is unknown");
        let hint =
            "run `inferometer selftest` (about 20 s); later runs are checked against its result";
        Some(Finding::new(FindingCode::NoSelftest, Severity::Note, text).with_hint(hint))
    }

    /// Says that a load point asked more of the client than was proven.
    pub(crate) fn beyond(&self, burden: ClientLoad) -> Option<Finding> {
        let Self::UpTo(proven) = self else { return None };
        let is_within = |level: &ProvenLoad| {
            burden.streams <= f64::from(level.streams) && burden.events_per_s <= level.events_per_s
        };
        if proven.as_ref().is_some_and(is_within) {
            return None;
        }
        let proven = match proven {
            Some(level) => {
                let word = if level.streams == 1 { "stream" } else { "streams" };
                let streams = count(u64::from(level.streams));
                format!("{streams} {word} and {} events/s", whole(level.events_per_s))
            }
            None => "not even one stream".to_owned(),
        };
        let text = format!(
            "the client read {} streams at once and {} events/s; the self-test covers {proven} on this \
             machine, so client accuracy at this load is unknown",
            significant(burden.streams),
            whole(burden.events_per_s)
        );
        let hint =
            "fewer streams, more cores for the client, or shard the load over several clients";
        Some(Finding::new(FindingCode::BeyondSelftest, Severity::Warning, text).with_hint(hint))
    }
}

fn whole(number: f64) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
    count(number.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    fn beyond(proof: &ProvenCapacity, streams: f64, events_per_s: f64) -> Option<String> {
        proof.beyond(ClientLoad { streams, events_per_s }).map(|finding| finding.text)
    }

    #[test]
    fn a_load_beyond_the_proof_is_told_with_both_figures() {
        let proof = ProvenCapacity::UpTo(Some(ProvenLoad { streams: 64, events_per_s: 5_000.0 }));
        assert_eq!(proof.missing(), None);
        assert_eq!(beyond(&proof, 64.0, 5_000.0), None, "what was proven is proven");
        let text = beyond(&proof, 63.9, 5_001.4).unwrap();
        assert!(text.contains("read 63.9 streams at once and 5\u{202f}001 events/s"), "{text}");
        assert!(text.contains("covers 64 streams and 5\u{202f}000 events/s"), "{text}");
        assert!(beyond(&proof, 65.0, 10.0).is_some());
    }

    #[test]
    fn where_nothing_was_proven_every_load_is_beyond() {
        let proof = ProvenCapacity::UpTo(None);
        assert!(beyond(&proof, 1.0, 1.0).unwrap().contains("covers not even one stream"));
    }
}
