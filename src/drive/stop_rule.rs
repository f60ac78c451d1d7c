//! The stop rule: which requests of a round are measured, and when the round ends.

use crate::plan::StopRule;
use crate::record::request::Part;
use crate::units::ns_to_s;

/// Whether more requests may still be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Intake {
    Open,
    Full,
}

/// The roll of the measured requests, by the stop rule: the first N, and those of the first so
/// many seconds, whichever comes later, bounded by the longest time.
#[derive(Debug, Clone)]
pub(super) struct StopTracker {
    rule: StopRule,
    intake: Intake,
    sent: u64,
    ended: u64,
}

impl StopTracker {
    pub(super) fn new(rule: StopRule) -> Self {
        Self { rule, intake: Intake::Open, sent: 0, ended: 0 }
    }

    /// A roll of exactly `requests`: in an open loop the arrivals say beforehand which they are.
    pub(super) fn of(requests: u32) -> Self {
        Self::new(StopRule { requests, min_time_s: 0.0, max_time_s: f64::INFINITY })
    }

    /// Takes note of the time since the window opened.
    pub(super) fn at(&mut self, elapsed_s: f64) {
        let enough =
            self.sent >= u64::from(self.rule.requests) && elapsed_s >= self.rule.min_time_s;
        if enough || elapsed_s >= self.rule.max_time_s {
            self.intake = Intake::Full;
        }
    }

    /// Enters a request that is sent now, while the window is open.
    pub(super) fn enter(&mut self, elapsed_s: f64) -> Part {
        self.at(elapsed_s);
        match self.intake {
            Intake::Full => Part::Tail,
            Intake::Open => {
                self.sent += 1;
                Part::Measured
            }
        }
    }

    /// One of the measured has ended. Whether it was the last there will be.
    pub(super) fn ended(&mut self, elapsed_s: f64) -> bool {
        self.ended += 1;
        self.at(elapsed_s);
        self.is_over()
    }

    /// Whether all measured requests there will be have ended.
    pub(super) fn is_over(&self) -> bool {
        self.intake == Intake::Full && self.ended == self.sent
    }
}

/// How many of an open loop's requests are measured: those whose number or due time the rule takes.
/// `due_ns` are the due times since the window opened, in order. At least 1.
pub(super) fn measured_arrivals(rule: StopRule, due_ns: impl Iterator<Item = u64>) -> u32 {
    let mut count: u32 = 0;
    for due in due_ns {
        let due_s = ns_to_s(due);
        let wanted = count < rule.requests || due_s < rule.min_time_s;
        if !wanted || due_s >= rule.max_time_s || count == u32::MAX {
            break;
        }
        count += 1;
    }
    count.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(requests: u32, min_time_s: f64, max_time_s: f64) -> StopRule {
        StopRule { requests, min_time_s, max_time_s }
    }

    fn parts(rule: StopRule, sends_s: &[f64]) -> Vec<Part> {
        let mut roll = StopTracker::new(rule);
        sends_s.iter().map(|s| roll.enter(*s)).collect()
    }

    #[test]
    fn count_then_time_whichever_is_later() {
        use Part::{Measured, Tail};
        assert_eq!(parts(rule(2, 0.0, 9.0), &[0.1, 0.2, 0.3]), [Measured, Measured, Tail]);
        assert_eq!(parts(rule(1, 0.25, 9.0), &[0.1, 0.2, 0.3]), [Measured, Measured, Tail]);
        assert_eq!(parts(rule(9, 0.0, 0.2), &[0.1, 0.2, 0.3]), [Measured, Tail, Tail]);
    }

    #[test]
    fn is_over_when_the_last_measured_has_ended_not_before() {
        let mut roll = StopTracker::of(2);
        assert_eq!(roll.enter(0.0), Part::Measured);
        assert!(!roll.ended(0.1));
        assert_eq!(roll.enter(0.1), Part::Measured);
        assert_eq!(roll.enter(0.1), Part::Tail);
        assert!(!roll.is_over());
        assert!(roll.ended(0.2));
    }

    #[test]
    fn time_alone_can_end_it() {
        let mut roll = StopTracker::new(rule(1, 1.0, 2.0));
        assert_eq!(roll.enter(0.5), Part::Measured);
        assert!(!roll.ended(0.6));
        roll.at(1.0);
        assert!(roll.is_over());
    }

    #[test]
    fn arrivals_are_counted_by_their_due_times() {
        let due = || (0_u64..).map(|i| i * 500_000_000);
        assert_eq!(measured_arrivals(rule(3, 0.0, 100.0), due()), 3);
        assert_eq!(measured_arrivals(rule(3, 5.0, 100.0), due()), 10);
        assert_eq!(measured_arrivals(rule(30, 0.0, 2.0), due()), 4);
        assert_eq!(measured_arrivals(rule(30, 0.0, 0.0), due()), 1);
    }
}
