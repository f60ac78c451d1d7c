//! Flags of a bench: kept until the bench file has had its word, so that they win.

use std::fmt;
use std::sync::Arc;

use super::Harness;
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

impl Harness {
    /// Lays `flags` over the settings now, so that code sees them, and again over what code sets.
    ///
    /// # Errors
    /// Where the flags are wrong.
    pub(crate) fn with_flags(
        mut self,
        flags: impl Fn(&mut Settings) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Self> {
        flags(&mut self.settings)?;
        self.flags = Some(Flags(Arc::new(flags)));
        Ok(self)
    }

    /// The harness as it runs: the environment and flags over what code set.
    ///
    /// # Errors
    /// Where the flags do not go with what code set.
    pub(crate) fn settled(&self) -> Result<Self> {
        let mut settled = self.clone();
        if let Some(flags) = settled.flags.take() {
            (flags.0)(&mut settled.settings)?;
        }
        Ok(settled)
    }
}
