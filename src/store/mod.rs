//! What is kept on disk: runs, their rounds, baselines. The only module that touches files.

pub mod baseline;
mod baselines;
mod bundle;
pub mod calibrations;
pub mod files;
pub mod layout;
mod lock;
pub mod rounds;
pub mod runs;
mod whole_lines;

use std::path::PathBuf;

pub use baseline::Baseline;
#[cfg(test)]
pub use baselines::Baselines;
pub use layout::{Layout, run_id};
pub use rounds::RoundData;
pub use runs::RunWriter;

use crate::error::Result;

/// Everything below one output folder.
#[derive(Debug, Clone)]
pub struct Store {
    layout: Layout,
}

impl Store {
    /// Opens the store below `root`, making the folder where it is missing.
    ///
    /// # Errors
    /// Where the folder cannot be made.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self> {
        let layout = Layout::new(root);
        files::make_folder(layout.root())?;
        Ok(Self { layout })
    }

    /// Where things lie.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
}
