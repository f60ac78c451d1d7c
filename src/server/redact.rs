//! Redaction: a command line with its secrets out of sight.

use crate::settings::{ApiKey, is_secret_name};

const REDACTED: &str = "[redacted]";

/// A shorter value is replaced where its name stands and nowhere else: it would take whole words out of a text.
pub(super) const LEAST_BYTES: usize = 4;

/// A shell inside a shell inside a shell: deeper than this, a word is hidden whole.
const MAX_DEPTH: u32 = 3;

/// The command line with its secrets replaced: values of flags and variables whose names end in key,
/// token, secret or password, `Authorization` headers, credentials in URLs, well-known key shapes.
/// A value found so is replaced wherever else it stands, too.
#[must_use]
pub fn redact_command(text: &str) -> String {
    let Some(words) = shlex::split(text) else {
        // An open quote: plain words are the best guess.
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        return redact_all(&words).join(" ");
    };
    let redacted = redact_all(&words);
    if redacted == words { text.to_owned() } else { join(&redacted) }
}

/// The words of a command line, as [`redact_command`] shows them.
pub(super) fn redact_all(words: &[String]) -> Vec<String> {
    let values = secret_values(words);
    redact_words(words, 0).into_iter().map(|word| without(word, &values)).collect()
}

fn without(text: String, values: &[String]) -> String {
    let long = values.iter().filter(|value| value.trim().len() >= LEAST_BYTES);
    long.fold(text, |text, value| ApiKey::new(value).redact(&text))
}

/// The secret values among the words of a command line.
pub(super) fn secret_values(words: &[String]) -> Vec<String> {
    let mut values = Vec::new();
    collect(words, 0, &mut values);
    values
}

/// Adds the secret values among `words`, also of a command within a command.
fn collect(words: &[String], depth: u32, values: &mut Vec<String>) {
    for (word, shown) in words.iter().zip(redact_words(words, 0)) {
        if *word == shown {
            continue;
        }
        match shown.strip_suffix(REDACTED).and_then(|prefix| word.strip_prefix(prefix)) {
            Some(value) => {
                let value = value.trim();
                values.push(value.strip_prefix("Bearer ").unwrap_or(value).to_owned());
            }
            None if depth < MAX_DEPTH => {
                collect(&shlex::split(word).unwrap_or_default(), depth + 1, values);
            }
            None => values.push(word.clone()),
        }
    }
}

/// One argument of a command line with its secrets replaced, as [`redact_command`] does: it is one word,
/// spaces and all (`Authorization: Bearer x`).
#[must_use]
pub fn redact_argument(word: &str) -> String {
    let word = [word.to_owned()];
    redact_all(&word).concat()
}

/// One line to read, quoted where a shell would need it.
fn join(words: &[String]) -> String {
    let special = |c: char| c.is_whitespace() || "'\"\\`$&|;<>()*?#~!{}".contains(c);
    let quote = |word: &String| {
        if word.is_empty() || word.contains(special) {
            format!("'{}'", word.replace('\'', r"'\''"))
        } else {
            word.clone()
        }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

fn redact_words(words: &[String], depth: u32) -> Vec<String> {
    let mut redacted = Vec::with_capacity(words.len());
    // `--api-key a b c`: vLLM takes several keys.
    let mut hiding = false;
    for word in words {
        if hiding && !word.starts_with('-') {
            redacted.push(REDACTED.to_owned());
            continue;
        }
        hiding = word.starts_with('-') && !word.contains('=') && is_secret_name(word);
        redacted.push(redact_word(word, depth));
    }
    redacted
}

fn redact_word(word: &str, depth: u32) -> String {
    // `--server-cmd=HF_TOKEN=x serve`: each name may be the secret's, and the value ends with the word.
    let first_word = word.split(char::is_whitespace).next().unwrap_or_default();
    for (at, _) in first_word.match_indices('=') {
        let name = first_word[..at].rsplit('=').next().unwrap_or_default();
        let is_inner = first_word[..at].contains('=');
        if is_secret_name(name) || is_secret_header(name) {
            let rest = if is_inner { &word[first_word.len()..] } else { "" };
            return format!("{}={REDACTED}{}", &word[..at], redact_rest(rest, depth));
        }
    }
    for (at, _) in word.match_indices(':') {
        let (before, value) = word.split_at(at + 1);
        let name = word[..at].rsplit(|c: char| !is_of_name(c)).next().unwrap_or_default();
        if is_secret_header(name) {
            let space = if value.starts_with(' ') { " " } else { "" };
            return format!("{before}{space}{REDACTED}");
        }
    }
    if word.contains(char::is_whitespace) {
        // `sh -c 'vllm serve --api-key x'`
        return match shlex::split(word) {
            Some(words) if depth < MAX_DEPTH => {
                let inner = redact_words(&words, depth + 1);
                if inner == words { word.to_owned() } else { join(&inner) }
            }
            Some(_) => REDACTED.to_owned(),
            None => {
                let words: Vec<String> = word.split_whitespace().map(str::to_owned).collect();
                redact_words(&words, depth + 1).join(" ")
            }
        };
    }
    if is_key_shaped(word) { REDACTED.to_owned() } else { redact_credentials(word) }
}

/// What stands behind the first word of a command in a flag's value.
fn redact_rest(rest: &str, depth: u32) -> String {
    if rest.trim().is_empty() {
        rest.to_owned()
    } else {
        format!(" {}", redact_word(rest.trim_start(), depth))
    }
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_')
}

/// `Authorization`, `Proxy-Authorization`, `X-Api-Key`, `X-Auth-Token`, `Cookie`.
fn is_secret_header(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    is_secret_name(&lower) || ["authorization", "auth", "cookie"].iter().any(|w| lower.ends_with(w))
}

/// Shapes that issuers of keys have made recognisable on purpose.
fn is_key_shaped(word: &str) -> bool {
    const PREFIXES: [&str; 6] = ["sk-", "hf_", "ghp_", "github_pat_", "nvapi-", "xoxb-"];
    word.len() >= 20 && PREFIXES.iter().any(|prefix| word.starts_with(prefix))
}

/// `https://user:pass@host` without `user:pass`, and `user:pass@host` too; `image:tag@sha256:…` stays.
fn redact_credentials(word: &str) -> String {
    let scheme_end = match word.find("://") {
        Some(at) => at + 3,
        None => match word.split_once('@') {
            Some((user, host))
                if user.contains(':') && !user.contains('/') && !host.starts_with("sha256:") =>
            {
                0
            }
            _ => return word.to_owned(),
        },
    };
    let authority_end = word[scheme_end..].find('/').map_or(word.len(), |at| scheme_end + at);
    match word[scheme_end..authority_end].rfind('@') {
        Some(at) => format!("{}{REDACTED}{}", &word[..scheme_end], &word[scheme_end + at..]),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_taken_out_and_the_rest_is_kept() {
        let cases = [
            (
                "vllm serve m --api-key X1 --port 8000",
                "vllm serve m --api-key [redacted] --port 8000",
            ),
            ("vllm serve m --api-key a b", "vllm serve m --api-key [redacted] [redacted]"),
            ("vllm serve --api-key=abc m", "vllm serve --api-key=[redacted] m"),
            ("HF_TOKEN=hf_x vllm serve", "HF_TOKEN=[redacted] vllm serve"),
            ("env AWS_SECRET_ACCESS_KEY=q run", "env AWS_SECRET_ACCESS_KEY=[redacted] run"),
            ("sh -c 'vllm serve --api-key X'", "sh -c 'vllm serve --api-key [redacted]'"),
            ("curl -H 'Authorization: Bearer abc'", "curl -H 'Authorization: [redacted]'"),
            ("PGPASSWORD=x MONKEY=y run", "PGPASSWORD=[redacted] MONKEY=y run"),
            ("run https://u:p@h/x", "run https://[redacted]@h/x"),
            ("run u:p@h:80", "run [redacted]@h:80"),
            ("curl -H 'Cookie: a=1; sid=x'", "curl -H 'Cookie: [redacted]'"),
            ("curl -H X-Auth-Token:abc", "curl -H X-Auth-Token:[redacted]"),
            ("curl -HProxy-Authorization:abc", "curl -HProxy-Authorization:[redacted]"),
            ("curl -H 'authorization=Bearer abc'", "curl -H authorization=[redacted]"),
            ("run sk-0123456789abcdefghij", "run [redacted]"),
            ("run 'open --token x", "run 'open --token [redacted]"),
            (
                "sh -c 'echo plover-7; exec serve' --api-key plover-7",
                "sh -c 'echo [redacted]; exec serve' --api-key [redacted]",
            ),
        ];
        for (command, shown) in cases {
            assert_eq!(redact_command(command), shown);
        }
    }

    #[test]
    fn an_argument_is_one_word() {
        for (argument, shown) in [
            ("X-Api-Key: abc def", "X-Api-Key: [redacted]"),
            ("Authorization: Basic dXNlcg==", "Authorization: [redacted]"),
            ("Authorization=Bearer abc", "Authorization=[redacted]"),
            ("X-Trace: a b", "X-Trace: a b"),
            ("vllm serve --api-key X", "vllm serve --api-key [redacted]"),
            (
                "--server-cmd=HF_TOKEN=plover sh -c 'echo plover'",
                "--server-cmd=HF_TOKEN=[redacted] sh -c 'echo [redacted]'",
            ),
            ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ] {
            assert_eq!(redact_argument(argument), shown);
        }
    }

    #[test]
    fn ordinary_settings_are_left_alone() {
        let command = "vllm serve m --max-num-batched-tokens 2048 --long-prefill-token-threshold 4 \
                       --tokenizer t --ssl-keyfile k 'a b' nginx:1@sha256:ab host:80 tokenizer:x";
        assert_eq!(redact_command(command), command);
    }
}
