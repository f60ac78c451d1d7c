//! Source files: paths, folders and patterns resolved to files, and their documents read.

use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use serde_json::Value;

use super::json;
use crate::error::{Error, Result};
use crate::record::Severity;
use crate::store::files;

/// More files than this are no sweep of one configuration.
pub const MOST_FILES: usize = 1_000;

/// Folders below the one that was named, at most.
const DEEPEST: usize = 4;

/// The ends of names that benchmark clients give their result files.
const ENDINGS: [&str; 3] = [".json", ".jsonl", ".ndjson"];

/// A file with its JSON documents.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) documents: Vec<Value>,
}

/// A file that was left out, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PassedOver {
    pub(super) path: PathBuf,
    pub(super) reason: String,
    /// A note for a file of another kind, a warning for a result that cannot be read.
    pub(super) severity: Severity,
}

/// The files that were named, in order and each once, and those that were passed over.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) files: Vec<PathBuf>,
    pub(super) passed_over: Vec<PassedOver>,
}

impl Source {
    /// Reads a file, unpacked if it is a gzip file.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let bytes = files::read_bytes(path)?;
        let bytes = if bytes.starts_with(&[0x1f, 0x8b]) { unpacked(path, &bytes)? } else { bytes };
        let name = path.display();
        let text = String::from_utf8(bytes).map_err(|cause| {
            Error::store(format!("`{name}` is not a result file: it is not text"))
                .with_cause(cause)
                .with_hint("give a JSON file that a benchmark client wrote")
        })?;
        let documents = json::documents(&text).map_err(|cause| {
            Error::store(format!("`{name}` is not a result file: it is not JSON"))
                .with_cause(cause)
                .with_hint(not_json_hint(path))
        })?;
        if documents.is_empty() {
            return Err(Error::store(format!("`{name}` is empty"))
                .with_hint("benchmark clients write their results at the end: did it end?"));
        }
        Ok(Self { path: path.to_owned(), documents })
    }

    /// What errors and findings call it.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }
}

fn not_json_hint(path: &Path) -> &'static str {
    match path.extension().and_then(|end| end.to_str()) {
        Some("yaml" | "yml") => {
            "convert it first: `python3 -c 'import json,sys,yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout, default=str)' <report.yaml >report.json`"
        }
        _ => "give a JSON file that a benchmark client wrote: docs/formats.md lists them",
    }
}

/// The content of a gzip file, of at most [`files::LARGEST_TEXT`] bytes.
fn unpacked(path: &Path, packed: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = MultiGzDecoder::new(packed).take(files::LARGEST_TEXT + 1).read_to_end(&mut bytes);
    let read = read.map_err(|cause| {
        Error::store(format!("cannot unpack `{}`", path.display()))
            .with_cause(cause)
            .with_hint("the gzip file is damaged or cut short: copy it again")
    })?;
    if read as u64 > files::LARGEST_TEXT {
        return Err(Error::store(format!("`{}` holds more than 1 GiB", path.display()))
            .with_hint("give a smaller file"));
    }
    Ok(bytes)
}

/// Resolves folders and patterns.
///
/// # Errors
/// If a pattern or folder holds no file, a folder cannot be read, or there are too many files.
pub(super) fn list(named: &[PathBuf]) -> Result<Listing> {
    let mut listing = Listing::default();
    for path in named {
        if files::is_folder(path) {
            let before = listing.files.len();
            walk(path, 0, &mut listing)?;
            if listing.files.len() == before {
                return Err(Error::store(format!("`{}` holds no result file", path.display()))
                    .with_hint("result files end in `.json`, `.jsonl` or either with `.gz`"));
            }
        } else if !files::exists(path) && is_pattern(path) {
            listing.files.extend(matching(path)?);
        } else {
            listing.files.push(path.clone());
        }
        if listing.files.len() > MOST_FILES {
            return Err(Error::usage(format!("more than {MOST_FILES} files are named"))
                .with_hint("import the files of one configuration at a time"));
        }
    }
    let mut known = std::collections::BTreeSet::new();
    listing.files.retain(|path| known.insert(path.clone()));
    Ok(listing)
}

/// The files of a folder and of those below it.
fn walk(folder: &Path, depth: usize, listing: &mut Listing) -> Result<()> {
    for name in files::names(folder)? {
        let path = folder.join(&name);
        if files::is_folder(&path) {
            if depth < DEEPEST {
                walk(&path, depth + 1, listing)?;
            }
        } else if ENDINGS.iter().any(|end| name.trim_end_matches(".gz").ends_with(end)) {
            listing.files.push(path);
        } else {
            listing.passed_over.push(PassedOver {
                path,
                reason: "its name does not end in `.json`, `.jsonl` or either with `.gz`"
                    .to_owned(),
                severity: Severity::Note,
            });
        }
    }
    Ok(())
}

fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?'])
}

/// The files that a pattern with `*` and `?` matches, sorted: for a shell that does not expand it.
fn matching(pattern: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![PathBuf::new()];
    for part in pattern.components() {
        let part = part.as_os_str().to_string_lossy();
        let mut next = Vec::new();
        for folder in found {
            if !part.contains(['*', '?']) {
                next.push(folder.join(&*part));
                continue;
            }
            let place = if folder.as_os_str().is_empty() { Path::new(".") } else { &folder };
            let names = files::names(place)?;
            next.extend(
                names.iter().filter(|name| fits(&part, name)).map(|name| folder.join(name)),
            );
        }
        found = next;
    }
    found.retain(|path| files::exists(path) && !files::is_folder(path));
    if found.is_empty() {
        return Err(Error::store(format!("no file matches `{}`", pattern.display()))
            .with_hint("check the folder and the pattern: `*` stands for any part of a name"));
    }
    Ok(found)
}

/// Whether a name fits a pattern of `*` (any part) and `?` (one character).
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut in_name) = (0, 0);
    // Where the last `*` stands, and how much of the name it has taken so far.
    let mut star: Option<(usize, usize)> = None;
    while in_name < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, in_name));
                at += 1;
            }
            Some(letter) if *letter == '?' || *letter == name[in_name] => {
                at += 1;
                in_name += 1;
            }
            _ => {
                let Some((place, taken)) = star else { return false };
                star = Some((place, taken + 1));
                (at, in_name) = (place + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|letter| *letter == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_names_as_a_shell_has_it() {
        for (pattern, name, right) in [
            ("*.json", "a.json", true),
            ("*.json", "a.jsonl", false),
            ("c?.json", "c8.json", true),
            ("c?.json", "c16.json", false),
            ("*-c*-*.json", "x-c1-c2-y.json", true),
            ("*", "", true),
            ("a*b", "ab", true),
            ("a*b", "a", false),
        ] {
            assert_eq!(fits(pattern, name), right, "{pattern} {name}");
        }
    }
}
