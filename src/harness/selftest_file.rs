//! The stored self-test, read: what this client is proven to measure truly.

use crate::diagnose::capacity::{ProvenCapacity, ProvenLoad};
use crate::selftest::Scheme;
use crate::selftest::{Level, SCHEMA, SelftestReport};
use crate::store::Store;

/// What the self-test that is stored proves of this client.
pub(super) fn proven_capacity(store: &Store, scheme: Scheme) -> ProvenCapacity {
    let report: SelftestReport = match store.load_selftest() {
        Ok(Some(report)) => report,
        Ok(None) => return ProvenCapacity::Missing("no self-test is stored".to_owned()),
        Err(error) => return ProvenCapacity::Missing(error.to_string()),
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    from_report(&report, scheme, u32::try_from(cores).unwrap_or(u32::MAX))
}

fn from_report(report: &SelftestReport, scheme: Scheme, cores: u32) -> ProvenCapacity {
    if report.schema != SCHEMA {
        return ProvenCapacity::Missing("the stored self-test is of another version".to_owned());
    }
    if report.cores != cores {
        return ProvenCapacity::Missing(format!(
            "the stored self-test is of {} cores, and this client has {cores}",
            report.cores
        ));
    }
    if report.levels_over(scheme).is_empty() {
        return ProvenCapacity::Missing(format!(
            "the stored self-test tried nothing over {}",
            scheme.name()
        ));
    }
    let load =
        |level: &Level| ProvenLoad { streams: level.streams, events_per_s: level.events_per_s };
    ProvenCapacity::UpTo(report.proven(scheme).map(load))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selftest::{Fidelity, IdleFloor, Trust};

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

    #[test]
    fn the_levels_up_to_the_first_that_failed_are_proven() {
        let levels = vec![
            level(1, 80.0, Trust::Faithful),
            level(64, 5_000.0, Trust::Faithful),
            level(128, 9_000.0, Trust::Beyond),
        ];
        let ProvenCapacity::UpTo(proven) = from_report(&report(levels), Scheme::Http, 2) else {
            panic!()
        };
        assert_eq!(proven, Some(ProvenLoad { streams: 64, events_per_s: 5_000.0 }));
        let failed = from_report(&report(vec![level(1, 80.0, Trust::Beyond)]), Scheme::Http, 2);
        assert!(matches!(failed, ProvenCapacity::UpTo(None)));
    }

    #[test]
    fn https_is_held_against_what_was_proven_over_https() {
        let over = |https_levels| {
            let levels = vec![level(64, 5_000.0, Trust::Faithful)];
            from_report(&SelftestReport { https_levels, ..report(levels) }, Scheme::Https, 2)
        };
        let ProvenCapacity::UpTo(proven) = over(vec![level(16, 1_000.0, Trust::Faithful)]) else {
            panic!()
        };
        assert_eq!(proven, Some(ProvenLoad { streams: 16, events_per_s: 1_000.0 }));
        let missing = over(Vec::new()).missing().unwrap();
        assert!(missing.text.contains("tried nothing over https"));
    }

    #[test]
    fn the_proof_of_another_machine_claims_nothing() {
        let proof = from_report(&report(vec![level(1, 80.0, Trust::Faithful)]), Scheme::Http, 4);
        assert!(matches!(proof, ProvenCapacity::Missing(_)));
        assert!(proof.missing().unwrap().text.contains("is of 2 cores, and this client has 4"));
    }
}
