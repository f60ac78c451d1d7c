//! What the user declares: groups of scenarios, their lengths, loads, prompts and limits.

mod caret;
pub mod content_hash;
pub mod file;
pub mod group;
pub mod length;
pub mod load;
pub mod matrix;
pub mod prompt;
pub mod slo;
pub mod source_location;
mod table;
mod value;
pub mod wordlist;

pub use group::{LoadPoint, REFERENCE_GROUP, REFERENCE_PER_S, Scenario, ScenarioGroup, points};
pub use length::Length;
pub use load::{Load, RequestRate};
pub use prompt::{Prompt, PromptSource, PromptSpec};
pub use slo::Slo;
pub use source_location::Place;
