//! `explain`: how the verdict on one figure came about.

use std::path::PathBuf;

use clap::Args;

use crate::analysis;
use crate::compare::gate;
use crate::error::Result;
use crate::metric::Measure;
use crate::report::terminal;
use crate::settings::Settings;
use crate::store::Store;

/// Show every number behind a verdict.
///
/// Values of each start, estimate, variances, t, p, correction for many cells, floor and decision:
/// enough to redo it by hand.
#[derive(Debug, Args)]
pub(super) struct ExplainCommand {
    /// Load point as the report names it, or a part that only one load point has
    #[arg(value_name = "ID")]
    point: String,
    /// The figure: tpot_mean, ttft_p50, itl_p50, output_throughput, ...
    #[arg(value_name = "METRIC")]
    measure: Measure,
    /// Id of the run; default: the newest
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Root of runs, baselines and reports
    #[arg(long, value_name = "DIR", env = "INFEROMETER_OUTPUT_DIR", hide_env = true)]
    output_dir: Option<PathBuf>,
}

impl ExplainCommand {
    pub(super) fn run(&self) -> Result<u8> {
        let root = match &self.output_dir {
            Some(dir) => dir.clone(),
            None => Settings::for_url("").output_dir,
        };
        let store = Store::open(&root)?;
        let text = analysis::explained(&store, self.run.as_deref(), &self.point, self.measure)?;
        terminal::print(&text)?;
        Ok(gate::FINE)
    }
}
