//! The limits of one request: what must have come by when.

use std::time::Duration;

use super::FailureKind;
use crate::clock::duration_ns;
use crate::settings::Timeouts;

/// How far an answer has come, as the limits see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reached {
    /// No byte of its body.
    Nothing,
    /// Bytes, but no token.
    FirstByte,
    /// A token, the last one at this time.
    Token { at_ns: u64 },
    /// Its finish, the last token at this time: only the end of the stream is missing.
    Finish { token_ns: u64 },
}

/// The limits of one request on the run's clock.
#[derive(Debug)]
pub(super) struct Limits {
    pub(super) timeouts: Timeouts,
    pub(super) sent_ns: u64,
    pub(super) reached: Reached,
}

/// What fails when, unless the answer moves on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Deadline {
    pub(super) at_ns: u64,
    pub(super) kind: FailureKind,
    what: &'static str,
    limit: Duration,
}

impl Deadline {
    fn new(from_ns: u64, limit: Duration, kind: FailureKind, what: &'static str) -> Self {
        Self { at_ns: from_ns.saturating_add(duration_ns(limit)), kind, what, limit }
    }

    pub(super) fn message(&self) -> String {
        format!("{} within {} s", self.what, self.limit.as_secs_f64())
    }
}

impl Limits {
    /// The next deadline.
    ///
    /// Until the first token the first-byte limit rules, also after a role-only event or a
    /// comment: some servers send those at once and let the request wait in their queue for as
    /// long as one that gives no information. After it the idle limit runs from token to token; comments
    /// do not extend it.
    pub(super) fn next(&self) -> Deadline {
        let Timeouts { first_byte, idle, total, .. } = self.timeouts;
        let next = match self.reached {
            Reached::Nothing => Deadline::new(
                self.sent_ns,
                first_byte,
                FailureKind::FirstByteTimeout,
                "no byte of the answer",
            ),
            Reached::FirstByte => Deadline::new(
                self.sent_ns,
                first_byte,
                FailureKind::IdleTimeout,
                "bytes, but no token",
            ),
            Reached::Token { at_ns } => {
                Deadline::new(at_ns, idle, FailureKind::IdleTimeout, "no further token")
            }
            Reached::Finish { token_ns } => Deadline::new(
                token_ns,
                idle,
                FailureKind::IdleTimeout,
                "the answer finished, but its stream did not end",
            ),
        };
        let total = total.map(|limit| {
            Deadline::new(self.sent_ns, limit, FailureKind::TotalTimeout, "no end of the answer")
        });
        match total {
            Some(total) if total.at_ns <= next.at_ns => total,
            _ => next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(reached: Reached, total_s: Option<u64>) -> Limits {
        let timeouts = Timeouts {
            connect: Duration::from_secs(1),
            first_byte: Duration::from_secs(10),
            idle: Duration::from_secs(2),
            total: total_s.map(Duration::from_secs),
        };
        Limits { timeouts, sent_ns: 1_000_000_000, reached }
    }

    #[test]
    fn the_nearest_limit_rules() {
        for (reached, total_s, at_s, kind) in [
            (Reached::Nothing, None, 11, FailureKind::FirstByteTimeout),
            (Reached::FirstByte, None, 11, FailureKind::IdleTimeout),
            (Reached::Token { at_ns: 20_000_000_000 }, None, 22, FailureKind::IdleTimeout),
            (Reached::Finish { token_ns: 20_000_000_000 }, None, 22, FailureKind::IdleTimeout),
            (Reached::Nothing, Some(5), 6, FailureKind::TotalTimeout),
            (Reached::Token { at_ns: 2_000_000_000 }, Some(5), 4, FailureKind::IdleTimeout),
        ] {
            let next = limits(reached, total_s).next();
            assert_eq!((next.at_ns, next.kind), (at_s * 1_000_000_000, kind), "{reached:?}");
            assert!(next.message().ends_with(" s"));
        }
    }
}
