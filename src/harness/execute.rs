//! The run itself: starts, rounds, records. Everything measured is on disk after each round.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::measure;
use super::side::{self, SideServer, Started};
use crate::api::{Dialect, chat::Chat, completions::Completions};
use crate::clock::Clock;
use crate::drive::{self, ErrorLimit, Interrupt, RoundJob, RoundOutcome, Wire};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::{Design, Phase, Plan, RoundPlan, Side, StartPlan};
use crate::preflight::{self, PreflightReport};
use crate::record::stored::{RoundStatus, RunStatus, WarmUp};
use crate::record::{Finding, Severity, StoredRound, StoredRun, StoredStart};
use crate::report::progress::{Event, Reporter};
use crate::rng::Seed;
use crate::scenario::{Load, LoadPoint};
use crate::settings::{Settings, Skip};
use crate::store::{RunWriter, Store};
use crate::summary::{self, RoundInput};
use crate::telemetry;

/// A server that fails so many starts in a row will fail the next.
const MOST_FAILED_STARTS: u32 = 3;
/// Connections beyond the planned concurrency, for tails and probes.
const SPARE_CONNECTIONS: usize = 16;
/// The warm-up of a rate-1 reference: that rate would take a minute for three windows.
const REFERENCE_WARM_UP: Duration = Duration::from_secs(3);

/// A run under way.
pub(super) struct Session<'a> {
    pub(super) settings: &'a Settings,
    pub(super) plan: &'a Plan,
    pub(super) store: &'a Store,
    pub(super) run: StoredRun,
    pub(super) clock: Clock,
    pub(super) interrupt: Interrupt,
    pub(super) reporter: &'a mut dyn Reporter,
    writer: RunWriter,
    sides: BTreeMap<Side, Bench>,
}

/// One side: its server, what preflight found, and the wire of the present start.
struct Bench {
    server: SideServer,
    preflight: Option<PreflightReport>,
    wire: Option<LiveWire>,
    /// Load points that a start found saturated or given up: later starts take them all the same,
    /// unless the sweep was told to end there.
    failed_starts: u32,
}

/// A start that can be sent to.
#[derive(Clone)]
struct LiveWire {
    url: String,
    report: PreflightReport,
}

impl<'a> Session<'a> {
    pub(super) fn begin(
        settings: &'a Settings,
        plan: &'a Plan,
        store: &'a Store,
        mut run: StoredRun,
        clock: Clock,
        interrupt: Interrupt,
        reporter: &'a mut dyn Reporter,
    ) -> Result<Self> {
        let writer = store.begin_run(&run)?;
        writer.id().clone_into(&mut run.id);
        let mut sides = BTreeMap::new();
        let mut targets = vec![(Side::New, &settings.target)];
        targets.extend(settings.against.as_ref().map(|against| (Side::Base, against)));
        for (side, target) in targets {
            let server = SideServer::new(side, target, settings, store, &run.id)?;
            run.sides.entry(side).or_default().label = server.label();
            sides.insert(side, Bench { server, preflight: None, wire: None, failed_starts: 0 });
        }
        Ok(Self { settings, plan, store, run, clock, interrupt, reporter, writer, sides })
    }

    /// Runs the plan to its end, to an interruption or to a fault. What was measured is stored
    /// whichever it is.
    pub(super) async fn execute(&mut self) -> Result<()> {
        let result = self.visits().await;
        for (_, bench) in std::mem::take(&mut self.sides) {
            if let Err(error) = bench.server.finish().await {
                let text = format!("the server could not be stopped: {error}");
                self.find(Finding::new("stop_failed", Severity::Warning, text))?;
            }
        }
        self.run.status = match &result {
            Ok(()) if self.is_interrupted() => RunStatus::Interrupted,
            Ok(()) => RunStatus::Complete,
            Err(error) if error.kind() == ErrorKind::Interrupted => RunStatus::Interrupted,
            Err(_) => RunStatus::Failed,
        };
        self.run.ended_at = Some(self.clock.wall(self.clock.now_ns()));
        self.writer.update(&self.run)?;
        match result {
            Err(error) if error.kind() != ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// Start by start; where two routes to one engine are compared, both sides at once.
    async fn visits(&mut self) -> Result<()> {
        let plan = self.plan;
        let together = if plan.design == Design::Routes { 2 } else { 1 };
        for starts in plan.starts.chunks(together) {
            if self.is_interrupted() {
                return Ok(());
            }
            self.visit(starts).await?;
            if self.is_decided(starts)? {
                break;
            }
        }
        Ok(())
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.urgency() != drive::Urgency::None
    }

    /// One start (or both sides of a route): launch, check, measure, stop. A start that fails is
    /// recorded and the run goes on, unless it is the only one or the third in a row.
    async fn visit(&mut self, starts: &[StartPlan]) -> Result<()> {
        let mut result = Ok(());
        for start in starts {
            result = self.launch(start).await;
            if result.is_err() {
                break;
            }
        }
        if result.is_ok() {
            result = self.rounds(starts).await;
        }
        for start in starts {
            let bench = self.bench(start.side)?;
            bench.wire = None;
            let findings = bench.server.stop().await;
            match findings {
                Ok(findings) => findings.into_iter().try_for_each(|f| self.find(f))?,
                Err(error) => result = result.and(Err(error)),
            }
        }
        match result {
            Err(error) if self.can_go_on(&error) => self.note_failed_start(starts, &error),
            Ok(()) => {
                for start in starts {
                    self.bench(start.side)?.failed_starts = 0;
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn can_go_on(&self, error: &Error) -> bool {
        let restarts = self.plan.starts.len() > 1 && !self.is_interrupted();
        let tried = self.sides.values().map(|bench| bench.failed_starts).max().unwrap_or(0);
        let once_worked = self.sides.values().all(|bench| bench.preflight.is_some());
        restarts
            && once_worked
            && error.kind() == ErrorKind::Server
            && tried + 1 < MOST_FAILED_STARTS
    }

    fn note_failed_start(&mut self, starts: &[StartPlan], error: &Error) -> Result<()> {
        for start in starts {
            self.bench(start.side)?.failed_starts += 1;
            let text = error.to_string();
            match self.run.starts.iter_mut().find(|s| s.side == start.side && s.start == start.start)
            {
                Some(stored) => stored.failure = Some(text),
                None => self.run.starts.push(StoredStart {
                    side: start.side,
                    block: start.block,
                    start: start.start,
                    at: self.clock.wall(self.clock.now_ns()),
                    identity: None,
                    ready_s: None,
                    failure: Some(text),
                }),
            }
            // A half-measured start would stand in for a whole one.
            let ordinal = start.start;
            self.run.rounds.retain(|round| round.start != ordinal || round.side != start.side);
            let text = format!("start {} gave no figures and is left out: {error}", ordinal + 1);
            self.find(Finding::new("start_failed", Severity::Warning, text))?;
        }
        self.writer.update(&self.run)
    }

    fn bench(&mut self, side: Side) -> Result<&mut Bench> {
        self.sides.get_mut(&side).ok_or_else(|| Error::usage("a planned side has no server"))
    }

    fn find(&mut self, finding: Finding) -> Result<()> {
        if self.run.findings.contains(&finding) {
            return Ok(());
        }
        self.reporter.event(&Event::Finding(finding.clone()));
        self.run.findings.push(finding);
        Ok(())
    }

    /// Starts the server and, where it is the side's first start, checks it.
    async fn launch(&mut self, start: &StartPlan) -> Result<()> {
        let clock = self.clock;
        let started = self.interruptible(start.side, start.block, clock).await?;
        for finding in started.findings.clone() {
            self.find(finding)?;
        }
        let at = clock.wall(clock.now_ns());
        self.reporter.event(&Event::StartReady {
            side: start.side,
            start: start.start,
            of: self.settings.starts,
            ready_s: started.ready_s,
        });
        self.run.starts.push(StoredStart {
            side: start.side,
            block: start.block,
            start: start.start,
            at,
            identity: started.identity.clone(),
            ready_s: started.ready_s,
            failure: None,
        });
        let report = match self.bench(start.side)?.preflight.clone() {
            Some(report) => report,
            None => self.check(start.side, &started).await?,
        };
        self.bench(start.side)?.wire = Some(LiveWire { url: started.url, report });
        Ok(())
    }

    /// Starts a server; Ctrl-C ends the wait and stops what was launched.
    async fn interruptible(&mut self, side: Side, block: u32, clock: Clock) -> Result<Started> {
        let interrupt = self.interrupt.clone();
        let bench = self.bench(side)?;
        tokio::select! {
            started = bench.server.start(block, clock) => started,
            _ = interrupt.beyond(drive::Urgency::None) => {
                Err(Error::new(ErrorKind::Interrupted, "interrupted while the server started"))
            }
        }
    }

    async fn check(&mut self, side: Side, started: &Started) -> Result<PreflightReport> {
        let client = side::client(&started.url, self.settings, SPARE_CONNECTIONS)?;
        let report = if self.settings.skip.preflight {
            preflight::without(&client, self.settings).await?
        } else {
            preflight::run(&client, self.settings, &self.plan.points).await?
        };
        for finding in report.findings.clone() {
            self.find(finding)?;
        }
        let stored = self.run.sides.entry(side).or_default();
        stored.url = started.url.clone();
        stored.model = report.model.clone();
        stored.api = report.dialect_name().to_owned();
        stored.engine = report.engine.clone();
        stored.engine_version = report.engine_version.clone();
        stored.command = (!started.argv.is_empty()).then(|| started.argv.join(" "));
        stored.environment_names = started.environment_names.clone();
        stored.engine_settings = started.engine_settings.clone();
        stored.engine_settings.extend(report.engine_settings.clone());
        stored.offers = report.offers;
        stored.template_tokens = report.template_tokens;
        self.writer.update(&self.run)?;
        if let Some(error) = report.fatal() {
            return Err(error);
        }
        self.bench(side)?.preflight = Some(report.clone());
        Ok(report)
    }

    /// The rounds of a start; of two routes, turn and turn about, the order alternating.
    async fn rounds(&mut self, starts: &[StartPlan]) -> Result<()> {
        let most = starts.iter().map(|s| s.rounds.len()).max().unwrap_or(0);
        for place in 0..most {
            let mut turn: Vec<&StartPlan> = starts.iter().collect();
            if place % 2 == 1 {
                turn.reverse();
            }
            for start in turn {
                let Some(round) = start.rounds.get(place) else { continue };
                if self.is_interrupted() {
                    return Ok(());
                }
                if self.is_given_up(start, round) {
                    continue;
                }
                self.round(start, round).await?;
                self.cool_down().await;
            }
        }
        Ok(())
    }

    /// A sweep that was told to end at saturation leaves out the higher loads of that scenario.
    fn is_given_up(&self, start: &StartPlan, round: &RoundPlan) -> bool {
        let below = |stored: &&StoredRound| {
            stored.side == start.side
                && self.run.points.iter().any(|p| {
                    p.id == stored.point
                        && p.point.scenario == round.point.scenario
                        && p.point.group == round.point.group
                        && is_lower(p.point.load, round.point.load)
                })
        };
        let worst = measure::worst(self.run.rounds.iter().filter(below).map(|r| r.status));
        let limit_met = matches!(worst, RoundStatus::Stopped);
        let asked = self.settings.stop_when_saturated
            && matches!(worst, RoundStatus::Saturated | RoundStatus::Overloaded);
        round.phase == Phase::Load && (limit_met || asked)
    }

    async fn cool_down(&self) {
        if !self.settings.cool_down.is_zero() {
            tokio::select! {
                () = tokio::time::sleep(self.settings.cool_down) => {}
                _ = self.interrupt.beyond(drive::Urgency::None) => {}
            }
        }
    }

    /// Warm-up, window, record.
    async fn round(&mut self, start: &StartPlan, plan: &RoundPlan) -> Result<()> {
        let wire = self.wire(start, &plan.point)?;
        let warm_up = self.warm_up(&wire, plan).await?;
        if self.is_interrupted() {
            return Ok(());
        }
        let job = RoundJob {
            plan: plan.clone(),
            side: start.side,
            block: start.block,
            start: start.start,
            expected_e2el_s: warm_up.and_then(|w| w.e2el_s),
            slot_start: self.settings.slot_start,
            error_limit: ErrorLimit { share: self.settings.max_error_rate, ..ErrorLimit::default() },
            in_flight_limit: None,
        };
        let at = self.clock.wall(self.clock.now_ns());
        let url = self.bench(start.side)?.wire.as_ref().map(|w| w.url.clone()).unwrap_or_default();
        let watch = Watch::begin(&url, self.settings, self.clock, &plan.stop).await?;
        let reporter = &mut *self.reporter;
        let mut show = |progress| reporter.event(&Event::Progress(progress));
        let outcome =
            drive::run_round(&wire, self.clock, &job, &self.interrupt, &mut show).await?;
        let (telemetry, series) =
            watch.end(outcome.window_open_ns, outcome.window_close_ns).await;
        if let Some(death) = self.bench(start.side)?.server.death() {
            return Err(death);
        }
        let round = StoredRound {
            point: plan.point.id(),
            phase: plan.phase,
            side: start.side,
            block: start.block,
            start: start.start,
            round: plan.round,
            seed: plan.seed,
            at,
            window_open_ns: outcome.window_open_ns,
            window_close_ns: outcome.window_close_ns,
            status: outcome.status,
            warm_up,
            health: outcome.health.clone(),
            telemetry,
            series,
        };
        self.keep(round, outcome, &plan.point)
    }

    fn keep(&mut self, round: StoredRound, outcome: RoundOutcome, point: &LoadPoint) -> Result<()> {
        for finding in outcome.findings {
            self.find(finding.at(round.point.clone()))?;
        }
        self.run.rounds.push(round.clone());
        self.writer.write_round(
            &self.run,
            &round,
            &outcome.records,
            &outcome.itl,
            &outcome.icl,
        )?;
        let input = RoundInput {
            round: &round,
            records: &outcome.records,
            itl: &outcome.itl,
            icl: &outcome.icl,
        };
        let summary = summary::summarise(&[input], point.slo);
        self.reporter.event(&Event::RoundEnded {
            point: round.point.clone(),
            phase: round.phase,
            side: round.side,
            start: round.start,
            status: round.status,
            summary: Box::new(summary),
        });
        refused(&outcome.records).map_or(Ok(()), Err)
    }

    async fn warm_up(&mut self, wire: &Arc<Wire>, plan: &RoundPlan) -> Result<Option<WarmUp>> {
        if self.settings.skip.warm_up {
            return Ok(None);
        }
        let mut warm = plan.clone();
        let mut limit = self.settings.warm_up_time;
        if plan.phase == Phase::Reference {
            // Three windows at one request a second would take a minute: one slot does it.
            warm.point.load = Load::Concurrency(1);
            limit = limit.min(REFERENCE_WARM_UP);
        }
        self.reporter.event(&Event::WarmUp { point: plan.point.id() });
        let done = drive::warm_up(wire, self.clock, &warm, limit, &self.interrupt).await?;
        Ok(Some(done))
    }

    /// The wire for a load point of a start: its prompts are of this run, this block and this side.
    fn wire(&mut self, start: &StartPlan, point: &LoadPoint) -> Result<Arc<Wire>> {
        let live = self
            .sides
            .get(&start.side)
            .and_then(|bench| bench.wire.clone())
            .ok_or_else(|| Error::server("the server was not started"))?;
        let mut salt = self.run.salt;
        if self.plan.design == Design::Routes {
            // One engine sees both sides: the same text again would come from its prefix cache.
            salt = salt.named(if start.side == Side::Base { "base" } else { "new" });
        }
        let prompts = prompts(&live.report, point, salt, self.store)?;
        let highest = self.plan.points.iter().map(|p| in_flight(p.load)).max().unwrap_or(1);
        let client =
            side::client(&live.url, self.settings, highest as usize + SPARE_CONNECTIONS)?;
        Ok(Arc::new(Wire {
            client,
            dialect: live.report.dialect(),
            model: live.report.model.clone(),
            offers: live.report.offers,
            extra_body: self.settings.extra_body.clone(),
            prompts,
        }))
    }

    /// Whether a look at the data so far ends the run early.
    fn is_decided(&mut self, _starts: &[StartPlan]) -> Result<bool> {
        Ok(false)
    }
}
