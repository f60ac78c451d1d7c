//! Flags of `vllm bench serve`: what `bench-serve` does with each, and its word in `run`.

/// One line a flag, columns separated by tabs.
const TABLE: &str = include_str!("flags.tsv");
/// In the last column: `run` has a flag of this name and meaning.
const SAME: &str = "=";

/// What `bench-serve` does with a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handling {
    /// It has its effect.
    Taken,
    /// It is accepted, has no effect, and a note explains why.
    Noted,
    /// It is an error that explains why.
    Refused,
}

impl Handling {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "taken" => Self::Taken,
            "noted" => Self::Noted,
            "refused" => Self::Refused,
            _ => return None,
        })
    }
}

/// How many values follow a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    /// It is a switch.
    None,
    /// One.
    One,
    /// Any number.
    Many,
}

impl Values {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "none" => Self::None,
            "one" => Self::One,
            "many" => Self::Many,
            _ => return None,
        })
    }
}

/// A flag of vLLM's client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VllmFlag {
    /// With its dashes.
    pub(crate) name: &'static str,
    pub(crate) values: Values,
    pub(crate) handling: Handling,
    /// What `bench-serve` does with it, or why it does nothing.
    pub(crate) effect: &'static str,
    /// What to write in `run` in its place; `None` if `run` has this flag.
    pub(crate) in_run: Option<&'static str>,
}

/// Every flag, in the order of the documentation.
pub(crate) fn all() -> impl Iterator<Item = VllmFlag> {
    TABLE.lines().skip(1).filter_map(read)
}

/// The flag of this name, which may be written with underscores, as vLLM takes it.
pub(crate) fn find(name: &str) -> Option<VllmFlag> {
    let name = name.split('=').next().unwrap_or(name).replace('_', "-");
    all().find(|flag| flag.name == name)
}

/// The hint for a flag that was given to `run`, which does not have it.
pub(crate) fn hint_for_run(name: &str, value: Option<&str>) -> Option<String> {
    let flag = find(name)?;
    let instead = with_number(flag.in_run?, value.and_then(|value| value.parse().ok()));
    Some(match flag.handling {
        Handling::Refused => instead,
        _ => format!(
            "{instead}. `inferometer bench-serve` takes a whole `vllm bench serve` command as it is"
        ),
    })
}

/// A hint that proposes a field of the extra body, with the number that was given.
fn with_number(hint: &str, given: Option<f64>) -> String {
    let (Some(given), Some((field, rest))) = (given, hint.split_once("\": ")) else {
        return hint.to_owned();
    };
    match rest.split_once('}') {
        Some((_, end)) => format!("{field}\": {given}}}{end}"),
        None => hint.to_owned(),
    }
}

fn read(line: &'static str) -> Option<VllmFlag> {
    let mut columns = line.split('\t');
    let mut next = || columns.next();
    Some(VllmFlag {
        name: next()?,
        values: Values::parse(next()?)?,
        handling: Handling::parse(next()?)?,
        effect: next()?,
        in_run: next().filter(|text| *text != SAME),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::store::files;

    /// The flags as a table in Markdown, for `docs/vllm.md`.
    fn markdown() -> String {
        let cell = |text: &str| text.replace('|', "\\|");
        let mut text = String::from(
            "| flag | `bench-serve` | what it does there | in `run` |\n|---|---|---|---|\n",
        );
        for flag in all() {
            let (name, effect) = (flag.name, cell(flag.effect));
            let in_run = flag.in_run.map_or_else(|| format!("`{name}`"), cell);
            let handling = match flag.handling {
                Handling::Taken => "taken",
                Handling::Noted => "noted",
                Handling::Refused => "refused",
            };
            text.push_str(&format!("| `{name}` | {handling} | {effect} | {in_run} |\n"));
        }
        text
    }

    /// Flag → whether it is a switch, from a table of vLLM's own parser.
    fn vllm(version: &str) -> Vec<(String, Values)> {
        let path = format!("tests/vllm-flags/bench-serve-{version}.tsv");
        let table = files::read_text(path.as_ref()).unwrap();
        let flag = |line: &str| {
            let columns: Vec<&str> = line.split('\t').collect();
            let values = match (columns[1], columns[4]) {
                ("store_true" | "argparse.BooleanOptionalAction", _) => Values::None,
                (_, "") => Values::One,
                _ => Values::Many,
            };
            (columns[0].to_owned(), values)
        };
        table.lines().skip(1).map(flag).collect()
    }

    #[test]
    fn every_flag_of_vllm_is_taken_noted_or_refused() {
        for version in ["0.22.0", "0.32.0"] {
            let theirs = vllm(version);
            assert!(theirs.len() > 90, "{version}: {}", theirs.len());
            for (name, values) in theirs {
                let flag = find(&name).unwrap_or_else(|| panic!("{name} of {version} is missing"));
                assert_eq!(flag.values, values, "{name} of {version}");
            }
        }
    }

    #[test]
    fn every_line_is_read_and_says_something() {
        let flags: Vec<VllmFlag> = all().collect();
        assert_eq!(flags.len(), TABLE.lines().count() - 1);
        let names: BTreeSet<&str> = flags.iter().map(|flag| flag.name).collect();
        assert_eq!(names.len(), flags.len(), "a flag stands twice");
        for flag in flags {
            assert!(flag.name.starts_with("--") && !flag.effect.is_empty(), "{flag:?}");
            assert!(flag.in_run.is_none_or(|text| text.len() > 8), "{flag:?}");
        }
    }

    #[test]
    fn underscores_and_joined_values_are_found() {
        assert_eq!(find("--max_concurrency=4").unwrap().name, "--max-concurrency");
        assert_eq!(find("--not-a-flag"), None);
    }

    #[test]
    fn the_documentation_holds_the_table() {
        let page = files::read_text("docs/vllm.md".as_ref()).unwrap();
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `--")).collect();
        let table = markdown();
        let expect: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(rows, expect, "docs/vllm.md: put this table in\n{table}");
    }
}
