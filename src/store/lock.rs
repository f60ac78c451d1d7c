//! Locks: one process at a time changes a store, and one writes a run. The system releases them when a process ends.
#![allow(clippy::disallowed_methods)] // it opens the file that it locks

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::time::Duration;

use super::files::{failed, make_folder, parent};
use crate::error::{Error, Result};

/// How often, and how far apart, a lock held by another process is tried: 10 s in all.
const LOCK_TRIES: u32 = 500;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Marks a file as in use by this process, until the returned handle is dropped or the process ends
/// in any way. `None` if another process uses it.
///
/// # Errors
/// If the file cannot be opened or locked.
pub(super) fn lock_now(path: &Path) -> Result<Option<File>> {
    let file = lock_file(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        // A file system without locks: two writers cannot be kept from each other there.
        Err(fs::TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => Ok(Some(file)),
        Err(fs::TryLockError::Error(error)) => Err(failed("lock", path, error)),
    }
}

fn lock_file(path: &Path) -> Result<File> {
    make_folder(&parent(path))?;
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(|error| failed("open", path, error))
}

/// Holds off every other process that would change the same store, until dropped.
pub(super) fn lock(path: &Path) -> Result<File> {
    let file = lock_file(path)?;
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(fs::TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(fs::TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                // A file system without locks: writes are atomic all the same.
                return Ok(file);
            }
            Err(fs::TryLockError::Error(error)) => return Err(failed("lock", path, error)),
        }
    }
    Err(Error::store(format!("another process holds `{}`", path.display()))
        .with_hint("wait for the other inferometer to end, then try again"))
}
