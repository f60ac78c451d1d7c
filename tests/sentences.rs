//! Facts travel as types and become sentences at the edge: no code asks a sentence what it says.

use std::fs;
use std::path::Path;

use crate::architecture::{code_lines, rust_files};

/// Comparisons of text, up to the opening quote.
const QUESTIONS: [&str; 9] = [
    "==\"",
    "!=\"",
    ".contains(\"",
    ".starts_with(\"",
    ".ends_with(\"",
    ".strip_prefix(\"",
    ".strip_suffix(\"",
    ".split_once(\"",
    ".rsplit_once(\"",
];

/// Where the text is of somebody else's making, and what is asked of it.
const FOREIGN: [(&str, &str); 7] = [
    ("src/environment.rs", "model name"),   // /proc/cpuinfo
    ("src/server/", "Bearer "),             // a header
    ("src/server/", ") with config: "),     // vLLM's log
    ("src/server/", "non-default args: {"), // vLLM's log
    ("src/transport/", "<!doctype html"),   // a page in place of a stream
    ("src/scenario/", "field `api_key"),    // an error of the TOML reader
    ("src/compare/gate_reason.rs", ""),     // the causes of a stored gate are read back here alone
];

/// Constants that hold a sentence: `NAME` and its text.
fn constants(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for rest in text.split("const ").skip(1) {
        let Some((name, rest)) = rest.split_once(": &str =") else { continue };
        let literal = rest.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next());
        if let Some(literal) = literal.filter(|literal| is_sentence(literal)) {
            found.push((name.to_owned(), literal.to_owned()));
        }
    }
    found
}

fn is_sentence(literal: &str) -> bool {
    literal.trim().contains(' ') && literal.contains(char::is_alphabetic)
}

/// The sentences that code compares a text with: literals, and constants by their names.
fn questions(text: &str) -> Vec<String> {
    let code: String = code_lines(text).map(|(_, line)| line.trim().to_owned() + "\n").collect();
    // `contains(` and its argument may stand on two lines, `==` and its own with a space between.
    let joined = code.replace("(\n", "(").replace("== ", "==").replace("!= ", "!=");
    let mut found = Vec::new();
    for question in QUESTIONS {
        for rest in joined.split(question).skip(1) {
            let literal = rest.split('"').next().unwrap_or_default();
            if is_sentence(literal) || literal.ends_with(' ') && literal.len() > 2 {
                found.push(literal.to_owned());
            }
        }
    }
    for (name, literal) in constants(text) {
        let asked = QUESTIONS
            .iter()
            .any(|question| joined.contains(&format!("{}{name}", question.trim_end_matches('"'))));
        if asked || joined.contains(&format!("{name} =>")) {
            found.push(literal);
        }
    }
    found
}

#[test]
fn no_code_compares_a_sentence_with_a_sentence() {
    let mut files = Vec::new();
    rust_files(Path::new("src"), &mut files);
    let mut faults = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).expect("source");
        let name = path.display().to_string();
        for asked in questions(&text) {
            let foreign = |(file, literal): &(&str, &str)| {
                name.starts_with(file) && asked.starts_with(literal)
            };
            if !FOREIGN.iter().any(foreign) {
                faults.push(format!("{name}: {asked:?}: give the fact a type instead"));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn the_search_finds_a_compared_sentence() {
    let text = "if reason == \"nothing was measured\" {\nline.contains(\n    \"is too good\",\n)";
    assert_eq!(questions(text), ["nothing was measured", "is too good"]);
    let text = "const NOTHING: &str = \"nothing was measured\";\nif line ==NOTHING {";
    assert_eq!(questions(text), ["nothing was measured"]);
    assert!(questions("unit == \"ms\" || url.starts_with(\"http://\")").is_empty());
}

/// Phrases that a reader stumbles over; what to write in their place is plain English or the field's term.
const RIDDLES: [&str; 19] = [
    "none where",
    "march in waves",
    "whether to believe",
    "what limits trust",
    "where the limit is",
    "by the server's clock",
    "held against",
    "its edges weigh",
    "measures truly",
    "events stuck",
    "time at the cap",
    "took at most so long",
    "could be told",
    "cannot be told",
    "told apart",
    "the new normal",
    "came to stand",
    "of its own accord",
    "nobody counted",
];

/// Help and strings of the program, and the pages: doc comments of flags are help.
#[test]
fn no_riddles_reach_a_reader() {
    let mut found = Vec::new();
    let mut files = Vec::new();
    rust_files(Path::new("src"), &mut files);
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let is_help = path.starts_with("src/cli") || path.starts_with("src/settings");
        for (number, line) in text.lines().enumerate() {
            let is_comment = line.trim_start().starts_with("//");
            if is_comment && !is_help {
                continue;
            }
            let riddle = RIDDLES.iter().find(|riddle| line.contains(**riddle));
            found.extend(
                riddle.map(|riddle| format!("{}:{}: {riddle}", path.display(), number + 1)),
            );
        }
    }
    for page in fs::read_dir("templates").unwrap() {
        let path = page.unwrap().path();
        let text = fs::read_to_string(&path).unwrap_or_default();
        let riddle = RIDDLES.iter().find(|riddle| text.contains(**riddle));
        found.extend(riddle.map(|riddle| format!("{}: {riddle}", path.display())));
    }
    assert!(found.is_empty(), "{found:#?}");
}
