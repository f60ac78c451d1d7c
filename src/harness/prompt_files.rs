//! Prompts of a run: token ids where the server takes them, counted words elsewhere, or a file's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Result;
use crate::plan::Plan;
use crate::preflight::PreflightReport;
use crate::rng::Seed;
use crate::scenario::prompt::{JsonlPrompts, SyntheticText, SyntheticTokens};
use crate::scenario::{LoadPoint, PromptSource, PromptSpec};
use crate::store::files;

/// The prompt files of a plan, read once.
#[derive(Debug, Default)]
pub(super) struct PromptFiles(BTreeMap<PathBuf, JsonlPrompts>);

impl PromptFiles {
    /// Reads every file that the plan names.
    pub(super) fn read(plan: &Plan) -> Result<Self> {
        let mut read = BTreeMap::new();
        for point in &plan.points {
            if let PromptSpec::Jsonl { path } = &point.prompt
                && !read.contains_key(path)
            {
                let text = files::read_text(path)?;
                let prompts = JsonlPrompts::parse(&text, &path.display().to_string())?;
                read.insert(path.clone(), prompts);
            }
        }
        Ok(Self(read))
    }

    /// Path → hash of the content, for the workload's identity.
    pub(super) fn hashes(&self) -> BTreeMap<PathBuf, String> {
        let hash = |(path, prompts): (&PathBuf, &JsonlPrompts)| {
            Some((path.clone(), prompts.content_hash()?))
        };
        self.0.iter().filter_map(hash).collect()
    }

    fn get(&self, path: &Path) -> Option<&JsonlPrompts> {
        self.0.get(path)
    }

    /// The source for a load point. `first` is the line that its first request takes from a file.
    pub(super) fn source(
        &self,
        point: &LoadPoint,
        found: &PreflightReport,
        salt: Seed,
        first: u64,
    ) -> Arc<dyn PromptSource> {
        if let PromptSpec::Jsonl { path } = &point.prompt
            && let Some(prompts) = self.get(path)
        {
            return Arc::new(prompts.starting_at(first));
        }
        match (&found.token_ids, found.offers.token_prompts) {
            (Some(ids), true) if !ids.is_empty() => {
                Arc::new(SyntheticTokens::new(ids.clone(), salt))
            }
            _ => {
                let calibration = found.text_calibration.unwrap_or_default();
                Arc::new(SyntheticText::new(calibration, salt))
            }
        }
    }
}
