//! No circle of files: what a file imports never imports it back, directly or through others.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::{self, Graph};

#[test]
fn no_circle_of_files() {
    let graph = imports::graph();
    assert!(graph.len() > 100, "the imports of only {} files were found", graph.len());
    let faults: Vec<String> =
        circles(&graph).into_iter().map(|circle| describe(&graph, &circle)).collect();
    assert!(faults.is_empty(), "files that import each other in a circle:\n{}", faults.join("\n"));
}

#[test]
fn a_circle_is_found() {
    let edge =
        |from: &str, to: &str| (from.to_owned(), BTreeMap::from([(to.to_owned(), String::new())]));
    let graph = Graph::from([edge("a", "b"), edge("b", "c"), edge("c", "b"), edge("d", "a")]);
    assert_eq!(circles(&graph), [BTreeSet::from(["b".to_owned(), "c".to_owned()])]);
}

/// The sets of files that reach each other.
fn circles(graph: &Graph) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|file| (file.as_str(), reached_from(graph, file))).collect();
    let mut circles: Vec<BTreeSet<String>> = Vec::new();
    for (file, theirs) in &reached {
        if theirs.contains(file) && !circles.iter().any(|circle| circle.contains(*file)) {
            let back =
                theirs.iter().filter(|other| reached.get(*other).is_some_and(|r| r.contains(file)));
            circles.push(back.map(|other| (*other).to_owned()).collect());
        }
    }
    circles
}

fn reached_from<'a>(graph: &'a Graph, file: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![file];
    while let Some(file) = open.pop() {
        for next in graph.get(file).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    reached
}

fn describe(graph: &Graph, circle: &BTreeSet<String>) -> String {
    let mut lines = Vec::new();
    for file in circle {
        for (target, item) in
            graph.get(file).into_iter().flatten().filter(|(t, _)| circle.contains(*t))
        {
            lines.push(format!("  {file} imports {target} ({item})"));
        }
    }
    lines.push(String::new());
    lines.join("\n")
}
