//! Where everything lies on disk, drawn once.
//!
//! ```text
//! <root>/                                             target-reports, unless `--output-dir` says otherwise
//!   runs/<UTC time>-<name or hash>/                   one run, never overwritten
//!     run.json                                        the run: sides, starts, rounds, findings (schema 1)
//!     comparison.json                                 its verdicts, where there are any
//!     server-<start>.log                              what a server launched by us wrote
//!     <group>/<scenario>/<load-point>/requests.jsonl  one line a request
//!     <group>/<scenario>/<load-point>/itl.hist        two lines a round: ITL and ICL
//!   baselines/<name>.json                             the runs it points at, and its history
//!   calibrations/<model and engine>.json              how noisy a server is, by day
//!   report/                                           rebuilt from runs at any time
//!   selftest.json                                     what this machine measures accurately, the latest
//!   .lock                                             held while a baseline or the list of runs changes
//! ```
//!
//! Names that begin with a dot are temporary files: never data.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::rng::Seed;

/// The longest part of a name that is kept as it is, bytes. With its hash it stays far below the
/// 255 bytes of common file systems.
const LONGEST_NAME: usize = 80;

/// The paths below one root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// The layout below `root`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The root itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where runs lie.
    #[must_use]
    pub fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// The folder of a run. Ids are made of safe names; anything else is made safe here.
    #[must_use]
    pub fn run(&self, run_id: &str) -> PathBuf {
        let name = check_id(run_id).map_or_else(|_| safe_name(run_id), |()| run_id.to_owned());
        self.runs().join(name)
    }

    /// The run itself.
    #[must_use]
    pub fn run_file(&self, run_id: &str) -> PathBuf {
        self.run(run_id).join("run.json")
    }

    /// The verdicts of a run.
    #[must_use]
    pub fn comparison(&self, run_id: &str) -> PathBuf {
        self.run(run_id).join("comparison.json")
    }

    /// The folder of a load point, by its id.
    #[must_use]
    pub fn point(&self, run_id: &str, point_id: &str) -> PathBuf {
        let mut path = self.run(run_id);
        path.extend(point_parts(point_id));
        path
    }

    /// The requests of a load point.
    #[must_use]
    pub fn requests(&self, run_id: &str, point_id: &str) -> PathBuf {
        self.point(run_id, point_id).join("requests.jsonl")
    }

    /// The gap histograms of a load point.
    #[must_use]
    pub fn gaps(&self, run_id: &str, point_id: &str) -> PathBuf {
        self.point(run_id, point_id).join("itl.hist")
    }

    /// What a server that we launched wrote, by the ordinal of its start.
    #[must_use]
    pub fn server_log(&self, run_id: &str, side: &str) -> PathBuf {
        self.run(run_id).join(format!("server-{side}.log"))
    }

    /// Where baselines lie.
    #[must_use]
    pub fn baselines(&self) -> PathBuf {
        self.root.join("baselines")
    }

    /// A baseline.
    #[must_use]
    pub fn baseline(&self, name: &str) -> PathBuf {
        self.baselines().join(format!("{}.json", safe_name(name)))
    }

    /// Where the report is built.
    #[must_use]
    pub fn report(&self) -> PathBuf {
        self.root.join("report")
    }

    /// The latest self-test of this machine.
    #[must_use]
    pub fn selftest(&self) -> PathBuf {
        self.root.join("selftest.json")
    }

    /// Where calibrations lie.
    #[must_use]
    pub fn calibrations(&self) -> PathBuf {
        self.root.join("calibrations")
    }

    /// The calibrations of a server, by the name of its model and engine.
    #[must_use]
    pub fn calibration(&self, key: &str) -> PathBuf {
        self.calibrations().join(format!("{}.json", safe_name(key)))
    }

    /// Held while a run is written.
    pub(super) fn run_lock(&self, run_id: &str) -> PathBuf {
        self.run(run_id).join(".lock")
    }

    /// Held while a store is changed.
    pub(super) fn lock(&self) -> PathBuf {
        self.root.join(".lock")
    }
}

/// The id of a run that begins at `at`: `20260102T030405Z-main`. Ids sort by time.
#[must_use]
pub fn run_id(at: jiff::Timestamp, name: Option<&str>, workload_hash: &str) -> String {
    let name = name.filter(|name| !name.is_empty()).map_or_else(
        || {
            // The name of the hash comes first, as in `fnv1a128:18276d37…`.
            let digits = workload_hash.rsplit(':').next().unwrap_or_default();
            digits.chars().filter(char::is_ascii_alphanumeric).take(8).collect()
        },
        safe_name,
    );
    format!("{}-{name}", at.strftime("%Y%m%dT%H%M%SZ"))
}

/// The folders of a load point's id: group, scenario, load. What lies between the first and the
/// last slash is the scenario, whatever its name holds, so different ids have different folders.
fn point_parts(point_id: &str) -> Vec<String> {
    let Some((group, rest)) = point_id.split_once('/') else { return vec![safe_name(point_id)] };
    match rest.rsplit_once('/') {
        Some((scenario, load)) => vec![safe_name(group), safe_name(scenario), safe_name(load)],
        None => vec![safe_name(group), safe_name(rest)],
    }
}

/// A file name for any text. Different texts get different names, also where the file system does
/// not tell upper from lower case: text that is not plain is kept as far as it can be read and
/// gets `~` and a hash, and no plain text holds a `~`.
#[must_use]
pub fn safe_name(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    let mut name = String::new();
    for c in text.chars() {
        if name.len() + c.len_utf8() > LONGEST_NAME {
            break;
        }
        // Letters of any script stay. A dot stays after one: elsewhere it hides a file or climbs.
        let after_letter = name.ends_with(char::is_alphanumeric);
        let keep = c.is_alphanumeric() || matches!(c, '-' | '_') || (c == '.' && after_letter);
        name.push(if keep { c } else { '_' });
    }
    format!("{name}~{:016x}", Seed(0).named(text).0)
}

/// Whether `text` can be a file name as it is, on any common system.
fn is_plain(text: &str) -> bool {
    let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"-_.".contains(&c);
    !text.is_empty()
        && text.len() <= LONGEST_NAME
        && text.bytes().all(plain)
        && !text.starts_with(['.', '-'])
        && !text.ends_with('.')
        && !is_reserved(text)
}

/// Names that Windows keeps for devices, with or without an extension.
fn is_reserved(text: &str) -> bool {
    let stem = text.split('.').next().unwrap_or_default();
    matches!(stem, "con" | "prn" | "aux" | "nul")
        || (stem.len() == 4
            && (stem.starts_with("com") || stem.starts_with("lpt"))
            && stem.ends_with(|c: char| c.is_ascii_digit()))
}

/// Refuses a name that cannot stand in a path as it is: a run's id from a file or a flag.
pub(super) fn check_id(id: &str) -> Result<()> {
    let fits = !id.is_empty()
        && id.len() <= 255
        && !id.starts_with('.')
        && id.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '~'));
    if fits {
        return Ok(());
    }
    Err(Error::usage(format!("`{}` is not the id of a run", id.escape_debug()))
        .with_hint("`inferometer runs list` shows the ids"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn plain_names_stay_as_they_are() {
        for name in ["chat", "short-512x128", "r2.5b0.5m64", "c16", "a_b", "console"] {
            assert_eq!(safe_name(name), name);
        }
    }

    #[test]
    fn any_name_is_safe_and_no_two_meet() {
        let long = "x".repeat(500);
        let long_too = format!("{long}y");
        let names = [
            "",
            ".",
            "..",
            "../../etc/passwd",
            "a/b",
            "a_b",
            "a\\b",
            "a:b",
            "Chat",
            "chat",
            "CHAT",
            "con",
            "nul.txt",
            "lpt1",
            ".hidden",
            "-rf",
            "dot.",
            "trailing ",
            "对话",
            "對話",
            "🦀",
            "a\0b",
            "a\nb",
            "é",
            "e\u{301}",
            "a~b",
            &long,
            &long_too,
        ];
        let mut seen = BTreeSet::new();
        for name in names {
            let safe = safe_name(name);
            assert!(seen.insert(safe.to_lowercase()), "{name:?} meets another as {safe}");
            assert!(safe.len() <= 120 && !safe.starts_with('.') && !safe.is_empty(), "{safe}");
            assert!(!safe.contains(['/', '\\', '\0', ':', '\n']), "{safe}");
        }
        assert!(safe_name("对话").starts_with("对话~"));
    }

    #[test]
    fn a_point_has_three_folders_whatever_its_names_hold() {
        let layout = Layout::new("out");
        let below = |id: &str| {
            let path = layout.requests("r", id);
            path.strip_prefix("out/runs/r").unwrap().to_string_lossy().into_owned()
        };
        assert_eq!(below("chat/short/c16"), "chat/short/c16/requests.jsonl");
        assert!(below("chat/a/b/c16").starts_with("chat/a_b~"));
        assert_ne!(below("chat/a/b/c16"), below("chat/a_b/c16"));
        assert!(!below("../../../etc/c1").contains(".."));
        assert_eq!(layout.run("../x").parent(), Some(layout.runs().as_path()));
    }

    #[test]
    fn ids_sort_by_time_and_name_the_run() {
        let at: jiff::Timestamp = "2026-01-02T03:04:05.9Z".parse().unwrap();
        assert_eq!(run_id(at, Some("main"), "abc"), "20260102T030405Z-main");
        assert_eq!(run_id(at, None, "0123456789ab"), "20260102T030405Z-01234567");
        assert!(check_id(&run_id(at, Some("../My Run"), "x")).is_ok());
        for bad in ["", "..", ".x", "a/b", "a\\b", "a b"] {
            assert!(check_id(bad).is_err(), "{bad:?}");
        }
    }
}
