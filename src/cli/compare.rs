//! `compare` and `report`: from stored runs alone, without a server.

use std::path::PathBuf;

use clap::Args;

use super::args::{JudgeArgs, OutputArgs, OutputFormatArg};
use super::run::present;
use crate::analysis;
use crate::error::{Error, Result};
use crate::harness::{Action, Entry};
use crate::settings::Settings;
use crate::store::Store;

/// Stored runs or baselines; the first is the base.
#[derive(Debug, Args)]
pub(super) struct CompareCommand {
    /// Names of baselines, ids of runs (`inferometer runs`), or result files of other clients
    #[arg(value_name = "NAME", num_args = 2.., required = true)]
    names: Vec<String>,
    /// The same as `--output-format`
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with = "output_format")]
    format: Option<OutputFormatArg>,
    #[command(flatten)]
    judge: JudgeArgs,
    #[command(flatten)]
    output: OutputArgs,
}

impl CompareCommand {
    pub(super) fn run(&self) -> Result<u8> {
        let settings = self.settings()?;
        let store = Store::open(&settings.output_dir)?;
        let names = super::import::sides(&store, &self.names)?;
        let conclusion = analysis::compare_stored(&store, &names, &settings.judge)?;
        let mut output = self.output.clone();
        output.output_format = self.format.unwrap_or(output.output_format);
        present(&conclusion, output.surface(Action::Run, Entry::Command), None)
    }

    fn settings(&self) -> Result<Settings> {
        let mut settings = Settings::for_url("");
        self.judge.apply(&mut settings)?;
        self.output.apply(&mut settings);
        if settings.baseline != crate::settings::BaselineChoice::default() {
            return Err(Error::usage("`compare` takes its sides by name, not by `--baseline`")
                .with_hint("write `inferometer compare BASE NEW`"));
        }
        Ok(settings)
    }
}

/// Rebuild the report of one run.
#[derive(Debug, Args)]
pub(super) struct ReportCommand {
    /// Id of the run; default: the newest
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// Root of runs, baselines and reports
    #[command(flatten)]
    output: OutputArgs,
}

impl ReportCommand {
    pub(super) fn run(&self) -> Result<u8> {
        let mut settings = Settings::for_url("");
        self.output.apply(&mut settings);
        let store = Store::open(PathBuf::from(&settings.output_dir))?;
        let conclusion = analysis::rebuild_report(&store, self.run.as_deref(), &settings.judge)?;
        present(&conclusion, self.output.surface(Action::Run, Entry::Command), None)
    }
}
