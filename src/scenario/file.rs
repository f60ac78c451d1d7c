//! A scenario file: scenarios, servers and settings from TOML text.

use std::path::Path;

use toml::Spanned;

use super::caret::Source;
use super::table::{FileTable, GroupTable, ScenarioTable};
use super::{Load, Place, Scenario, ScenarioGroup};
use crate::error::{Error, Result};
use crate::settings::launch::LaunchSpec;
use crate::settings::overrides::{Overrides, ServerOverrides, set, set_some};
use crate::settings::{Settings, Target};

/// No scenario file is longer; a data set given by mistake is.
const MAX_BYTES: usize = 1 << 20;

/// The content of a scenario file; `None` for what is absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScenarioFile {
    /// The groups, in the order declared.
    pub groups: Vec<ScenarioGroup>,
    /// The server to measure.
    pub target: Option<Target>,
    /// How it is spoken to.
    pub server: ServerOverrides,
    /// The other side.
    pub against: Option<Target>,
    /// Settings that the file changes.
    pub overrides: Overrides,
}

impl ScenarioFile {
    /// Puts what the file says into the settings; the environment and flags come after, and win.
    pub fn apply(&self, settings: &mut Settings) {
        set(&mut settings.target, &self.target);
        self.server.apply(settings);
        set_some(&mut settings.against, &self.against);
        self.overrides.apply(settings);
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
    let (target, server) = match table.server {
        Some(server) => {
            let target = server.get_ref().launch().target();
            (target.map_err(|error| at(source, server.span(), &error))?, server.into_inner())
        }
        None => (None, ServerOverrides::default()),
    };
    let against = table.against.map(|against| against_target(against, &server, source));
    Ok(ScenarioFile {
        groups: groups(table.group, source)?,
        target,
        against: against.transpose()?.flatten(),
        server,
        overrides: table.run,
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

/// The other side. Launched by us, it is ready as the server is, unless it says otherwise.
fn against_target(
    table: Spanned<LaunchSpec>,
    server: &ServerOverrides,
    source: Source<'_>,
) -> Result<Option<Target>> {
    let span = table.span();
    let mut launch = table.into_inner();
    if launch.command.is_some() || launch.restart.is_some() {
        launch.ready_path = launch.ready_path.or_else(|| server.ready.clone());
        launch.ready_timeout = launch.ready_timeout.or(server.ready_timeout);
    }
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
