//! Export: measured figures in the files of other tools.

mod bencher;
mod criterion;
mod file;
mod github;
mod llm_d;
mod measured;
mod openmetrics;
mod sglang;
pub(crate) mod vllm;

use crate::error::Result;
use crate::plan::Side;
use crate::report::{Report, csv};
use measured::Measured;

pub(crate) use file::ExportFile;

/// What is written, by the tool that reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// vLLM's `bench serve --save-result`: a JSON file per load point
    Vllm,
    /// SGLang's bench_serving: JSON lines, one load point a line
    Sglang,
    /// llm-d benchmark report 0.2: a JSON file per load point
    LlmD,
    /// criterion's folders, which critcmp reads
    Criterion,
    /// Bencher Metric Format
    Bencher,
    /// github-action-benchmark: a file for each direction
    GithubAction,
    /// OpenMetrics, for the textfile collector of Prometheus' node exporter
    Openmetrics,
    /// Tidy CSV: a row a number
    Csv,
}

impl Format {
    /// The name in flags and paths.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::LlmD => "llm-d",
            Self::Criterion => "criterion",
            Self::Bencher => "bencher",
            Self::GithubAction => "github-action",
            Self::Openmetrics => "openmetrics",
            Self::Csv => "csv",
        }
    }

    /// Whether it is one file whatever the run has, which may go to stdout.
    pub(crate) fn is_one_file(self) -> bool {
        !matches!(self, Self::Vllm | Self::LlmD | Self::Criterion | Self::GithubAction)
    }
}

/// The files of one side of a report: the last one, or the one of this role.
///
/// # Errors
/// If the run has no such side, or nothing was measured on it.
pub(crate) fn render(
    format: Format,
    report: &Report,
    side: Option<Side>,
) -> Result<Vec<ExportFile>> {
    let measured = Measured::of(report, side)?;
    let one = |name: &str, text: String| Ok(vec![ExportFile { path: name.into(), text }]);
    match format {
        Format::Vllm => vllm::render(&measured),
        Format::Sglang => one("results.jsonl", sglang::render(&measured)?),
        Format::LlmD => llm_d::render(&measured),
        Format::Criterion => criterion::render(&measured),
        Format::Bencher => one("bencher.json", bencher::render(&measured)?),
        Format::GithubAction => github::render(&measured),
        Format::Openmetrics => one("inferometer.prom", openmetrics::render(&measured)),
        Format::Csv => one("results.csv", csv::render(report)),
    }
}
