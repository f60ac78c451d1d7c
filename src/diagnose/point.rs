//! A load point: what its rounds show of the client and the load, each finding once.

use std::collections::BTreeMap;

use super::capacity::{ClientLoad, ProvenCapacity};
use super::limit::{self, Circumstances};
use super::tokens::TokenAccount;
use super::{samples, server_metrics, validity};
use crate::drive::RoundOutcome;
use crate::metric::{Measure, Metric, Statistic};
use crate::plan::{Phase, RoundPlan};
use crate::record::health::sends_inside;
use crate::record::request::Part;
use crate::record::stored::{Health, RoundStatus};
use crate::record::{Finding, FindingCode, Severity, StoredRound, Window};
use crate::scenario::{Load, LoadPoint};
use crate::summary::{self, Summary, lockstep, steadiness};
use crate::transport::FailureKind;
use crate::units;

/// A fault of this many of a load point's rounds is the load point's (D.8: 20 % of the starts make a cell
/// invalid).
pub(crate) const FAULTY_SHARE: f64 = validity::INVALID_SHARE;
/// A drift has to show in this many rounds (D.8).
const DRIFTING_SHARE: f64 = 0.80;
/// A round shorter than this many E2E holds too few whole requests to be typical (D.8).
const FEWEST_E2E: f64 = 3.0;
/// Time at a cap on requests in flight that is worth a sentence; above the second it shapes the figures.
const CAP_NOTED: f64 = 0.01;
const CAP_SHAPES: f64 = 0.20;
/// Requests sent again, as a share, that are more than a race between a pause and a keep-alive.
const MANY_RESENT: f64 = 0.05;

/// What the rounds of one load point on one side have told so far.
#[derive(Debug)]
pub(crate) struct PointNotes {
    pub(crate) phase: Phase,
    pub(crate) point: LoadPoint,
    pub(crate) tokens: TokenAccount,
    pub(crate) failures: BTreeMap<FailureKind, u64>,
    pub(crate) attempted: u64,
    /// All that was sent, ramp and tail too, and what of it failed for want of descriptors or ports: a
    /// client that runs out mostly does so while the load rises.
    pub(crate) sent: u64,
    pub(crate) own_failures: BTreeMap<FailureKind, u64>,
    /// Their statuses, by kind.
    pub(crate) failure_statuses: BTreeMap<FailureKind, BTreeMap<u16, u64>>,
    pub(crate) retry_after: Option<String>,
    pub(crate) rounds: Vec<RoundNotes>,
    /// How late this machine is when it has nothing to do, from the self-test.
    pub(crate) idle_lag_ms: f64,
}

#[derive(Debug)]
pub(crate) struct RoundNotes {
    pub(crate) health: Health,
    /// Requests sent inside the window.
    pub(crate) sends: usize,
    pub(crate) status: RoundStatus,
    pub(crate) ttft_p50_ms: f64,
    pub(crate) ttft_count: u64,
    pub(crate) qps: Option<f64>,
    pub(crate) e2e_in_window: Option<f64>,
    pub(crate) drift: Option<f64>,
    pub(crate) unsettled: Option<f64>,
    pub(crate) waiting: Option<(f64, Option<f64>)>,
    pub(crate) gpu_percent: Option<f64>,
    pub(crate) told: BTreeMap<String, f64>,
    pub(crate) burden: ClientLoad,
}

impl PointNotes {
    pub(crate) fn new(plan: &RoundPlan, idle_lag_ms: f64) -> Self {
        Self {
            idle_lag_ms,
            phase: plan.phase,
            point: plan.point.clone(),
            tokens: TokenAccount::default(),
            failures: BTreeMap::new(),
            attempted: 0,
            sent: 0,
            own_failures: BTreeMap::new(),
            failure_statuses: BTreeMap::new(),
            retry_after: None,
            rounds: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, round: &StoredRound, outcome: &RoundOutcome, summary: &Summary) {
        self.tokens.add(&outcome.records);
        self.attempted += summary.completed + summary.failed + summary.ramp_completed;
        for (kind, statuses) in &summary.failure_statuses {
            let known = self.failure_statuses.entry(*kind).or_default();
            statuses.iter().for_each(|(status, n)| *known.entry(*status).or_default() += n);
        }
        for (kind, times) in &summary.failures {
            *self.failures.entry(*kind).or_default() += times;
        }
        self.sent += outcome.records.len() as u64;
        for kind in outcome.records.iter().filter_map(|r| r.failure).filter(|k| k.is_clients()) {
            *self.own_failures.entry(kind).or_default() += 1;
        }
        let limited = outcome.records.iter().filter(|r| r.part == Part::Measured);
        let after = limited.filter_map(|r| r.evidence.as_ref()?.retry_after.clone()).next();
        self.retry_after = self.retry_after.take().or(after);
        let e2el_s =
            summary.get(Measure::of(Metric::E2elFromSent, Statistic::P50)).map(|ms| ms / 1e3);
        let series = |name: &str| round.series.get(name).and_then(|s| limit::level(s));
        self.rounds.push(RoundNotes {
            health: round.health.clone(),
            sends: sends_inside(&outcome.records, Window::of(round)).count(),
            status: round.status,
            ttft_p50_ms: summary.get(Measure::TTFT_P50).unwrap_or(0.0),
            ttft_count: summary.completed,
            qps: summary.request_throughput,
            e2e_in_window: e2el_s.filter(|s| *s > 0.0).map(|s| summary.duration_s / s),
            drift: match steadiness::steadiness(&outcome.records) {
                steadiness::Steadiness::Drifting { ratio } => Some(ratio),
                _ => None,
            },
            unsettled: steadiness::unsettled_ratio(&outcome.records),
            waiting: series("requests_waiting"),
            gpu_percent: series("gpu_utilization_percent").map(|(mean, _)| mean),
            told: round.telemetry.clone(),
            burden: ClientLoad::of(outcome),
        });
    }

    /// Every finding, each once; the limit's sentence comes last. `below` is the next lower load.
    /// `slots`: how many requests the server works on at once, if it reports that.
    pub(crate) fn findings(
        &self,
        below: Option<&Self>,
        proof: &ProvenCapacity,
        slots: Option<u32>,
    ) -> Vec<Finding> {
        let mut found = self.client_findings();
        found.extend(proof.beyond(self.burden()));
        found.extend(self.own_failure_findings());
        found.extend(self.failure_findings());
        found.extend(self.tokens.findings());
        found.extend(self.load_findings());
        found.extend(self.steadiness_findings());
        let told: Vec<_> = self.rounds.iter().map(|r| r.told.clone()).collect();
        let told = server_metrics::pooled(&told);
        let by_metrics = server_metrics::findings(&told);
        if by_metrics.iter().any(|f| f.code == FindingCode::PrefixCache) {
            found.retain(|f| f.code != FindingCode::PrefixCache); // usage reports it too, less exactly
        }
        found.extend(by_metrics);
        if self.phase == Phase::Search {
            // Many loads are tried, most of them to be left again: what is worth knowing of each is not.
            found.retain(|finding| finding.severity > Severity::Note);
        }
        let fails = self.share(|r| r.status.is_failing()) >= FAULTY_SHARE;
        let measured = self.rounds.iter().any(|r| r.ttft_count > 0);
        if measured && !fails && self.phase == Phase::Load {
            found.push(limit::sentence(&Circumstances {
                client_fault: self.client_limit(),
                slots: slots.zip(self.in_flight()),
                saturated: self.share(|r| r.status == RoundStatus::Saturated) > 0.5,
                waiting: self.rounds.iter().filter_map(|r| r.waiting).collect(),
                gpu_percent: self.rounds.iter().filter_map(|r| r.gpu_percent).collect(),
                gain: below.and_then(|below| self.gain(below)),
                told,
            }));
        }
        found
    }

    /// Requests in flight, mean over the rounds.
    fn in_flight(&self) -> Option<f64> {
        let means: Vec<f64> = self.rounds.iter().filter_map(|r| r.health.in_flight_mean).collect();
        crate::stats::moments::mean(&means)
    }

    /// Failures that are a policy's or the connection's.
    fn failure_findings(&self) -> Vec<Finding> {
        let times = |kind| self.failures.get(&kind).copied().filter(|n| *n > 0);
        let of_all = |n: u64| format!("{n} of {} requests", self.attempted);
        let mut found = Vec::new();
        if let Some(n) = times(FailureKind::RateLimited) {
            let wait = self.retry_after.as_ref().map(|s| format!(", retry after {s}"));
            let text = format!(
                "{} were refused with 429{}: that is a policy, not a slow server",
                of_all(n),
                wait.unwrap_or_default()
            );
            let hint = "raise the quota of this key, or measure the server behind the gateway";
            found.push(
                Finding::new(FindingCode::RateLimited, Severity::Warning, text).with_hint(hint),
            );
        }
        found.extend(self.resent());
        found.extend(self.other_failures());
        found
    }

    /// Requests whose connection the server was closing just then.
    fn resent(&self) -> Option<Finding> {
        let resent: u64 = self.rounds.iter().map(|round| round.health.resent).sum();
        if resent == 0 {
            return None;
        }
        let requests = units::plural(usize::try_from(resent).unwrap_or(usize::MAX), "request");
        let text = format!(
            "{requests} met a connection that the server was closing, and went to a new one: the clock of \
             each runs from its first send"
        );
        #[allow(clippy::cast_precision_loss)] // counts of requests
        let share = resent as f64 / self.sent.max(1) as f64;
        let (severity, hint) = if share > MANY_RESENT {
            (
                Severity::Warning,
                "a keep-alive that is too short closes few: does a server or gateway reset requests?",
            )
        } else {
            (
                Severity::Note,
                "its keep-alive is shorter than the pauses between requests: lengthen it",
            )
        };
        Some(Finding::new(FindingCode::StaleConnections, severity, text).with_hint(hint))
    }

    /// The failures that no finding of their own names.
    fn other_failures(&self) -> Option<Finding> {
        let is_told = |kind: FailureKind| match kind {
            FailureKind::RateLimited => true,
            kind => kind.is_clients(),
        };
        let failures: BTreeMap<FailureKind, u64> =
            self.failures.iter().filter(|(k, _)| !is_told(**k)).map(|(k, n)| (*k, *n)).collect();
        let all: u64 = failures.values().sum();
        let told = Summary {
            failures,
            failure_statuses: self.failure_statuses.clone(),
            ..Summary::default()
        };
        let words = summary::failure_words(&told);
        (all > 0).then(|| {
            let text = format!("{all} of {} requests failed: {words}", self.attempted);
            Finding::new(FindingCode::Failures, Severity::Warning, text)
                .with_hint("the first failures stand with their evidence on the load point's page")
        })
    }

    /// Little's law, the cap, waves.
    fn load_findings(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        let worst = |of: fn(&Health) -> Option<f64>| {
            self.rounds.iter().max_by(|a, b| {
                of(&a.health).unwrap_or(0.0).total_cmp(&of(&b.health).unwrap_or(0.0))
            })
        };
        match self.point.load {
            Load::Concurrency(slots) => {
                let little = |r: &RoundNotes| validity::little(&r.health, f64::from(slots));
                if self.share(|r| little(r).is_some()) > FAULTY_SHARE {
                    found.extend(self.rounds.iter().find_map(little));
                }
            }
            Load::RequestRate(rate) => {
                let share = worst(|h| h.at_cap_share).and_then(|r| r.health.at_cap_share);
                let cap = rate.max_concurrency.zip(share.filter(|share| *share > CAP_NOTED));
                found.extend(cap.map(|(cap, share)| cap_finding(cap, share)));
            }
        }
        let waves = worst(|h| h.lockstep);
        found.extend(waves.and_then(|r| lockstep::waves_finding(&r.health, r.sends, "")));
        found
    }

    /// Samples, length of the window, drift.
    fn steadiness_findings(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        let count: u64 = self.rounds.iter().map(|r| r.ttft_count).sum();
        if self.phase == Phase::Load {
            // Where nothing completed, more of it would not help.
            found.extend((count > 0).then(|| samples::of_count(count)).flatten());
        }
        let shortest = self.rounds.iter().filter_map(|r| r.e2e_in_window).min_by(f64::total_cmp);
        if let Some(short) = shortest.filter(|n| *n < FEWEST_E2E) {
            let text = format!(
                "the measured window is only {short:.1} times the mean E2EL, so ramp-up and drain bias QPS"
            );
            let finding = Finding::new(FindingCode::ShortRound, Severity::Note, text);
            found.push(finding.with_hint("measure longer: `--num-prompts`, `--measurement-time`"));
        }
        if self.share(|r| r.drift.is_some()) >= DRIFTING_SHARE {
            found.extend(self.rounds.iter().find_map(|r| r.drift).map(steadiness::drift_finding));
        } else if self.share(|r| r.unsettled.is_some()) >= DRIFTING_SHARE {
            found.extend(
                self.rounds.iter().find_map(|r| r.unsettled).map(steadiness::unsettled_finding),
            );
        }
        found
    }

    /// Growth of QPS over growth of the load: 1 where all that was added came out.
    fn gain(&self, below: &Self) -> Option<f64> {
        let load = self.point.load.level() / below.point.load.level() - 1.0;
        let qps = self.qps()? / below.qps()? - 1.0;
        (load > 0.0 && qps.is_finite()).then(|| (qps / load).max(0.0))
    }

    /// What the heaviest of its rounds asked of the client.
    fn burden(&self) -> ClientLoad {
        self.rounds.iter().map(|r| r.burden).fold(ClientLoad::default(), ClientLoad::max)
    }

    fn qps(&self) -> Option<f64> {
        let all: Vec<f64> = self.rounds.iter().filter_map(|r| r.qps).collect();
        crate::stats::moments::mean(&all)
    }

    /// Of the rounds, the share for which this holds.
    #[allow(clippy::cast_precision_loss)] // a few rounds
    pub(crate) fn share(&self, holds: impl Fn(&RoundNotes) -> bool) -> f64 {
        let times = self.rounds.iter().filter(|r| holds(r)).count();
        times as f64 / self.rounds.len().max(1) as f64
    }

    pub(crate) fn is_below(&self, other: &Self) -> bool {
        let kind = std::mem::discriminant(&self.point.load);
        self.phase == Phase::Load
            && kind == std::mem::discriminant(&other.point.load)
            && self.point.group == other.point.group
            && self.point.scenario == other.point.scenario
            && self.point.load.level() < other.point.load.level()
    }
}

fn cap_finding(cap: u32, share: f64) -> Finding {
    let severity = if share > CAP_SHAPES { Severity::Warning } else { Severity::Note };
    let text = format!(
        "{:.0} % of the time all {cap} places were taken: requests then waited in the client, and the wait \
         is inside their latency",
        share * 100.0
    );
    Finding::new(FindingCode::AtCap, severity, text)
        .with_hint("raise `--max-concurrency`, or read the figures as those of the cap")
}
