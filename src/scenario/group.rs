//! Groups of scenarios, and the load points they unfold to.

use serde::{Deserialize, Serialize};

use super::{Length, Load, PromptSpec, Slo};

/// A named list of scenarios.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScenarioGroup {
    /// The name, unique in a run.
    pub name: String,
    /// Its scenarios, in the order declared.
    pub scenarios: Vec<Scenario>,
}

/// Lengths against loads.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The name, unique in its group.
    pub name: String,
    /// Prompt lengths; more than one sweeps.
    pub inputs: Vec<Length>,
    /// Answer lengths; more than one sweeps.
    pub outputs: Vec<Length>,
    /// Loads, in the order they run up.
    pub loads: Vec<Load>,
    /// Where prompts come from.
    pub prompt: PromptSpec,
    /// Limits for goodput.
    pub slo: Option<Slo>,
    /// Measured requests a round; none: the default for the load.
    pub num_prompts: Option<u32>,
    /// Least measured time a round, seconds.
    pub measurement_time_s: Option<f64>,
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
    /// Least measured time a round, seconds.
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
