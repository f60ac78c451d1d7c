//! Where prompts come from.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::rng::Seed;

/// A prompt as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// Text, counted by the server.
    Text(String),
    /// Token ids: exact lengths, completions only.
    Tokens(Vec<u32>),
}

/// The prompt of request `index`, from its own seed: independent of any other request, of order and
/// of the number of workers.
pub trait PromptSource: Send + Sync {
    /// The prompt of about `tokens` tokens (exact where token ids are used).
    ///
    /// # Errors
    /// Where the source has nothing to give, for example an empty file.
    fn prompt(&self, index: u64, tokens: u32, seed: Seed) -> Result<Prompt>;

    /// A hash of the content, for the identity of the dataset; none where it is all in the seed.
    fn content_hash(&self) -> Option<String> {
        None
    }
}

/// Which source a scenario uses.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptSpec {
    /// Synthetic prompts of the asked number of tokens.
    #[default]
    Synthetic,
    /// One prompt a line: `{"prompt": "…", "output_tokens": 128}` (`output_tokens` optional).
    Jsonl {
        /// The file.
        path: PathBuf,
    },
}
