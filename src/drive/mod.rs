//! Driving load: one loop sends the requests of a round and keeps what came of them.

mod admission;
mod backlog;
mod goal;
mod health;
pub mod interrupt;
mod pacer;
mod prefetch;
mod progress;
mod recorder;
mod round;
mod send_loop;
mod settle;
mod stop_rule;
mod warm_up;

use std::fmt;
use std::sync::Arc;

pub use interrupt::{Interrupt, Urgency, raise_on_signals};
pub use progress::Progress;
pub use round::run_round;
pub use warm_up::warm_up;

use crate::api::{Dialect, Offers};
use crate::error::{Error, Result};
use crate::plan::{RoundPlan, Side};
use crate::record::stored::{Health, RoundStatus};
use crate::record::{Finding, GapHistogram, PositionGaps, RequestRecord};
use crate::scenario::PromptSource;
use crate::settings::SlotStart;
use crate::transport::Client;

/// All that is needed to turn a planned request into an exchange.
pub struct Wire {
    /// The connections.
    pub client: Client,
    /// The API spoken.
    pub dialect: Arc<dyn Dialect>,
    /// The served model's name.
    pub model: String,
    /// Which optional parameters the server takes.
    pub offers: Offers,
    /// Fields merged into every body.
    pub extra_body: serde_json::Map<String, serde_json::Value>,
    /// Where prompts come from.
    pub prompts: Arc<dyn PromptSource>,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire")
            .field("dialect", &self.dialect.name())
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

/// One round to be driven.
#[derive(Debug, Clone)]
pub struct RoundJob {
    /// What it measures.
    pub plan: RoundPlan,
    /// Whose server.
    pub side: Side,
    /// Which block.
    pub block: u32,
    /// Which start.
    pub start: u32,
    /// Expected E2EL, seconds, from the warm-up: the length of the ramp. None: one second (closed
    /// loop) or two (open loop).
    pub expected_e2el_s: Option<f64>,
    /// How the slots of a closed loop begin.
    pub slot_start: SlotStart,
    /// When to give the load point up.
    pub error_limit: ErrorLimit,
    /// Most requests in flight in an open loop without a cap of its own; none: ten times as many as
    /// the rate and the expected E2EL ask for. Requests beyond it wait, counted from their due time.
    pub in_flight_limit: Option<u32>,
}

impl RoundJob {
    /// A round with the defaults: slots spread, nothing known of the E2EL.
    #[must_use]
    #[cfg(any(test, feature = "internals"))]
    pub fn new(plan: RoundPlan, side: Side, block: u32, start: u32) -> Self {
        Self {
            plan,
            side,
            block,
            start,
            expected_e2el_s: None,
            slot_start: SlotStart::default(),
            error_limit: ErrorLimit::default(),
            in_flight_limit: None,
        }
    }
}

/// When so much has failed that a load point is given up. A refused key (401, 403) ends it at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ErrorLimit {
    /// Failed / attempted above which it ends, 0 to 1.
    pub share: f64,
    /// Not before this many attempts.
    pub least: u64,
}

impl Default for ErrorLimit {
    fn default() -> Self {
        // Half, as `--max-error-rate`; of 20, since one failure of two would prove nothing.
        Self { share: 0.5, least: 20 }
    }
}

/// What came of a round.
#[derive(Debug)]
pub struct RoundOutcome {
    /// Every request sent, in the order they ended: ramp, measured and tail.
    pub records: Vec<RequestRecord>,
    /// Gaps between tokens of the measured requests that completed.
    pub itl: GapHistogram,
    /// Gaps between their events.
    pub icl: GapHistogram,
    /// Gaps between tokens by their place in the answer, of the same requests.
    pub positions: PositionGaps,
    /// When the window opened, ns on the run's clock.
    pub window_open_ns: u64,
    /// When it closed; equal to the opening where the round was stopped before it.
    pub window_close_ns: u64,
    /// How it ended.
    pub status: RoundStatus,
    /// How well the client and the load behaved.
    pub health: Health,
    /// Open loop: requests due in the window that were never sent, because the round ended while
    /// they waited below a cap.
    #[cfg_attr(not(test), allow(dead_code))]
    pub unsent: u64,
    /// What limits trust, by what only the driver knows.
    pub findings: Vec<Finding>,
    /// Why the round ended before its load was sent: a request could not be built. What was measured
    /// until then is in the records.
    pub error: Option<Error>,
}

impl RoundOutcome {
    /// The outcome of a round that was driven to its end.
    ///
    /// # Errors
    /// If a request could not be built.
    pub fn whole(self) -> Result<Self> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }
}
