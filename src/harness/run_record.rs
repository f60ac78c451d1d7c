//! Before the first byte: the plan is reported, and the run's record is begun.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::server_handle::{self, SideServer};
use super::{Detail, session};
use crate::clock::Clock;
use crate::environment;
use crate::error::Result;
use crate::plan::{Phase, Plan, Side};
use crate::preflight::{self, Demands};
use crate::record::stored::{DEFINITIONS, RunStatus, SCHEMA, StoredPoint, StoredSide};
use crate::record::{Severity, StoredRun};
use crate::report::lossy::LossyReporter;
use crate::report::progress::{Event, Reporter};
use crate::report::terminal;
use crate::rng::Seed;
use crate::scenario::LoadPoint;
use crate::server;
use crate::settings::{Launch, PromptForm, Settings, extra_body};
use crate::store::{Store, run_id};
use crate::transport::Redactor;

/// The first lines of a run: on what it runs, what will run, how long and how many tokens it takes.
pub(super) fn announce(
    settings: &Settings,
    plan: &Plan,
    detail: Detail,
    reporter: &mut LossyReporter<'_>,
) {
    if let Launch::Simulator { preset, slowdown } = &settings.target.launch {
        let text = match settings.no_server_given {
            true => format!("no server given: running the embedded simulator (preset {preset})"),
            false => format!("running the embedded simulator, as asked (preset {preset})"),
        };
        reporter.event(&Event::Note { text: &text });
        #[allow(clippy::float_cmp)] // exactly the default, or not
        if *slowdown != 1.0 {
            let text = format!("the simulator is slowed by a factor of {slowdown}");
            reporter.event(&Event::Note { text: &text });
        }
    }
    let rounds = plan.starts.iter().map(|start| start.rounds.len() as u64).sum();
    let text = match detail {
        Detail::Verbose => plan.describe(terminal::width()),
        _ => plan.announcement(terminal::width()),
    };
    reporter.event(&Event::RunStarted { plan: &text, rounds });
}

/// The record of a run that has measured nothing yet.
pub(super) fn new_run(settings: &Settings, plan: &Plan, clock: Clock) -> StoredRun {
    let started_at = clock.wall_origin();
    let salt = if settings.replay_prompts {
        Seed(0).named("replayed")
    } else {
        #[allow(clippy::cast_sign_loss)] // only its bits matter
        Seed(started_at.as_nanosecond() as u64).named("salt")
    };
    let secrets = secrets(settings);
    let hidden = |values: BTreeMap<String, String>| -> BTreeMap<String, String> {
        values.into_iter().map(|(name, value)| (name, secrets.redact(&value))).collect()
    };
    StoredRun {
        schema: SCHEMA,
        id: run_id(started_at, settings.name.as_deref(), &plan.workload_hash),
        name: settings.name.clone(),
        started_at,
        ended_at: None,
        status: RunStatus::Running,
        tool: concat!("inferometer ", env!("CARGO_PKG_VERSION")).to_owned(),
        definitions: DEFINITIONS.to_owned(),
        command_line: command_line(settings),
        design: plan.design,
        seed: plan.seed,
        salt,
        workload_hash: plan.workload_hash.clone(),
        sides: BTreeMap::from([(Side::New, StoredSide::default())]),
        environment: hidden(environment::collect()),
        metadata: hidden(settings.metadata.clone()),
        settings: hidden(settings_text(settings)),
        points: stored_points(plan),
        starts: Vec::new(),
        rounds: Vec::new(),
        findings: Vec::new(),
    }
}

/// Keeps the hashes of the prompt files: other prompts make a comparison incomparable.
pub(super) fn note_datasets(run: &mut StoredRun, hashes: &BTreeMap<PathBuf, String>) {
    for (path, hash) in hashes {
        run.note_dataset(path, hash);
    }
}

/// The command line: the program by its name alone, secrets redacted.
fn command_line(settings: &Settings) -> Vec<String> {
    let mut arguments = std::env::args();
    let program = arguments.next().unwrap_or_default();
    let program = Path::new(&program).file_name().map(|name| name.to_string_lossy().into_owned());
    let secrets = secrets(settings);
    let rest = arguments.map(|argument| server::redact_argument(&secrets.redact(&argument)));
    program.into_iter().chain(rest).collect()
}

/// Every secret that the settings hold, by value.
fn secrets(settings: &Settings) -> Redactor {
    Redactor::new(
        settings.api_key.as_ref(),
        &settings.headers,
        &extra_body::secrets(&settings.extra_body),
    )
}

fn stored_points(plan: &Plan) -> Vec<StoredPoint> {
    let stored = |phase: Phase| {
        move |point: &LoadPoint| StoredPoint { id: point.id(), phase, point: point.clone() }
    };
    let references = plan.references.iter().map(stored(Phase::Reference));
    let phase = if plan.searches() { Phase::Search } else { Phase::Load };
    references.chain(plan.points.iter().map(stored(phase))).collect()
}

/// The settings that shape the figures, as text.
fn settings_text(settings: &Settings) -> BTreeMap<String, String> {
    let mut text = BTreeMap::new();
    let mut put = |name: &str, value: String| text.insert(name.to_owned(), value);
    put("starts", settings.planned_starts().to_string());
    if !settings.looks.is_empty() {
        put("looks", settings.looks.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
    }
    put("rounds", settings.rounds.to_string());
    put("slot_start", format!("{:?}", settings.slot_start).to_lowercase());
    if let Some(search) = settings.search {
        put("search", format!("{search:?}").to_lowercase());
    }
    put("warm_up_time_s", settings.warm_up_time.as_secs_f64().to_string());
    put("cool_down_s", settings.cool_down.as_secs_f64().to_string());
    put("reference_requests", settings.reference_requests.to_string());
    put("max_error_rate", settings.max_error_rate.to_string());
    put("replay_prompts", settings.replay_prompts.to_string());
    if settings.prompt_form != PromptForm::Auto {
        put("prompt_form", format!("{:?}", settings.prompt_form).to_lowercase());
    }
    for (name, left_out) in [
        ("preflight", settings.skip.preflight),
        ("warm_up", settings.skip.warm_up),
        ("reference", settings.skip.reference),
        ("burn_in", settings.skip.burn_in),
    ] {
        if left_out {
            put(&format!("no_{name}"), "true".to_owned());
        }
    }
    text
}

/// Only the checks, on each side.
pub(super) async fn preflight(
    settings: &Settings,
    plan: &Plan,
    store: &Store,
    reporter: &mut dyn Reporter,
) -> Result<()> {
    let clock = Clock::start();
    for (side, target) in server_handle::targets(settings) {
        let mut server = SideServer::new(side, &target, settings, store, "preflight")?;
        let started = server.start(0, clock).await?;
        let client = server_handle::client(&started.url, settings, session::SPARE_CONNECTIONS)?;
        let report = preflight::run(&client, clock, settings, Demands::of(&plan.points)).await;
        server.finish().await?;
        // What ends the checks is reported once, as their error.
        for finding in report.findings.iter().filter(|f| f.severity != Severity::Fatal) {
            reporter.event(&Event::Finding(finding))?;
        }
        if let Some(error) = report.fatal() {
            return Err(error);
        }
        reporter.event(&Event::Note { text: &format!("ready: {}", report.summary()) })?;
    }
    Ok(())
}
