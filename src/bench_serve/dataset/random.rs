//! `random` and `prefix_repetition`: prompts of words in chosen lengths.

use rand::RngExt;
use rand::seq::SliceRandom;

use super::sample::{Making, PrefixRepetition, RandomOptions, Sample};
use crate::error::{Error, Result};
use crate::rng::Seed;
use crate::scenario::Prompt;

/// Lengths drawn evenly around the ones asked for, an optional prefix that all share.
pub(super) fn samples(options: &RandomOptions, making: &Making<'_>) -> Result<Vec<Sample>> {
    let special = making.text.special_tokens();
    let input = bounds(options.input_len.saturating_sub(special), options.input_range);
    let output = bounds(options.output_len, options.output_range);
    if options.prefix_len.saturating_add(input.0) == 0 {
        return Err(Error::scenario("the shortest prompt would have no token")
            .with_hint("raise `--random-input-len`, or lower `--random-range-ratio`"));
    }
    let mut rng = making.seed.named("lengths").rng();
    let prefix = match options.prefix_len {
        0 => None,
        tokens => Some(making.text.prompt(0, tokens, making.seed.named("prefix"))?),
    };
    (0..u64::from(making.count))
        .map(|index| {
            let tokens = rng.random_range(input.0..=input.1);
            let output_tokens = rng.random_range(output.0.max(1)..=output.1.max(1));
            let own = making.text.prompt(index, tokens, making.seed.named("prompt").nth(index))?;
            let prompt = joined(prefix.as_ref(), own);
            let input_tokens = options.prefix_len + tokens + special;
            Ok(Sample { prompt, input_tokens, output_tokens })
        })
        .collect()
}

/// This many prefixes, each with as many suffixes as fit the count.
pub(super) fn prefix_repetition(
    options: &PrefixRepetition,
    making: &Making<'_>,
) -> Result<Vec<Sample>> {
    if options.num_prefixes == 0 {
        return Err(Error::usage("`--prefix-repetition-num-prefixes 0` makes no prompt")
            .with_hint("write a number of 1 or more"));
    }
    let each = making.count.checked_div(options.num_prefixes).unwrap_or(0);
    if each == 0 {
        return Err(Error::scenario(format!(
            "{} prompts are fewer than {} prefixes",
            making.count, options.num_prefixes
        ))
        .with_hint("raise `--num-prompts`, or lower `--prefix-repetition-num-prefixes`"));
    }
    let mut samples = Vec::new();
    for prefix in 0..u64::from(options.num_prefixes) {
        let seed = making.seed.named("prefix").nth(prefix);
        let head = making.text.prompt(prefix, options.prefix_len, seed)?;
        for suffix in 0..u64::from(each) {
            let own = making.text.prompt(suffix, options.suffix_len, seed.nth(suffix))?;
            samples.push(Sample {
                prompt: joined(Some(&head), own),
                input_tokens: options.prefix_len.saturating_add(options.suffix_len),
                output_tokens: options.output_len,
            });
        }
    }
    if options.shuffle {
        samples.shuffle(&mut Seed(making.seed.0).named("shuffle").rng());
    }
    Ok(samples)
}

/// The least and the most of a length with a range ratio, tokens.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
fn bounds(len: u32, ratio: f64) -> (u32, u32) {
    let len = f64::from(len);
    ((len * (1.0 - ratio)).floor() as u32, (len * (1.0 + ratio)).ceil() as u32)
}

fn joined(prefix: Option<&Prompt>, own: Prompt) -> Prompt {
    match (prefix, own) {
        (Some(Prompt::Text(head)), Prompt::Text(tail)) => Prompt::Text(format!("{head}{tail}")),
        (Some(Prompt::Tokens(head)), Prompt::Tokens(tail)) => {
            Prompt::Tokens([head.as_slice(), &tail].concat())
        }
        (_, own) => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_serve::text::TextMaker;

    fn making(text: &TextMaker, count: u32) -> Making<'_> {
        Making { text, count, seed: Seed(5) }
    }

    fn words(sample: &Sample) -> Vec<&str> {
        match &sample.prompt {
            Prompt::Text(text) => text.split_whitespace().collect(),
            Prompt::Tokens(_) => panic!("ids"),
        }
    }

    #[test]
    fn lengths_lie_in_their_range_and_reach_both_ends() {
        let text = TextMaker::one_token_a_word();
        let options = RandomOptions {
            input_len: 20,
            output_len: 10,
            prefix_len: 5,
            input_range: 0.1,
            output_range: 0.5,
        };
        let samples = samples(&options, &making(&text, 400)).unwrap();
        let inputs: Vec<usize> = samples.iter().map(|s| words(s).len()).collect();
        assert_eq!((inputs.iter().min(), inputs.iter().max()), (Some(&23), Some(&27)));
        let outputs = samples.iter().map(|s| s.output_tokens);
        assert_eq!((outputs.clone().min(), outputs.max()), (Some(5), Some(15)));
        assert!(samples.iter().all(|s| s.input_tokens as usize == words(s).len()));
        assert!(samples.iter().all(|s| words(s)[..5] == words(&samples[0])[..5]), "the prefix");
        assert_ne!(words(&samples[0])[5..9], words(&samples[1])[5..9]);
    }

    #[test]
    fn without_a_range_every_length_is_the_one_asked_for() {
        let text = TextMaker::one_token_a_word();
        let options = RandomOptions {
            input_len: 7,
            output_len: 3,
            prefix_len: 0,
            input_range: 0.0,
            output_range: 0.0,
        };
        let samples = samples(&options, &making(&text, 20)).unwrap();
        assert!(samples.iter().all(|s| words(s).len() == 7 && s.output_tokens == 3));
    }

    #[test]
    fn each_prefix_comes_equally_often() {
        let text = TextMaker::one_token_a_word();
        let options = PrefixRepetition {
            prefix_len: 8,
            suffix_len: 4,
            num_prefixes: 3,
            output_len: 2,
            shuffle: true,
        };
        let samples = prefix_repetition(&options, &making(&text, 20)).unwrap();
        assert_eq!(samples.len(), 18, "six for each of three");
        let mut heads: Vec<Vec<&str>> = samples.iter().map(|s| words(s)[..8].to_vec()).collect();
        heads.sort();
        assert!(heads.chunks(6).all(|same| same.iter().all(|head| *head == same[0])));
        assert!(prefix_repetition(&options, &making(&text, 2)).is_err());
    }
}
