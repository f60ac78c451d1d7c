//! The client: its own faults at a load point, and whether it was the limit.

use std::collections::BTreeMap;

use super::point::{FAULTY_SHARE, PointNotes, RoundNotes};
use super::validity::{self, Fault, Reach};
use crate::record::{Finding, FindingCode, Severity};
use crate::transport::FailureKind;

/// What a client can run out of.
struct Shortage {
    kind: FailureKind,
    code: FindingCode,
    what: &'static str,
    hint: &'static str,
}

const SHORTAGES: [Shortage; 2] = [
    Shortage {
        kind: FailureKind::ClientDescriptors,
        code: FindingCode::ClientDescriptors,
        what: "descriptors (EMFILE)",
        hint: "raise the limit (`ulimit -n`, `LimitNOFILE=`), or lower the load",
    },
    Shortage {
        kind: FailureKind::ClientPorts,
        code: FindingCode::ClientPorts,
        what: "ports (EADDRNOTAVAIL)",
        hint: "widen `net.ipv4.ip_local_port_range`, or lower the load",
    },
];

impl PointNotes {
    /// Lags, CPU and slots that D.8 calls invalid, where enough rounds show them; in fewer rounds they
    /// are a warning. What a median shows is reported in place of what only the p99 does.
    pub(crate) fn client_findings(&self) -> Vec<Finding> {
        let mut by_code: BTreeMap<FindingCode, (u64, Fault)> = BTreeMap::new();
        for round in &self.rounds {
            let mut told = BTreeMap::new();
            for fault in self.client_faults(round) {
                // The median's comes first.
                told.entry(fault.finding.code.clone()).or_insert(fault);
            }
            for (code, fault) in told {
                let entry = by_code.entry(code).or_insert_with(|| (0, fault.clone()));
                entry.0 += 1;
                if entry.1.reach == Reach::Tails {
                    entry.1 = fault;
                }
            }
        }
        by_code.into_values().map(|(times, fault)| self.in_rounds(times, fault.finding)).collect()
    }

    fn in_rounds(&self, times: u64, mut finding: Finding) -> Finding {
        let rounds = self.rounds.len();
        #[allow(clippy::cast_precision_loss)] // a few rounds
        if (times as f64) < FAULTY_SHARE * rounds as f64 {
            finding.severity = Severity::Warning;
        }
        if rounds > 1 {
            finding.text = format!("{} (in {times} of {rounds} rounds)", finding.text);
        }
        finding
    }

    fn client_faults(&self, round: &RoundNotes) -> Vec<Fault> {
        if round.status.is_failing() {
            return Vec::new(); // slots that wait on a failing server are not late by the client's fault
        }
        let (health, ttft_ms) = (&round.health, round.ttft_p50_ms);
        validity::health_faults(health, ttft_ms, self.point.load, self.idle_lag_ms)
    }

    /// The fault that makes the client the limit, where enough rounds show one. An event loop that is
    /// late at p99 alone is none: a hiccup of the machine moves tails, but holds no load back.
    pub(crate) fn client_limit(&self) -> Option<String> {
        let short = SHORTAGES.iter().find(|s| self.own_failures.contains_key(&s.kind));
        if let Some(shortage) = short {
            return Some(format!("it ran out of {}", shortage.what));
        }
        // Sends that were late hold an open loop back also where only some are.
        let holds_back = |fault: &Fault| {
            fault.reach != Reach::Tails || fault.finding.code == FindingCode::ScheduleLag
        };
        let limit = |round: &RoundNotes| self.client_faults(round).into_iter().find(holds_back);
        if self.share(|round| limit(round).is_some()) < FAULTY_SHARE {
            return None;
        }
        self.rounds.iter().find_map(limit).map(|fault| fault.finding.text)
    }

    /// What failed for want of descriptors or ports.
    pub(crate) fn own_failure_findings(&self) -> Vec<Finding> {
        let found = SHORTAGES.iter().filter_map(|shortage| {
            let times = self.own_failures.get(&shortage.kind)?;
            let text = format!(
                "the client ran out of {}: {times} of {} requests failed by its fault, not the server's",
                shortage.what, self.sent
            );
            let finding = Finding::new(shortage.code.clone(), Severity::Invalid, text);
            Some(finding.with_hint(shortage.hint))
        });
        found.collect()
    }
}

/// Whether it says that the client ran out of something.
pub(crate) fn ran_out(finding: &Finding) -> bool {
    SHORTAGES.iter().any(|shortage| shortage.code == finding.code)
        && finding.severity == Severity::Invalid
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::capacity::{ClientLoad, ProvenCapacity};
    use crate::plan::{Phase, RoundPlan, StopRule};
    use crate::record::stored::{Health, RoundStatus};
    use crate::rng::Seed;
    use crate::scenario::{Length, Load, LoadPoint, PromptSpec};

    fn notes(load: Load, healths: Vec<Health>) -> PointNotes {
        let point = LoadPoint {
            group: "g".to_owned(),
            scenario: "s".to_owned(),
            input: Length::Fixed(8),
            output: Length::Fixed(8),
            load,
            prompt: PromptSpec::Synthetic,
            slo: None,
            num_prompts: None,
            measurement_time_s: None,
        };
        let stop = StopRule { requests: 100, min_time_s: 0.0, max_time_s: 60.0 };
        let plan =
            RoundPlan { phase: Phase::Load, point, round: 0, seed: Seed(0), stop, first_prompt: 0 };
        let mut notes = PointNotes::new(&plan, 0.0);
        notes.rounds = healths.into_iter().map(round).collect();
        notes
    }

    fn round(health: Health) -> RoundNotes {
        RoundNotes {
            health,
            sends: 100,
            status: RoundStatus::Complete,
            ttft_p50_ms: 20.0,
            ttft_count: 100,
            qps: Some(10.0),
            e2e_in_window: Some(10.0),
            drift: None,
            unsettled: None,
            waiting: Some((0.0, None)),
            gpu_percent: None,
            told: BTreeMap::new(),
            burden: ClientLoad::default(),
        }
    }

    fn told(notes: &PointNotes) -> (Vec<(String, Severity, String)>, String) {
        let proof = ProvenCapacity::Missing(String::new());
        let (limit, rest): (Vec<Finding>, Vec<Finding>) = notes
            .findings(None, &proof, None)
            .into_iter()
            .partition(|f| f.code == FindingCode::Limit);
        let rest = rest.into_iter().map(|f| (f.code.into(), f.severity, f.text)).collect();
        (rest, limit[0].text.clone())
    }

    fn closed(healths: Vec<Health>) -> (Vec<(String, Severity, String)>, String) {
        told(&notes(Load::Concurrency(4), healths))
    }

    #[test]
    fn a_client_that_stood_still_makes_the_round_invalid() {
        let frozen = Health {
            longest_stall_ms: Some(3000.0),
            stalled_share: Some(0.3),
            ..Health::default()
        };
        let (found, _) = closed(vec![frozen.clone()]);
        assert_eq!((found.len(), found[0].0.as_str()), (1, "client_stall"));
        let long_window = Health { stalled_share: Some(0.005), ..frozen };
        assert_eq!(closed(vec![long_window]).0, []);
    }

    #[test]
    fn a_hiccup_at_p99_is_told_and_is_not_the_limit() {
        let hiccup = Health { loop_lag_p99_ms: Some(50.0), ..Health::default() };
        let (found, limit) = closed(vec![hiccup.clone(), hiccup]);
        assert_eq!((found.len(), found[0].0.as_str()), (1, "loop_lag"));
        assert_eq!(found[0].1, Severity::Invalid);
        assert!(found[0].2.contains("p99 50.0 ms") && found[0].2.ends_with("(in 2 of 2 rounds)"));
        assert!(limit.starts_with("no limit is reached"), "{limit}");
    }

    #[test]
    fn a_late_median_a_full_cpu_or_empty_slots_make_the_client_the_limit() {
        let late =
            Health { loop_lag_p50_ms: Some(9.0), loop_lag_p99_ms: Some(50.0), ..Health::default() };
        let busy = Health { client_cpu: Some(0.95), ..Health::default() };
        let empty = Health { in_flight_mean: Some(2.0), ..Health::default() };
        for (health, says) in [
            (late, "the client's event loop ran late: p50 9.0 ms"),
            (busy, "the client used 95 % of its cores"),
            (empty, "2.00 requests in flight on average, 4 asked"),
        ] {
            let (found, limit) = closed(vec![health.clone(), health]);
            assert_eq!(found.len(), 1, "one finding a fault: {found:?}");
            assert!(found[0].2.ends_with("(in 2 of 2 rounds)"), "{found:?}");
            assert!(limit.starts_with(&format!("the limit is the client: {says}")), "{limit}");
        }
    }

    #[test]
    fn late_sends_of_an_open_loop_make_the_client_the_limit() {
        let rate = Load::RequestRate(Load::request_rate(10.0));
        let late = Health { schedule_lag_p99_ms: Some(30.0), ..Health::default() };
        let (_, limit) = told(&notes(rate, vec![late.clone()]));
        assert!(limit.starts_with("the limit is the client: requests were sent late"), "{limit}");
        // A closed loop sends late into no latency.
        let (found, limit) = closed(vec![late]);
        assert!(found.is_empty() && limit.starts_with("no limit"), "{found:?} {limit}");
    }

    #[test]
    fn one_bad_round_of_many_is_a_warning_and_no_limit() {
        let mut healths = vec![Health::default(); 9];
        healths.push(Health { client_cpu: Some(0.95), ..Health::default() });
        let (found, limit) = closed(healths);
        assert_eq!((found.len(), found[0].1), (1, Severity::Warning));
        assert!(found[0].2.ends_with("(in 1 of 10 rounds)"));
        assert!(limit.starts_with("no limit"), "{limit}");
    }

    #[test]
    fn a_client_without_descriptors_or_ports_is_named_with_its_mend() {
        for (kind, code, word) in [
            (FailureKind::ClientDescriptors, FindingCode::ClientDescriptors, "EMFILE"),
            (FailureKind::ClientPorts, FindingCode::ClientPorts, "EADDRNOTAVAIL"),
        ] {
            let mut notes = notes(Load::Concurrency(4), vec![Health::default()]);
            (notes.sent, notes.own_failures) = (40, BTreeMap::from([(kind, 7)]));
            let (found, limit) = told(&notes);
            assert_eq!((found[0].0.as_str(), found[0].1), (code.name(), Severity::Invalid));
            assert!(found[0].2.contains(word) && found[0].2.contains("7 of 40 requests"));
            assert!(limit.starts_with("the limit is the client: it ran out of "), "{limit}");
        }
    }
}
