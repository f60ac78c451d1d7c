//! `sharegpt`: the first two turns of recorded conversations.

use serde_json::Value;

use super::sample::{FileOptions, Making, Sample};
use crate::error::Result;
use crate::scenario::Prompt;
use crate::store::files;

/// vLLM's bounds: shorter or longer conversations are left out, tokens.
const SHORTEST: u32 = 4;
const LONGEST_PROMPT: u32 = 1024;
const LONGEST_BOTH: u32 = 2048;

/// The first turn is the prompt; the second has as many tokens as the answer is to have.
pub(super) async fn samples(options: &FileOptions, making: &Making<'_>) -> Result<Vec<Sample>> {
    let text = files::read_text(&options.path)?;
    let conversations = options.order(turns(&text, options)?, making.seed);
    let mut samples = Vec::new();
    for (prompt, answer) in conversations {
        if samples.len() >= making.count as usize {
            break;
        }
        let input_tokens = making.text.count(&prompt).await;
        let output_tokens = match options.output_len {
            Some(tokens) => tokens,
            None => making.text.count(&answer).await,
        };
        if is_valid(input_tokens, output_tokens, options.output_len.is_some()) {
            samples.push(Sample { prompt: Prompt::Text(prompt), input_tokens, output_tokens });
        }
    }
    Ok(options.fill(samples, making.count, making.seed))
}

/// The first two turns of every conversation that has them.
fn turns(text: &str, options: &FileOptions) -> Result<Vec<(String, String)>> {
    let entries: Vec<Value> = serde_json::from_str(text).map_err(|error| {
        options
            .wrong("it is no list of conversations in JSON")
            .with_cause(error)
            .with_hint("`sharegpt` is a list of `{\"conversations\": [{\"value\": \"…\"}, …]}`")
    })?;
    let value = |entry: &Value, turn: usize| {
        entry["conversations"][turn]["value"].as_str().map(str::to_owned)
    };
    let turns: Vec<_> =
        entries.iter().filter_map(|entry| Some((value(entry, 0)?, value(entry, 1)?))).collect();
    if turns.is_empty() {
        return Err(options.wrong("no conversation in it has two turns"));
    }
    Ok(turns)
}

fn is_valid(input_tokens: u32, output_tokens: u32, output_is_given: bool) -> bool {
    input_tokens >= SHORTEST
        && (output_is_given || output_tokens >= SHORTEST)
        && input_tokens <= LONGEST_PROMPT
        && input_tokens.saturating_add(output_tokens) <= LONGEST_BOTH
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_serve::text::TextMaker;
    use crate::rng::Seed;

    #[tokio::test]
    async fn turns_are_read_and_short_ones_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.json");
        let turn = |text: &str| format!("{{\"from\": \"x\", \"value\": \"{text}\"}}");
        let talk = |a: &str, b: &str| format!("{{\"conversations\": [{}, {}]}}", turn(a), turn(b));
        let text = format!(
            "[{}, {}, {{\"conversations\": []}}, {}]",
            talk("one two three four five", "a b c d"),
            talk("too short", "a b c d"),
            talk("six seven eight nine", "a b"),
        );
        files::write_plain(&path, text).unwrap();
        let mut options = FileOptions { path, output_len: None, shuffle: false, oversample: false };
        let text = TextMaker::one_token_a_word();
        let making = Making { text: &text, count: 10, seed: Seed(1) };
        let read = samples(&options, &making).await.unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!((read[0].input_tokens, read[0].output_tokens), (5, 4));
        options.output_len = Some(2);
        let given = samples(&options, &making).await.unwrap();
        let lengths: Vec<u32> = given.iter().map(|s| s.output_tokens).collect();
        assert_eq!(lengths, [2, 2], "a given length may be short");
    }

    #[test]
    fn another_file_is_refused() {
        let options = FileOptions {
            path: "x.json".into(),
            output_len: None,
            shuffle: false,
            oversample: false,
        };
        assert!(turns("{}", &options).unwrap_err().to_string().contains("no list"));
        assert!(turns("[{}]", &options).unwrap_err().to_string().contains("two turns"));
    }
}
