//! `trend`: how the figures of a baseline went over its nights, and when they changed.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::analysis;
use crate::compare::gate;
use crate::compare::trend::Trend;
use crate::error::{Error, Result};
use crate::report::{terminal, trend};
use crate::settings::Settings;
use crate::store::Store;

/// Show when the figures of a baseline changed.
///
/// Over its nights (starts at least six hours apart): date and size of every change of level.
#[derive(Debug, Args)]
pub(super) struct TrendCommand {
    /// Name of a baseline
    #[arg(value_name = "NAME")]
    name: String,
    /// What stdout carries
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "terminal")]
    output_format: TrendFormat,
    /// Root of runs, baselines and reports
    #[arg(long, value_name = "DIR", env = "INFEROMETER_OUTPUT_DIR", hide_env = true)]
    output_dir: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TrendFormat {
    /// Sentences for people
    Terminal,
    /// Every night and change
    Json,
}

impl TrendCommand {
    pub(super) fn run(&self) -> Result<u8> {
        let root = match &self.output_dir {
            Some(dir) => dir.clone(),
            None => Settings::for_url("").output_dir,
        };
        let trend = analysis::trend(&Store::open(&root)?, &self.name)?;
        match self.output_format {
            TrendFormat::Terminal => terminal::print(&trend::render(&trend))?,
            TrendFormat::Json => terminal::print(&as_json(&trend)?)?,
        }
        Ok(gate::FINE)
    }
}

fn as_json(trend: &Trend) -> Result<String> {
    let text = serde_json::to_string_pretty(trend)
        .map_err(|e| Error::store("could not write the trend as JSON").with_cause(e))?;
    Ok(text + "\n")
}
