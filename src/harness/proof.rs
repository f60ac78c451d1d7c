//! The proof: what the self-test of this machine showed, and which load lies beyond it.

use crate::drive::RoundOutcome;
use crate::record::{Finding, FindingCode, RequestRecord, Severity, Window};
use crate::selftest::{SCHEMA, SelftestReport};
use crate::sim::Scheme;
use crate::store::Store;
use crate::units::{count, significant};

/// What is known of this client on this machine.
#[derive(Debug)]
pub(super) enum ProvenCapacity {
    /// The latest self-test, of a machine like this one, and what the servers speak.
    Report(Box<SelftestReport>, Scheme),
    /// Nothing, and why: no claim is made.
    Missing(String),
}

/// What a client had to read at once.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ClientLoad {
    /// Streams in flight, on average.
    pub(super) streams: f64,
    /// Events that arrived in the window, per second.
    pub(super) events_per_s: f64,
}

impl ClientLoad {
    /// That of a round; events of failed and cancelled requests had to be read too.
    pub(super) fn of(outcome: &RoundOutcome) -> Self {
        let window = Window { open_ns: outcome.window_open_ns, close_ns: outcome.window_close_ns };
        let events: f64 = outcome.records.iter().map(events_inside).sum();
        let seconds = window.seconds();
        Self {
            streams: outcome.health.in_flight_mean.unwrap_or(0.0),
            events_per_s: if seconds > 0.0 { events / seconds } else { 0.0 },
        }
    }

    /// The heavier of two, figure by figure.
    pub(super) fn max(self, other: Self) -> Self {
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
    /// What is stored, for servers that speak `scheme`.
    pub(super) fn of(store: &Store, scheme: Scheme) -> Self {
        let report: SelftestReport = match store.load_selftest() {
            Ok(Some(report)) => report,
            Ok(None) => return Self::Missing("no self-test is stored".to_owned()),
            Err(error) => return Self::Missing(error.to_string()),
        };
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::from_report(report, scheme, u32::try_from(cores).unwrap_or(u32::MAX))
    }

    fn from_report(report: SelftestReport, scheme: Scheme, cores: u32) -> Self {
        if report.schema != SCHEMA {
            return Self::Missing("the stored self-test is of another version".to_owned());
        }
        if report.cores != cores {
            return Self::Missing(format!(
                "the stored self-test is of {} cores, and this client has {cores}",
                report.cores
            ));
        }
        if report.levels_over(scheme).is_empty() {
            return Self::Missing(format!(
                "the stored self-test tried nothing over {}",
                scheme.name()
            ));
        }
        Self::Report(Box::new(report), scheme)
    }

    /// That nothing is known, to be said once a run.
    pub(super) fn missing(&self) -> Option<Finding> {
        let Self::Missing(why) = self else { return None };
        let text = format!("{why}: how many streams this client measures truly is not known here");
        let mend =
            "run `inferometer selftest`: it takes seconds, and later runs are held against it";
        Some(Finding::new(FindingCode::NoSelftest, Severity::Note, text).with_mend(mend))
    }

    /// Says that a load point asked more of the client than was proven.
    pub(super) fn beyond(&self, burden: ClientLoad) -> Option<Finding> {
        let Self::Report(report, scheme) = self else { return None };
        if !report.is_beyond(*scheme, burden.streams, burden.events_per_s) {
            return None;
        }
        let proven = match report.proven(*scheme) {
            Some(level) => {
                let word = if level.streams == 1 { "stream" } else { "streams" };
                let streams = count(u64::from(level.streams));
                format!("{streams} {word} and {} events/s", whole(level.events_per_s))
            }
            None => "not even one stream".to_owned(),
        };
        let text = format!(
            "the client read {} streams at once and {} events/s; the self-test proved {proven} on this \
             machine, so the client's own error is not known here",
            significant(burden.streams),
            whole(burden.events_per_s)
        );
        let mend =
            "fewer streams, more cores for the client, or shard the load over several clients";
        Some(Finding::new(FindingCode::BeyondSelftest, Severity::Warning, text).with_mend(mend))
    }
}

fn whole(number: f64) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
    count(number.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selftest::{Fidelity, IdleFloor, Level, Trust};

    fn level(streams: u32, events_per_s: f64, trust: Trust) -> Level {
        let fidelity = Fidelity::default();
        Level { streams, events_per_s, cpu_ms_per_1000_events: None, fidelity, trust }
    }

    fn report(levels: Vec<Level>) -> SelftestReport {
        SelftestReport {
            schema: SCHEMA,
            version: "0".to_owned(),
            at: jiff::Timestamp::UNIX_EPOCH,
            cores: 2,
            limit_ms: 1.0,
            ttft_ms: 50.0,
            gap_ms: 10.0,
            idle: IdleFloor::default(),
            levels,
            https_levels: Vec::new(),
        }
    }

    fn beyond(proof: &ProvenCapacity, streams: f64, events_per_s: f64) -> Option<String> {
        proof.beyond(ClientLoad { streams, events_per_s }).map(|finding| finding.text)
    }

    #[test]
    fn a_load_beyond_the_proof_is_told_with_both_figures() {
        let levels = vec![
            level(1, 80.0, Trust::Faithful),
            level(64, 5_000.0, Trust::Faithful),
            level(128, 9_000.0, Trust::Beyond),
        ];
        let proof = ProvenCapacity::from_report(report(levels), Scheme::Http, 2);
        assert_eq!(proof.missing(), None);
        assert_eq!(beyond(&proof, 64.0, 5_000.0), None, "what was proven is proven");
        let text = beyond(&proof, 63.9, 5_001.4).unwrap();
        assert!(text.contains("read 63.9 streams at once and 5\u{202f}001 events/s"), "{text}");
        assert!(text.contains("proved 64 streams and 5\u{202f}000 events/s"), "{text}");
        assert!(beyond(&proof, 65.0, 10.0).is_some());
    }

    #[test]
    fn https_is_held_against_what_was_proven_over_https() {
        let over = |https_levels| {
            let levels = vec![level(64, 5_000.0, Trust::Faithful)];
            let report = SelftestReport { https_levels, ..report(levels) };
            ProvenCapacity::from_report(report, Scheme::Https, 2)
        };
        let proof = over(vec![level(16, 1_000.0, Trust::Faithful)]);
        assert!(beyond(&proof, 64.0, 100.0).unwrap().contains("proved 16 streams"));
        assert_eq!(beyond(&proof, 16.0, 1_000.0), None);
        let proof = over(Vec::new());
        assert_eq!(beyond(&proof, 64.0, 100.0), None);
        assert!(proof.missing().unwrap().text.contains("tried nothing over https"));
    }

    #[test]
    fn where_nothing_was_proven_every_load_is_beyond() {
        let proof = ProvenCapacity::from_report(
            report(vec![level(1, 80.0, Trust::Beyond)]),
            Scheme::Http,
            2,
        );
        assert!(beyond(&proof, 1.0, 1.0).unwrap().contains("proved not even one stream"));
    }

    #[test]
    fn the_proof_of_another_machine_claims_nothing() {
        let proof = ProvenCapacity::from_report(
            report(vec![level(1, 80.0, Trust::Faithful)]),
            Scheme::Http,
            4,
        );
        assert_eq!(beyond(&proof, 1e6, 1e6), None);
        assert!(proof.missing().unwrap().text.contains("is of 2 cores, and this client has 4"));
    }
}
