//! What the user declares: groups of scenarios, their lengths, loads, prompts and limits.

pub mod file;
pub mod group;
pub mod length;
pub mod load;
pub mod prompt;
pub mod slo;

pub use group::{LoadPoint, Scenario, ScenarioGroup};
pub use length::Length;
pub use load::Load;
pub use prompt::{Prompt, PromptSource, PromptSpec};
pub use slo::Slo;
