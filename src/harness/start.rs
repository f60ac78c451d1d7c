//! A start of a run: the server comes up, is checked once per side, and may fail.

use super::server_handle::{self, Started};
use super::session::{LiveWire, MOST_FAILED_STARTS, SPARE_CONNECTIONS, Session};
use crate::clock::Clock;
use crate::drive::Urgency;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::{Side, StartPlan};
use crate::preflight::{self, Demands, PreflightReport};
use crate::record::{Finding, FindingCode, Severity, StoredStart};
use crate::report::progress::Event;
use crate::settings::{Settings, TriState};

impl Session<'_> {
    /// Starts the server and, where it is the side's first start, checks it.
    pub(super) async fn launch(&mut self, start: &StartPlan) -> Result<()> {
        let clock = self.clock;
        if let Some(check) = self.bench(start.side)?.server.awaited() {
            self.reporter.event(&Event::Note { text: &format!("starting the server: {check}") });
        }
        let started = self.interruptible(start.side, start.block, clock).await?;
        for finding in started.findings.clone() {
            self.find(finding);
        }
        let at = clock.wall(clock.now_ns());
        let side = self.side_word(start.side);
        let starts = self.plan.starts.iter().map(|s| s.block + 1).max().unwrap_or(1);
        // Of a server that somebody else started nothing is known yet.
        if starts > 1 || started.ready_s.is_some() {
            self.reporter.event(&Event::StartReady {
                side,
                start: start.block + 1,
                starts,
                ready_s: started.ready_s,
            });
        }
        self.run.starts.push(StoredStart {
            side: start.side,
            block: start.block,
            start: start.start,
            at,
            identity: started.identity.clone().or_else(|| self.told_restarted()),
            ready_s: started.ready_s,
            failure: None,
        });
        let report = match self.bench(start.side)?.preflight.clone() {
            Some(report) => report,
            None => self.check(start.side, &started).await?,
        };
        self.bench(start.side)?.wire =
            Some(LiveWire { url: started.url, engine_url: started.engine_url, report });
        Ok(())
    }

    /// What distinguishes this start from others by the user's word.
    fn told_restarted(&self) -> Option<String> {
        let word = format!("restarted, by the user's word, for {}", self.run.id);
        self.settings.restarted.then_some(word)
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
    pub(super) fn side_word(&self, side: Side) -> &'static str {
        if self.sides.len() == 1 { "" } else { side.name() }
    }

    async fn check(&mut self, side: Side, started: &Started) -> Result<PreflightReport> {
        let client = server_handle::client(&started.url, self.settings, SPARE_CONNECTIONS)?;
        let report = if self.settings.skip.preflight {
            unchecked(self.settings)?
        } else {
            let demands = Demands::of(&self.plan.points);
            preflight::run(&client, self.clock, self.settings, demands).await
        };
        // What ends the run is reported once, as its error.
        for finding in report.findings.iter().filter(|f| f.severity != Severity::Fatal) {
            self.find(finding.clone());
        }
        let dialect = self.dialect(report.api).name().to_owned();
        let stored = self.run.sides.entry(side).or_default();
        stored.url = started.url.clone();
        stored.model = report.model.clone();
        stored.api = dialect;
        stored.engine = report.engine.clone();
        stored.engine_version = report.engine_version.clone();
        stored.command = (!started.argv.is_empty()).then(|| started.argv.join(" "));
        stored.environment_names = started.environment_names.clone();
        stored.engine_settings = started.engine_settings.clone();
        stored.engine_settings.extend(report.engine_settings.clone());
        stored.offers = report.offers;
        stored.template_tokens = report.template_tokens;
        self.store_run()?;
        if let Some(error) = report.fatal() {
            return Err(error);
        }
        self.bench(side)?.preflight = Some(report.clone());
        self.reporter.event(&Event::Note { text: &format!("serving {}", report.summary()) });
        Ok(report)
    }

    pub(super) fn can_go_on(&self, error: &Error) -> bool {
        let restarts = self.plan.starts.len() > 1 && !self.is_interrupted();
        let tried = self.sides.values().map(|bench| bench.failed_starts).max().unwrap_or(0);
        let once_worked = self.sides.values().all(|bench| bench.preflight.is_some());
        restarts
            && once_worked
            && error.kind() == ErrorKind::Server
            && tried + 1 < MOST_FAILED_STARTS
    }

    /// Whether every side has a start that was measured to its end.
    pub(super) fn has_whole_starts(&self) -> bool {
        let whole = |side: Side| {
            self.run.starts.iter().any(|s| {
                let rounds = self.run.rounds.iter();
                let measured = rounds.filter(|r| (r.side, r.start) == (s.side, s.start)).count();
                let plan = self.plan.starts.iter().find(|p| p.start == s.start && p.side == s.side);
                let planned = plan.map_or(1, |plan| plan.rounds.len());
                s.side == side && s.failure.is_none() && measured >= planned
            })
        };
        self.run.sides.keys().all(|side| whole(*side))
    }

    pub(super) fn note_failed_start(&mut self, starts: &[StartPlan], error: &Error) -> Result<()> {
        for start in starts {
            self.bench(start.side)?.failed_starts += 1;
            let text = error.to_string();
            match self
                .run
                .starts
                .iter_mut()
                .find(|s| s.side == start.side && s.start == start.start)
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
            let side = match self.side_word(start.side) {
                "" => String::new(),
                side => format!(" of {side}"),
            };
            let number = start.block + 1;
            let text = format!("restart {number}{side} gave no figures and is left out: {error}");
            self.find(Finding::new(FindingCode::StartFailed, Severity::Invalid, text));
        }
        self.store_run()
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
        FindingCode::NoPreflight,
        Severity::Note,
        "the preflight was left out: lengths and token counts are not checked",
    ));
    Ok(report)
}
