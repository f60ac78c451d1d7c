//! Layers have no cycles: ARCHITECTURE.md's table against the `crate::` paths in src.

mod circles;
mod imports;
mod public;
mod table;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Module → row of the table. A module may import from rows above its own.
fn layers() -> BTreeMap<String, usize> {
    let text = fs::read_to_string("ARCHITECTURE.md").expect("ARCHITECTURE.md");
    let table = text.split("## Layers").nth(1).expect("a section `## Layers`");
    let rows = table
        .lines()
        .skip_while(|line| !line.starts_with("|---"))
        .skip(1)
        .take_while(|line| line.starts_with('|'));
    let mut layers = BTreeMap::new();
    for (row, line) in rows.enumerate() {
        let modules = line.split('|').nth(2).expect("a second column");
        for module in modules.split('`').skip(1).step_by(2) {
            assert!(layers.insert(module.to_owned(), row).is_none(), "`{module}` stands twice");
        }
    }
    layers
}

pub(crate) fn rust_files(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("src") {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}

fn module_of(path: &Path) -> String {
    let inner = path.strip_prefix("src").expect("below src");
    let first = inner.components().next().expect("a name").as_os_str().to_string_lossy();
    first.trim_end_matches(".rs").to_owned()
}

/// The code of a file up to its unit tests, comments left out.
pub(crate) fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let end = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
    text[..end]
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(number, line)| (number + 1, line))
}

fn imports(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for rest in line.split("crate::").skip(1) {
        // `use crate::{a, b::c}` names several.
        let names = rest.strip_prefix('{').map_or(rest, |r| r.split('}').next().unwrap_or(r));
        let several = rest.starts_with('{');
        for name in names.split(',') {
            let name: String =
                name.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if !name.is_empty() {
                found.push(name);
            }
            if !several {
                break;
            }
        }
    }
    found
}

#[test]
fn modules_import_only_from_rows_above() {
    let layers = layers();
    let mut files = Vec::new();
    rust_files(Path::new("src"), &mut files);
    let mut faults = Vec::new();
    for path in files {
        let module = module_of(&path);
        if module == "lib" || module == "main" {
            continue;
        }
        let Some(own) = layers.get(&module) else {
            faults.push(format!("{}: `{module}` has no row in ARCHITECTURE.md", path.display()));
            continue;
        };
        let text = fs::read_to_string(&path).expect("source");
        for (number, line) in code_lines(&text) {
            for import in imports(line) {
                let Some(theirs) = layers.get(&import) else { continue };
                if import != module && (theirs > own || (theirs == own && import != "error")) {
                    faults.push(format!(
                        "{}:{number}: `{module}` (row {own}) imports `{import}` (row {theirs}): only from rows above",
                        path.display()
                    ));
                }
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn the_simulator_shares_no_reading_of_the_protocol() {
    let mut files = Vec::new();
    rust_files(Path::new("src/sim"), &mut files);
    for path in files {
        let text = fs::read_to_string(&path).expect("source");
        for (number, line) in code_lines(&text) {
            for import in imports(line) {
                assert!(
                    ["error", "units", "metric", "rng", "clock", "sim", "Error", "Result"]
                        .contains(&import.as_str()),
                    "{}:{number}: sim imports `{import}`",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn files_stay_readable() {
    let mut files = Vec::new();
    rust_files(Path::new("src"), &mut files);
    rust_files(Path::new("tests"), &mut files);
    for path in files {
        let text = fs::read_to_string(&path).expect("source");
        let lines = text.lines().count();
        assert!(lines <= 500, "{}: {lines} lines: is it one noun?", path.display());
        assert!(text.starts_with("//!"), "{}: the first line says what it is", path.display());
    }
}
