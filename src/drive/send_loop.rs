//! The one loop that sends requests; stop rule, arrivals and concurrency are values given to it.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::{Id, JoinError, JoinSet};

use super::admission::Admission;
use super::goal::{Control, Goal};
use super::interrupt::{Interrupt, Urgency};
use super::prefetch::PreparedRequest;
use super::progress::Counts;
use super::recorder::{Flight, RoundRecorder};
use super::{ErrorLimit, Wire};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::record::RequestIdent;
use crate::telemetry::host::{CpuMeter, LagSampler};
use crate::transport::client::STOPPED;
use crate::transport::{Exchange, Failure, FailureKind, TokenTimeline};
use crate::units::s_to_ns;

/// The loop wakes this often, 10 times a second, to show progress and to see its time bounds.
const WAKE_NS: u64 = 100_000_000;
/// Requests in flight when sending stops get twice an E2EL to end, within these bounds.
const DRAIN_LEAST_S: f64 = 5.0;
const DRAIN_MOST_S: f64 = 600.0;
/// Tasks that were asked to stop do so at their next turn; waiting longer would be a fault of ours.
const LEAVE_S: f64 = 2.0;

/// Why the loop stopped sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It got what it was for.
    Done,
    /// Too much failed.
    Failing,
    /// The user asked.
    Interrupted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Sending,
    Draining { until_ns: u64 },
    Leaving { until_ns: u64 },
}

/// How the loop is set up.
pub(super) struct Setup<'a, G> {
    pub(super) wire: &'a Arc<Wire>,
    pub(super) clock: Clock,
    pub(super) gate: Admission,
    pub(super) aim: G,
    pub(super) tally: RoundRecorder,
    /// `None` if nothing is measured.
    pub(super) lag: Option<LagSampler>,
    pub(super) ident: RequestIdent,
    pub(super) limit: ErrorLimit,
    /// The expected E2EL, seconds; 0 where unknown.
    pub(super) expected_s: f64,
}

/// What the loop leaves behind.
#[derive(Debug)]
pub(super) struct LoopResult<G> {
    pub(super) aim: G,
    pub(super) tally: RoundRecorder,
    pub(super) ending: Ending,
    pub(super) client_cpu: Option<f64>,
    pub(super) loop_lag_p50_ms: Option<f64>,
    pub(super) loop_lag_p99_ms: Option<f64>,
    pub(super) longest_stall_ms: Option<f64>,
    /// Whether our own bound on requests in flight was reached.
    pub(super) guard_reached: Option<u32>,
    /// Why sending stopped before its time: a request could not be built.
    pub(super) error: Option<Error>,
}

/// A request in flight, and the way to stop it.
struct InFlight {
    flight: Flight,
    /// `None` once it was sent.
    stop: Option<oneshot::Sender<()>>,
}

pub(super) struct SendLoop<'a, G> {
    wire: &'a Arc<Wire>,
    clock: Clock,
    /// None once sending has stopped: the threads behind it end.
    gate: Option<Admission>,
    aim: G,
    tally: RoundRecorder,
    ident: RequestIdent,
    limit: ErrorLimit,
    expected_s: f64,
    flights: JoinSet<Exchange>,
    flying: HashMap<Id, InFlight>,
    stage: Stage,
    ending: Ending,
    error: Option<Error>,
    sent: u64,
    /// None before the window and after it.
    cpu: Option<CpuMeter>,
    lag: Option<LagSampler>,
    client_cpu: Option<f64>,
    guard_reached: Option<u32>,
}

impl<'a, G: Goal> SendLoop<'a, G> {
    pub(super) fn new(setup: Setup<'a, G>) -> Self {
        Self {
            wire: setup.wire,
            clock: setup.clock,
            gate: Some(setup.gate),
            aim: setup.aim,
            tally: setup.tally,
            ident: setup.ident,
            limit: setup.limit,
            expected_s: setup.expected_s,
            flights: JoinSet::new(),
            flying: HashMap::new(),
            stage: Stage::Sending,
            ending: Ending::Done,
            error: None,
            sent: 0,
            cpu: None,
            lag: setup.lag,
            client_cpu: None,
            guard_reached: None,
        }
    }

    /// Sends until the goal is reached, then drains. `show` is called at most ten times a second. What
    /// was measured comes back also where a request could not be built.
    pub(super) async fn run(
        mut self,
        interrupt: &Interrupt,
        show: &mut (dyn FnMut(Counts) + Send),
    ) -> LoopResult<G> {
        let clock = self.clock;
        let mut urgency = Urgency::None;
        let mut shown_ns = 0;
        loop {
            let now_ns = clock.now_ns();
            if now_ns.saturating_sub(shown_ns) >= WAKE_NS {
                shown_ns = now_ns;
                show(self.counts());
            }
            self.tick(now_ns);
            if self.is_done(now_ns) {
                break;
            }
            let wake_ns = self.aim.wake_ns().max(now_ns).min(now_ns.saturating_add(WAKE_NS));
            let in_flight = self.in_flight();
            tokio::select! {
                biased;
                more = interrupt.beyond(urgency) => {
                    urgency = more;
                    self.interrupted(more);
                }
                Some(landed) = self.flights.join_next_with_id() => self.land(landed),
                ready = next_of(&mut self.gate, clock, in_flight) => self.launch(ready),
                () = clock.sleep_until(wake_ns) => {}
            }
        }
        show(self.counts());
        self.finish()
    }

    fn counts(&self) -> Counts {
        Counts {
            sent: self.sent,
            completed: self.tally.completed,
            failed: self.tally.failed,
            in_flight: self.in_flight(),
        }
    }

    fn in_flight(&self) -> u32 {
        u32::try_from(self.flying.len()).unwrap_or(u32::MAX)
    }

    fn is_done(&self, now_ns: u64) -> bool {
        match self.stage {
            Stage::Sending => false,
            Stage::Draining { .. } => self.flying.is_empty(),
            Stage::Leaving { until_ns } => self.flying.is_empty() || now_ns >= until_ns,
        }
    }

    fn tick(&mut self, now_ns: u64) {
        match self.stage {
            Stage::Sending => {
                let Some(gate) = self.gate.as_mut() else { return };
                match self.aim.tick(now_ns, gate) {
                    Control::Go => {}
                    Control::Opened => {
                        self.cpu = Some(CpuMeter::start(self.clock));
                        if let Some(lag) = &mut self.lag {
                            lag.start();
                        }
                    }
                    Control::Over => self.stop_sending(now_ns, Ending::Done),
                }
            }
            Stage::Draining { until_ns } if now_ns >= until_ns => self.leave(now_ns),
            Stage::Draining { .. } | Stage::Leaving { .. } => {}
        }
    }

    fn interrupted(&mut self, urgency: Urgency) {
        let now_ns = self.clock.now_ns();
        self.stop_sending(now_ns, Ending::Interrupted);
        if urgency == Urgency::Leave {
            self.leave(now_ns);
        }
    }

    /// Closes the window and lets what is in flight end.
    fn stop_sending(&mut self, at_ns: u64, ending: Ending) {
        if self.stage != Stage::Sending {
            return;
        }
        // Whatever has been entered so far was counted as inside, so the window holds it.
        self.aim.close(at_ns.max(self.tally.latest_end_ns));
        self.client_cpu = self.cpu.take().and_then(|cpu| cpu.share());
        if let Some(lag) = &mut self.lag {
            lag.stop();
        }
        self.gate = None;
        self.ending = ending;
        let e2el_s = self.tally.e2el_mean_s().max(self.expected_s);
        let drain_s = (2.0 * e2el_s).clamp(DRAIN_LEAST_S, DRAIN_MOST_S);
        let until_ns = self.clock.now_ns().saturating_add(s_to_ns(drain_s));
        self.stage = Stage::Draining { until_ns };
    }

    /// Stops what is in flight. Each request is notified, not torn down: it hands over what had come.
    fn leave(&mut self, now_ns: u64) {
        if !matches!(self.stage, Stage::Leaving { .. }) {
            for stop in self.flying.values_mut().filter_map(|flying| flying.stop.take()) {
                // One that has just ended has nobody to tell.
                let _ = stop.send(());
            }
            self.stage = Stage::Leaving { until_ns: now_ns.saturating_add(s_to_ns(LEAVE_S)) };
        }
    }

    fn launch(&mut self, ready: Result<PreparedRequest>) {
        let now_ns = self.clock.now_ns();
        let ready = match ready {
            Ok(ready) => ready,
            Err(error) => {
                self.error = Some(error);
                return self.stop_sending(now_ns, Ending::Failing);
            }
        };
        let Some(gate) = self.gate.as_mut() else { return };
        let eligible_ns = gate.take(&ready);
        let part = self.aim.part(&ready, now_ns);
        let flight = Flight {
            planned: ready.planned,
            ident: RequestIdent { part, ..self.ident },
            due_ns: ready.due_ns,
            handed_ns: now_ns,
            eligible_ns,
        };
        let (wire, clock) = (Arc::clone(self.wire), self.clock);
        let (stop, stopped) = oneshot::channel();
        let stopped = async move { drop(stopped.await) };
        let task = self.flights.spawn(async move { ready.exchange(&wire, clock, stopped).await });
        self.flying.insert(task.id(), InFlight { flight, stop: Some(stop) });
        self.sent += 1;
    }

    /// A request has ended: first its place is refilled, then it is entered, so that counting never
    /// delays a send.
    fn land(&mut self, landed: Result<(Id, Exchange), JoinError>) {
        let in_flight = self.in_flight();
        let now_ns = self.clock.now_ns();
        let id = landed.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some(InFlight { flight, .. }) = self.flying.remove(&id) else { return };
        let exchange = match landed {
            Ok((_, exchange)) => exchange,
            Err(error) => ended_early(&flight, now_ns, &error),
        };
        let end_ns = exchange.timeline.end_ns.unwrap_or(now_ns);
        let turn = self.aim.ended(flight.ident.part, now_ns);
        if let Some(gate) = self.gate.as_mut() {
            gate.freed(end_ns, in_flight);
            if gate.guard().is_some_and(|guard| in_flight >= guard) {
                self.guard_reached = gate.guard();
            }
        }
        if turn == Control::Over {
            self.stop_sending(end_ns, Ending::Done);
        } else {
            self.refill(now_ns);
        }
        let window = self.aim.window();
        let aim = &mut self.aim;
        self.tally.enter(&flight, &exchange, window, |record| aim.look(record));
        if self.tally.is_beyond(self.limit) || self.tally.is_hung(self.in_flight()) {
            self.stop_sending(now_ns, Ending::Failing);
        }
    }

    /// Sends what may be sent at this moment. Bounded by the requests that lie ready.
    fn refill(&mut self, now_ns: u64) {
        self.tick(now_ns);
        while let Some(ready) = {
            let in_flight = self.in_flight();
            self.gate.as_mut().and_then(|gate| gate.try_next(in_flight))
        } {
            self.launch(ready);
        }
    }

    fn finish(mut self) -> LoopResult<G> {
        let now_ns = self.clock.now_ns();
        let window = self.aim.window();
        for (_, InFlight { flight, .. }) in std::mem::take(&mut self.flying) {
            let exchange = unfinished(&flight, now_ns, FailureKind::Cancelled, STOPPED.to_owned());
            self.tally.enter(&flight, &exchange, window, |_| {});
        }
        LoopResult {
            aim: self.aim,
            tally: self.tally,
            ending: self.ending,
            client_cpu: self.client_cpu,
            loop_lag_p50_ms: self.lag.as_ref().and_then(LagSampler::p50_ms),
            loop_lag_p99_ms: self.lag.as_ref().and_then(LagSampler::p99_ms),
            longest_stall_ms: self.lag.as_ref().and_then(LagSampler::longest_ms),
            guard_reached: self.guard_reached,
            error: self.error,
        }
    }
}

async fn next_of(
    gate: &mut Option<Admission>,
    clock: Clock,
    in_flight: u32,
) -> Result<PreparedRequest> {
    match gate {
        Some(gate) => gate.next(clock, in_flight).await,
        None => std::future::pending().await,
    }
}

/// The exchange of a task that broke, or did not hear that it should stop: what had come is lost.
fn ended_early(flight: &Flight, now_ns: u64, error: &JoinError) -> Exchange {
    if error.is_cancelled() {
        unfinished(flight, now_ns, FailureKind::Cancelled, STOPPED.to_owned())
    } else {
        let message = "a fault of the client ended the request".to_owned();
        unfinished(flight, now_ns, FailureKind::Incomplete, message)
    }
}

fn unfinished(flight: &Flight, now_ns: u64, kind: FailureKind, message: String) -> Exchange {
    Exchange {
        timeline: TokenTimeline {
            due_ns: flight.due_ns,
            sent_ns: Some(flight.handed_ns),
            end_ns: Some(now_ns),
            ..TokenTimeline::default()
        },
        status: None,
        input_tokens: None,
        cached_tokens: None,
        output_tokens: None,
        token_source: None,
        finish_reason: None,
        failure: Some(Failure {
            kind,
            message,
            retry_after: None,
            first_bytes: String::new(),
            last_bytes: String::new(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Offers;
    use crate::api::completions::Completions;
    use crate::drive::admission::{Cap, OpenGate};
    use crate::drive::goal::Measure;
    use crate::drive::pacer::Pacer;
    use crate::drive::prefetch::Branch;
    use crate::drive::recorder::Keep;
    use crate::drive::stop_rule::StopTracker;
    use crate::plan::{Phase, PlannedRequest, Side};
    use crate::record::{Part, Window};
    use crate::rng::Seed;
    use crate::scenario::prompt::{SyntheticText, TextCalibration};
    use crate::transport::{BaseUrl, Client, ClientSettings};

    fn wire() -> Arc<Wire> {
        let url = BaseUrl::parse("http://127.0.0.1:9").unwrap();
        Arc::new(Wire {
            client: Client::new(ClientSettings::new(url)).unwrap(),
            dialect: Arc::new(Completions),
            model: String::new(),
            offers: Offers::default(),
            extra_body: serde_json::Map::new(),
            prompts: Arc::new(SyntheticText::new(TextCalibration::default(), Seed(1))),
        })
    }

    /// A loop that may have one request in flight and measures one; its window is open since 0.
    fn measuring(wire: &Arc<Wire>) -> SendLoop<'_, Measure> {
        let clock = Clock::start();
        let pacer = Pacer::start(clock, Vec::new()).unwrap();
        let mut gate = Admission::Open(OpenGate::new(pacer, Cap::Asked(1)));
        let window = Window { open_ns: 0, close_ns: u64::MAX };
        let mut aim = Measure::new(window, StopTracker::of(1), 0);
        assert_eq!(aim.tick(0, &mut gate), Control::Opened);
        let (side, phase, part) = (Side::New, Phase::Load, Part::Ramp);
        let ident = RequestIdent { side, block: 0, start: 0, round: 0, phase, part };
        let (tally, limit) = (RoundRecorder::new(Keep::Records, 1), ErrorLimit::default());
        let lag = None;
        SendLoop::new(Setup { wire, clock, gate, aim, tally, lag, ident, limit, expected_s: 0.0 })
    }

    fn ready(due_ns: u64) -> PreparedRequest {
        let seed = Seed(1);
        PreparedRequest {
            planned: PlannedRequest {
                index: 0,
                due_ns: None,
                input_tokens: 8,
                output_tokens: 2,
                seed,
            },
            branch: Branch::Main,
            body: bytes::Bytes::new(),
            due_ns: Some(due_ns),
        }
    }

    /// A request of this part has ended at this time.
    async fn ended(run: &mut SendLoop<'_, Measure>, part: Part, end_ns: u64) {
        let ident = RequestIdent { part, ..run.ident };
        let planned = ready(0).planned;
        let flight = Flight { planned, ident, due_ns: Some(0), handed_ns: 0, eligible_ns: 0 };
        let exchange = unfinished(&flight, end_ns, FailureKind::Truncated, String::new());
        let task = run.flights.spawn(async move { exchange });
        run.flying.insert(task.id(), InFlight { flight, stop: None });
        let landed = run.flights.join_next_with_id().await.unwrap();
        run.land(landed);
    }

    #[tokio::test]
    async fn a_window_holds_the_end_of_every_request_that_was_entered_before_it_closed() {
        let wire = wire();
        let mut run = measuring(&wire);
        let part = run.aim.part(&ready(0), 100);
        ended(&mut run, Part::Ramp, 900).await;
        // It ended earlier, but is seen later.
        ended(&mut run, part, 800).await;
        assert_eq!(run.aim.window(), Window { open_ns: 0, close_ns: 900 });
        assert_eq!(run.tally.records.len(), 2);
    }

    #[tokio::test]
    async fn a_place_is_free_from_the_end_of_its_request_not_from_when_that_was_noticed() {
        let wire = wire();
        let mut run = measuring(&wire);
        ended(&mut run, Part::Ramp, 5_000).await;
        let gate = run.gate.as_mut().unwrap();
        // Due while there was no room: the wait for a place is no lateness of the client.
        assert_eq!(gate.take(&ready(2_000)), 5_000);
        // Due when there was room: all of the delay is.
        assert_eq!(gate.take(&ready(7_000)), 7_000);
    }
}
