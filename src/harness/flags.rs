//! Flags of a bench: kept until the bench file has had its word, so that they win.

use std::fmt;
use std::sync::Arc;

use crate::error::Result;
use crate::settings::Settings;

/// What the environment and the command line change.
#[derive(Clone)]
pub(super) struct Flags(Arc<Change>);

type Change = dyn Fn(&mut Settings) -> Result<()> + Send + Sync;

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Flags")
    }
}

impl Flags {
    pub(super) fn new(
        change: impl Fn(&mut Settings) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(change))
    }

    /// Lays them over the settings.
    ///
    /// # Errors
    /// Where the flags do not go with the settings.
    pub(super) fn apply(&self, settings: &mut Settings) -> Result<()> {
        (self.0)(settings)
    }
}
