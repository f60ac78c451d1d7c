//! A round of a run: warm-up, window, record.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::server_handle;
use super::session::{Extent, LiveWire, SPARE_CONNECTIONS, Session};
use super::telemetry::{RoundTelemetry, visible_devices};
use crate::api::template_cache::TemplateCache;
use crate::api::{Dialect, chat::Chat, completions::Completions};
use crate::drive::{self, ErrorLimit, RoundJob, RoundOutcome, Wire};
use crate::environment;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::{Design, Phase, Plan, RoundPlan, Side, StartPlan};
use crate::preflight::PreflightReport;
use crate::record::stored::{RoundStatus, WarmUp};
use crate::record::{Finding, FindingCode, RequestRecord, Severity, StoredRound};
use crate::report::lossy::LossyReporter;
use crate::report::progress::Event;
use crate::scenario::{Load, PromptSpec};
use crate::settings::{ApiChoice, Settings};
use crate::summary::{self, RoundInput, Summary};
use crate::transport::FailureKind;

/// The warm-up of a rate-1 reference: that rate would take a minute for three windows.
const REFERENCE_WARM_UP: Duration = Duration::from_secs(3);

/// What a round came to.
pub(super) struct RoundResult {
    pub(super) summary: Summary,
    pub(super) status: RoundStatus,
}

impl Session<'_> {
    /// Warm-up, window, record.
    /// `None` if it was interrupted before it began.
    pub(super) async fn round(
        &mut self,
        start: &StartPlan,
        plan: &RoundPlan,
    ) -> Result<Option<RoundResult>> {
        let wire = self.wire(start, plan)?;
        let warm_up = self.warm_up(&wire, plan).await?;
        if self.is_interrupted() {
            return Ok(None);
        }
        let clock = self.clock;
        let at = clock.wall(clock.now_ns());
        let expected = expected_length(plan, warm_up.and_then(|w| w.e2el_s));
        let mut watch = self.watch(start.side).await?;
        watch.begin(self.settings, expected).await?;
        let job = self.job(start, plan, warm_up);
        let mut outcome = self.drive(&wire, &job).await?;
        // Its connections may hold the last descriptors, and the files to come need some.
        drop(wire);
        let mut seen = watch.end(&outcome).await;
        self.watches.insert(start.side, watch);
        outcome.findings.append(&mut seen.findings);
        let cut = outcome.error.take();
        if let Some(error) = &cut {
            let text = format!("the round ended before its load was sent: {error}");
            outcome.findings.push(Finding::new(FindingCode::RoundCut, Severity::Warning, text));
        }
        let (server, lost) = self.server_state(start, &outcome).await?;
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
            status: if server.is_lost() { RoundStatus::Stopped } else { outcome.status },
            server,
            warm_up,
            health: outcome.health.clone(),
            telemetry: seen.telemetry,
            series: seen.series,
            reported: BTreeMap::new(),
            itl_by_position_ms: outcome.positions.means_ms(),
        };
        let result = self.keep(round, outcome, plan)?;
        cut.or(lost).map_or(Ok(Some(result)), Err)
    }

    /// Who watches a side: as in the round before, where its server has not moved.
    async fn watch(&mut self, side: Side) -> Result<RoundTelemetry> {
        let url = self.live(side)?.engine_url.clone();
        match self.watches.remove(&side) {
            Some(watch) if watch.is_over(&url) => Ok(watch),
            _ => {
                let has_gpu = self.run.environment.contains_key(environment::GPU);
                let mut targets = server_handle::targets(self.settings).into_iter();
                let target = targets.find(|(of, _)| *of == side).map(|(_, target)| target);
                let devices = target.as_ref().and_then(visible_devices);
                RoundTelemetry::over(&url, self.settings, self.clock, has_gpu, devices).await
            }
        }
    }

    fn job(&self, start: &StartPlan, plan: &RoundPlan, warm_up: Option<WarmUp>) -> RoundJob {
        let mut plan = plan.clone();
        if self.extent == Extent::OneRequest {
            // One slot: what a loop sends before and after the measured request is a few more.
            plan.point.load = Load::concurrency(1);
        }
        RoundJob {
            plan,
            side: start.side,
            block: start.block,
            start: start.start,
            expected_e2el_s: match self.extent {
                Extent::Whole => warm_up.and_then(|w| w.e2el_s),
                Extent::OneRequest => Some(0.0), // no ramp
            },
            slot_start: self.settings.slot_start,
            error_limit: ErrorLimit {
                share: self.settings.max_error_rate,
                ..ErrorLimit::default()
            },
            in_flight_limit: None,
        }
    }

    async fn drive(&mut self, wire: &Arc<Wire>, job: &RoundJob) -> Result<RoundOutcome> {
        let mut show = shown(&mut self.reporter);
        drive::run_round(wire, self.clock, job, &self.interrupt, &mut show).await
    }

    fn keep(
        &mut self,
        round: StoredRound,
        outcome: RoundOutcome,
        plan: &RoundPlan,
    ) -> Result<RoundResult> {
        for finding in &outcome.findings {
            self.find_once(finding.clone().at(round.point.clone()));
        }
        self.run.rounds.push(round.clone());
        self.writer.write_round(&self.run, &round, &outcome.records, &outcome.itl, &outcome.icl)?;
        let input = RoundInput {
            round: &round,
            records: &outcome.records,
            itl: &outcome.itl,
            icl: &outcome.icl,
        };
        let summary = summary::summarise(&[input], plan.point.slo);
        self.note(&round, &outcome, &summary, plan);
        let side = self.side_word(round.side);
        let status = match (&round.server, round.status) {
            (server, _) if server.is_lost() => format!("server lost: it {}", server.words()),
            // Another word would say why it failed, which the failures show to be otherwise.
            (server, RoundStatus::Overloaded) if !server.is_ran() => {
                format!("the server {}", server.words())
            }
            (_, status) => status_word(status).to_owned(),
        };
        self.reporter.event(&Event::RoundEnded {
            point: &round.point,
            side,
            summary: &summary,
            status: &status,
        });
        let result = RoundResult { summary, status: round.status };
        refused(&outcome.records, self.settings).map_or(Ok(result), Err)
    }

    /// Reports a finding unless an earlier round of the load point had one of its kind.
    fn find_once(&mut self, finding: Finding) {
        let same = |f: &Finding| f.code == finding.code && f.point == finding.point;
        if !self.run.findings.iter().any(same) {
            self.find(finding);
        }
    }

    pub(super) async fn warm_up(
        &mut self,
        wire: &Arc<Wire>,
        plan: &RoundPlan,
    ) -> Result<Option<WarmUp>> {
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
        let point: Arc<str> = plan.point.id().into();
        let mut show = shown(&mut self.reporter);
        // The warm-up of a reference has another load: its progress is still that of its point.
        let mut show = |progress| show(drive::Progress { point: Arc::clone(&point), ..progress });
        let (clock, interrupt) = (self.clock, &self.interrupt);
        drive::warm_up(wire, clock, &warm, limit, interrupt, &mut show).await.map(Some)
    }

    fn live(&self, side: Side) -> Result<&LiveWire> {
        let bench = self.sides.get(&side).and_then(|bench| bench.wire.as_ref());
        bench.ok_or_else(|| Error::server("the server was not started"))
    }

    /// The wire for a round: its prompts are of this run, this block and this side.
    pub(super) fn wire(&self, start: &StartPlan, plan: &RoundPlan) -> Result<Arc<Wire>> {
        let live = self.live(start.side)?;
        let report = self.with_common_form(live.report.clone());
        let mut salt = self.run.salt;
        if self.plan.design == Design::Routes {
            // One engine sees both sides: the same text again would come from its prefix cache.
            salt = salt.named(start.side.name());
        }
        let first = Plan::first_prompt(start, plan) + plan.first_prompt;
        let planned = self.plan.points.iter().chain([&plan.point]);
        let highest = planned.map(|p| in_flight(p.load)).max().unwrap_or(1);
        let closes = self.sides.get(&start.side).map(|side| Arc::clone(&side.closes_unannounced));
        let pool = highest as usize + SPARE_CONNECTIONS;
        let closes = closes.unwrap_or_default();
        let client = server_handle::load_client(&live.url, self.settings, pool, closes)?;
        Ok(Arc::new(Wire {
            client,
            dialect: self.dialect(report.api),
            model: report.model.clone(),
            offers: report.offers,
            extra_body: self.settings.extra_body.clone(),
            prompts: match &self.own.prompts {
                Some(own) if plan.point.prompt == PromptSpec::Synthetic => own.clone(),
                _ => self.files.source(&plan.point, &report, salt, first),
            },
        }))
    }

    /// Two routes to one engine get their prompts in one form: as token ids where both take them.
    fn with_common_form(&self, mut report: PreflightReport) -> PreflightReport {
        if self.plan.design == Design::Routes {
            let mut live = self.sides.values().filter_map(|side| side.wire.as_ref());
            report.offers.token_prompts = live.all(|wire| wire.report.offers.token_prompts);
        }
        report
    }

    /// The caller's dialect, or that of the API found.
    pub(super) fn dialect(&self, api: ApiChoice) -> Arc<dyn Dialect> {
        self.own.dialect.clone().unwrap_or_else(|| dialect(api))
    }
}

/// Shows how far a round or its warm-up is.
fn shown(reporter: &mut LossyReporter<'_>) -> impl FnMut(drive::Progress) + Send {
    |progress| {
        let planned = progress.planned.map(u64::from);
        reporter.event(&Event::RoundProgress {
            point: &progress.point,
            stage: if progress.phase == Phase::WarmUp { "warming up" } else { "measuring" },
            // The load is kept up until the last measured request ends: more complete than count.
            completed: progress.completed.min(planned.unwrap_or(u64::MAX)),
            planned,
        });
    }
}

/// The dialect of an API.
fn dialect(api: ApiChoice) -> Arc<dyn Dialect> {
    match api {
        ApiChoice::Chat => Arc::new(TemplateCache::new(Chat)),
        ApiChoice::Completions | ApiChoice::Auto => Arc::new(TemplateCache::new(Completions)),
    }
}

/// About how long a round's window will be; zero where nothing is known.
fn expected_length(plan: &RoundPlan, e2el_s: Option<f64>) -> Duration {
    let requests = f64::from(plan.stop.requests);
    let seconds = match plan.point.load {
        Load::Concurrency(slots) => requests / f64::from(slots) * e2el_s.unwrap_or(0.0),
        Load::RequestRate(rate) => requests / rate.per_s,
    };
    // A day is longer than any round.
    Duration::from_secs_f64(seconds.clamp(0.0, 86_400.0))
}

/// Requests that a load may have in flight, for the size of the pool.
pub(super) fn in_flight(load: Load) -> u32 {
    match load {
        Load::Concurrency(n) => n,
        // Idle connections beyond these are closed and opened anew: rare, and counted as connects.
        Load::RequestRate(rate) => rate.max_concurrency.unwrap_or(1024),
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
fn refused(records: &[RequestRecord], settings: &Settings) -> Option<Error> {
    let refused = records.iter().find(|r| r.failure == Some(FailureKind::Unauthorized))?;
    let status = refused.status.map(|s| s.to_string()).unwrap_or_default();
    let of_caller =
        settings.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    let (text, hint) = if settings.api_key.is_some() || of_caller {
        (
            "the server refused the key in mid-run",
            "the `Authorization` header was sent: was the key revoked, or its quota used up?",
        )
    } else {
        (
            "the server asks for a key, and no `Authorization` header was sent",
            "give a key with `--api-key-env NAME` or `--api-key-file PATH`",
        )
    };
    Some(Error::new(ErrorKind::Preflight, format!("{text} (status {status})")).with_hint(hint))
}
