//! The run itself: starts, rounds, records. Everything measured is on disk after each round.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::extensions::Extensions;
use super::prompt_files::PromptFiles;
use super::resume;
use super::selftest_file::proven_capacity;
use super::server_handle::{self, SideServer};
use super::telemetry::RoundTelemetry;
use crate::analysis::{self, measure};
use crate::clock::Clock;
use crate::compare::interim_looks::{InterimLooks, Step};
use crate::diagnose::capacity::ProvenCapacity;
use crate::diagnose::point::PointNotes;
use crate::drive::{Interrupt, Urgency};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::{Design, Phase, Plan, RoundPlan, Side, StartPlan};
use crate::preflight::PreflightReport;
use crate::record::stored::{RoundStatus, RunStatus};
use crate::record::{Finding, FindingCode, Severity, StoredRound, StoredRun};
use crate::report::lossy::LossyReporter;
use crate::report::progress::Event;
use crate::scenario::Load;
use crate::selftest::Scheme;
use crate::settings::{Settings, Target};
use crate::store::{RunWriter, Store};
use crate::transport::BaseUrl;

/// A server that fails this many starts in a row will fail the next.
pub(super) const MOST_FAILED_STARTS: u32 = 3;
/// Connections beyond the planned concurrency, for tails and probes.
pub(super) const SPARE_CONNECTIONS: usize = 16;

/// The notes of a run, by side and load point in the order of the plan's loads.
type Notes = BTreeMap<(Side, String), PointNotes>;

/// What a run needs from outside.
pub(super) struct Parts<'a> {
    pub(super) settings: &'a Settings,
    pub(super) plan: &'a Plan,
    pub(super) store: &'a Store,
    pub(super) clock: Clock,
    pub(super) interrupt: Interrupt,
    pub(super) reporter: LossyReporter<'a>,
    pub(super) own: &'a Extensions,
    pub(super) looks: InterimLooks,
    pub(super) extent: Extent,
}

/// How much of its load a round sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// All of it.
    Whole,
    /// One measured request, whatever the load, and one that opens the window: does the load point work?
    OneRequest,
}

/// A run under way.
pub(super) struct Session<'a> {
    pub(super) settings: &'a Settings,
    pub(super) plan: &'a Plan,
    pub(super) run: StoredRun,
    pub(super) clock: Clock,
    pub(super) interrupt: Interrupt,
    pub(super) reporter: LossyReporter<'a>,
    pub(super) files: PromptFiles,
    pub(super) own: &'a Extensions,
    pub(super) writer: RunWriter,
    pub(super) sides: BTreeMap<Side, SideState>,
    /// Who watches each side's rounds.
    pub(super) watches: BTreeMap<Side, RoundTelemetry>,
    /// What the rounds told of the client and the load.
    pub(super) notes: Notes,
    pub(super) store: &'a Store,
    /// What the client is known to measure truly.
    pub(super) proof: ProvenCapacity,
    looks: InterimLooks,
    pub(super) extent: Extent,
    /// How many rounds a run that was taken up again began with.
    kept_rounds: Option<usize>,
}

/// One side: its server, what preflight found, and the wire of the present start.
pub(super) struct SideState {
    pub(super) server: SideServer,
    pub(super) preflight: Option<PreflightReport>,
    pub(super) wire: Option<LiveWire>,
    /// In a row.
    pub(super) failed_starts: u32,
    /// Whether the server was seen to close connections without announcing it: true of all its starts.
    pub(super) closes_unannounced: Arc<AtomicBool>,
}

/// A start that can be sent to.
#[derive(Clone)]
pub(super) struct LiveWire {
    pub(super) url: String,
    /// Where the engine is watched.
    pub(super) engine_url: String,
    pub(super) report: PreflightReport,
}

/// What the servers of a run speak: the dearer for the client, where they differ.
fn scheme(settings: &Settings) -> Scheme {
    let is_tls = |target: &Target| BaseUrl::parse(&target.url).is_ok_and(|url| url.is_tls());
    let any = server_handle::targets(settings).iter().any(|(_, target)| is_tls(target));
    if any { Scheme::Https } else { Scheme::Http }
}

impl<'a> Session<'a> {
    /// A run in a folder of its own, or in that of the run that is taken up again.
    pub(super) fn begin(parts: Parts<'a>, files: PromptFiles, mut run: StoredRun) -> Result<Self> {
        let Parts { settings, plan, store, clock, interrupt, reporter, own, looks, extent } = parts;
        let writer = match &settings.resume {
            Some(_) => {
                let reopened = store.resume_run(&run)?;
                run.findings.extend(resume::cut(reopened.cut_records));
                reopened.writer
            }
            None => store.begin_run(&run)?,
        };
        let kept_rounds = settings.resume.as_ref().map(|_| run.rounds.len());
        writer.id().clone_into(&mut run.id);
        let mut sides = BTreeMap::new();
        for (side, target) in server_handle::targets(settings) {
            let server = SideServer::new(side, &target, settings, store, &run.id)?;
            run.sides.entry(side).or_default().label = server.label();
            sides.insert(
                side,
                SideState {
                    server,
                    preflight: None,
                    wire: None,
                    failed_starts: 0,
                    closes_unannounced: Arc::default(),
                },
            );
        }
        let notes = Notes::new();
        Ok(Self {
            settings,
            plan,
            run,
            clock,
            interrupt,
            reporter,
            files,
            own,
            writer,
            sides,
            watches: BTreeMap::new(),
            notes,
            store,
            proof: proven_capacity(store, scheme(settings)),
            looks,
            kept_rounds,
            extent,
        })
    }

    /// Writes the run. One that was taken up keeps the rounds on disk, also those of its unfinished
    /// block, until this attempt has measured a round or ended the plan.
    pub(super) fn store_run(&self) -> Result<()> {
        let is_fresh = self.kept_rounds.is_none_or(|kept| self.run.rounds.len() > kept);
        if is_fresh || self.run.status == RunStatus::Complete {
            self.writer.update(&self.run)?;
        }
        Ok(())
    }

    /// Runs the plan to its end, to an interruption or to a fault. What was measured is stored
    /// whichever it is.
    pub(super) async fn execute(&mut self) -> Result<()> {
        let result = self.visits().await;
        if result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Server) {
            self.tell_loss();
        }
        self.tell_health();
        for (_, bench) in std::mem::take(&mut self.sides) {
            if let Err(error) = bench.server.finish().await {
                let text = format!("the server could not be stopped: {error}");
                self.find(Finding::new(FindingCode::StopFailed, Severity::Warning, text));
            }
        }
        self.run.findings.extend(self.reporter.loss());
        self.run.status = match &result {
            Ok(()) if self.is_interrupted() => RunStatus::Interrupted,
            Ok(()) => RunStatus::Complete,
            Err(error) if error.kind() == ErrorKind::Interrupted => RunStatus::Interrupted,
            Err(_) => RunStatus::Failed,
        };
        self.run.ended_at = Some(self.clock.wall(self.clock.now_ns()));
        self.store_run()?;
        match result {
            Err(error) if error.kind() != ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// Start by start; where two routes to one engine are compared, both sides at once.
    async fn visits(&mut self) -> Result<()> {
        self.burn_in().await?;
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

    pub(super) fn is_interrupted(&self) -> bool {
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
                Ok(findings) => findings.into_iter().for_each(|f| self.find(f)),
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

    pub(super) fn bench(&mut self, side: Side) -> Result<&mut SideState> {
        self.sides.get_mut(&side).ok_or_else(|| Error::usage("a planned side has no server"))
    }

    pub(super) fn find(&mut self, finding: Finding) {
        if !self.run.findings.contains(&finding) {
            self.reporter.event(&Event::Finding(&finding));
            self.run.findings.push(finding);
        }
    }

    /// The rounds of a start; of two routes, alternately, in alternating order.
    async fn rounds(&mut self, starts: &[StartPlan]) -> Result<()> {
        let most = starts.iter().map(|s| s.rounds.len()).max().unwrap_or(0);
        let mut measured = false;
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
                // Between rounds only: nothing waits for what follows the last one.
                if std::mem::replace(&mut measured, true) {
                    self.cool_down().await;
                    if self.is_interrupted() {
                        return Ok(());
                    }
                }
                match round.phase {
                    Phase::Search => self.search(start, round).await?,
                    Phase::Load | Phase::Reference | Phase::WarmUp => {
                        self.round(start, round).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// A sweep that was asked to end at saturation leaves out the higher loads of that scenario.
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

    pub(super) async fn cool_down(&self) {
        if !self.settings.cool_down.is_zero() {
            tokio::select! {
                () = tokio::time::sleep(self.settings.cool_down) => {}
                _ = self.interrupt.beyond(Urgency::None) => {}
            }
        }
    }

    /// Whether a look at the data so far, after a whole block, ends the run early.
    fn is_decided(&mut self, starts: &[StartPlan]) -> Result<bool> {
        let Some(last) = starts.last() else { return Ok(false) };
        let blocks = last.block + 1;
        let ends_block = self.plan.starts.iter().rfind(|start| start.block == last.block);
        let is_whole = ends_block.is_some_and(|start| start.start == last.start);
        if !is_whole || !self.looks.is_early(blocks) {
            return Ok(false);
        }
        let looks = self.looks.count();
        let found = analysis::so_far(self.store, self.settings, &self.run, looks)?;
        let changed = found.is_some_and(|comparison| comparison.has_changed());
        if self.looks.after(blocks, changed) != Step::Stop {
            return Ok(false);
        }
        let most = self.looks.most_blocks();
        let text = format!("decided after {blocks} of {most} restarts: the rest was not needed");
        self.find(Finding::new(FindingCode::Decided, Severity::Note, text));
        Ok(true)
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
