//! The public items: what `src/lib.rs` re-exports and the macros. Widening them is a visible change.

use std::collections::BTreeSet;
use std::fs;

/// The names that a `use` tree brings in: `a::{b, c::d as e}` gives b and e.
fn names(tree: &str, found: &mut BTreeSet<String>) {
    let tree = tree.trim();
    match tree.split_once('{') {
        Some((_, inner)) => {
            let inner = inner.trim_end().strip_suffix('}').expect("a group ends");
            let mut depth = 0;
            let split = |c: char| {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    _ => {}
                }
                c == ',' && depth == 0
            };
            inner.split(split).filter(|part| !part.trim().is_empty()).for_each(|p| names(p, found));
        }
        None => {
            let last = tree.rsplit(" as ").next().and_then(|t| t.rsplit("::").next());
            found.insert(last.expect("a name").to_owned());
        }
    }
}

#[test]
fn the_public_items_are_these() {
    let lib = fs::read_to_string("src/lib.rs").expect("source");
    let mut found = BTreeSet::new();
    // Indented ones are of hidden modules.
    for statement in lib.split("\npub use ").skip(1) {
        names(statement.split(';').next().expect("a statement"), &mut found);
    }
    let macros = fs::read_to_string("src/macros.rs").expect("source");
    for after in macros.split("#[macro_export]").skip(1) {
        let name =
            after.split("macro_rules! ").nth(1).and_then(|rest| rest.split([' ', '{']).next());
        found.insert(format!("{}!", name.expect("a macro")));
    }
    let list: Vec<String> = found.into_iter().collect();
    insta::assert_snapshot!(list.join("\n"));
}
