//! Text of a chosen number of tokens, counted by the server's own tokenizer where it offers one.

use std::sync::Arc;

use rand::RngExt;
use tokio::task::JoinSet;

use crate::api::tokenize::{parse_tokenized, tokenize_body};
use crate::error::Result;
use crate::preflight::PreflightReport;
use crate::rng::Seed;
use crate::scenario::prompt::{SyntheticText, SyntheticTokens, WORDS};
use crate::scenario::{Prompt, PromptSource};
use crate::settings::PromptForm;
use crate::transport::Client;
use crate::transport::client::Endpoint;

/// Words that prompts are made of. Each costs one question to the server.
const VOCABULARY: usize = 160;
/// Times that a word is repeated to be counted: an extra token at the start then does not show.
const REPEATS: u32 = 8;
/// Questions at once.
const AT_ONCE: usize = 16;
/// Characters a token of English, where nobody counts.
const CHARS_A_TOKEN: usize = 4;

/// Makes prompts and counts texts.
#[derive(Clone)]
pub(super) struct TextMaker {
    source: Source,
    counter: Counter,
    special_tokens: u32,
}

/// Who counts the tokens of a text.
#[derive(Clone)]
enum Counter {
    Server(Tokenizer),
    /// Nobody: a guess from its characters.
    Characters,
    #[cfg(test)]
    Words,
}

#[derive(Clone)]
enum Source {
    /// Words whose tokens are known.
    Counted(Arc<Words>),
    /// Token ids, or words by an average.
    Other(Arc<dyn PromptSource>),
}

#[derive(Clone)]
struct Tokenizer {
    client: Client,
    model: String,
}

/// Words with their tokens, each with a space before it.
#[derive(Debug)]
struct Words {
    all: Vec<Word>,
    /// Those of one token, to fill up with.
    single: Vec<Word>,
}

#[derive(Debug, Clone, Copy)]
struct Word {
    text: &'static str,
    tokens: u32,
}

impl TextMaker {
    /// Finds out how this server counts.
    pub(super) async fn learn(client: &Client, found: &PreflightReport, form: PromptForm) -> Self {
        let tokenizer = Tokenizer { client: client.clone(), model: found.model.clone() };
        let special_tokens = tokenizer.special_tokens().await;
        let tokenizer = special_tokens.is_some().then_some(tokenizer);
        let special_tokens = special_tokens.unwrap_or(0);
        let salt = Seed(0);
        let source = match (&found.token_ids, form) {
            (Some(ids), PromptForm::Ids) => {
                Source::Other(Arc::new(SyntheticTokens::new(ids.clone(), salt)))
            }
            _ => match tokenizer.as_ref() {
                Some(tokenizer) => match Words::learn(tokenizer).await {
                    Some(words) => Source::Counted(Arc::new(words)),
                    None => by_average(found, salt),
                },
                None => by_average(found, salt),
            },
        };
        let counter = tokenizer.map_or(Counter::Characters, Counter::Server);
        Self { source, counter, special_tokens }
    }

    /// Whether lengths of prompts are exact.
    pub(super) fn is_exact(&self) -> bool {
        matches!(self.source, Source::Counted(_))
    }

    /// Tokens that the server adds to a prompt of the completions API, such as a begin mark.
    pub(super) fn special_tokens(&self) -> u32 {
        self.special_tokens
    }

    /// A prompt of this many tokens. Prompts of neighbouring numbers begin differently.
    pub(super) fn prompt(&self, index: u64, tokens: u32, seed: Seed) -> Result<Prompt> {
        match &self.source {
            Source::Counted(words) => Ok(Prompt::Text(words.text(index, tokens, seed))),
            Source::Other(source) => source.prompt(index, tokens, seed),
        }
    }

    /// The tokens of a text: by the server, else by its characters.
    pub(super) async fn count(&self, text: &str) -> u32 {
        match &self.counter {
            Counter::Server(tokenizer) => match tokenizer.count(text, false).await {
                Some(tokens) => tokens.saturating_add(self.special_tokens),
                None => by_characters(text),
            },
            Counter::Characters => by_characters(text),
            #[cfg(test)]
            Counter::Words => u32::try_from(text.split_whitespace().count()).unwrap(),
        }
    }

    /// For tests: every word is one token, and nobody is asked.
    #[cfg(test)]
    pub(super) fn one_token_a_word() -> Self {
        let all: Vec<Word> = WORDS.iter().map(|text| Word { text, tokens: 1 }).collect();
        let words = Words { single: all.clone(), all };
        Self {
            source: Source::Counted(Arc::new(words)),
            counter: Counter::Words,
            special_tokens: 0,
        }
    }
}

fn by_characters(text: &str) -> u32 {
    u32::try_from(text.chars().count().div_ceil(CHARS_A_TOKEN)).unwrap_or(u32::MAX)
}

fn by_average(found: &PreflightReport, salt: Seed) -> Source {
    let calibration = found.text_calibration.unwrap_or_default();
    Source::Other(Arc::new(SyntheticText::new(calibration, salt)))
}

impl Tokenizer {
    /// The tokens of a text; `None` if the server has no tokenizer to ask.
    async fn count(&self, text: &str, with_special: bool) -> Option<u32> {
        let mut body = tokenize_body(&self.model, text);
        body["add_special_tokens"] = with_special.into();
        body["add_special"] = with_special.into();
        let reply = self.client.post_json(Endpoint::Root("tokenize"), &body).await.ok()?;
        let tokenized = reply.is_success().then(|| parse_tokenized(&reply.body).ok()).flatten()?;
        u32::try_from(tokenized.ids.len()).ok()
    }

    async fn special_tokens(&self) -> Option<u32> {
        let plain = self.count(" one two", false).await?;
        let special = self.count(" one two", true).await?;
        Some(special.saturating_sub(plain))
    }
}

impl Words {
    /// Counts the words, and checks that a text has as many tokens as its words together.
    async fn learn(tokenizer: &Tokenizer) -> Option<Self> {
        let step = (WORDS.len() / VOCABULARY).max(1);
        let mut all = Vec::new();
        let mut left = WORDS.iter().step_by(step).copied();
        let mut asking = JoinSet::new();
        loop {
            while asking.len() < AT_ONCE
                && let Some(text) = left.next()
            {
                let tokenizer = tokenizer.clone();
                asking.spawn(async move {
                    let repeated = format!(" {text}").repeat(REPEATS as usize);
                    let tokens = tokenizer.count(&repeated, false).await? / REPEATS;
                    (tokens > 0).then_some(Word { text, tokens })
                });
            }
            let Some(word) = asking.join_next().await else { break };
            all.push(word.ok()??);
        }
        // They come in the order of their answers.
        all.sort_by_key(|word| word.text);
        let single = all.iter().copied().filter(|word| word.tokens == 1).collect();
        let words = Self { all, single };
        let check = words.text(0, 200, Seed(1));
        (tokenizer.count(&check, false).await == Some(words.tokens(&check))).then_some(words)
    }

    fn text(&self, index: u64, tokens: u32, seed: Seed) -> String {
        let mut rng = seed.named("words").rng();
        let mut left = tokens;
        let mut text = String::new();
        let mut add = |word: Word, left: &mut u32| {
            text.push(' ');
            text.push_str(word.text);
            *left -= word.tokens;
        };
        let first = index % self.all.len().max(1) as u64;
        let first = usize::try_from(first).ok().and_then(|place| self.all.get(place));
        if let Some(word) = first.filter(|word| word.tokens <= left) {
            add(*word, &mut left);
        }
        while left > 0 && !self.all.is_empty() {
            let mut word = self.all[rng.random_range(0..self.all.len())];
            if word.tokens > left {
                let fits: &[Word] = match self.single.is_empty() {
                    true => break,
                    false => &self.single,
                };
                word = fits[rng.random_range(0..fits.len())];
            }
            add(word, &mut left);
        }
        text
    }

    /// The tokens of a text of these words.
    fn tokens(&self, text: &str) -> u32 {
        let of = |word: &str| self.all.iter().find(|known| known.text == word);
        text.split_whitespace().filter_map(of).map(|word| word.tokens).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_exactly_the_tokens_asked_for() {
        let all: Vec<Word> =
            WORDS.iter().zip(0_u32..).map(|(text, i)| Word { text, tokens: 1 + i % 3 }).collect();
        let single = all.iter().copied().filter(|word| word.tokens == 1).collect();
        let words = Words { all, single };
        for tokens in [1, 2, 3, 16, 1023] {
            for index in 0..20 {
                let text = words.text(index, tokens, Seed(9).nth(index));
                assert_eq!(words.tokens(&text), tokens, "{text}");
            }
        }
        let (a, b) = (words.text(0, 50, Seed(1)), words.text(1, 50, Seed(1)));
        assert_ne!(a.split_whitespace().next(), b.split_whitespace().next());
        assert_eq!(a, words.text(0, 50, Seed(1)));
    }
}
