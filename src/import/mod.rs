//! Import: result files of other benchmark clients as a stored run.
//!
//! What a file holds is kept; what it lacks is said as findings and never filled in. Requests are
//! kept if the file has them, with the times it has; figures of whole rounds are kept beside them
//! ([`StoredRound::reported`](crate::record::StoredRound::reported)) and stand in where requests
//! cannot tell.
//!
//! A load point's id is made of what the file measured, `import/512x128/c64`, not of the file's
//! name: so the same load of several configurations meets, whatever their files are called.

mod aiperf;
mod check;
mod details;
mod error_text;
mod fields;
mod findings;
mod further;
mod guidellm;
mod imported;
mod inference_perf;
mod json;
mod lengths;
mod llm_d;
mod reader;
mod result;
pub mod run;
mod serving;
mod sglang;
mod source;
mod vllm;

pub use further::as_further_start;
pub use imported::{Imported, ImportedRound, Order, Sends};

pub use source::MOST_FILES;

use crate::error::{Error, Result};

/// A longer name crowds every table, bytes.
const LONGEST_NAME: usize = 100;

/// Reads result files into one run. Nothing is written.
///
/// A file that holds no result is passed over, with its reason as a finding, if another one does.
///
/// # Errors
/// If no file holds a result, one is damaged and no other is sound, or the files are of different
/// models or clients.
pub fn read(order: &Order<'_>) -> Result<Imported> {
    if order.files.is_empty() || order.files.len() > MOST_FILES {
        return Err(Error::usage(format!(
            "give 1 to {MOST_FILES} files, not {}",
            order.files.len()
        )));
    }
    check_name("--as", order.name)?;
    order.scenario.map_or(Ok(()), |name| check_name("--scenario", name))?;
    let readings = reader::read_all(source::list(order.files)?)?;
    run::assemble(order, readings.results, &readings.passed_over)
}

/// A name stands in ids, tables and paths.
fn check_name(flag: &str, name: &str) -> Result<()> {
    let plain = !name.trim().is_empty() && name.len() <= LONGEST_NAME;
    if plain && !name.contains(['/', '\n', '\r', '\t']) {
        return Ok(());
    }
    Err(Error::usage(format!(
        "`{flag}` takes a name without slashes of at most {LONGEST_NAME} bytes"
    )))
}
