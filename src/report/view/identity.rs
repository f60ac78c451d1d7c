//! What a run is known by: its servers, what differs between them, its command, its settings.

use super::glossary::Entry;
use crate::record::StoredRun;
use crate::report::{ReportInput, SideInput};
use crate::units;

/// Differing parameters told beside the run's identity; all are on the page of all sides.
const DIFFERING_TOLD: usize = 6;

/// What identifies the run, the most telling first.
#[must_use]
pub fn identity(input: &ReportInput) -> Vec<Entry> {
    let Some(run) = input.run() else { return Vec::new() };
    let mut entries = Vec::new();
    let mut add = |word: &str, meaning: String| {
        if !meaning.is_empty() {
            entries.push(Entry { word: word.to_owned(), meaning });
        }
    };
    let servers: Vec<(&str, String)> =
        input.sides.iter().map(|side| (side.name.as_str(), server_words(side))).collect();
    match servers.split_first() {
        Some(((_, first), rest)) if rest.iter().all(|(_, words)| words == first) => {
            add("server", first.clone());
        }
        _ => servers.into_iter().for_each(|(name, words)| add(name, words)),
    }
    let rows = super::compare::differing(input).into_iter().filter(|row| row.name != "server");
    for row in rows.take(DIFFERING_TOLD) {
        let values = input.sides.iter().zip(&row.values);
        let values: Vec<String> = values.map(|(s, v)| format!("{}: {v}", s.name)).collect();
        add(&format!("{} differs", row.name), values.join(" · "));
    }
    for (name, value) in &run.environment {
        let lower = name.to_lowercase();
        if lower.contains("gpu") || lower.contains("git") || lower.contains("revision") {
            add(name, value.clone());
        }
    }
    if input.sides.len() == 1 {
        for (name, value) in &run.metadata {
            add(name, value.clone());
        }
    }
    // Of more than base and new the last is named, with its owner.
    let whose = match input.sides.as_slice() {
        [_, _, .., last] => format!(" ({})", last.name),
        _ => String::new(),
    };
    add(&format!("run{whose}"), run_words(run));
    add(&format!("command{whose}"), run.command_line.join(" "));
    entries
}

/// What a side's server is called where that is not the side's name; its engine, model and URL.
fn server_words(side: &SideInput) -> String {
    let server = side.runs.last().and_then(|r| r.sides.get(&side.side));
    let Some(server) = server else { return String::new() };
    let engine = [server.engine.clone(), server.engine_version.clone()];
    let engine: Vec<String> = engine.into_iter().flatten().collect();
    let own_name = Some(&server.label).filter(|l| **l != side.name && **l != server.url);
    let label = own_name.cloned().unwrap_or_default();
    let parts = [label, engine.join(" "), server.model.clone(), server.url.clone()];
    let parts: Vec<String> = parts.into_iter().filter(|p| !p.is_empty()).collect();
    parts.join(" · ")
}

fn run_words(run: &StoredRun) -> String {
    let started = run.started_at.strftime("%Y-%m-%d %H:%M UTC");
    let took = run.ended_at.map(|end| end.duration_since(run.started_at).as_secs_f64());
    let took = took.map(|s| format!(", {}", units::duration(s))).unwrap_or_default();
    let status = match run.status {
        crate::record::stored::RunStatus::Complete => "",
        crate::record::stored::RunStatus::Running => ", unfinished",
        crate::record::stored::RunStatus::Interrupted => ", interrupted",
        crate::record::stored::RunStatus::Failed => ", failed",
    };
    format!("{} · {started}{took}{status} · seed {} · {}", run.id, run.seed.0, run.tool)
}

/// Settings, environment and engine settings, for whoever wants to repeat the run.
#[must_use]
pub fn facts(input: &ReportInput) -> Vec<Entry> {
    let Some(run) = input.run() else { return Vec::new() };
    let mut entries: Vec<Entry> = run
        .settings
        .iter()
        .chain(&run.environment)
        .map(|(word, meaning)| Entry { word: word.clone(), meaning: meaning.clone() })
        .collect();
    for (side, server) in &run.sides {
        let named = server.engine_settings.iter();
        let command = server.command.iter().map(|c| ("command", c));
        let whose = match side {
            crate::plan::Side::Base => "base",
            crate::plan::Side::New => "server",
        };
        let all = command.chain(named.map(|(k, v)| (k.as_str(), v)));
        entries.extend(all.map(|(word, meaning)| Entry {
            word: format!("{whose}: {word}"),
            meaning: meaning.clone(),
        }));
    }
    entries.push(Entry { word: "workload".into(), meaning: run.workload_hash.clone() });
    entries.push(Entry { word: "definitions".into(), meaning: run.definitions.clone() });
    entries
}
