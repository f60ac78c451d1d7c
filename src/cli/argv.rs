//! The words of a command line, before clap: flags that take several must not take what follows.

use std::ffi::{OsStr, OsString};

/// A flag that takes several words.
#[derive(Clone, Copy)]
struct Several {
    flag: &'static str,
    /// What one of its words looks like.
    fits: fn(&str) -> bool,
}

const SEVERAL: [Several; 2] = [
    Several { flag: "--goodput", fits: is_metric_and_ms },
    Several { flag: "--require", fits: is_limit },
];

/// `--goodput ttft:200 tpot:30 chat` (vLLM's way) as `--goodput ttft:200 --goodput tpot:30 chat`:
/// the filter that comes next is no limit. Everything behind a bare `--` is left alone.
pub(super) fn tidied(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut tidied: Vec<OsString> = Vec::new();
    // The flag whose words are being read; the first may look like anything.
    let mut open: Option<Several> = None;
    let mut is_first = false;
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == OsStr::new("--") {
            tidied.push(word);
            tidied.extend(words);
            break;
        }
        let text = word.to_str().unwrap_or_default();
        match open {
            Some(_) if is_first => is_first = false,
            Some(several) if (several.fits)(text) => tidied.push(several.flag.into()),
            _ => {
                open = SEVERAL.iter().copied().find(|several| several.flag == text);
                is_first = open.is_some();
            }
        }
        tidied.push(word);
    }
    tidied
}

/// The long flags of a command.
pub(super) fn long_flags(command: &clap::Command) -> Vec<String> {
    let flags = command.get_arguments().filter_map(clap::Arg::get_long);
    flags.chain(["help", "version"]).map(|flag| format!("--{flag}")).collect()
}

/// `--tensor-parallel-size 2` as `--vllm-flag=--tensor-parallel-size` where no such flag is known: the
/// simulator is started by the command line of a server. A word that follows and is no flag is its value
/// and goes with it, unseen: it may be a secret.
pub(super) fn with_vllm_flags(
    words: impl IntoIterator<Item = OsString>,
    known: &[String],
) -> Vec<OsString> {
    let mut tidied: Vec<OsString> = Vec::new();
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let text = word.to_str().unwrap_or_default();
        let (name, has_value) =
            text.split_once('=').map_or((text, false), |(name, _)| (name, true));
        if !name.starts_with("--") || name == "--" || known.iter().any(|flag| flag == name) {
            tidied.push(word);
            continue;
        }
        tidied.push(format!("--vllm-flag={name}").into());
        let is_value = |next: &OsString| !next.to_string_lossy().starts_with("--");
        let _value = words.next_if(|next| !has_value && is_value(next));
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

    #[test]
    fn flags_of_vllm_are_gathered_and_ours_are_left_alone() {
        let known = ["--port", "--seed"].map(str::to_owned);
        let tidied = |line: &str| {
            let words = with_vllm_flags(line.split(' ').map(OsString::from), &known);
            words.iter().map(|w| w.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            tidied("b simulate --port 80 --dtype bfloat16 --enforce-eager --seed 3 --a=b c"),
            [
                "b",
                "simulate",
                "--port",
                "80",
                "--vllm-flag=--dtype",
                "--vllm-flag=--enforce-eager",
                "--seed",
                "3",
                "--vllm-flag=--a",
                "c"
            ]
        );
        assert_eq!(tidied("b simulate --gpu -1"), ["b", "simulate", "--vllm-flag=--gpu"]);
    }
}
