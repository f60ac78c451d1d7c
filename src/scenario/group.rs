//! Groups of scenarios, and the load points they unfold to.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Length, Load, Place, PromptSpec, Slo};
use crate::error::{Error, Result};

/// More load points than a week of rounds: a sweep of sweeps gone wrong.
const MAX_POINTS: usize = 10_000;
/// Names become folder names, of which three and a suffix must fit a path.
const MAX_NAME_BYTES: usize = 100;
/// The group of the rate-1 references; see [`crate::plan`].
pub const REFERENCE_GROUP: &str = "reference";

/// The arrivals of a reference, per second.
pub const REFERENCE_PER_S: f64 = 1.0;

/// A named list of scenarios.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScenarioGroup {
    /// The name. Groups of one name are one group as long as their ids differ.
    pub name: String,
    /// Its scenarios, in the order declared.
    pub scenarios: Vec<Scenario>,
}

impl ScenarioGroup {
    /// An empty group.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), scenarios: Vec::new() }
    }

    /// Adds a scenario.
    pub fn scenario(&mut self, scenario: Scenario) -> &mut Self {
        self.scenarios.push(scenario);
        self
    }

    /// The load points, in the order declared: lengths outside, loads inside.
    ///
    /// # Errors
    /// Where a scenario is wrong (a length, a load, a limit) or two load points have one id.
    pub fn points(&self) -> Result<Vec<LoadPoint>> {
        points(std::slice::from_ref(self))
    }
}

/// Lengths against loads.
///
/// ```
/// use inferometer::{Load, Scenario, ScenarioGroup, Slo};
///
/// let mut chat = ScenarioGroup::new("chat");
/// chat.scenario(
///     Scenario::new("short").input(512).output(128).sweep(Load::concurrency, [1, 4, 16, 64])
///         .goodput(Slo::new().ttft_ms(200).tpot_ms(30)),
/// ).scenario(
///     Scenario::new("bursts").inputs([512, 4096]).output(128)
///         .load(Load::request_rate(20.0).burstiness(0.5)),
/// );
/// let ids: Vec<String> = chat.points()?.iter().map(|point| point.id()).collect();
/// assert_eq!(ids[3..5], ["chat/short/c64", "chat/bursts-512x128/r20b0.5"]);
/// # Ok::<(), inferometer::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The name, unique in its group.
    pub name: String,
    /// Prompt lengths; more than one sweeps.
    pub inputs: Vec<Length>,
    /// Answer lengths; more than one sweeps.
    pub outputs: Vec<Length>,
    /// Loads, in the order declared.
    pub loads: Vec<Load>,
    /// Where prompts come from.
    pub prompt: PromptSpec,
    /// Limits for goodput.
    pub slo: Option<Slo>,
    /// Measured requests a round; none: the default for the load.
    pub num_prompts: Option<u32>,
    /// Minimum measured time a round, seconds.
    pub measurement_time_s: Option<f64>,
    /// Where it was declared; no part of the value.
    pub place: Place,
}

impl Scenario {
    /// A scenario without lengths and loads yet. Mistakes surface when the group is unfolded.
    #[track_caller]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            loads: Vec::new(),
            prompt: PromptSpec::Synthetic,
            slo: None,
            num_prompts: None,
            measurement_time_s: None,
            place: Place::caller(),
        }
    }

    /// Sets the prompt length, tokens.
    #[must_use]
    pub fn input(self, length: impl Into<Length>) -> Self {
        self.inputs([length])
    }

    /// Sweeps the prompt length, tokens; the report's x-axis can then be the length.
    #[must_use]
    pub fn inputs<L: Into<Length>>(mut self, lengths: impl IntoIterator<Item = L>) -> Self {
        self.inputs = lengths.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the answer length, tokens.
    #[must_use]
    pub fn output(self, length: impl Into<Length>) -> Self {
        self.outputs([length])
    }

    /// Sweeps the answer length, tokens.
    #[must_use]
    pub fn outputs<L: Into<Length>>(mut self, lengths: impl IntoIterator<Item = L>) -> Self {
        self.outputs = lengths.into_iter().map(Into::into).collect();
        self
    }

    /// Adds a load.
    #[must_use]
    pub fn load(mut self, load: impl Into<Load>) -> Self {
        self.loads.push(load.into());
        self
    }

    /// Adds a load for every value: `sweep(Load::concurrency, [1, 4, 16, 64])`.
    #[must_use]
    pub fn sweep<V, L: Into<Load>>(
        mut self,
        make: impl Fn(V) -> L,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        self.loads.extend(values.into_iter().map(|value| make(value).into()));
        self
    }

    /// Sets the limits that a request must meet to count as good.
    #[must_use]
    pub fn goodput(mut self, slo: Slo) -> Self {
        self.slo = Some(slo);
        self
    }

    /// Takes prompts from a JSONL file, one `{"prompt": "…", "output_tokens": 128}` a line.
    #[must_use]
    pub fn prompts_from(mut self, path: impl Into<PathBuf>) -> Self {
        self.prompt = PromptSpec::Jsonl { path: path.into() };
        self
    }

    /// Sets the measured requests of a round.
    #[must_use]
    pub fn num_prompts(mut self, requests: u32) -> Self {
        self.num_prompts = Some(requests);
        self
    }

    /// Sets the least measured time of a round.
    #[must_use]
    pub fn measurement_time(mut self, time: Duration) -> Self {
        self.measurement_time_s = Some(time.as_secs_f64());
        self
    }

    /// Says where it was declared, where that is not where `new` was called.
    #[must_use]
    pub fn declared_at(mut self, place: Place) -> Self {
        self.place = place;
        self
    }

    /// Whether its parts make sense, each by itself.
    fn check(&self) -> Result<()> {
        check_name("scenario", &self.name)?;
        let lacks = |what: &str, hint: &str| {
            Err(Error::scenario(format!("no {what} is given")).with_hint(hint.to_owned()))
        };
        if self.inputs.is_empty() && self.prompt == PromptSpec::Synthetic {
            return lacks("input length", "for example 512 tokens, or take prompts from a file");
        }
        if self.outputs.is_empty() {
            return lacks("output length", "for example 128 tokens");
        }
        if self.loads.is_empty() {
            return lacks("load", "for example concurrency 1, 4 and 16, or a request rate");
        }
        self.inputs.iter().chain(&self.outputs).try_for_each(Length::check)?;
        if self.outputs.contains(&Length::OfPrompt) {
            return lacks("output length", "it holds for the lines that give no `output_tokens`");
        }
        if !self.inputs.is_empty() && self.prompt != PromptSpec::Synthetic {
            return Err(Error::scenario("both an input length and a prompt file are given")
                .with_hint("the prompts of a file are as long as they are: leave the length out"));
        }
        self.loads.iter().try_for_each(Load::check)?;
        self.slo.map_or(Ok(()), |slo| slo.check())?;
        if self.num_prompts == Some(0) {
            return Err(Error::scenario("0 prompts measure nothing"));
        }
        match self.measurement_time_s {
            Some(time) if !(time > 0.0 && time.is_finite()) => {
                Err(Error::scenario(format!("a measurement time of {time} s measures nothing")))
            }
            _ => Ok(()),
        }
    }

    /// Its load points, lengths outside, loads inside.
    fn unfold(&self, group: &str) -> Vec<LoadPoint> {
        let of_prompt = [Length::OfPrompt];
        let inputs = if self.inputs.is_empty() { &of_prompt[..] } else { &self.inputs[..] };
        let sweeps = inputs.len() > 1 || self.outputs.len() > 1;
        let mut points = Vec::new();
        for input in inputs {
            for output in &self.outputs {
                let scenario = if sweeps {
                    format!("{}-{}x{}", self.name, input.label(), output.label())
                } else {
                    self.name.clone()
                };
                points.extend(self.loads.iter().map(|load| LoadPoint {
                    group: group.to_owned(),
                    scenario: scenario.clone(),
                    input: input.clone(),
                    output: output.clone(),
                    load: *load,
                    prompt: self.prompt.clone(),
                    slo: self.slo,
                    num_prompts: self.num_prompts,
                    measurement_time_s: self.measurement_time_s,
                }));
            }
        }
        points
    }
}

/// One load of one scenario with one pair of lengths: what a round measures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadPoint {
    /// The group's name.
    pub group: String,
    /// The scenario's name (with its lengths where it sweeps them: `short-512x128`).
    pub scenario: String,
    /// Prompt length.
    pub input: Length,
    /// Answer length.
    pub output: Length,
    /// The load.
    pub load: Load,
    /// Where prompts come from.
    pub prompt: PromptSpec,
    /// Limits for goodput.
    pub slo: Option<Slo>,
    /// Measured requests a round; none: the default for the load.
    pub num_prompts: Option<u32>,
    /// Minimum measured time a round, seconds.
    pub measurement_time_s: Option<f64>,
}

impl LoadPoint {
    /// The id: `group/scenario/load`, for example `chat/short/c16`.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}/{}/{}", self.group, self.scenario, self.load.id())
    }
}

impl LoadPoint {
    /// Whether every request asks for the same lengths.
    #[must_use]
    pub fn lengths_are_fixed(&self) -> bool {
        matches!((&self.input, &self.output), (Length::Fixed(_), Length::Fixed(_)))
            && self.prompt == PromptSpec::Synthetic
    }
}

/// Unfolds groups to load points, in the order declared.
///
/// # Errors
/// Where a scenario lacks a part or has one that cannot be, or where two load points have the same
/// id: both places are named.
pub fn points(groups: &[ScenarioGroup]) -> Result<Vec<LoadPoint>> {
    let mut points = Vec::new();
    let mut seen: HashMap<String, &Place> = HashMap::new();
    for group in groups {
        for scenario in &group.scenarios {
            check_group_name(&group.name).and_then(|()| scenario.check()).map_err(|error| {
                let hint = error.hint().map(str::to_owned);
                let outer = Error::scenario(format!(
                    "scenario `{}/{}` at {}",
                    group.name, scenario.name, scenario.place
                ))
                .with_cause(error);
                match hint {
                    Some(hint) => outer.with_hint(hint),
                    None => outer,
                }
            })?;
            // Counted before it is built: two sweeps of 100 000 lengths would not fit in memory.
            let count = scenario
                .inputs
                .len()
                .max(1)
                .saturating_mul(scenario.outputs.len())
                .saturating_mul(scenario.loads.len());
            if points.len().saturating_add(count) > MAX_POINTS {
                return Err(Error::scenario(format!("more than {MAX_POINTS} load points")));
            }
            for point in scenario.unfold(&group.name) {
                let id = point.id();
                if let Some(first) = seen.get(&id) {
                    return Err(duplicate(&id, first, &scenario.place));
                }
                seen.insert(id, &scenario.place);
                points.push(point);
            }
        }
    }
    Ok(points)
}

fn duplicate(id: &str, first: &Place, second: &Place) -> Error {
    Error::scenario(format!("load point `{id}` is declared twice: at {first} and at {second}"))
        .with_hint("give one of the scenarios another name")
}

fn check_group_name(name: &str) -> Result<()> {
    if name == REFERENCE_GROUP {
        return Err(Error::scenario(format!("the group name `{name}` is taken"))
            .with_hint("the rate-1 references stand there"));
    }
    check_name("group", name)
}

/// Names become parts of ids and of paths.
fn check_name(what: &str, name: &str) -> Result<()> {
    let why = if name.is_empty() {
        "is empty"
    } else if name.len() > MAX_NAME_BYTES {
        "is longer than 100 bytes"
    } else if name.trim() != name {
        "begins or ends with a space"
    } else if name.starts_with('.') {
        "begins with a dot"
    } else if name.contains(|c: char| c.is_control() || r#"/\:*?"<>|"#.contains(c)) {
        r#"holds a control character or one of `/ \ : * ? " < > |`"#
    } else {
        return Ok(());
    };
    Err(Error::scenario(format!("the {what} name `{}` {why}", name.escape_debug()))
        .with_hint("names become parts of ids (`group/scenario/c16`) and of paths"))
}
