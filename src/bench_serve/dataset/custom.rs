//! `custom`: prompts of a JSONL file.

use super::sample::{FileOptions, Making, Sample};
use crate::error::Result;
use crate::scenario::prompt::JsonlPrompts;
use crate::scenario::{Prompt, PromptSource};
use crate::store::files;

/// One `{"prompt": "…", "output_tokens": 128}` a line, sent as it is.
pub(super) async fn samples(options: &FileOptions, making: &Making<'_>) -> Result<Vec<Sample>> {
    let text = files::read_text(&options.path)?;
    let prompts = JsonlPrompts::parse(&text, &options.path.display().to_string())?;
    let lines = options.order((0..prompts.count() as u64).collect(), making.seed);
    let mut samples = Vec::new();
    for line in lines.into_iter().take(making.count as usize) {
        let prompt = prompts.prompt(line, 0, making.seed)?;
        let own = || {
            prompts.output_tokens(line).ok_or_else(|| {
                options
                    .wrong("a line has no `output_tokens`")
                    .with_hint("give the length of every answer by `--custom-output-len N`")
            })
        };
        let output_tokens = options.output_len.map_or_else(own, Ok)?;
        let input_tokens = match &prompt {
            Prompt::Text(text) => making.text.count(text).await,
            Prompt::Tokens(ids) => u32::try_from(ids.len()).unwrap_or(u32::MAX),
        };
        samples.push(Sample { prompt, input_tokens, output_tokens });
    }
    Ok(options.fill(samples, making.count, making.seed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_serve::text::TextMaker;
    use crate::rng::Seed;

    #[tokio::test]
    async fn lengths_are_given_or_the_lines_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.jsonl");
        files::write_plain(
            &path,
            "{\"prompt\": \"a b\", \"output_tokens\": 3}\n{\"prompt\": \"c\"}\n",
        )
        .unwrap();
        let mut options =
            FileOptions { path, output_len: Some(9), shuffle: false, oversample: true };
        let text = TextMaker::one_token_a_word();
        let making = Making { text: &text, count: 3, seed: Seed(1) };
        let read = samples(&options, &making).await.unwrap();
        assert_eq!(read.len(), 3);
        assert_eq!((read[0].input_tokens, read[0].output_tokens), (2, 9));
        options.output_len = None;
        let error = samples(&options, &making).await.unwrap_err();
        assert!(error.to_string().contains("no `output_tokens`"), "{error}");
    }
}
