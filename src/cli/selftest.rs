//! `selftest`: how many streams this client measures accurately on this machine.

use clap::Args;

use super::args::OutputArgs;
use super::run::runtime;
use crate::compare::gate;
use crate::drive::{Interrupt, Urgency, raise_on_signals};
use crate::error::{Error, Result};
use crate::report::terminal;
use crate::selftest;
use crate::settings::Settings;
use crate::store::{Store, files};

/// The client against a server of known timing, at rising load.
#[derive(Debug, Args)]
pub(super) struct SelftestCommand {
    #[command(flatten)]
    output: OutputArgs,
}

impl SelftestCommand {
    pub(super) fn run(&self) -> Result<u8> {
        let mut settings = Settings::for_url("");
        self.output.apply(&mut settings);
        let store = Store::open(&settings.output_dir)?;
        let interrupt = Interrupt::new();
        let report = runtime()?.block_on(async {
            raise_on_signals(&interrupt)?;
            selftest::run_default(&interrupt, &mut |_| {}).await
        })?;
        if interrupt.urgency() != Urgency::None {
            terminal::print("interrupted: nothing is kept\n")?;
            return Ok(gate::INTERRUPTED);
        }
        let text = serde_json::to_string_pretty(&report)
            .map_err(|cause| Error::store("the self-test cannot be written").with_cause(cause))?;
        let path = store.layout().selftest();
        files::write_atomic(&path, text)?;
        terminal::print(&report.render())?;
        terminal::print(&format!("kept for later runs: {}\n", path.display()))?;
        Ok(gate::FINE)
    }
}
