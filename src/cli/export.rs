//! `export`: a stored run or a baseline in the files of other tools.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::analysis;
use crate::compare::gate;
use crate::error::{Error, Result};
use crate::export::{self, ExportFile, Format};
use crate::plan::Side;
use crate::report::terminal;
use crate::settings::Settings;
use crate::store::{Store, files};

/// A stored run in the files of other tools.
#[derive(Debug, Args)]
pub(super) struct ExportCommand {
    /// Id of a run or name of a baseline; default: the newest run
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// The tool that reads the files
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Format,
    /// A file (`-` is stdout, the default) for sglang, bencher, openmetrics and csv; a folder for
    /// the others [default: export/FORMAT below the output folder]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Which side of a run that has two
    #[arg(long, value_name = "SIDE", default_value = "new")]
    side: ExportSide,
    /// Root of runs, baselines and reports
    #[arg(long, value_name = "DIR", env = "INFEROMETER_OUTPUT_DIR", hide_env = true)]
    output_dir: Option<PathBuf>,
}

/// A side of a run by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ExportSide {
    Base,
    New,
}

impl ExportCommand {
    pub(super) fn run(&self) -> Result<u8> {
        let root = match &self.output_dir {
            Some(dir) => dir.clone(),
            None => Settings::for_url("").output_dir,
        };
        let store = Store::open(&root)?;
        let report = analysis::stored_report(&store, self.run.as_deref())?;
        let side = match self.side {
            ExportSide::Base => Some(Side::Base),
            ExportSide::New => None,
        };
        let files = export::render(self.format, &report, side)?;
        match &files[..] {
            [only] if self.format.is_one_file() => self.write_one(only)?,
            _ => self.write_all(&files, &root)?,
        }
        Ok(gate::FINE)
    }

    fn write_one(&self, file: &ExportFile) -> Result<()> {
        match self.output.as_deref() {
            None => terminal::print(&file.text),
            Some(path) if path == Path::new("-") => terminal::print(&file.text),
            // A collector may read it at any time, so it appears as a whole.
            Some(path) if !files::is_folder(path) => files::write_atomic(path, &file.text),
            Some(folder) => files::write_atomic(&folder.join(&file.path), &file.text),
        }
    }

    fn write_all(&self, all: &[ExportFile], root: &Path) -> Result<()> {
        let name = self.format.name();
        let folder = match self.output.as_deref() {
            Some(path) if path == Path::new("-") => {
                return Err(Error::usage(format!("`--format {name}` writes several files"))
                    .with_hint("give a folder: `--output DIR`"));
            }
            Some(path) => path.to_owned(),
            None => root.join("export").join(name),
        };
        for file in all {
            files::write_plain(&folder.join(&file.path), &file.text)?;
        }
        let files = if all.len() == 1 { "file" } else { "files" };
        terminal::print(&format!("wrote {} {files} to {}\n", all.len(), folder.display()))
    }
}
