//! A scenario file: scenarios, servers and settings from TOML text.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value};
use toml::Spanned;

use super::caret::Source;
use super::table::{AgainstTable, FileTable, GroupTable, RunTable, ScenarioTable, ServerTable};
use super::{Load, Place, Scenario, ScenarioGroup};
use crate::error::{Error, Result};
use crate::rng::Seed;
use crate::settings::{ApiChoice, Launch, Settings, Target};

/// No scenario file is longer; a data set given by mistake is.
const MAX_BYTES: usize = 1 << 20;
/// Where a server that we launch listens unless a URL says otherwise.
pub const DEFAULT_URL: &str = "http://127.0.0.1:8000";
/// vLLM and SGLang answer here.
pub const DEFAULT_READY_PATH: &str = "/health";
/// A large model takes minutes to load and to compile.
pub const DEFAULT_READY_TIMEOUT: Duration = Duration::from_secs(1200);

/// What a scenario file says. What it does not say is none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScenarioFile {
    /// The groups, in the order declared.
    pub groups: Vec<ScenarioGroup>,
    /// The server to measure.
    pub server: Option<ServerSpec>,
    /// The other side.
    pub against: Option<Target>,
    /// Settings that the file changes.
    pub overrides: Overrides,
}

/// `[server]`: the server to measure and how it is spoken to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerSpec {
    /// Where it is and who starts it; none where only the rest is given.
    pub target: Option<Target>,
    /// The model's name.
    pub model: Option<String>,
    /// Completions or chat.
    pub api: Option<ApiChoice>,
    /// Headers of every request.
    pub headers: BTreeMap<String, String>,
    /// Fields merged into every request body.
    pub extra_body: Map<String, Value>,
}

/// How a server comes up, as flags and files say it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LaunchSpec {
    /// The base URL; none: [`DEFAULT_URL`] where we launch it.
    pub url: Option<String>,
    /// The command that runs it.
    pub command: Option<String>,
    /// The path that answers 200 when it is ready; none: [`DEFAULT_READY_PATH`].
    pub ready_path: Option<String>,
    /// How long to wait for that; none: [`DEFAULT_READY_TIMEOUT`].
    pub ready_timeout: Option<Duration>,
    /// The hook that restarts it.
    pub restart: Option<String>,
    /// The hook that stops it.
    pub stop: Option<String>,
}

impl LaunchSpec {
    /// The server it describes; none where it says nothing.
    ///
    /// # Errors
    /// Where a command and hooks are both given, or a stop hook or ready check without a launch.
    pub fn target(&self) -> Result<Option<Target>> {
        self.target_at(DEFAULT_URL)
    }

    /// The other side it describes: without a URL it listens where the judged server does, since the
    /// two take turns.
    ///
    /// # Errors
    /// As [`Self::target`].
    pub fn against(&self) -> Result<Option<Target>> {
        self.target_at("")
    }

    fn target_at(&self, default_url: &str) -> Result<Option<Target>> {
        let ready_path = self.ready_path.clone().unwrap_or_else(|| DEFAULT_READY_PATH.to_owned());
        let ready_timeout_s = self.ready_timeout.unwrap_or(DEFAULT_READY_TIMEOUT).as_secs_f64();
        let launch = match (&self.command, &self.restart) {
            (Some(_), Some(_)) => {
                return Err(Error::usage("both a server command and a restart hook are given")
                    .with_hint(
                        "a command is restarted by the harness itself: leave the hook out",
                    ));
            }
            (Some(_), None) if self.stop.is_some() => {
                return Err(Error::usage("both a server command and a stop hook are given")
                    .with_hint("a command is stopped by the harness itself: leave the hook out"));
            }
            (Some(command), None) => {
                Launch::Command { command: command.clone(), ready_path, ready_timeout_s }
            }
            (None, Some(restart)) => Launch::Hooks {
                restart: restart.clone(),
                stop: self.stop.clone(),
                ready_path,
                ready_timeout_s,
            },
            (None, None) => {
                if self.stop.is_some() || self.ready_path.is_some() || self.ready_timeout.is_some()
                {
                    return Err(Error::usage("a ready check or stop hook without a launch")
                        .with_hint("give the command or the restart hook that goes with it"));
                }
                let external = |url: &String| Target { url: url.clone(), launch: Launch::External };
                return Ok(self.url.as_ref().map(external));
            }
        };
        let url = self.url.clone().unwrap_or_else(|| default_url.to_owned());
        Ok(Some(Target { url, launch }))
    }
}

/// `[run]`: settings that the file changes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides(Vec<Override>);

/// One setting that the file changes.
#[derive(Debug, Clone, PartialEq)]
enum Override {
    Name(String),
    Starts(u32),
    Rounds(u32),
    Seed(Seed),
    NumPrompts(u32),
    MeasurementTime(Duration),
    WarmUpTime(Duration),
    ReferenceRequests(u32),
    CoolDown(Duration),
    Budget(Duration),
    Looks(Vec<u32>),
    SlotStart(crate::settings::SlotStart),
    IgnoreEos(crate::settings::TriState),
    ReplayPrompts(bool),
    MaxErrorRate(f64),
    StopWhenSaturated(bool),
    OutputDir(std::path::PathBuf),
    Metadata(BTreeMap<String, String>),
}

impl Override {
    fn apply(&self, settings: &mut Settings) {
        match self.clone() {
            Self::Name(name) => settings.name = Some(name),
            Self::Starts(starts) => settings.starts = starts,
            Self::Rounds(rounds) => settings.rounds = rounds,
            Self::Seed(seed) => settings.seed = seed,
            Self::NumPrompts(requests) => settings.num_prompts = Some(requests),
            Self::MeasurementTime(time) => settings.measurement_time = Some(time),
            Self::WarmUpTime(time) => settings.warm_up_time = time,
            Self::ReferenceRequests(requests) => settings.reference_requests = requests,
            Self::CoolDown(time) => settings.cool_down = time,
            Self::Budget(time) => settings.budget = Some(time),
            Self::Looks(looks) => settings.looks = looks,
            Self::SlotStart(start) => settings.slot_start = start,
            Self::IgnoreEos(choice) => settings.ignore_eos = choice,
            Self::ReplayPrompts(replay) => settings.replay_prompts = replay,
            Self::MaxErrorRate(rate) => settings.max_error_rate = rate,
            Self::StopWhenSaturated(stop) => settings.stop_when_saturated = stop,
            Self::OutputDir(folder) => settings.output_dir = folder,
            Self::Metadata(facts) => settings.metadata.extend(facts),
        }
    }
}

impl ScenarioFile {
    /// Puts what the file says into the settings; flags come after, and win.
    pub fn apply(&self, settings: &mut Settings) {
        if let Some(server) = &self.server {
            if let Some(target) = &server.target {
                settings.target = target.clone();
            }
            settings.model = server.model.clone().or(settings.model.take());
            settings.api = server.api.unwrap_or(settings.api);
            let headers = server.headers.iter().map(|(name, value)| (name.clone(), value.clone()));
            settings.headers.extend(headers);
            settings.extra_body.extend(server.extra_body.clone());
        }
        if let Some(against) = &self.against {
            settings.against = Some(against.clone());
        }
        for change in &self.overrides.0 {
            change.apply(settings);
        }
    }
}

/// Reads a scenario file. `file_name` is its path: it stands in errors and in the places of
/// scenarios, and prompt files are looked for beside it.
///
/// # Errors
/// Where the text is not TOML, has a key that there is not, or a value that cannot be: with line,
/// column and a caret under the piece meant.
pub fn parse(text: &str, file_name: &str) -> Result<ScenarioFile> {
    if text.len() > MAX_BYTES {
        return Err(Error::scenario(format!("{file_name} is longer than {MAX_BYTES} bytes"))
            .with_hint("prompts go into a JSONL file, named by `prompts`"));
    }
    let source = Source { name: file_name, text };
    let table: FileTable = toml::from_str(text).map_err(|error| explain(&error, source))?;
    let check = table.server.as_ref().map(|server| ReadyCheck::of(server.get_ref()));
    let server = table.server.map(|server| server_spec(server, source)).transpose()?;
    let against = table
        .against
        .map(|against| against_target(against, check.unwrap_or_default(), source))
        .transpose()?;
    Ok(ScenarioFile {
        groups: groups(table.group, source)?,
        server,
        against: against.flatten(),
        overrides: overrides(table.run.unwrap_or_default(), source)?,
    })
}

/// serde's words (which list the known keys), our caret.
fn explain(error: &toml::de::Error, source: Source<'_>) -> Error {
    let message = error.message().trim_end();
    let explained = source.error(error.span().unwrap_or(0..0), message);
    if message.contains("field `api_key") {
        return explained.with_hint(
            "keys stay out of files: set `INFEROMETER_API_KEY` or use `--api-key-file`",
        );
    }
    explained
}

fn server_spec(table: Spanned<ServerTable>, source: Source<'_>) -> Result<ServerSpec> {
    let span = table.span();
    let table = table.into_inner();
    let launch = LaunchSpec {
        url: table.url,
        command: table.command,
        ready_path: table.ready,
        ready_timeout: table.ready_timeout.map(|time| time.0),
        restart: table.restart,
        stop: table.stop,
    };
    let target = launch.target().map_err(|error| at(source, span, &error))?;
    Ok(ServerSpec {
        target,
        model: table.model,
        api: table.api,
        headers: table.headers,
        extra_body: table.extra_body,
    })
}

/// How `[server]` says that it is ready: so does a side of `[against]` that is launched and says
/// nothing else.
#[derive(Default)]
struct ReadyCheck {
    path: Option<String>,
    timeout: Option<Duration>,
}

impl ReadyCheck {
    fn of(table: &ServerTable) -> Self {
        Self { path: table.ready.clone(), timeout: table.ready_timeout.as_ref().map(|time| time.0) }
    }
}

fn against_target(
    table: Spanned<AgainstTable>,
    check: ReadyCheck,
    source: Source<'_>,
) -> Result<Option<Target>> {
    let span = table.span();
    let table = table.into_inner();
    let is_launched = table.command.is_some() || table.restart.is_some();
    let check = if is_launched { check } else { ReadyCheck::default() };
    let launch = LaunchSpec {
        url: table.url,
        command: table.command,
        ready_path: table.ready.or(check.path),
        ready_timeout: table.ready_timeout.map(|time| time.0).or(check.timeout),
        restart: table.restart,
        stop: table.stop,
    };
    launch.against().map_err(|error| at(source, span, &error))
}

/// An error that another part found, with its place in the file.
fn at(source: Source<'_>, span: std::ops::Range<usize>, error: &Error) -> Error {
    let placed = source.error(span, &error.to_string());
    match error.hint() {
        Some(hint) => placed.with_hint(hint.to_owned()),
        None => placed,
    }
}

fn groups(tables: Vec<GroupTable>, source: Source<'_>) -> Result<Vec<ScenarioGroup>> {
    tables
        .into_iter()
        .map(|table| {
            let scenarios =
                table.scenario.into_iter().map(|scenario| scenario_of(scenario, source));
            Ok(ScenarioGroup { name: table.name, scenarios: scenarios.collect::<Result<_>>()? })
        })
        .collect()
}

fn scenario_of(table: ScenarioTable, source: Source<'_>) -> Result<Scenario> {
    let line = source.line(table.name.span().start);
    let mut scenario = Scenario::new(table.name.into_inner())
        .declared_at(Place::named(format!("{}:{line}", source.name)));
    let lengths = |list: Option<super::value::OneOrMany<super::value::LengthValue>>| {
        list.map(|list| list.0.into_iter().map(|length| length.0).collect()).unwrap_or_default()
    };
    scenario.inputs = lengths(table.input);
    scenario.outputs = lengths(table.output);
    if let Some(list) = table.concurrency {
        scenario = scenario.sweep(Load::concurrency, list.0);
    }
    if table.request_rate.is_none() {
        let lone = table.burstiness.as_ref().map(Spanned::span);
        if let Some(span) = lone.or(table.max_concurrency.as_ref().map(Spanned::span)) {
            return Err(source
                .error(span, "this shapes a request rate, and none is given")
                .with_hint("give `request_rate`, or leave this out"));
        }
    }
    let burstiness = table.burstiness.map_or(1.0, Spanned::into_inner);
    let cap = table.max_concurrency.map(Spanned::into_inner);
    for per_s in table.request_rate.map(|list| list.0).unwrap_or_default() {
        let mut rate = Load::request_rate(per_s).burstiness(burstiness);
        rate.max_concurrency = cap;
        scenario = scenario.load(rate);
    }
    if let Some(path) = table.prompts {
        // Relative to the scenario file, so that it does not matter where the command is run.
        let folder = Path::new(source.name).parent().unwrap_or(Path::new(""));
        scenario = scenario.prompts_from(folder.join(path));
    }
    scenario.slo = table.goodput;
    scenario.num_prompts = table.num_prompts;
    scenario.measurement_time_s = table.measurement_time.map(|time| time.0.as_secs_f64());
    Ok(scenario)
}

fn overrides(table: RunTable, source: Source<'_>) -> Result<Overrides> {
    let positive = |value: Option<Spanned<u32>>| match value {
        Some(count) if *count.get_ref() == 0 => {
            Err(source.error(count.span(), "this must be at least 1"))
        }
        value => Ok(value.map(Spanned::into_inner)),
    };
    if let Some(rate) = &table.max_error_rate
        && !(0.0..=1.0).contains(rate.get_ref())
    {
        return Err(source.error(rate.span(), "an error rate is between 0 and 1"));
    }
    let changes = [
        table.name.map(Override::Name),
        positive(table.starts)?.map(Override::Starts),
        positive(table.rounds)?.map(Override::Rounds),
        table.seed.map(|seed| Override::Seed(Seed(seed))),
        positive(table.num_prompts)?.map(Override::NumPrompts),
        table.measurement_time.map(|time| Override::MeasurementTime(time.0)),
        table.warm_up_time.map(|time| Override::WarmUpTime(time.0)),
        positive(table.reference_requests)?.map(Override::ReferenceRequests),
        table.cool_down.map(|time| Override::CoolDown(time.0)),
        table.budget.map(|time| Override::Budget(time.0)),
        table.looks.map(Override::Looks),
        table.slot_start.map(Override::SlotStart),
        table.ignore_eos.map(Override::IgnoreEos),
        table.replay_prompts.map(Override::ReplayPrompts),
        table.max_error_rate.map(|rate| Override::MaxErrorRate(rate.into_inner())),
        table.stop_when_saturated.map(Override::StopWhenSaturated),
        table.output_dir.map(Override::OutputDir),
        Some(Override::Metadata(metadata(table.metadata, source)?)),
    ];
    let kept = |change: &Override| !matches!(change, Override::Metadata(facts) if facts.is_empty());
    Ok(Overrides(changes.into_iter().flatten().filter(kept).collect()))
}

/// Facts as text: `2048`, `true` and `"fp8"` are all fine, tables are not.
fn metadata(
    table: BTreeMap<String, Spanned<toml::Value>>,
    source: Source<'_>,
) -> Result<BTreeMap<String, String>> {
    let fact = |(name, value): (String, Spanned<toml::Value>)| {
        let text = match value.get_ref() {
            toml::Value::String(text) => text.clone(),
            toml::Value::Array(_) | toml::Value::Table(_) => {
                return Err(source.error(value.span(), "a fact is a text, a number or a truth"));
            }
            plain => plain.to_string(),
        };
        Ok((name, text))
    };
    table.into_iter().map(fact).collect()
}
