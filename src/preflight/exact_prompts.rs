//! Prompts of exact length: token ids where the server takes them, else words counted by it.

use std::collections::BTreeMap;

use super::Examination;
use super::probe::PROBE_TOKENS;
use crate::api::Offers;
use crate::api::tokenize::{Tokenized, parse_tokenized, tokenize_body};
use crate::record::{FindingCode, Severity};
use crate::scenario::Prompt;
use crate::scenario::prompt::{CountedProbe, TextCalibration, WORDS};
use crate::settings::{ApiChoice, PromptForm};
use crate::transport::client::Endpoint;

/// Fewest ids worth drawing from: below this, prompts would repeat themselves.
const FEWEST_IDS: usize = 64;

/// Ids of the probe prompt.
const PROBE_IDS: usize = 32;

/// Words of the two calibration probes, and the tokens of the one that checks them.
const SHORT_WORDS: u32 = 16;
const LONG_WORDS: u32 = 144;
const CHECK_TOKENS: u32 = 80;

impl Examination<'_> {
    /// Finds the way to make prompts of a given length.
    pub(super) async fn learn_prompts(&mut self) {
        let form = self.settings.prompt_form;
        let may_be_ids = form != PromptForm::Text && self.report.api == ApiChoice::Completions;
        if may_be_ids && Box::pin(self.learn_token_ids()).await {
            return;
        }
        if form == PromptForm::Ids {
            return self.report.find(
                FindingCode::TokenPrompts,
                Severity::Fatal,
                "the server takes no prompts of token ids",
                "leave `--prompt-form ids` out, and prompts are text",
            );
        }
        Box::pin(self.calibrate_text()).await;
    }

    /// Whether prompts can be token ids.
    async fn learn_token_ids(&mut self) -> bool {
        let Some(ids) = self.word_ids().await else {
            self.report.find(
                FindingCode::NoTokenize,
                Severity::Note,
                "the server offers no `/tokenize`: prompts are text, their lengths approximate",
                "",
            );
            return false;
        };
        let sent = ids.len().min(PROBE_IDS);
        let offers = Offers { token_prompts: true, ..self.report.offers };
        let prompt = Prompt::Tokens(ids[..sent].to_vec());
        let exchange = match self.send_small(&prompt, PROBE_TOKENS, offers).await {
            Ok(exchange) => exchange,
            Err(failure) => {
                let text = format!(
                    "prompts of token ids are refused ({}): prompts are text, their lengths \
                     approximate",
                    failure.message
                );
                self.report.find(FindingCode::TokenPrompts, Severity::Note, text, "");
                return false;
            }
        };
        let sent = u32::try_from(sent).unwrap_or_default();
        let added = exchange.input_tokens.map(|counted| counted.checked_sub(sent));
        match added {
            // Up to a begin and an end mark: the ids themselves were taken as they are.
            Some(Some(added)) if added <= 2 => {
                self.report.template_tokens = Some(added);
            }
            None => {}
            Some(_) => {
                let counted = exchange.input_tokens.unwrap_or_default();
                self.report.find(
                    FindingCode::TokenPrompts,
                    Severity::Warning,
                    format!(
                        "a prompt of {sent} token ids is counted as {counted}: ids are not used"
                    ),
                    "is the answer that of another model's tokenizer?",
                );
                return false;
            }
        }
        self.report.offers = offers;
        self.report.token_ids = Some(ids);
        true
    }

    async fn tokenize(&self, text: &str) -> Option<Tokenized> {
        let body = tokenize_body(&self.report.model, text);
        let reply = self.client.post_json(Endpoint::Root("tokenize"), &body).await.ok()?;
        reply.is_success().then(|| parse_tokenized(&reply.body).ok()).flatten()
    }

    /// Ordinary ids of this vocabulary, from the built-in words.
    async fn word_ids(&mut self) -> Option<Vec<u32>> {
        let forward = self.tokenize(&format!(" {}", WORDS.join(" "))).await?;
        let reversed: Vec<&str> = WORDS.iter().rev().copied().collect();
        let backward = self.tokenize(&format!(" {}", reversed.join(" "))).await?;
        if self.report.max_model_len.is_none() {
            self.report.max_model_len = forward.max_model_len;
        }
        let ids = ordinary_ids(&forward.ids, &backward.ids);
        (ids.len() >= FEWEST_IDS).then_some(ids)
    }

    /// Learns tokens per word and what the template adds, by two probes of different lengths.
    async fn calibrate_text(&mut self) {
        let short = Box::pin(self.count(10, SHORT_WORDS)).await;
        let long = Box::pin(self.count(11, LONG_WORDS)).await;
        let line = match (short, long) {
            (Some(short), Some(long)) => TextCalibration::from_probes(short, long),
            _ => None,
        };
        let Some(line) = line else {
            self.report.find(
                FindingCode::PromptNotCounted,
                Severity::Warning,
                "the server does not count prompt tokens: one token a word is assumed",
                "have it report usage; input lengths and token rates are a guess until then",
            );
            return;
        };
        self.report.text_calibration = Some(line);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // `as` saturates
        let overhead = line.overhead_tokens.round() as u32;
        self.report.template_tokens = Some(overhead);
        if overhead > 0 && self.report.api == ApiChoice::Chat {
            self.report.find(
                FindingCode::Template,
                Severity::Note,
                format!(
                    "the chat template adds {overhead} tokens to a prompt: they are counted in"
                ),
                "",
            );
        }
        Box::pin(self.check_count(line)).await;
    }

    async fn count(&self, index: u64, words: u32) -> Option<CountedProbe> {
        let prompt = self.words(index, words);
        let sending = self.send_small(&prompt, 1, self.report.offers);
        let tokens = sending.await.ok()?.input_tokens?;
        Some(CountedProbe { words, tokens })
    }

    /// Whether a prompt made by the calibration has the length asked for.
    async fn check_count(&mut self, line: TextCalibration) {
        let overhead = self.report.template_tokens.unwrap_or_default();
        let asked = CHECK_TOKENS + overhead;
        let Some(counted) = self.count(12, line.words(asked)).await else { return };
        // A fifth: words differ in tokens, and 80 of them average that out to about a tenth.
        if counted.tokens.abs_diff(asked) * 5 > asked {
            self.report.find(
                FindingCode::PromptCount,
                Severity::Warning,
                format!("a prompt meant to have {asked} tokens was counted as {}", counted.tokens),
                "input lengths are approximate; the report shows asked beside counted",
            );
        }
    }
}

/// The ids that stand once in the words' text. Marks that a tokenizer puts before or after any text
/// are left out: they stand at the same end whichever way round the words are.
fn ordinary_ids(forward: &[u32], backward: &[u32]) -> Vec<u32> {
    let mut times = BTreeMap::new();
    for id in forward {
        *times.entry(*id).or_insert(0_u32) += 1;
    }
    let marks = [
        forward.first().filter(|id| backward.first() == Some(id)),
        forward.last().filter(|id| backward.last() == Some(id)),
    ];
    let ordinary = |id: &&u32| times.get(id) == Some(&1) && !marks.contains(&Some(id));
    forward.iter().filter(ordinary).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_repeated_pieces_are_left_out() {
        // 1 and 2 are marks, 9 is a piece of several words.
        assert_eq!(ordinary_ids(&[1, 5, 9, 6, 9, 7, 2], &[1, 7, 9, 6, 9, 5, 2]), [5, 6, 7]);
        assert_eq!(ordinary_ids(&[5, 6, 7], &[7, 6, 5]), [5, 6, 7]);
        assert_eq!(ordinary_ids(&[], &[]), Vec::<u32>::new());
    }
}
