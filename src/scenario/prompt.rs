//! Where prompts come from.

use std::path::PathBuf;
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::content_hash::fnv1a_128;
pub use super::wordlist::WORDS;
use crate::error::{Error, Result};
use crate::rng::Seed;

/// Indices from here on are warm-up's: no measured round is as long, so the two never share a prompt
/// as long as there are enough.
pub const FIRST_WARM_UP_INDEX: u64 = 1 << 40;

/// A prompt as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// Text, counted by the server.
    Text(String),
    /// Token ids: exact lengths, completions only.
    Tokens(Vec<u32>),
}

/// The prompt of request `index`, from its own seed: independent of any other request, of order and
/// of the number of workers.
pub trait PromptSource: Send + Sync {
    /// The prompt of about `tokens` tokens (exact where token ids are used).
    ///
    /// # Errors
    /// Where the source has nothing to give, for example an empty file.
    fn prompt(&self, index: u64, tokens: u32, seed: Seed) -> Result<Prompt>;

    /// The answer length that goes with the prompt of request `index`, tokens; none: as planned.
    fn output_tokens(&self, _index: u64) -> Option<u32> {
        None
    }

    /// A hash of the content, for the identity of the dataset; `None` if it is all in the seed.
    fn content_hash(&self) -> Option<String> {
        None
    }
}

/// Which source a scenario uses.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptSpec {
    /// Synthetic prompts of the asked number of tokens.
    #[default]
    Synthetic,
    /// One prompt a line: `{"prompt": "…", "output_tokens": 128}` (`output_tokens` optional).
    Jsonl {
        /// The file.
        path: PathBuf,
    },
}

/// Which of `choices` stands at `place` of the prompt of request `index`.
///
/// The first one goes round with the index, from a point that the salt sets: as many requests in a
/// row as there are choices begin differently, so that a prefix cache cannot serve one from another.
/// All others come from the request's seed and the salt.
fn pick(choices: usize, index: u64, place: u64, seed: Seed, salt: Seed) -> usize {
    let number = if place == 0 {
        salt.named("start").0.wrapping_add(index)
    } else {
        seed.nth(salt.0).nth(place).0
    };
    // The remainder's bias is below choices / 2^64.
    usize::try_from(number % choices as u64).unwrap_or(0)
}

/// Prompts of token ids: exact lengths.
#[derive(Debug, Clone)]
pub struct SyntheticTokens {
    ids: Vec<u32>,
    salt: Seed,
}

impl SyntheticTokens {
    /// Draws from `ids`, which `/tokenize` gives for [`WORDS`] (valid in every vocabulary, no specials).
    /// Another salt gives other prompts from the same seeds.
    #[must_use]
    pub fn new(ids: Vec<u32>, salt: Seed) -> Self {
        Self { ids, salt }
    }
}

impl PromptSource for SyntheticTokens {
    fn prompt(&self, index: u64, tokens: u32, seed: Seed) -> Result<Prompt> {
        if self.ids.is_empty() {
            return Err(Error::scenario("no token ids to make prompts from"));
        }
        let id = |place| self.ids[pick(self.ids.len(), index, place, seed, self.salt)];
        Ok(Prompt::Tokens((0..u64::from(tokens.max(1))).map(id).collect()))
    }
}

/// How words of [`WORDS`] become tokens on one server: `tokens = per_word × words + overhead`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TextCalibration {
    /// Tokens a word.
    pub tokens_per_word: f64,
    /// Tokens that come with any prompt (a begin mark, the chat template).
    pub overhead_tokens: f64,
}

/// What a server counted for a prompt of this many words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedProbe {
    /// Words sent.
    pub words: u32,
    /// Prompt tokens counted.
    pub tokens: u32,
}

impl Default for TextCalibration {
    /// One token a word, as today's vocabularies have for common words.
    fn default() -> Self {
        Self { tokens_per_word: 1.0, overhead_tokens: 0.0 }
    }
}

impl TextCalibration {
    /// The line through two probes, best of very different lengths; `None` if they fit no server
    /// (fewer tokens for more words, or more than 16 tokens a word).
    #[must_use]
    pub fn from_probes(short: CountedProbe, long: CountedProbe) -> Option<Self> {
        let words = f64::from(long.words) - f64::from(short.words);
        let tokens_per_word = (f64::from(long.tokens) - f64::from(short.tokens)) / words;
        if !(tokens_per_word > 0.1 && tokens_per_word < 16.0) {
            return None;
        }
        let overhead_tokens = f64::from(short.tokens) - tokens_per_word * f64::from(short.words);
        Some(Self { tokens_per_word, overhead_tokens: overhead_tokens.max(0.0) })
    }

    /// The words for about `tokens` tokens, at least 1.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // `as` saturates
    pub fn words(&self, tokens: u32) -> u32 {
        let words = (f64::from(tokens) - self.overhead_tokens) / self.tokens_per_word;
        (words.round() as u32).max(1)
    }
}

/// Prompts of counted words: for servers that take no token ids.
#[derive(Debug, Clone)]
pub struct SyntheticText {
    calibration: TextCalibration,
    salt: Seed,
}

impl SyntheticText {
    /// Words from [`WORDS`], as many as the calibration says. Another salt gives other prompts from
    /// the same seeds.
    #[must_use]
    pub fn new(calibration: TextCalibration, salt: Seed) -> Self {
        Self { calibration, salt }
    }
}

impl PromptSource for SyntheticText {
    fn prompt(&self, index: u64, tokens: u32, seed: Seed) -> Result<Prompt> {
        let words = u64::from(self.calibration.words(tokens));
        let mut text = String::new();
        for place in 0..words {
            if place > 0 {
                text.push(' ');
            }
            text.push_str(WORDS[pick(WORDS.len(), index, place, seed, self.salt)]);
        }
        Ok(Prompt::Text(text))
    }
}

/// Prompts from a JSONL file, in its order; from its start again where there are more requests than
/// lines. Warm-up takes them from the end backwards, so that it does not warm a prefix cache for what
/// is measured. They are sent as they stand: no salt, so such a cache may serve a second run.
#[derive(Debug, Clone)]
pub struct JsonlPrompts {
    lines: Arc<[JsonlLine]>,
    hash: String,
    first: u64,
}

/// One line. Other keys are left alone: datasets carry their own.
#[derive(Debug, Clone, Deserialize)]
struct JsonlLine {
    prompt: String,
    output_tokens: Option<u32>,
    // The answer's length under the names of other tools: not read, and so an error.
    max_tokens: Option<IgnoredAny>,
    max_completion_tokens: Option<IgnoredAny>,
    max_new_tokens: Option<IgnoredAny>,
    max_output_tokens: Option<IgnoredAny>,
    output_len: Option<IgnoredAny>,
    output_length: Option<IgnoredAny>,
    n_predict: Option<IgnoredAny>,
}

impl JsonlLine {
    /// The name of an answer's length that is not read.
    fn near_name(&self) -> Option<&'static str> {
        let names = [
            ("max_tokens", &self.max_tokens),
            ("max_completion_tokens", &self.max_completion_tokens),
            ("max_new_tokens", &self.max_new_tokens),
            ("max_output_tokens", &self.max_output_tokens),
            ("output_len", &self.output_len),
            ("output_length", &self.output_length),
            ("n_predict", &self.n_predict),
        ];
        let given = names.into_iter().find(|(_, value)| value.is_some());
        given.map(|(name, _)| name).filter(|_| self.output_tokens.is_none())
    }
}

impl JsonlPrompts {
    /// Reads `{"prompt": "…", "output_tokens": 128}` a line (`output_tokens` optional); blank lines
    /// are skipped. `name` stands in errors.
    ///
    /// # Errors
    /// Where a line is not such an object, a prompt is empty, `output_tokens` is 0 or has another tool's
    /// name (`max_tokens`), or there is no prompt at all; with the number of the line.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let mut lines = Vec::new();
        // Split at LF alone: U+2028 and its like may stand inside JSON.
        for (number, line) in text.trim_start_matches('\u{feff}').split('\n').enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let at = |why: &str| Error::scenario(format!("{name}:{}: {why}", number + 1));
            let line: JsonlLine = serde_json::from_str(line).map_err(|error| {
                at("not a prompt")
                    .with_cause(error)
                    .with_hint(r#"one object a line: `{"prompt": "…", "output_tokens": 128}`"#)
            })?;
            if line.prompt.is_empty() {
                return Err(at("the prompt is empty"));
            }
            if line.output_tokens == Some(0) {
                return Err(at("`output_tokens` is 0").with_hint("leave it out, or ask for 1"));
            }
            if let Some(name) = line.near_name() {
                return Err(at(&format!("`{name}` is not read"))
                    .with_hint("the answer's length is named `output_tokens` here"));
            }
            lines.push(line);
        }
        if lines.is_empty() {
            return Err(Error::scenario(format!("{name} holds no prompt")));
        }
        Ok(Self { lines: lines.into(), hash: fnv1a_128(text.as_bytes()), first: 0 })
    }

    /// How many prompts there are, at least 1.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lines.len()
    }

    /// The same prompts, request 0 taking the prompt of number `first` (from 0, going round): rounds
    /// of one start take different ones (see `Plan::first_prompt`). Copies no text.
    #[must_use]
    pub fn starting_at(&self, first: u64) -> Self {
        Self { first, ..self.clone() }
    }

    fn line(&self, index: u64) -> Option<&JsonlLine> {
        let count = self.lines.len() as u64;
        let place = match index.checked_sub(FIRST_WARM_UP_INDEX) {
            Some(back) => count.checked_sub(1)? - back.checked_rem(count)?,
            None => self.first.wrapping_add(index).checked_rem(count)?,
        };
        self.lines.get(usize::try_from(place).ok()?)
    }
}

impl PromptSource for JsonlPrompts {
    fn prompt(&self, index: u64, _tokens: u32, _seed: Seed) -> Result<Prompt> {
        let line = self.line(index).ok_or_else(|| Error::scenario("the file holds no prompt"))?;
        Ok(Prompt::Text(line.prompt.clone()))
    }

    fn output_tokens(&self, index: u64) -> Option<u32> {
        self.line(index)?.output_tokens
    }

    fn content_hash(&self) -> Option<String> {
        Some(self.hash.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn tokens(source: &SyntheticTokens, index: u64, count: u32) -> Vec<u32> {
        match source.prompt(index, count, Seed(3).nth(index)).unwrap() {
            Prompt::Tokens(ids) => ids,
            Prompt::Text(text) => panic!("text: {text}"),
        }
    }

    #[test]
    fn token_prompts_are_exact_and_share_no_start() {
        let ids: Vec<u32> = (1000..1500).collect();
        let source = SyntheticTokens::new(ids.clone(), Seed(1));
        for count in [1, 2, 127, 4096] {
            assert_eq!(tokens(&source, 5, count).len(), count as usize);
        }
        let firsts: HashSet<u32> = (0..500).map(|i| tokens(&source, i, 1)[0]).collect();
        assert_eq!(firsts.len(), 500, "as many first ids as there are to choose from");
        let starts: HashSet<Vec<u32>> = (0..10_000).map(|i| tokens(&source, i, 4)).collect();
        assert_eq!(starts.len(), 10_000);
        assert!(tokens(&source, 9, 4096).iter().all(|id| ids.contains(id)));
    }

    #[test]
    fn prompts_depend_on_salt_index_and_seed_alone() {
        let ids: Vec<u32> = (0..500).collect();
        let (a, b) =
            (SyntheticTokens::new(ids.clone(), Seed(1)), SyntheticTokens::new(ids, Seed(2)));
        assert_eq!(tokens(&a, 7, 64), tokens(&a.clone(), 7, 64));
        let (x, y) = (tokens(&a, 7, 512), tokens(&b, 7, 512));
        let same = x.iter().zip(&y).filter(|(x, y)| x == y).count();
        // About 1 of 512 by chance; 10 would be beyond 1e-6.
        assert!(same < 10, "{same} of 512 ids are the same under another salt");
        // A longer prompt of the same request goes on where the shorter ends.
        assert_eq!(tokens(&a, 7, 512)[..64], tokens(&a, 7, 64));
    }

    #[test]
    fn text_has_the_words_that_the_calibration_asks_for() {
        let probe = |words, tokens| CountedProbe { words, tokens };
        let calibration = TextCalibration::from_probes(probe(10, 23), probe(110, 143)).unwrap();
        assert_eq!(calibration, TextCalibration { tokens_per_word: 1.2, overhead_tokens: 11.0 });
        let source = SyntheticText::new(calibration, Seed(0));
        for (tokens, words) in [(131, 100), (11, 1), (1, 1)] {
            let Prompt::Text(text) = source.prompt(0, tokens, Seed(9)).unwrap() else { panic!() };
            assert_eq!(text.split(' ').count(), words, "{text}");
        }
        assert!(TextCalibration::from_probes(probe(10, 23), probe(10, 23)).is_none());
        assert!(TextCalibration::from_probes(probe(10, 23), probe(20, 22)).is_none());
    }

    #[test]
    fn words_are_many_and_each_once() {
        let set: HashSet<&str> = WORDS.iter().copied().collect();
        assert_eq!(set.len(), WORDS.len());
        assert!(WORDS.len() >= 500);
        assert!(WORDS.iter().all(|w| w.bytes().all(|b| b.is_ascii_lowercase())));
    }

    #[test]
    fn jsonl_goes_round_and_keeps_u2028() {
        let text = "{\"prompt\": \"a\u{2028}b\", \"output_tokens\": 7}\r\n\n{\"prompt\": \"c\", \"id\": 1}";
        let source = JsonlPrompts::parse(text, "p.jsonl").unwrap();
        assert_eq!(source.count(), 2);
        let text_of = |i| source.prompt(i, 0, Seed(0)).unwrap();
        assert_eq!(text_of(2), Prompt::Text("a\u{2028}b".into()));
        assert_eq!((source.output_tokens(0), source.output_tokens(3)), (Some(7), None));
        assert_eq!(source.content_hash(), Some(fnv1a_128(text.as_bytes())));
    }

    #[test]
    fn rounds_and_warm_up_take_other_lines() {
        let text: String = (0..5).map(|i| format!("{{\"prompt\": \"p{i}\"}}\n")).collect();
        let source = JsonlPrompts::parse(&text, "p.jsonl").unwrap();
        let number = |source: &JsonlPrompts, i| source.prompt(i, 0, Seed(0)).unwrap();
        let is = |i: u32| Prompt::Text(format!("p{i}"));
        assert_eq!(number(&source, 0), is(0));
        assert_eq!(number(&source.starting_at(3), 0), is(3));
        assert_eq!(number(&source.starting_at(3), 2), is(0));
        assert_eq!(number(&source, FIRST_WARM_UP_INDEX), is(4));
        assert_eq!(number(&source, FIRST_WARM_UP_INDEX + 5), is(4));
        assert_eq!(number(&source, FIRST_WARM_UP_INDEX + 6), is(3));
    }

    #[test]
    fn jsonl_errors_name_the_line() {
        let message = |text| JsonlPrompts::parse(text, "p.jsonl").unwrap_err().to_string();
        assert_eq!(message(""), "p.jsonl holds no prompt");
        assert_eq!(message("\n {\"prompt\": \"\"}"), "p.jsonl:2: the prompt is empty");
        assert_eq!(message("{\"prompt\": \"a\"}\nnonsense"), "p.jsonl:2: not a prompt");
        assert_eq!(message("{\"prompt\": 5}"), "p.jsonl:1: not a prompt");
        let zero = "{\"prompt\": \"a\", \"output_tokens\": 0}";
        assert_eq!(message(zero), "p.jsonl:1: `output_tokens` is 0");
    }
}
