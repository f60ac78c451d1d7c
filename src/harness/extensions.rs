//! What a caller brings along in code: a prompt source, a dialect.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::api::Dialect;
use crate::plan::OWN_PROMPTS;
use crate::scenario::PromptSource;

/// The caller's own parts; none: ours.
#[derive(Clone, Default)]
pub(super) struct Extensions {
    pub(super) prompts: Option<Arc<dyn PromptSource>>,
    pub(super) dialect: Option<Arc<dyn Dialect>>,
}

impl Extensions {
    /// The hashes of prompt files with that of the caller's own prompts.
    pub(super) fn with_hash(
        &self,
        mut hashes: BTreeMap<PathBuf, String>,
    ) -> BTreeMap<PathBuf, String> {
        if let Some(prompts) = &self.prompts {
            let hash = prompts.content_hash().unwrap_or_else(|| "own".to_owned());
            hashes.insert(PathBuf::from(OWN_PROMPTS), hash);
        }
        hashes
    }
}

/// Prompts are the same by object or content, dialects by object or name.
impl PartialEq for Extensions {
    fn eq(&self, other: &Self) -> bool {
        let same_prompts = match (&self.prompts, &other.prompts) {
            (None, None) => true,
            (Some(a), Some(b)) => {
                let hash = a.content_hash();
                Arc::ptr_eq(a, b) || (hash.is_some() && hash == b.content_hash())
            }
            _ => false,
        };
        let same_dialect = match (&self.dialect, &other.dialect) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a.name() == b.name(),
            _ => false,
        };
        same_prompts && same_dialect
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extensions")
            .field("prompts", &self.prompts.is_some())
            .field("dialect", &self.dialect.as_ref().map(|dialect| dialect.name()))
            .finish()
    }
}
