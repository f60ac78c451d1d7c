//! The words of a command line, before clap: flags that take several must not take what follows.

use std::ffi::{OsStr, OsString};

/// Flags that take several words, and what one of those words looks like.
const SEVERAL: [(&str, fn(&str) -> bool); 2] =
    [("--goodput", is_metric_and_ms), ("--require", is_limit)];

/// `--goodput ttft:200 tpot:30 chat` (vLLM's way) as `--goodput ttft:200 --goodput tpot:30 chat`:
/// the filter that comes next is no limit. Everything behind a bare `--` is left alone.
pub(super) fn tidied(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut tidied: Vec<OsString> = Vec::new();
    // The flag whose words are being read, and whether it has had its first.
    let mut open: Option<(&str, fn(&str) -> bool, bool)> = None;
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == OsStr::new("--") {
            tidied.push(word);
            tidied.extend(words);
            break;
        }
        let text = word.to_str().unwrap_or_default();
        match open {
            Some((flag, fits, false)) => open = Some((flag, fits, true)),
            Some((flag, fits, true)) if fits(text) => tidied.push(flag.into()),
            _ => {
                let known = SEVERAL.iter().find(|(flag, _)| *flag == text);
                open = known.map(|(flag, fits)| (*flag, *fits, false));
            }
        }
        tidied.push(word);
    }
    tidied
}

fn is_metric_and_ms(word: &str) -> bool {
    word.split_once(':').is_some_and(|(metric, ms)| {
        !metric.is_empty()
            && metric.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
            && ms.parse::<f64>().is_ok()
    })
}

fn is_limit(word: &str) -> bool {
    word.contains(['<', '>'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expect: &str) {
        let words = tidied(line.split(' ').map(OsString::from));
        let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
        assert_eq!(words.join(" "), expect);
    }

    #[test]
    fn limits_are_taken_and_filters_are_left() {
        check("b --goodput ttft:200 tpot:30 chat", "b --goodput ttft:200 --goodput tpot:30 chat");
        check("b --goodput ttft:200 --list", "b --goodput ttft:200 --list");
        check("b --goodput wrong chat", "b --goodput wrong chat");
        check("b --require a<1ms b>2 chat x<y", "b --require a<1ms --require b>2 chat x<y");
        check("b -- --goodput a:1 b:2", "b -- --goodput a:1 b:2");
        check("b --goodput", "b --goodput");
    }
}
