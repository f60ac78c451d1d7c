//! Imports between files: every path in a file's code, resolved to the file that defines what it names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A file of src with what its code names.
struct Source {
    path: String,
    /// Names brought in by `use`, public or not: name → absolute path.
    uses: BTreeMap<String, Vec<String>>,
    /// Modules whose items are all brought in by `use module::*`.
    globs: Vec<Vec<String>>,
    /// Items that the file itself defines.
    defined: BTreeSet<String>,
    /// Paths in the code, absolute, without those of `pub use`.
    named: Vec<Vec<String>>,
}

/// Importing file → imported file → an item that is imported.
pub(super) type Graph = BTreeMap<String, BTreeMap<String, String>>;

/// The import graph of all files below src except `lib.rs` and `main.rs`.
///
/// A name that a file only re-exports counts as imported from where it is defined, so a `mod.rs` that only declares
/// and re-exports has no edges. Method calls are not seen.
pub(super) fn graph() -> Graph {
    let modules = modules();
    let mut graph = Graph::new();
    for source in modules.values() {
        for path in &source.named {
            let Some((target, item)) = resolve(&modules, path, 0) else { continue };
            if target != source.path && target != "src/lib.rs" && source.path != "src/lib.rs" {
                graph.entry(source.path.clone()).or_default().entry(target).or_insert(item);
            }
        }
    }
    graph
}

fn modules() -> BTreeMap<String, Source> {
    let mut files = Vec::new();
    super::rust_files(Path::new("src"), &mut files);
    let paths = files.iter().map(|path| path.to_string_lossy().into_owned());
    let names: BTreeMap<String, String> =
        paths.filter(|path| path != "src/main.rs").map(|path| (module_name(&path), path)).collect();
    let modules: BTreeSet<&str> = names.keys().map(String::as_str).collect();
    names.iter().map(|(name, path)| (name.clone(), read(name, path, &modules))).collect()
}

/// `src/a/b.rs` and `src/a/b/mod.rs` are `a::b`; `src/lib.rs` is the empty name.
fn module_name(path: &str) -> String {
    let inner = path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    if inner == "lib" { String::new() } else { inner.replace('/', "::") }
}

fn read(name: &str, path: &str, modules: &BTreeSet<&str>) -> Source {
    let text = fs::read_to_string(path).expect("source");
    let tokens = tokens(&text);
    let mut source = Source {
        path: path.to_owned(),
        uses: BTreeMap::new(),
        globs: Vec::new(),
        defined: BTreeSet::new(),
        named: Vec::new(),
    };
    let mut free = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let token = tokens[at].as_str();
        if token == "use" {
            let public = at > 0 && matches!(tokens[at - 1].as_str(), "pub" | ")");
            let mut leaves = Vec::new();
            at = use_tree(&tokens, at + 1, &[], &mut leaves);
            for (alias, leaf) in leaves {
                let leaf = absolute(name, &leaf, modules);
                if alias == "*" {
                    source.globs.push(leaf);
                } else {
                    if !public {
                        source.named.push(leaf.clone());
                    }
                    source.uses.insert(alias, leaf);
                }
            }
        } else if is_name(token) {
            if DEFINES.contains(&token) && tokens.get(at + 1).is_some_and(|t| is_name(t)) {
                if token != "mod" {
                    source.defined.insert(tokens[at + 1].clone());
                }
                at += 2;
                continue;
            }
            let mut segments = vec![token.to_owned()];
            while tokens.get(at + 1).is_some_and(|t| t == "::")
                && tokens.get(at + 2).is_some_and(|t| is_name(t))
            {
                segments.push(tokens[at + 2].clone());
                at += 2;
            }
            if segments.len() > 1 {
                free.push(segments);
            }
            at += 1;
        } else {
            at += 1;
        }
    }
    for segments in free {
        let path = match source.uses.get(&segments[0]) {
            Some(used) => used.iter().chain(&segments[1..]).cloned().collect(),
            None => absolute(name, &segments, modules),
        };
        source.named.push(path);
    }
    source
}

const DEFINES: [&str; 9] =
    ["fn", "struct", "enum", "trait", "type", "const", "static", "union", "mod"];

/// Reads one tree of a `use` from `at`; returns the place after it.
fn use_tree(
    tokens: &[String],
    mut at: usize,
    before: &[String],
    leaves: &mut Vec<(String, Vec<String>)>,
) -> usize {
    let mut path = before.to_vec();
    loop {
        let Some(token) = tokens.get(at) else { return at };
        match token.as_str() {
            "::" => at += 1,
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|t| t != "}") {
                    at = use_tree(tokens, at, &path, leaves);
                    at += usize::from(tokens.get(at).is_some_and(|t| t == ","));
                }
                return at + 1;
            }
            "*" => {
                leaves.push(("*".to_owned(), path));
                return at + 1;
            }
            "as" => {
                leaves.push((tokens[at + 1].clone(), path));
                return at + 2;
            }
            "self" if !path.is_empty() => at += 1,
            name if is_name(name) => {
                path.push(token.clone());
                at += 1;
            }
            _ => {
                if let Some(last) = path.last() {
                    leaves.push((last.clone(), path.clone()));
                }
                return at;
            }
        }
    }
}

/// The path from the crate's root; an unrooted path keeps its first name unless that is a child module.
fn absolute(module: &str, path: &[String], modules: &BTreeSet<&str>) -> Vec<String> {
    let mut base: Vec<String> =
        module.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let mut rest = path;
    match path[0].as_str() {
        "crate" => {
            base.clear();
            rest = &path[1..];
        }
        "self" | "super" => {
            while let Some(first) = rest.first() {
                match first.as_str() {
                    "self" => {}
                    "super" => {
                        base.pop();
                    }
                    _ => break,
                }
                rest = &rest[1..];
            }
        }
        first => {
            let child = base.iter().map(String::as_str).chain([first]).collect::<Vec<_>>();
            if !modules.contains(child.join("::").as_str()) {
                // An item of another crate, or an associated item.
                return [vec!["::".to_owned()], path.to_vec()].concat();
            }
        }
    }
    base.extend_from_slice(rest);
    base
}

/// The file that defines what `path` names, and the item's name; none for a module and for what is not of this crate.
fn resolve(
    modules: &BTreeMap<String, Source>,
    path: &[String],
    depth: usize,
) -> Option<(String, String)> {
    assert!(depth < 16, "re-exports run in a circle at {path:?}");
    let known = (0..=path.len()).rev().find(|&n| modules.contains_key(&path[..n].join("::")))?;
    let item = path.get(known)?;
    let source = &modules[&path[..known].join("::")];
    if known == 0 && item == "::" {
        return None;
    }
    if source.defined.contains(item) {
        return Some((source.path.clone(), item.clone()));
    }
    if let Some(used) = source.uses.get(item) {
        let whole = used.iter().chain(&path[known + 1..]).cloned().collect::<Vec<_>>();
        return resolve(modules, &whole, depth + 1);
    }
    for glob in &source.globs {
        let module = modules.get(&glob.join("::"));
        if module.is_some_and(|module| module.defined.contains(item)) {
            return Some((module?.path.clone(), item.clone()));
        }
    }
    Some((source.path.clone(), item.clone()))
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names and punctuation of the code up to the unit tests, without comments and literals.
fn tokens(text: &str) -> Vec<String> {
    let end = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
    let mut rest = &text[..end];
    let mut tokens = Vec::new();
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(length) = literal(rest) {
            length
        } else if first.is_alphabetic() || first == '_' {
            let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let length = length.unwrap_or(rest.len());
            tokens.push(rest[..length].to_owned());
            length
        } else if rest.starts_with("::") {
            tokens.push("::".to_owned());
            2
        } else {
            if !first.is_whitespace() {
                tokens.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// The length of a string, byte string, raw string or character that `rest` begins with.
fn literal(rest: &str) -> Option<usize> {
    let body = rest.strip_prefix('b').unwrap_or(rest);
    let prefix = rest.len() - body.len();
    if let Some(raw) = body.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let inner = raw[hashes + 1..].find(&close)?;
            return Some(prefix + 1 + hashes + 1 + inner + close.len());
        }
    }
    let quote = body.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    if quote == '\''
        && !body[1..].starts_with('\\')
        && body.chars().nth(2).is_none_or(|c| c != '\'')
    {
        return (prefix == 0).then_some(1); // a lifetime
    }
    let mut escaped = false;
    for (at, c) in body.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return Some(prefix + at + 1);
        }
    }
    None
}
