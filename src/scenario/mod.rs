//! What the user declares: groups of scenarios, their lengths, loads, prompts and limits.

mod caret;
pub mod digest;
pub mod file;
pub mod group;
pub mod length;
pub mod load;
pub mod matrix;
pub mod place;
pub mod prompt;
pub mod slo;
mod table;
mod value;
pub mod words;

pub use file::ScenarioFile;
pub use group::{LoadPoint, REFERENCE_GROUP, Scenario, ScenarioGroup, points};
pub use length::Length;
pub use load::{Load, RequestRate};
pub use place::Place;
pub use prompt::{Prompt, PromptSource, PromptSpec};
pub use slo::Slo;
