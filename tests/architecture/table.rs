//! The table of files: ARCHITECTURE.md lists every file of src with its first `//!` line.

use std::fs;
use std::path::Path;

const HEAD: &str = "## Files\n";

/// `UPDATE_ARCHITECTURE=1 cargo test --test main every_file_has_its_row` rewrites the table.
#[test]
fn every_file_has_its_row() {
    let text = fs::read_to_string("ARCHITECTURE.md").expect("ARCHITECTURE.md");
    let table = table();
    let (before, rest) = text.split_once(HEAD).expect("a section `## Files`");
    let (stored, after) = rest.split_once("\n## ").expect("a section after `## Files`");
    if std::env::var_os("UPDATE_ARCHITECTURE").is_some() {
        let text = format!("{before}{HEAD}{table}\n## {after}");
        fs::write("ARCHITECTURE.md", text).expect("ARCHITECTURE.md");
        return;
    }
    let missing = |there: &str, here: &str| -> Vec<String> {
        let new = |line: &&str| !here.lines().any(|other| other == *line);
        there.lines().filter(new).map(str::to_owned).collect()
    };
    let (added, gone) = (missing(&table, stored), missing(stored, &table));
    assert!(
        added.is_empty() && gone.is_empty(),
        "the table of files is out of date; run `UPDATE_ARCHITECTURE=1 cargo test --test main every_file_has_its_row`\n\
         missing:\n{}\nout of date:\n{}",
        added.join("\n"),
        gone.join("\n")
    );
}

fn table() -> String {
    let mut files = Vec::new();
    super::rust_files(Path::new("src"), &mut files);
    let mut rows: Vec<(String, String)> = files
        .iter()
        .map(|path| {
            let text = fs::read_to_string(path).expect("source");
            let name = path.strip_prefix("src").expect("below src").to_string_lossy();
            (name.into_owned(), first_sentence(&text).replace('|', "\\|"))
        })
        .collect();
    rows.sort();
    let mut table = String::from(
        "\nThe first line of each file below `src`.\n\n| file | what it is |\n|---|---|\n",
    );
    for (name, what) in rows {
        table.push_str(&format!("| `{name}` | {what} |\n"));
    }
    table
}

/// The first paragraph of a file's comment, on one line.
fn first_sentence(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}
