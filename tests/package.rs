//! The published crate: every link of its pages leads to a file that is in it, and its oldest Rust is tested.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// Where the repository's own files are on the web: links there must lead to files of the tree.
const REPOSITORY: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/");

/// The files that `cargo package` would pack, by their paths in the crate.
fn packed() -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["package", "--list", "--allow-dirty", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let list = String::from_utf8(output.stdout).expect("paths are UTF-8");
    list.lines().map(|path| path.replace('\\', "/")).collect()
}

/// The prose of a page: its lines outside fenced code, without code spans.
fn prose(page: &str) -> String {
    let mut is_code = false;
    let mut prose = String::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            prose.extend(line.split('`').step_by(2));
            prose.push('\n');
        }
    }
    prose
}

/// The targets of a page's links and images, inline, by reference and as HTML.
fn links(page: &str) -> Vec<String> {
    let prose = prose(page);
    let between = |open: &'static str, close: &'static [char]| {
        prose.split(open).skip(1).filter_map(move |rest| rest.split(close).next())
    };
    let inline = between("](", &[')', ' ', '\n']);
    let html = between("src=\"", &['"']).chain(between("href=\"", &['"']));
    let definition = |line: &'_ str| Some(line.strip_prefix('[')?.split_once("]: ")?.1.to_owned());
    let references = prose.lines().filter_map(definition);
    inline.chain(html).map(str::to_owned).chain(references).collect()
}

/// The anchors of a page's headings, as GitHub names them.
fn anchors(page: &str) -> BTreeSet<String> {
    let heading = |line: &str| {
        let text = line.trim_start_matches('#').trim().to_lowercase();
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        text.chars().filter(kept).collect::<String>().replace(' ', "-")
    };
    page.lines().filter(|line| line.starts_with('#')).map(heading).collect()
}

/// `docs/a.md` and `../README.md` make `README.md`; `None` if the link leaves the crate.
fn resolve(page: &str, link: &str) -> Option<String> {
    let mut path = PathBuf::from(page).parent()?.to_owned();
    for component in Path::new(link).components() {
        match component {
            Component::ParentDir => {
                if !path.pop() {
                    return None;
                }
            }
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path.to_str()?.to_owned())
}

/// Why a link of `page` is broken in a crate that holds `pages` and `files`; `None` if it is not.
fn broken(
    page: &str,
    link: &str,
    files: &BTreeSet<String>,
    pages: &BTreeMap<String, String>,
) -> Option<String> {
    if let Some(path) = link.strip_prefix(REPOSITORY) {
        let path = path.split('#').next().unwrap_or(path);
        return (!Path::new(path).exists()).then(|| format!("the repository has no `{path}`"));
    }
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let Some(target) = (if path.is_empty() { Some(page.to_owned()) } else { resolve(page, path) })
    else {
        return Some("it leaves the crate".to_owned());
    };
    let is_folder =
        || files.iter().any(|f| f.strip_prefix(&target).is_some_and(|r| r.starts_with('/')));
    if !files.contains(&target) && !is_folder() {
        return Some(format!("the crate has no `{target}`"));
    }
    let has_anchor = pages.get(&target).is_none_or(|text| anchors(text).contains(anchor));
    (!anchor.is_empty() && !has_anchor).then(|| format!("`{target}` has no heading `#{anchor}`"))
}

#[test]
fn every_link_of_a_page_leads_to_a_packed_file() {
    let files = packed();
    let is_page = |path: &&String| path.ends_with(".md");
    let read = |path: &String| (path.clone(), fs::read_to_string(path).expect("a page"));
    let pages: BTreeMap<String, String> = files.iter().filter(is_page).map(read).collect();
    for page in ["README.md", "ARCHITECTURE.md", "docs/README.md"] {
        assert!(pages.contains_key(page), "{page} is not in the crate");
    }
    let mut faults = Vec::new();
    for (page, text) in &pages {
        for link in links(text) {
            if let Some(why) = broken(page, &link, &files, &pages) {
                faults.push(format!("{page}: `{link}`: {why}"));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// The doc comments of a source file, as one Markdown page.
fn doc_comments(code: &str) -> String {
    let comment = |line: &str| {
        let line = line.trim_start();
        let text = line.strip_prefix("//!").or_else(|| line.strip_prefix("///"))?;
        Some(format!("{}\n", text.strip_prefix(' ').unwrap_or(text)))
    };
    code.lines().filter_map(comment).collect()
}

/// docs.rs serves no file of the crate: a doc comment links to items, or to files of the repository by URL.
#[test]
fn no_doc_comment_links_to_a_file_by_its_path() {
    let files = packed();
    let is_code = |path: &&String| path.starts_with("src/") && path.ends_with(".rs");
    let mut faults = Vec::new();
    for path in files.iter().filter(is_code) {
        for link in links(&doc_comments(&fs::read_to_string(path).expect("source"))) {
            let why = if link.contains("://") {
                broken(path, &link, &files, &BTreeMap::new())
            } else {
                let is_path = link.contains('/') || link.ends_with(".md");
                is_path.then(|| "a path".to_owned())
            };
            faults.extend(why.map(|why| format!("{path}: `{link}`: {why}")));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn the_oldest_supported_rust_is_tested() {
    let workflow = fs::read_to_string(".github/workflows/ci.yml").expect("the workflow");
    let oldest = format!("toolchain: [stable, \"{}\"]", env!("CARGO_PKG_RUST_VERSION"));
    assert!(workflow.contains(&oldest), "ci.yml does not test `{oldest}`");
}

#[test]
fn a_broken_link_is_found() {
    let page = "[a](gone.md) ![b](docs/b.png) [c](#one) `[d](code)`\n# Two!\n[e]: ../e\n```\n[f](f)\n```\n";
    let files = BTreeSet::from(["README.md".to_owned(), "docs/b.png".to_owned()]);
    let pages = BTreeMap::from([("README.md".to_owned(), page.to_owned())]);
    let found: Vec<String> =
        links(page).iter().filter_map(|link| broken("README.md", link, &files, &pages)).collect();
    assert_eq!(
        found,
        ["the crate has no `gone.md`", "`README.md` has no heading `#one`", "it leaves the crate"]
    );
}
