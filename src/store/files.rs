//! Plain files: read, append, tail.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use crate::error::{Error, Result};

/// Reads a text file.
///
/// # Errors
/// Where it cannot be read or is no UTF-8.
#[allow(clippy::disallowed_methods)] // this is the place
pub fn read_text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|cause| {
        Error::store(format!("cannot read `{}`", path.display())).with_cause(cause)
    })
}

/// Opens a log to append to, with its folders.
///
/// # Errors
/// Where it cannot be created.
#[allow(clippy::disallowed_methods)]
pub fn open_append(path: &Path) -> Result<File> {
    let failed = |cause: std::io::Error| {
        Error::store(format!("cannot open `{}`", path.display())).with_cause(cause)
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    OpenOptions::new().create(true).append(true).open(path).map_err(failed)
}

/// The text of a file from byte `from`, its last `limit` bytes at most, broken UTF-8 replaced.
///
/// # Errors
/// Where it cannot be read.
#[allow(clippy::disallowed_methods)]
pub fn read_tail(path: &Path, from: u64, limit: u64) -> Result<String> {
    let failed = |cause: std::io::Error| {
        Error::store(format!("cannot read `{}`", path.display())).with_cause(cause)
    };
    let mut file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    file.seek(SeekFrom::Start(from.max(length.saturating_sub(limit)))).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).map_err(failed)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
