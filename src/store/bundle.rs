//! A bundle: a baseline with all its runs in one file of lines.
//!
//! ```text
//! {"bundle":"inferometer-baseline","schema":1,"baseline":{…}}
//! {"run":"<id>","file":"chat/short/c16/requests.jsonl","lines":640}
//! …640 lines as they stand in that file…
//! {"end":true,"files":7}
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::baseline::Baseline;
use super::files::{self, Line, Lines};
use super::runs::{check_schema, parse_run, to_json};
use super::{Store, layout};
use crate::error::{Error, Result};

const KIND: &str = "inferometer-baseline";

/// The files of a run that hold figures. A server's log stays at home: it may be large, and may say
/// more of a machine than its owner wants to send.
const KEPT: [&str; 4] = ["run.json", "comparison.json", "requests.jsonl", "itl.hist"];

/// How deep the folders of a run go: group, scenario, load point and the file.
const DEEPEST: usize = 4;

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    bundle: String,
    schema: u32,
    baseline: Baseline,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct FileHead {
    run: String,
    file: String,
    lines: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct End {
    end: bool,
    files: u64,
}

/// Any line between files.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Section {
    File(FileHead),
    End(End),
}

/// Writes the bundle beside its final place, then moves it there.
pub(super) fn write(store: &Store, baseline: &Baseline, path: &Path) -> Result<()> {
    let temporary = path.with_file_name(files::unique_name(path));
    let written = write_to(store, baseline, &temporary);
    if written.is_err() {
        let _ = files::remove_file(&temporary);
    }
    written?;
    files::rename(&temporary, path)
}

fn write_to(store: &Store, baseline: &Baseline, path: &Path) -> Result<()> {
    let mut out = BufWriter::new(files::append_file(path)?);
    let told = |error| files::failed("write", path, error);
    let header =
        Header { bundle: KIND.to_owned(), schema: baseline.schema, baseline: baseline.clone() };
    out.write_all(&to_json(path, &header)?).map_err(told)?;
    let mut count = 0;
    for run in &baseline.runs {
        store.load_run(run)?;
        let folder = store.layout().run(run);
        for file in files_below(&folder)? {
            copy_in(&mut out, path, run, &folder, &file)?;
            count += 1;
        }
    }
    out.write_all(&to_json(path, &End { end: true, files: count })?).map_err(told)?;
    out.flush().map_err(told)?;
    out.get_ref().sync_all().map_err(told)
}

fn copy_in(
    out: &mut BufWriter<File>,
    path: &Path,
    run: &str,
    folder: &Path,
    file: &Path,
) -> Result<()> {
    let told = |error| files::failed("write", path, error);
    let source = folder.join(file);
    let mut lines = 0;
    let mut counter = Lines::open(&source)?;
    while counter.next_line()?.is_some() {
        lines += 1;
    }
    let name = file.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/");
    let head = FileHead { run: run.to_owned(), file: name, lines };
    out.write_all(&to_json(path, &head)?).map_err(told)?;
    let mut reader = Lines::open(&source)?;
    for _ in 0..lines {
        let Some(line) = reader.next_line()? else { break };
        out.write_all(line.text.as_bytes()).map_err(told)?;
        out.write_all(b"\n").map_err(told)?;
    }
    Ok(())
}

/// The files of a run that are [`KEPT`], relative to its folder, sorted.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(below) = open.pop() {
        for name in files::names(&folder.join(&below))? {
            let path = below.join(&name);
            let is_folder = files::is_folder(&folder.join(&path));
            if is_folder && path.components().count() < DEEPEST {
                open.push(path);
            } else if !is_folder && KEPT.contains(&name.as_str()) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Reads a bundle.
#[derive(Debug)]
pub(super) struct Reader {
    lines: Lines,
    baseline: Baseline,
}

impl Reader {
    /// Opens a bundle and reads its first line.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let mut lines = Lines::open(path)?;
        let first = lines.next_line()?;
        let header = first.and_then(|line| serde_json::from_str::<Header>(&line.text).ok());
        let Some(header) = header.filter(|header| header.bundle == KIND) else {
            return Err(Error::store(format!("`{}` is not a bundle", path.display()))
                .with_hint("`inferometer baselines export NAME FILE` writes one"));
        };
        check_schema(path, header.schema)?;
        Ok(Self { lines, baseline: header.baseline })
    }

    pub(super) fn baseline(&self) -> &Baseline {
        &self.baseline
    }

    /// Unpacks the runs beside the others and moves them into place once all are whole; the ids
    /// they have here, in the order of the baseline.
    pub(super) fn unpack(&mut self, store: &Store) -> Result<Vec<String>> {
        let runs = store.layout().runs();
        files::make_folder(&runs)?;
        let staging = runs.join(files::unique_name(Path::new("import")));
        let unpacked = self.unpack_into(&staging).and_then(|()| self.settle(store, &staging));
        if files::exists(&staging) {
            // What is left of it is hidden and never read; the outcome stands without it.
            let _ = files::remove_folder(&staging);
        }
        unpacked
    }

    fn unpack_into(&mut self, staging: &Path) -> Result<()> {
        files::make_folder(staging)?;
        let mut count = 0;
        loop {
            let Some(line) = self.lines.next_line()? else {
                return Err(self.lines.broken("the bundle was cut: its last line is missing"));
            };
            match serde_json::from_str(&line.text) {
                Ok(Section::File(head)) => {
                    self.unpack_file(staging, &head)?;
                    count += 1;
                }
                Ok(Section::End(end)) if end.end && end.files == count => return Ok(()),
                _ => return Err(self.lines.broken("not the head of a file")),
            }
        }
    }

    fn unpack_file(&mut self, staging: &Path, head: &FileHead) -> Result<()> {
        let file = Path::new(&head.file);
        let safe = |part: Component<'_>| match part {
            Component::Normal(name) => layout::check_id(&name.to_string_lossy()).is_ok(),
            _ => false,
        };
        let depth = file.components().count();
        if !file.components().all(safe) || depth == 0 || depth > DEEPEST {
            return Err(self.lines.broken(format!("`{}` is not a file of a run", head.file)));
        }
        layout::check_id(&head.run)?;
        if !self.baseline.runs.contains(&head.run) {
            return Err(self.lines.broken(format!("the baseline has no run `{}`", head.run)));
        }
        let target = staging.join(&head.run).join(file);
        let reader = &mut self.lines;
        let lines = (0..head.lines).map(|_| match reader.next_line()? {
            Some(Line { text, .. }) => Ok(text),
            None => Err(reader.broken("the bundle was cut inside a file")),
        });
        files::append_lines(&target, lines)
    }

    /// Moves the unpacked runs into place.
    fn settle(&self, store: &Store, staging: &Path) -> Result<Vec<String>> {
        let mut texts = BTreeMap::new();
        for id in &self.baseline.runs {
            layout::check_id(id)?;
            let path = staging.join(id).join("run.json");
            let text = files::read_text(&path)?;
            texts.insert(id, (parse_run(&path, &text)?, text));
        }
        let mut ids = Vec::new();
        for id in &self.baseline.runs {
            let Some((run, text)) = texts.get(id) else { continue };
            if files::read_text_if_any(&store.layout().run_file(id))?.as_ref() == Some(text) {
                ids.push(id.clone());
                continue;
            }
            let new_id = store.claim_run(id)?;
            let from = staging.join(id);
            if new_id != *id {
                let path = from.join("run.json");
                let renamed = crate::record::StoredRun { id: new_id.clone(), ..run.clone() };
                files::write_atomic(&path, to_json(&path, &renamed)?)?;
            }
            files::rename(&from, &store.layout().run(&new_id))?;
            ids.push(new_id);
        }
        Ok(ids)
    }
}
