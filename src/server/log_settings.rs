//! An engine's own word on its settings, from its log.

use std::collections::BTreeMap;

use crate::settings::is_secret_name;

/// Longest value kept: vLLM prints its whole compilation config into one.
const MAX_VALUE_BYTES: usize = 200;

/// Most settings kept.
const MAX_SETTINGS: usize = 200;

/// The effective settings that a vLLM log reports: the arguments that differ from the defaults, and
/// the engine's config. Later lines win, secrets are left out, long nested values too. Empty for
/// another engine's log.
#[must_use]
pub fn engine_settings(log: &str) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    for line in log.lines() {
        if let Some((_, config)) = line.split_once(") with config: ") {
            settings.extend(pairs(config, '='));
        } else if let Some((_, arguments)) = line.split_once("non-default args: {") {
            settings.extend(pairs(arguments.trim_end().trim_end_matches('}'), ':'));
        }
        if settings.len() > MAX_SETTINGS {
            break;
        }
    }
    settings
}

/// `a=1, b='x, y', c=D(e=1)` or `'a': 1, 'b': ['x', 'y']` at the top level.
fn pairs(text: &str, separator: char) -> Vec<(String, String)> {
    let pair = |part: &str| {
        let (name, value) = part.split_once(separator)?;
        let name = unquote(name);
        let value = unquote(value);
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let kept = plain && !name.is_empty() && !is_secret_name(name) && !value.is_empty();
        (kept && value.len() <= MAX_VALUE_BYTES).then(|| (name.to_owned(), value.to_owned()))
    };
    split_top(text).into_iter().filter_map(pair).collect()
}

fn unquote(text: &str) -> &str {
    let text = text.trim();
    for quote in ['\'', '"'] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|t| t.strip_suffix(quote)) {
            return inner;
        }
    }
    text
}

/// Splits at commas that stand in no bracket and no quote.
fn split_top(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_u32, 0);
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(' | '[' | '{' | '<') => depth += 1,
            (None, ')' | ']' | '}' | '>') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            (None, _) => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Shortened lines of vLLM 0.32.0.
    const LOG: &str = "(APIServer pid=1) INFO 11-29 21:08:36 [api_utils.py:286] non-default args: \
        {'model_tag': '/m/tiny', 'host': '127.0.0.1', 'port': 18000, 'api_key': ['s3cret'], \
        'max_model_len': 4096, 'enforce_eager': True, 'served_model_name': ['tiny', 'b']}\n\
        (EngineCore pid=2) INFO 11-29 21:08:53 [core.py:133] Initializing a V1 LLM engine (v0.32.0) \
        with config: model='/m/tiny', speculative_config=None, dtype=torch.bfloat16, \
        aux=AuxConfig(a=False, b=None), enable_chunked_prefill=True, \
        compilation_config={'mode': <CompilationMode.NONE: 0>, 'x': [1, 2]}, seed=0\n";

    #[test]
    fn vllm_tells_its_settings() {
        let settings = engine_settings(LOG);
        assert_eq!(settings["enforce_eager"], "True");
        assert_eq!(settings["max_model_len"], "4096");
        assert_eq!(settings["served_model_name"], "['tiny', 'b']");
        assert_eq!(settings["dtype"], "torch.bfloat16");
        assert_eq!(settings["model"], "/m/tiny");
        assert_eq!(settings["aux"], "AuxConfig(a=False, b=None)");
        assert_eq!(settings["enable_chunked_prefill"], "True");
        assert_eq!(settings["seed"], "0");
        assert!(!settings.contains_key("api_key"));
        assert!(!settings.values().any(|value| value.contains("s3cret")));
    }

    #[test]
    fn another_log_tells_nothing() {
        assert!(engine_settings("0.00 I srv load_model: loading model 'x'\n").is_empty());
    }

    proptest! {
        #[test]
        fn never_panics(text in "(?s).{0,200}") {
            let _ = engine_settings(&format!("non-default args: {{{text}"));
            let _ = engine_settings(&format!("x) with config: {text}"));
        }
    }
}
