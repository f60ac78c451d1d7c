//! The server's state over a round: what happened to it, from which every output speaks.

use serde::{Deserialize, Serialize};

use super::{Outcome, RequestRecord};
use crate::transport::FailureKind;

/// Failed / attempted above which a server is degraded (docs/statistics.md, section 4).
const DEGRADED: f64 = 0.05;
/// Requests in a row that reached no server, at the end of a round, from which it is lost.
const UNREACHED_LEAST: usize = 3;
/// Requests in a row that timed out with nothing coming, at the end of a round, from which it hung.
const SILENT_LEAST: usize = 2;

/// What happened to the server in a round.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ServerState {
    /// It served.
    #[default]
    Ran,
    /// It was another process at the end than at the beginning.
    Restarted,
    /// It failed more than 5 % of the requests.
    Degraded {
        /// The kind of failure that was seen most.
        failure: FailureKind,
    },
    /// It refused more than 5 % of the requests with a status of 4xx or 503.
    Refused {
        /// The status seen most.
        status: u16,
    },
    /// It held its connections and sent nothing until the limits ended the round.
    Hung,
    /// From some moment on no request reached it.
    StoppedAnswering {
        /// How connecting failed.
        failure: FailureKind,
    },
    /// It was launched by this program and ended by itself.
    Died {
        /// Exit code or signal.
        how: String,
        /// The last lines of its log, secrets taken out.
        log_tail: String,
    },
}

/// How a request ended, as far as it tells of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Its number in the order in which requests were begun.
    pub number: u64,
    /// When, ns on the client's clock; none: it was never sent.
    pub at_ns: Option<u64>,
    /// Why it failed; none: it was answered.
    pub failure: Option<FailureKind>,
    /// The status of the answer.
    pub status: Option<u16>,
}

impl ServerState {
    /// The state that the requests of a round show.
    #[must_use]
    pub fn of(records: &[RequestRecord]) -> Self {
        let counts = records.iter().filter(|r| r.outcome != Outcome::Cancelled);
        let ended = |r: &RequestRecord| Ended {
            number: r.index,
            at_ns: r.ended_ns(),
            failure: r.failure,
            status: r.status,
        };
        Self::after(counts.map(ended).collect())
    }

    /// The state after requests that ended so.
    #[must_use]
    pub fn after(mut ended: Vec<Ended>) -> Self {
        // An answer that had begun before the server was lost may end after requests that found nobody.
        ended.sort_by_key(|request| request.number);
        if let Some(failure) = unreached(&ended) {
            return Self::StoppedAnswering { failure };
        }
        ended.sort_by_key(|request| request.at_ns);
        if is_hung(&ended) {
            return Self::Hung;
        }
        failing(&ended).unwrap_or_default()
    }

    /// The name in files: `stopped_answering`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ran => "ran",
            Self::Restarted => "restarted",
            Self::Degraded { .. } => "degraded",
            Self::Refused { .. } => "refused",
            Self::Hung => "hung",
            Self::StoppedAnswering { .. } => "stopped_answering",
            Self::Died { .. } => "died",
        }
    }

    /// Whether it served to the end of the round, as far as the requests show.
    #[must_use]
    pub const fn is_ran(&self) -> bool {
        matches!(self, Self::Ran)
    }

    /// Whether no further request can be served: what was planned after it is not measured.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        matches!(self, Self::Hung | Self::StoppedAnswering { .. } | Self::Died { .. })
    }

    /// What happened, as the end of a sentence that begins with `the server`.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Ran => "served to the end".to_owned(),
            Self::Restarted => "restarted".to_owned(),
            Self::Degraded { failure } => format!("failed requests ({})", failure.words()),
            Self::Refused { status } => format!("refused requests (status {status})"),
            Self::Hung => "hung: it sent nothing within the time limits".to_owned(),
            Self::StoppedAnswering { failure } => {
                format!("stopped answering ({})", failure.words())
            }
            Self::Died { how, .. } => format!("died ({how})"),
        }
    }

    /// The graver of two.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        if other.rank() > self.rank() { other } else { self }
    }

    const fn rank(&self) -> u8 {
        match self {
            Self::Ran => 0,
            Self::Restarted => 1,
            Self::Degraded { .. } => 2,
            Self::Refused { .. } => 3,
            Self::Hung => 4,
            Self::StoppedAnswering { .. } => 5,
            Self::Died { .. } => 6,
        }
    }
}

/// How the requests that were begun last failed where none of them reached a server.
fn unreached(ended: &[Ended]) -> Option<FailureKind> {
    let last = ended.iter().rev().map_while(|r| r.failure.filter(|k| k.is_unreached()));
    let mut last = last.peekable();
    let kind = *last.peek()?;
    (last.count() >= UNREACHED_LEAST.min(ended.len())).then_some(kind)
}

/// Whether the round ended in silence: the last answers never came, or broke off, by the limits.
fn is_hung(ended: &[Ended]) -> bool {
    let silent = |r: &&Ended| r.failure.is_some_and(FailureKind::is_silence);
    let in_a_row = ended.iter().rev().take_while(silent).count();
    let completed = ended.iter().filter(|r| r.failure.is_none()).count();
    in_a_row >= SILENT_LEAST || (in_a_row > 0 && completed == 0)
}

/// Degraded or refusing, where more failed than may.
fn failing(ended: &[Ended]) -> Option<ServerState> {
    let failed: Vec<&Ended> =
        ended.iter().filter(|r| r.failure.is_some_and(|kind| !kind.is_clients())).collect();
    #[allow(clippy::cast_precision_loss)]
    let share = failed.len() as f64 / ended.len().max(1) as f64;
    if share <= DEGRADED {
        return None;
    }
    let failure = most(failed.iter().filter_map(|r| r.failure))?;
    let statuses = failed.iter().filter(|r| r.failure == Some(failure)).filter_map(|r| r.status);
    match most(statuses.filter(|status| (400..500).contains(status) || *status == 503)) {
        Some(status) => Some(ServerState::Refused { status }),
        None => Some(ServerState::Degraded { failure }),
    }
}

/// The value seen most; of several the least.
fn most<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut counts = std::collections::BTreeMap::new();
    for value in values {
        *counts.entry(value).or_insert(0_u64) += 1;
    }
    counts.into_iter().rev().max_by_key(|(_, n)| *n).map(|(value, _)| value)
}
