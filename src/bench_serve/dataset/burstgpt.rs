//! `burstgpt`: the lengths of a recorded trace, with made prompts.

use super::sample::{FileOptions, Making, Sample};
use crate::error::Result;
use crate::store::files;

/// The model whose rows vLLM's client takes.
const MODEL: &str = "GPT-4";

/// Rows of the CSV file of BurstGPT, drawn by chance; again where there are too few.
pub(super) fn samples(options: &FileOptions, making: &Making<'_>) -> Result<Vec<Sample>> {
    let rows = rows(&files::read_text(&options.path)?, options)?;
    let order: Vec<usize> = match rows.len() >= making.count as usize {
        true => FileOptions { shuffle: true, ..options.clone() }
            .order((0..rows.len()).collect(), making.seed),
        false => {
            let draw = |i: u32| making.seed.named("rows").nth(u64::from(i)).0 % rows.len() as u64;
            (0..making.count).map(|i| usize::try_from(draw(i)).unwrap_or(0)).collect()
        }
    };
    (0_u64..)
        .zip(order.into_iter().take(making.count as usize))
        .map(|(index, row)| {
            let (input_tokens, output_tokens) = rows[row];
            let seed = making.seed.named("prompt").nth(index);
            let prompt = making.text.prompt(index, input_tokens, seed)?;
            let output_tokens = options.output_len.unwrap_or(output_tokens);
            Ok(Sample { prompt, input_tokens, output_tokens })
        })
        .collect()
}

/// Prompt and answer lengths of the rows of [`MODEL`] that had an answer, tokens.
fn rows(text: &str, options: &FileOptions) -> Result<Vec<(u32, u32)>> {
    let mut lines = text.trim_start_matches('\u{feff}').lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').map(str::trim).collect();
    let column = |name: &str| {
        header.iter().position(|column| *column == name).ok_or_else(|| {
            options
                .wrong(&format!("there is no column `{name}`"))
                .with_hint("`burstgpt` is the CSV file of the BurstGPT trace")
        })
    };
    let (model, input, output) =
        (column("Model")?, column("Request tokens")?, column("Response tokens")?);
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let tokens = |at: usize| cells.get(at)?.parse::<u32>().ok().filter(|n| *n > 0);
        (*cells.get(model)? == MODEL).then_some(())?;
        Some((tokens(input)?, tokens(output)?))
    };
    let rows: Vec<(u32, u32)> = lines.filter_map(row).collect();
    if rows.is_empty() {
        return Err(options.wrong(&format!("no row of model `{MODEL}` has an answer")));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_serve::text::TextMaker;
    use crate::rng::Seed;

    const TRACE: &str = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
        5,ChatGPT,472,18,490,Conversation log\n\
        45,GPT-4,12,230,242,Conversation log\n\
        46,GPT-4,9,0,9,API log\n\
        47,GPT-4,30,7,37,API log\n";

    #[test]
    fn rows_of_the_model_with_an_answer_are_drawn() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.csv");
        files::write_plain(&path, TRACE).unwrap();
        let options = FileOptions { path, output_len: None, shuffle: true, oversample: true };
        let text = TextMaker::one_token_a_word();
        let lengths = |count| {
            let making = Making { text: &text, count, seed: Seed(2) };
            let mut lengths: Vec<(u32, u32)> = samples(&options, &making)
                .unwrap()
                .iter()
                .map(|s| (s.input_tokens, s.output_tokens))
                .collect();
            lengths.sort_unstable();
            lengths
        };
        assert_eq!(lengths(2), [(12, 230), (30, 7)]);
        let again = lengths(40);
        assert!(again.len() == 40 && again[0] == (12, 230) && again[39] == (30, 7));
    }

    #[test]
    fn another_file_is_refused() {
        let options =
            FileOptions { path: "b.csv".into(), output_len: None, shuffle: true, oversample: true };
        let error = rows("a,b\n1,2\n", &options).unwrap_err().to_string();
        assert!(error.contains("no column `Model`"), "{error}");
    }
}
