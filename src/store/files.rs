//! Plain files: read with a limit, written atomically, appended by lines. The one place that touches the disk.
#![allow(clippy::disallowed_methods)] // this is the place that they are kept for

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// The largest text file that is read whole, 1 GiB: a run of thousands of rounds takes a tenth.
pub const LARGEST_TEXT: u64 = 1 << 30;

/// The longest line of a line file, 32 MiB: a full histogram as text takes half.
pub const LONGEST_LINE: u64 = 32 << 20;

/// What failed with a file, and how to fix it.
pub(super) fn failed(action: &str, path: &Path, cause: io::Error) -> Error {
    let hint = match cause.kind() {
        io::ErrorKind::PermissionDenied if action == "read" => "check who may read it",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "check who may write there, or choose another folder with `--output-dir`"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "the disk is full: remove old runs with `inferometer runs prune`, or choose another folder with `--output-dir`"
        }
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "something else has that name: move it away, or choose another folder with `--output-dir`"
        }
        io::ErrorKind::InvalidData => "the file is not text: it was damaged, or is another one",
        _ => "see whether the disk is well, or choose another folder with `--output-dir`",
    };
    Error::store(format!("cannot {action} `{}`", path.display())).with_cause(cause).with_hint(hint)
}

/// Reads a text file of at most [`LARGEST_TEXT`] bytes.
///
/// # Errors
/// Where it cannot be read, is too large or is not UTF-8.
pub fn read_text(path: &Path) -> Result<String> {
    let file = File::open(path).map_err(|error| failed("read", path, error))?;
    let mut text = String::new();
    let read = file
        .take(LARGEST_TEXT + 1)
        .read_to_string(&mut text)
        .map_err(|error| failed("read", path, error))?;
    if read as u64 > LARGEST_TEXT {
        return Err(Error::store(format!("`{}` is larger than 1 GiB", path.display()))
            .with_hint("give a smaller file"));
    }
    Ok(text)
}

/// Reads a file of at most [`LARGEST_TEXT`] bytes.
///
/// # Errors
/// If it cannot be read or is too large.
pub fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    let file = File::open(path).map_err(|error| failed("read", path, error))?;
    let mut bytes = Vec::new();
    let read = file
        .take(LARGEST_TEXT + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| failed("read", path, error))?;
    if read as u64 > LARGEST_TEXT {
        return Err(Error::store(format!("`{}` is larger than 1 GiB", path.display()))
            .with_hint("give a smaller file"));
    }
    Ok(bytes)
}

/// As [`read_text`]; `None` if there is no such file.
///
/// # Errors
/// Where it exists and cannot be read.
pub fn read_text_if_any(path: &Path) -> Result<Option<String>> {
    if exists(path) { read_text(path).map(Some) } else { Ok(None) }
}

/// Whether something has that name.
#[must_use]
pub fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Refuses a path that names nothing, before time is spent on what would be read from it.
///
/// # Errors
/// Where nothing has that name, or the folder may not be searched.
pub fn must_exist(path: &Path) -> Result<()> {
    fs::metadata(path).map(|_| ()).map_err(|error| failed("read", path, error))
}

/// Makes a folder and those above it.
///
/// # Errors
/// Where that is not possible.
pub fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| failed("make the folder", path, error))
}

/// Replaces a folder that holds only what can be made again. `fill` writes the new one beside it; only
/// once that is whole does it take the old one's place.
///
/// # Errors
/// Those of `fill`, or where a folder cannot be made or moved; the old one is then untouched.
pub fn replace_folder(path: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let above = parent(path);
    let fresh = above.join(unique_name(path));
    let swapped = make_folder(&fresh).and_then(|()| fill(&fresh)).and_then(|()| {
        let old = above.join(unique_name(path));
        let had_old = exists(path);
        if had_old {
            fs::rename(path, &old).map_err(|error| failed("move away", path, error))?;
        }
        if let Err(error) = fs::rename(&fresh, path) {
            if had_old {
                // What failed is reported; if this fails too, the old one lies beside under its hidden name.
                let _ = fs::rename(&old, path);
            }
            return Err(failed("put in place", path, error));
        }
        if had_old { remove_all(&old) } else { Ok(()) }
    });
    if swapped.is_err() {
        // What failed is reported; a leftover that cannot be removed changes nothing about it.
        let _ = fs::remove_dir_all(&fresh);
    }
    swapped
}

/// Removes a folder with all in it, or whatever else has that name.
fn remove_all(path: &Path) -> Result<()> {
    let is_folder = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let removed = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.map_err(|error| failed("remove", path, error))
}

/// Makes a folder that must be new; whether it was.
///
/// # Errors
/// Where it can be neither made nor found to exist.
pub(super) fn claim_folder(path: &Path) -> Result<Claim> {
    match fs::create_dir(path) {
        Ok(()) => Ok(Claim::Ours),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Claim::Taken),
        Err(error) => Err(failed("make the folder", path, error)),
    }
}

/// Whose a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// Made by this call.
    Ours,
    /// It was there before.
    Taken,
}

/// Replaces a file as one step: a reader, or a kill, meets the old text or the new, never a part.
/// Makes the folders above it.
///
/// # Errors
/// Where the file cannot be written; the old one is then untouched.
pub fn write_atomic(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    // What is there stays what it is: a link keeps pointing at its file, a pipe or device is written to.
    let target = if path.is_symlink() { fs::canonicalize(path).ok() } else { None };
    let path = target.as_deref().unwrap_or(path);
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return write_plain(path, content);
    }
    let folder = parent(path);
    make_folder(&folder)?;
    let temporary = folder.join(unique_name(path));
    let written = write_new(&temporary, content.as_ref())
        .and_then(|()| fs::rename(&temporary, path))
        .map_err(|error| failed("write", path, error));
    if written.is_err() {
        // What failed is reported; a temporary that cannot be removed changes nothing about it.
        let _ = fs::remove_file(&temporary);
    }
    written?;
    sync_folder(&folder);
    Ok(())
}

/// Writes a file that can be made again, without waiting for the disk: a report of hundreds of pages
/// would wait longer than it computes. Makes the folders above it.
///
/// # Errors
/// Where the file cannot be written.
pub fn write_plain(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    make_folder(&parent(path))?;
    fs::write(path, content).map_err(|error| failed("write", path, error))
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Makes a rename durable. Some file systems refuse; the data itself is synced by then.
fn sync_folder(folder: &Path) {
    if let Ok(handle) = File::open(folder) {
        let _ = handle.sync_all();
    }
}

/// A hidden name beside `path` that no other process and no other call takes.
pub(super) fn unique_name(path: &Path) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let stem: String =
        path.file_name().unwrap_or_default().to_string_lossy().chars().take(32).collect();
    format!(".{stem}.{}-{count}.tmp", std::process::id())
}

pub(super) fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// Opens a file to append to (a server's log), making it and the folders above it.
///
/// # Errors
/// Where it cannot be opened.
pub fn append_file(path: &Path) -> Result<File> {
    make_folder(&parent(path))?;
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map_err(|error| failed("open", path, error))
}

/// The text of a file from byte `from` on, of which the last `limit` bytes; broken UTF-8 replaced.
///
/// # Errors
/// Where it cannot be read.
pub fn read_tail(path: &Path, from: u64, limit: u64) -> Result<String> {
    let told = |error| failed("read", path, error);
    let mut file = File::open(path).map_err(told)?;
    let length = file.metadata().map_err(told)?.len();
    file.seek(SeekFrom::Start(from.max(length.saturating_sub(limit)))).map_err(told)?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).map_err(told)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The text of a file from byte `from` on, of which the first `limit` bytes; broken UTF-8 replaced.
///
/// # Errors
/// Where it cannot be read.
pub fn read_head(path: &Path, from: u64, limit: u64) -> Result<String> {
    let told = |error| failed("read", path, error);
    let mut file = File::open(path).map_err(told)?;
    file.seek(SeekFrom::Start(from)).map_err(told)?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).map_err(told)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Puts `text` in place of all that a file holds from byte `from` on. In place: whoever appends to the file
/// goes on behind it.
///
/// # Errors
/// Where it cannot be written.
pub fn replace_from(path: &Path, from: u64, text: &str) -> Result<()> {
    let told = |error| failed("write", path, error);
    let mut file = OpenOptions::new().append(true).open(path).map_err(told)?;
    file.set_len(from).map_err(told)?;
    file.write_all(text.as_bytes()).map_err(told)
}

/// When a file was last written; none where there is none, or the system does not tell.
#[must_use]
pub fn written_at(path: &Path) -> Option<std::time::SystemTime> {
    path.metadata().ok()?.modified().ok()
}

/// How long a file is, bytes; 0 where there is none.
#[must_use]
pub fn length(path: &Path) -> u64 {
    path.metadata().map_or(0, |meta| meta.len())
}

/// Appends lines to a file and waits until they are on the disk.
///
/// # Errors
/// Where they cannot be written, or `lines` yields an error.
pub fn append_lines(path: &Path, lines: impl Iterator<Item = Result<String>>) -> Result<()> {
    let mut writer = BufWriter::new(append_file(path)?);
    let told = |error| failed("append to", path, error);
    for line in lines {
        writer.write_all(line?.as_bytes()).map_err(told)?;
        writer.write_all(b"\n").map_err(told)?;
    }
    writer.flush().map_err(told)?;
    writer.get_ref().sync_data().map_err(told)
}

/// The lines of a file, one at a time, each at most [`LONGEST_LINE`] bytes.
#[derive(Debug)]
pub(super) struct Lines {
    path: PathBuf,
    reader: BufReader<File>,
    number: u64,
}

/// One line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// From 1.
    pub(super) number: u64,
    /// Without its end.
    pub(super) text: String,
    /// Whether it ended with a line end: one that does not was cut by a kill.
    pub(super) end: LineEnd,
}

/// How a line ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineEnd {
    /// With a line end.
    Whole,
    /// With the file.
    Cut,
}

impl Lines {
    /// Opens a file.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| failed("read", path, error))?;
        Ok(Self { path: path.to_path_buf(), reader: BufReader::new(file), number: 0 })
    }

    /// The next line; none at the end of the file.
    pub(super) fn next_line(&mut self) -> Result<Option<Line>> {
        let mut bytes = Vec::new();
        let read = Read::by_ref(&mut self.reader)
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut bytes)
            .map_err(|error| failed("read", &self.path, error))?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        let end = if bytes.last() == Some(&b'\n') { LineEnd::Whole } else { LineEnd::Cut };
        if end == LineEnd::Cut && read as u64 == LONGEST_LINE {
            return Err(self.broken("the line is longer than 32 MiB"));
        }
        if end == LineEnd::Whole {
            bytes.pop();
        }
        // A cut inside a character is a cut line, which the caller judges.
        let text = match (String::from_utf8(bytes), end) {
            (Ok(text), _) => text,
            (Err(error), LineEnd::Cut) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
            (Err(_), LineEnd::Whole) => return Err(self.broken("the line is not UTF-8")),
        };
        Ok(Some(Line { number: self.number, text, end }))
    }

    /// An error about the line read last.
    pub(super) fn broken(&self, what: impl std::fmt::Display) -> Error {
        Error::store(format!("`{}` line {}: {what}", self.path.display(), self.number))
            .with_hint("the file was edited or damaged: remove that line, or that run")
    }
}

/// The names in a folder that are not hidden, sorted; empty where there is no such folder.
///
/// # Errors
/// If the folder cannot be read.
pub fn names(folder: &Path) -> Result<Vec<String>> {
    if !exists(folder) {
        return Ok(Vec::new());
    }
    let told = |error| failed("list", folder, error);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(told)? {
        let name = entry.map_err(told)?.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Whether `path` is a folder (and not a link to one).
#[must_use]
pub fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir())
}

/// Removes a file.
pub(super) fn remove_file(path: &Path) -> Result<()> {
    fs::remove_file(path).map_err(|error| failed("remove", path, error))
}

/// Removes a folder and all in it, in an order that leaves no half of it behind under its name.
pub(super) fn remove_folder(path: &Path) -> Result<()> {
    let hidden = parent(path).join(unique_name(path));
    fs::rename(path, &hidden)
        .and_then(|()| fs::remove_dir_all(&hidden))
        .map_err(|error| failed("remove", path, error))
}

/// Removes what killed processes left half done in a folder. The caller holds the lock, so nobody
/// else is at work there.
pub(super) fn sweep(folder: &Path) -> Result<()> {
    if !exists(folder) {
        return Ok(());
    }
    let told = |error| failed("list", folder, error);
    for entry in fs::read_dir(folder).map_err(told)? {
        let path = entry.map_err(told)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') && name.ends_with(".tmp") && is_folder(&path) {
            fs::remove_dir_all(&path).map_err(|error| failed("remove", &path, error))?;
        }
    }
    Ok(())
}

/// Gives a folder its final name.
pub(super) fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(|error| failed("move into place", to, error))?;
    sync_folder(&parent(to));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_replaced_only_by_a_whole_one() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("report");
        let page = |name: &str| {
            let name = name.to_owned();
            move |folder: &Path| write_plain(&folder.join(&name), &name)
        };
        replace_folder(&folder, page("first.html")).unwrap();
        replace_folder(&folder, page("second.html")).unwrap();
        assert!(!exists(&folder.join("first.html")) && exists(&folder.join("second.html")));
        let half = |folder: &Path| {
            page("third.html")(folder)?;
            Err(Error::store("the disk is full"))
        };
        assert!(replace_folder(&folder, half).is_err());
        assert_eq!(read_text(&folder.join("second.html")).unwrap(), "second.html");
        let left: Vec<_> = fs::read_dir(above.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "nothing is left beside it: {left:?}");
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_temporary() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        write_atomic(&path, "old").unwrap();
        write_atomic(&path, "new").unwrap();
        assert_eq!(read_text(&path).unwrap(), "new");
        // A folder in its place cannot be replaced by a file.
        let taken = folder.path().join("taken");
        make_folder(&taken.join("inside")).unwrap();
        let error = write_atomic(&taken, "x").unwrap_err();
        assert!(error.to_string().contains("taken"), "{error}");
        assert!(error.hint().is_some());
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 2, "a.json and taken");
    }

    #[test]
    fn a_missing_file_is_named_with_a_hint() {
        let error = read_text(Path::new("/nowhere/at/all.json")).unwrap_err();
        assert!(error.render().contains("`/nowhere/at/all.json`"), "{}", error.render());
        assert_eq!(read_text_if_any(Path::new("/nowhere/at/all.json")).unwrap(), None);
    }

    #[test]
    fn a_cut_last_line_is_told_from_a_whole_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        fs::write(&path, b"one\ntw\xc3").unwrap();
        let mut lines = Lines::open(&path).unwrap();
        let first = lines.next_line().unwrap().unwrap();
        assert_eq!((first.text.as_str(), first.end), ("one", LineEnd::Whole));
        let second = lines.next_line().unwrap().unwrap();
        assert_eq!((second.number, second.end), (2, LineEnd::Cut));
        assert_eq!(lines.next_line().unwrap(), None);
    }
}
