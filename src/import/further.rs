//! A further start: results that the user says were measured after a restart of the same server.
//!
//! The files do not tell one start of a server from another, so this rests on the user's word, which the
//! run keeps. What the files do tell must not speak against it: another model, or a result that is there
//! already.

use super::imported::Imported;
use crate::error::{Error, Result};
use crate::record::{Finding, FindingCode, Severity, StoredRound, StoredRun};

/// Makes the run one more start of the configuration that `before` measured; with nothing before it, its
/// first.
///
/// # Errors
/// Where the runs before are of another model, API or tool, or hold one of the results already.
pub fn as_further_start(imported: &mut Imported, name: &str, before: &[StoredRun]) -> Result<()> {
    for earlier in before {
        same_configuration(&imported.run, name, earlier)?;
        not_there_already(&imported.run, name, earlier)?;
    }
    let run = &mut imported.run;
    for start in &mut run.starts {
        let number = before.len() + 1;
        start.identity = Some(format!("start {number} of `{name}`, by the user's word"));
    }
    run.settings.insert("start".to_owned(), "its own, as told by `import --append`".to_owned());
    run.findings.retain(|finding| finding.code != FindingCode::NoStarts);
    run.findings.push(Finding::new(
        FindingCode::StartTold,
        Severity::Note,
        "the files do not say when the server was restarted: that each `import --append` is a start of its own is the user's word",
    ));
    let differing = before.last().into_iter().flat_map(|earlier| differing(run, earlier));
    let differing: Vec<String> = differing.collect();
    if !differing.is_empty() {
        let text = format!("not the same at every start of `{name}`: {}", differing.join(", "));
        run.findings.push(Finding::new(FindingCode::MixedMetadata, Severity::Warning, text));
    }
    Ok(())
}

/// One name is one configuration.
fn same_configuration(run: &StoredRun, name: &str, earlier: &StoredRun) -> Result<()> {
    let of = |run: &StoredRun| {
        let side = run.sides.values().next_back();
        let text = |pick: fn(&crate::record::stored::StoredSide) -> &String| {
            side.map(|side| pick(side).clone()).unwrap_or_default()
        };
        [
            ("model", text(|side| &side.model)),
            ("API", text(|side| &side.api)),
            ("definitions", run.definitions.clone()),
        ]
    };
    for ((what, ours), (_, theirs)) in of(run).into_iter().zip(of(earlier)) {
        if ours != theirs {
            return Err(Error::usage(format!(
                "these files and the starts of `{name}` differ in their {what}: `{ours}` and `{theirs}`"
            ))
            .with_hint("one name is one configuration: import them under another name"));
        }
    }
    Ok(())
}

/// The same result twice would pass for two starts that agree to the last digit.
fn not_there_already(run: &StoredRun, name: &str, earlier: &StoredRun) -> Result<()> {
    let same = |a: &StoredRound, b: &StoredRound| {
        (&a.point, a.window_close_ns, &a.reported) == (&b.point, b.window_close_ns, &b.reported)
    };
    let twice = run.rounds.iter().find(|a| earlier.rounds.iter().any(|b| same(a, b)));
    twice.map_or(Ok(()), |round| {
        Err(Error::usage(format!("`{name}` holds this result of {} already", round.point))
            .with_hint("import each file once: one start measured once is one start"))
    })
}

/// The user's facts whose values differ.
fn differing(run: &StoredRun, earlier: &StoredRun) -> Vec<String> {
    let facts = run.metadata.iter();
    let other = facts.filter_map(|(name, value)| {
        let before = earlier.metadata.get(name).filter(|before| *before != value)?;
        Some(format!("`{name}` ({before}, then {value})"))
    });
    other.collect()
}
