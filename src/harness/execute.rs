//! The run itself: starts, rounds, records. Everything measured is on disk after each round.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::measure;
use super::side::{self, SideServer, Started};
use super::prompts::PromptFiles;
use super::watch::Watch;
use crate::api::{Dialect, chat::Chat, completions::Completions};
use crate::clock::Clock;
use crate::drive::{self, ErrorLimit, Interrupt, RoundJob, RoundOutcome, Urgency, Wire};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::{Design, Phase, Plan, RoundPlan, Side, StartPlan};
use crate::preflight::{self, Demands, PreflightReport};
use crate::record::stored::{RoundStatus, RunStatus, WarmUp};
use crate::record::{Finding, RequestRecord, Severity, StoredRound, StoredRun, StoredStart};
use crate::report::progress::{Event, Reporter};
use crate::scenario::Load;
use crate::settings::{ApiChoice, Settings, TriState};
use crate::store::{RunWriter, Store};
use crate::summary::{self, RoundInput};
use crate::transport::FailureKind;

/// A server that fails so many starts in a row will fail the next.
const MOST_FAILED_STARTS: u32 = 3;
/// Connections beyond the planned concurrency, for tails and probes.
pub(super) const SPARE_CONNECTIONS: usize = 16;
/// The warm-up of a rate-1 reference: that rate would take a minute for three windows.
const REFERENCE_WARM_UP: Duration = Duration::from_secs(3);

/// What a run needs from outside.
pub(super) struct Parts<'a> {
    pub(super) settings: &'a Settings,
    pub(super) plan: &'a Plan,
    pub(super) store: &'a Store,
    pub(super) clock: Clock,
    pub(super) interrupt: Interrupt,
    pub(super) reporter: &'a mut dyn Reporter,
}

/// A run under way.
pub(super) struct Session<'a> {
    settings: &'a Settings,
    plan: &'a Plan,
    pub(super) run: StoredRun,
    clock: Clock,
    interrupt: Interrupt,
    reporter: &'a mut dyn Reporter,
    files: PromptFiles,
    writer: RunWriter,
    sides: BTreeMap<Side, Bench>,
}

/// One side: its server, what preflight found, and the wire of the present start.
struct Bench {
    server: SideServer,
    preflight: Option<PreflightReport>,
    wire: Option<LiveWire>,
    /// In a row.
    failed_starts: u32,
}

/// A start that can be sent to.
#[derive(Clone)]
struct LiveWire {
    url: String,
    report: PreflightReport,
}

impl<'a> Session<'a> {
    pub(super) fn begin(parts: Parts<'a>, files: PromptFiles, mut run: StoredRun) -> Result<Self> {
        let Parts { settings, plan, store, clock, interrupt, reporter } = parts;
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
        Ok(Self { settings, plan, run, clock, interrupt, reporter, files, writer, sides })
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
        self.interrupt.urgency() != Urgency::None
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
        self.reporter.event(&Event::Finding(&finding))?;
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
        let side = self.side_word(start.side);
        self.reporter.event(&Event::StartReady {
            side,
            start: start.block + 1,
            starts: self.plan.starts.iter().map(|s| s.block + 1).max().unwrap_or(1),
            ready_s: started.ready_s,
        })?;
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
            _ = interrupt.beyond(Urgency::None) => {
                Err(Error::new(ErrorKind::Interrupted, "interrupted while the server started"))
            }
        }
    }

    /// What reports call a side; empty where there is one.
    fn side_word(&self, side: Side) -> &'static str {
        match (self.sides.len(), side) {
            (1, _) => "",
            (_, Side::Base) => "base",
            (_, Side::New) => "new",
        }
    }

    async fn check(&mut self, side: Side, started: &Started) -> Result<PreflightReport> {
        let client = side::client(&started.url, self.settings, SPARE_CONNECTIONS)?;
        let report = if self.settings.skip.preflight {
            unchecked(self.settings)?
        } else {
            let demands = Demands::of(&self.plan.points);
            preflight::run(&client, self.clock, self.settings, demands).await
        };
        // What ends the run is told once, as its error.
        for finding in report.findings.iter().filter(|f| f.severity != Severity::Fatal) {
            self.find(finding.clone())?;
        }
        let stored = self.run.sides.entry(side).or_default();
        stored.url = started.url.clone();
        stored.model = report.model.clone();
        stored.api = dialect(report.api).name().to_owned();
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
        self.reporter.event(&Event::Note { text: &format!("serving {}", report.summary()) })?;
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
                _ = self.interrupt.beyond(Urgency::None) => {}
            }
        }
    }

    /// Warm-up, window, record.
    async fn round(&mut self, start: &StartPlan, plan: &RoundPlan) -> Result<()> {
        let wire = self.wire(start, plan)?;
        let warm_up = self.warm_up(&wire, plan).await?;
        if self.is_interrupted() {
            return Ok(());
        }
        let clock = self.clock;
        let at = clock.wall(clock.now_ns());
        let watch = Watch::begin(&self.live(start.side)?.url, self.settings, clock).await?;
        let job = self.job(start, plan, warm_up);
        let outcome = self.drive(&wire, &job).await?;
        let seen = watch.end(&outcome).await;
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
            telemetry: seen.telemetry,
            series: seen.series,
        };
        self.keep(round, outcome, plan)
    }

    fn job(&self, start: &StartPlan, plan: &RoundPlan, warm_up: Option<WarmUp>) -> RoundJob {
        RoundJob {
            plan: plan.clone(),
            side: start.side,
            block: start.block,
            start: start.start,
            expected_e2el_s: warm_up.and_then(|w| w.e2el_s),
            slot_start: self.settings.slot_start,
            error_limit: ErrorLimit {
                share: self.settings.max_error_rate,
                ..ErrorLimit::default()
            },
            in_flight_limit: None,
        }
    }

    async fn drive(&mut self, wire: &Arc<Wire>, job: &RoundJob) -> Result<RoundOutcome> {
        let reporter = &mut *self.reporter;
        // Progress that cannot be shown is no reason to lose a round.
        let mut show = |progress: drive::Progress| {
            let _ = reporter.event(&Event::RoundProgress {
                point: &progress.point,
                stage: "measuring",
                completed: progress.completed,
                planned: Some(u64::from(progress.planned)),
            });
        };
        drive::run_round(wire, self.clock, job, &self.interrupt, &mut show).await
    }

    fn keep(&mut self, round: StoredRound, outcome: RoundOutcome, plan: &RoundPlan) -> Result<()> {
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
        let summary = summary::summarise(&[input], plan.point.slo);
        let side = self.side_word(round.side);
        let status = status_word(round.status);
        self.reporter.event(&Event::RoundEnded { point: &round.point, side, summary: &summary, status })?;
        refused(&outcome.records).map_or(Ok(()), Err)
    }

    async fn warm_up(&mut self, wire: &Arc<Wire>, plan: &RoundPlan) -> Result<Option<WarmUp>> {
        if self.settings.skip.warm_up {
            return Ok(None);
        }
        let mut warm = plan.warm_up();
        let mut limit = self.settings.warm_up_time;
        if plan.phase == Phase::Reference {
            // Three windows at one request a second would take a minute: one slot does it.
            warm.point.load = Load::Concurrency(1);
            limit = limit.min(REFERENCE_WARM_UP);
        }
        self.reporter.event(&Event::RoundProgress {
            point: &plan.point.id(),
            stage: "warming up",
            completed: 0,
            planned: None,
        })?;
        let done = drive::warm_up(wire, self.clock, &warm, limit, &self.interrupt).await?;
        Ok(Some(done))
    }

    fn live(&self, side: Side) -> Result<&LiveWire> {
        let bench = self.sides.get(&side).and_then(|bench| bench.wire.as_ref());
        bench.ok_or_else(|| Error::server("the server was not started"))
    }

    /// The wire for a round: its prompts are of this run, this block and this side.
    fn wire(&self, start: &StartPlan, plan: &RoundPlan) -> Result<Arc<Wire>> {
        let live = self.live(start.side)?;
        let mut salt = self.run.salt;
        if self.plan.design == Design::Routes {
            // One engine sees both sides: the same text again would come from its prefix cache.
            salt = salt.named(if start.side == Side::Base { "base" } else { "new" });
        }
        let first = Plan::first_prompt(start, plan);
        let highest = self.plan.points.iter().map(|p| in_flight(p.load)).max().unwrap_or(1);
        let client = side::client(&live.url, self.settings, highest as usize + SPARE_CONNECTIONS)?;
        Ok(Arc::new(Wire {
            client,
            dialect: dialect(live.report.api),
            model: live.report.model.clone(),
            offers: live.report.offers,
            extra_body: self.settings.extra_body.clone(),
            prompts: self.files.source(&plan.point, &live.report, salt, first),
        }))
    }

    /// Whether a look at the data so far ends the run early.
    fn is_decided(&mut self, _starts: &[StartPlan]) -> Result<bool> {
        Ok(false)
    }
}

/// The dialect of an API.
pub(super) fn dialect(api: ApiChoice) -> Arc<dyn Dialect> {
    match api {
        ApiChoice::Chat => Arc::new(Chat::default()),
        ApiChoice::Completions | ApiChoice::Auto => Arc::new(Completions::default()),
    }
}

/// What is taken for granted where preflight is left out: a model by name, and only what every
/// server takes.
fn unchecked(settings: &Settings) -> Result<PreflightReport> {
    let model = settings.model.clone().ok_or_else(|| {
        Error::usage("without a preflight the model is not known").with_hint("add `--model NAME`")
    })?;
    let mut report = PreflightReport { model, api: settings.api, ..PreflightReport::default() };
    report.offers.include_usage = true;
    report.offers.ignore_eos = settings.ignore_eos == TriState::On;
    report.findings.push(Finding::new(
        "no_preflight",
        Severity::Note,
        "the preflight was left out: lengths and token counts are not checked",
    ));
    Ok(report)
}

/// Requests that a load may have in flight, for the size of the pool.
fn in_flight(load: Load) -> u32 {
    match load {
        Load::Concurrency(n) => n,
        // Idle connections beyond these are closed and opened anew: rare, and counted as connects.
        Load::RequestRate(rate) => rate.max_concurrency.unwrap_or(1024),
    }
}

/// Whether `a` is a lower load of the same kind.
fn is_lower(a: Load, b: Load) -> bool {
    match (a, b) {
        (Load::Concurrency(a), Load::Concurrency(b)) => a < b,
        (Load::RequestRate(a), Load::RequestRate(b)) => a.per_s < b.per_s,
        _ => false,
    }
}

/// What to know of a round beside its figures; empty where all is well.
fn status_word(status: RoundStatus) -> &'static str {
    match status {
        RoundStatus::Complete => "",
        RoundStatus::Saturated => "saturated",
        RoundStatus::Overloaded => "overloaded",
        RoundStatus::Stopped => "stopped: too many errors",
        RoundStatus::Interrupted => "interrupted",
    }
}

/// A key refused in mid-run ends the run: the rest would be 401s counted as load.
fn refused(records: &[RequestRecord]) -> Option<Error> {
    let refused = records.iter().find(|r| r.failure == Some(FailureKind::Unauthorized))?;
    let status = refused.status.map(|s| s.to_string()).unwrap_or_default();
    Some(
        Error::server(format!("the server refused the key in mid-run (status {status})"))
            .with_hint("the `Authorization: Bearer` header was sent: was the key revoked, or its quota used up?"),
    )
}
