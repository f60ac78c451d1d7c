//! Whole lines: what a kill or a full disk left of a last line is cut off before more is appended.
#![allow(clippy::disallowed_methods)] // it shortens a file in place

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::files::{exists, failed};
use crate::error::Result;

/// Cuts a file of lines back to its last line end: what a kill or a full disk left of a line would
/// ruin the next one. Returns whether anything was cut.
///
/// # Errors
/// If the file cannot be read or shortened.
pub(super) fn cut_to_whole_lines(path: &Path) -> Result<bool> {
    if !exists(path) {
        return Ok(false);
    }
    let told = |error| failed("shorten", path, error);
    let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(told)?;
    let length = file.metadata().map_err(told)?.len();
    let whole = whole_length(&mut file, length).map_err(told)?;
    if whole < length {
        file.set_len(whole).map_err(told)?;
        file.sync_all().map_err(told)?;
    }
    Ok(whole < length)
}

/// The length up to and with the last line end.
fn whole_length(file: &mut File, length: u64) -> io::Result<u64> {
    const STEP: u64 = 64 << 10;
    let mut end = length;
    let mut bytes = Vec::new();
    while end > 0 {
        let from = end.saturating_sub(STEP);
        file.seek(SeekFrom::Start(from))?;
        bytes.clear();
        file.take(end - from).read_to_end(&mut bytes)?;
        if let Some(place) = bytes.iter().rposition(|byte| *byte == b'\n') {
            return Ok(from + place as u64 + 1);
        }
        end = from;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_cut_back_to_its_last_line_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        assert!(!cut_to_whole_lines(&path).unwrap(), "there is no file");
        let long = "x".repeat(200_000);
        for (found, kept) in [
            (format!("one\n{long}"), "one\n".to_owned()),
            (format!("{long}\n{{\"half"), format!("{long}\n")),
            ("one\ntwo\n".to_owned(), "one\ntwo\n".to_owned()),
            ("half".to_owned(), String::new()),
            (String::new(), String::new()),
        ] {
            fs::write(&path, &found).unwrap();
            assert_eq!(cut_to_whole_lines(&path).unwrap(), found != kept);
            assert_eq!(fs::read_to_string(&path).unwrap(), kept);
        }
    }
}
