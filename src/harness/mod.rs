//! The harness: calls the stages in order. The only module that sees all of them.

mod burn_in;
mod calibrate;
mod extensions;
mod flags;
mod lost_server;
mod point_findings;
mod prompt_files;
mod resume;
mod round;
mod run_record;
mod search;
mod selftest_file;
mod server_handle;
mod session;
mod start;
mod surface;
mod telemetry;

use extensions::Extensions;
use flags::Flags;
use prompt_files::PromptFiles;
use session::{Extent, Parts, Session};

use std::sync::Arc;

use crate::analysis::{self, Conclusion, ConclusionInput};
use crate::api::Dialect;
use crate::clock::Clock;
use crate::compare::interim_looks::InterimLooks;
use crate::diagnose::validity;
use crate::drive::{Interrupt, Urgency};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::{self, ListFormat, Matching, Plan};
use crate::record::StoredRun;
use crate::report::lossy::LossyReporter;
use crate::report::progress::{Event, Reporter};
use crate::scenario::{self, LoadPoint, PromptSource, ScenarioGroup};
use crate::settings::{BaselineChoice, JudgeSettings, Settings};
use crate::store::{Store, files};

pub use calibrate::Calibrated;
pub(crate) use server_handle::client as http_client;
pub use surface::{Action, Detail, Entry, OutputFormat, Selection, Surface};

/// Groups of scenarios and the settings they run with.
///
/// In a bench file it is made by [`Harness::from_env`] and filled by the targets of
/// [`scenario_group!`](crate::scenario_group).
#[derive(Debug, Clone)]
pub struct Harness {
    settings: Settings,
    groups: Vec<ScenarioGroup>,
    pub(crate) selection: Selection,
    surface: Surface,
    own: Extensions,
    flags: Option<Flags>,
}

/// A run that has ended, and what its report must know.
struct Measured {
    run: StoredRun,
    told: ConclusionInput,
}

impl Harness {
    /// A harness with these settings and no groups yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            groups: Vec::new(),
            selection: Selection::default(),
            surface: Surface::default(),
            own: Extensions::default(),
            flags: None,
        }
    }

    /// Takes prompts from `source` wherever a scenario names no file of its own. Where the source
    /// has a content hash, it enters the workload's: runs with other prompts are not compared.
    pub fn prompts(&mut self, source: Arc<dyn PromptSource>) -> &mut Self {
        self.own.prompts = Some(source);
        self
    }

    /// Speaks `dialect` while measuring. Preflight and warm-up's checks still speak completions or
    /// chat: a server that has neither needs `settings().skip.preflight` and a model's name.
    pub fn dialect(&mut self, dialect: Arc<dyn Dialect>) -> &mut Self {
        self.own.dialect = Some(dialect);
        self
    }

    /// Lays `flags` over the settings now, so that code sees them, and again over what code sets.
    ///
    /// # Errors
    /// Where the flags are wrong.
    pub(crate) fn with_flags(
        mut self,
        flags: impl Fn(&mut Settings) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Self> {
        let flags = Flags::new(flags);
        flags.apply(&mut self.settings)?;
        self.flags = Some(flags);
        Ok(self)
    }

    /// The harness as it runs: the environment and flags over what code set.
    ///
    /// # Errors
    /// Where the flags do not go with what code set.
    pub(crate) fn settled(&self) -> Result<Self> {
        let mut settled = self.clone();
        if let Some(flags) = settled.flags.take() {
            flags.apply(&mut settled.settings)?;
        }
        Ok(settled)
    }

    /// The group of this name, made where it is new.
    pub fn group(&mut self, name: impl Into<String>) -> &mut ScenarioGroup {
        let name = name.into();
        let place = self.groups.iter().position(|group| group.name == name);
        let place = place.unwrap_or_else(|| {
            self.groups.push(ScenarioGroup::new(name));
            self.groups.len() - 1
        });
        &mut self.groups[place]
    }

    /// Adds groups, for example those of [`scenarios!`](crate::scenarios).
    pub fn groups(&mut self, groups: impl IntoIterator<Item = ScenarioGroup>) -> &mut Self {
        self.groups.extend(groups);
        self
    }

    /// The groups that were added.
    pub(crate) fn all_groups(&mut self) -> &mut [ScenarioGroup] {
        &mut self.groups
    }

    /// The settings, to be changed in code. The environment and flags change them after it, and win.
    pub fn settings(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// What happens to baselines.
    #[must_use]
    pub fn baseline(&self) -> &BaselineChoice {
        &self.settings.baseline
    }

    /// Narrows the load points.
    #[must_use]
    pub fn with_selection(mut self, selection: Selection) -> Self {
        self.selection = selection;
        self
    }

    /// Says what to show.
    #[must_use]
    pub fn with_surface(mut self, surface: Surface) -> Self {
        self.surface = surface;
        self
    }

    /// What to show.
    #[must_use]
    pub fn surface(&self) -> Surface {
        self.surface
    }

    /// Several harnesses as one: their groups make one run.
    ///
    /// # Errors
    /// Where their settings, prompts or dialects differ: one run has one configuration.
    pub fn merged(harnesses: impl IntoIterator<Item = Self>) -> Result<Self> {
        let mut harnesses = harnesses.into_iter().map(|harness| harness.settled());
        let none = || Error::scenario("no scenario group was given");
        let mut first = harnesses.next().ok_or_else(none)??;
        for other in harnesses {
            let other = other?;
            if other.settings != first.settings {
                return Err(Error::scenario("two scenario groups have different settings")
                    .with_hint("one run has one configuration: put them into two bench files"));
            }
            if other.own != first.own {
                return Err(Error::scenario(
                    "two scenario groups bring different prompts or dialects along",
                )
                .with_hint("one run has one of each: put the groups into two bench files"));
            }
            first.groups.extend(other.groups);
        }
        Ok(first)
    }

    /// Everything that would happen, before a byte is sent.
    ///
    /// # Errors
    /// Where a scenario, a filter or a file that is named is wrong, a baseline does not exist, a gate
    /// could not be judged, or nothing is left to run.
    pub fn plan(&self) -> Result<Plan> {
        let harness = self.settled()?;
        let plan = harness.plan_settled()?;
        PromptFiles::read(&plan)?;
        if let Some(path) = &harness.settings.ca_cert {
            files::must_exist(path)?;
        }
        let BaselineChoice { compare, save, append, .. } = &harness.settings.baseline;
        if compare.is_some() || save.is_some() || append.is_some() {
            harness.check_baseline(&Store::open(&harness.settings.output_dir)?)?;
        }
        Ok(plan)
    }

    fn plan_settled(&self) -> Result<Plan> {
        let points = self.points()?;
        if points.is_empty() {
            let list = match self.surface.entry {
                Entry::Command => "inferometer list",
                Entry::Bench => "--list",
            };
            return Err(Error::usage("no load point is left to run")
                .with_hint(format!("`{list}` shows the ids that filters are matched against")));
        }
        let mut plan = plan::build_points(points, &self.planned_settings()?)?;
        if let Some(budget) = self.settings.budget {
            plan.shrink(budget);
        }
        gates_can_be_judged(&plan, &self.settings.judge)?;
        Ok(plan)
    }

    /// The selected load points.
    fn points(&self) -> Result<Vec<LoadPoint>> {
        if self.selection.nothing {
            return Ok(Vec::new());
        }
        let matching = if self.selection.exact { Matching::Exact } else { Matching::Regex };
        plan::select(scenario::points(&self.groups)?, &self.selection.filters, matching)
    }

    /// The whole job: starts, rounds, comparison, report. An interrupted run is concluded with what
    /// was measured.
    ///
    /// # Errors
    /// Where the plan, the server or a file fails; what was measured before is on disk.
    pub async fn run(
        &self,
        reporter: &mut dyn Reporter,
        interrupt: &Interrupt,
    ) -> Result<Conclusion> {
        let harness = self.settled()?;
        let settings = &harness.settings;
        let store = Store::open(&settings.output_dir)?;
        if let Some(name) = &settings.baseline.load {
            return analysis::conclude_loaded(&store, settings, name);
        }
        let clock = Clock::start();
        let measured = harness.measure(&store, clock, Extent::Whole, reporter, interrupt).await?;
        analysis::conclude_run(&store, settings, &measured.run, clock, measured.told)
    }

    /// Rounds without a judgement or a report, as test mode needs them.
    ///
    /// # Errors
    /// As [`Harness::run`].
    pub(crate) async fn test(
        &self,
        reporter: &mut dyn Reporter,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let harness = self.settled()?;
        let store = Store::open(&harness.settings.output_dir)?;
        let clock = Clock::start();
        harness.measure(&store, clock, Extent::OneRequest, reporter, interrupt).await.map(drop)
    }

    /// Starts and rounds of a settled harness: everything but the judgement.
    async fn measure(
        &self,
        store: &Store,
        clock: Clock,
        extent: Extent,
        reporter: &mut dyn Reporter,
        interrupt: &Interrupt,
    ) -> Result<Measured> {
        let mut plan = self.plan_settled()?;
        let files = PromptFiles::read(&plan)?;
        plan.note_datasets(&self.own.with_hash(files.hashes()));
        self.check_baseline(store)?;
        let blocks = plan.starts.iter().map(|start| start.block + 1).max().unwrap_or(1);
        let looks = InterimLooks::within(&self.settings.looks, blocks);
        let mut run = run_record::new_run(&self.settings, &plan, clock);
        run_record::note_datasets(&mut run, &files.hashes());
        if let Some(id) = &self.settings.resume {
            run = resume::take_up(store, id, &mut plan, &run)?;
        }
        let mut reporter = LossyReporter::new(reporter);
        run_record::announce(&self.settings, &plan, self.surface.detail, &mut reporter);
        let told = ConclusionInput { looks: Some(looks.count()), ..ConclusionInput::default() };
        let parts = Parts {
            settings: &self.settings,
            plan: &plan,
            store,
            clock,
            interrupt: interrupt.clone(),
            reporter,
            own: &self.own,
            looks,
            extent,
        };
        let mut session = Session::begin(parts, files, run)?;
        // Boxed: the future of a whole run is large.
        let ended = Box::pin(session.execute()).await;
        let whole_starts = session.has_whole_starts();
        let lost = session.run.rounds.last().is_some_and(|round| round.server.is_lost());
        let Session { run, mut reporter, .. } = session;
        let told = match ended {
            Ok(()) => told,
            // What was measured before the server failed for good is judged, and is no pass.
            Err(error) if error.kind() == ErrorKind::Server && (whole_starts || lost) => {
                reporter.event(&Event::Note { text: &error.render() });
                ConclusionInput { ended_early: Some(error.to_string()), ..told }
            }
            Err(error) => return Err(error),
        };
        let is_interrupted = interrupt.urgency() != Urgency::None;
        if is_interrupted && run.rounds.is_empty() {
            return Err(Error::new(
                ErrorKind::Interrupted,
                "interrupted before anything was measured",
            ));
        }
        if is_interrupted {
            let text = format!("to go on where it stopped, add `--resume {}`", run.id);
            reporter.event(&Event::Note { text: &text });
        }
        Ok(Measured { run, told: ConclusionInput { is_interrupted, ..told } })
    }

    /// The settings with as many starts as the looks need.
    fn planned_settings(&self) -> Result<Settings> {
        let mut settings = self.settings.clone();
        if !settings.looks.is_empty() {
            let bad = || {
                Error::usage("`--looks` is not a list of looks").with_hint(
                    "write up to ten ascending numbers of restarts, each at least 5, for example `5,8,12`",
                )
            };
            let looks = InterimLooks::at(&settings.looks).ok_or_else(bad)?;
            let asked = settings.starts.unwrap_or(0);
            settings.starts = Some(asked.max(looks.most_blocks()));
        }
        Ok(settings)
    }

    /// Only the checks.
    ///
    /// # Errors
    /// Where the server cannot be started or is not fit for a run.
    pub async fn preflight(&self, reporter: &mut dyn Reporter) -> Result<()> {
        let harness = self.settled()?;
        let plan = harness.plan_settled()?;
        let store = Store::open(&harness.settings.output_dir)?;
        run_record::preflight(&harness.settings, &plan, &store, reporter).await
    }

    /// A baseline that does not exist, or cannot be read whole, is reported before the run, not after it.
    fn check_baseline(&self, store: &Store) -> Result<()> {
        let BaselineChoice { save, append, .. } = &self.settings.baseline;
        for name in save.iter().chain(append) {
            store.baselines().check_writable(name)?;
        }
        let Some(name) = &self.settings.baseline.compare else { return Ok(()) };
        let baselines = store.baselines();
        if baselines.find(name)?.is_none() && self.settings.baseline.lenient {
            return Ok(());
        }
        baselines.load(name)?;
        analysis::runs::RunSet::named(store, name)?.measured(store).map(drop)
    }

    /// The ids of the selected load points, one a line.
    ///
    /// # Errors
    /// As [`Harness::plan`], but an empty list is none.
    pub fn list(&self, format: ListFormat) -> Result<String> {
        Ok(plan::list(&self.points()?, format))
    }
}

/// Refuses a gate on a number that the planned requests could not tell.
fn gates_can_be_judged(plan: &Plan, judge: &JudgeSettings) -> Result<()> {
    let Some(start) = plan.starts.first() else { return Ok(()) };
    for measure in judge.gate.iter().flatten() {
        let needed = validity::least_requests(*measure);
        for point in &plan.points {
            let rounds = start.rounds.iter().filter(|round| round.point == *point);
            let (mut requests, mut by_time) = (0, false);
            for round in rounds {
                requests += u64::from(round.stop.requests);
                by_time |= round.stop.min_time_s > 0.0;
            }
            if requests > 0 && requests < needed && !by_time {
                let (name, id) = (measure.name(), point.id());
                let text = format!(
                    "the gate on `{name}` cannot be judged at {id}: {requests} requests in a start, {needed} are needed"
                );
                return Err(Error::usage(text).with_hint(format!(
                    "raise `--num-prompts` to {needed}, or leave `{name}` out of the gate"
                )));
            }
        }
    }
    Ok(())
}
