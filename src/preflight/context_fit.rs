//! Whether the longest planned request fits the server's context.

use super::Examination;
use crate::record::{FindingCode, Severity};
use crate::scenario::Prompt;
use crate::transport::FailureKind;

impl Examination<'_> {
    /// Compares with the context that the server reports; else sends one prompt of full length.
    pub(super) async fn check_fit(&mut self) {
        let demands = self.demands;
        if demands.longest_input == 0 {
            return;
        }
        match self.report.max_model_len {
            Some(limit) => self.compare(limit),
            None => Box::pin(self.send_longest()).await,
        }
    }

    fn compare(&mut self, limit: u32) {
        // Text prompts are planned with the template in them; token ids come on top of marks.
        let marks = match self.report.offers.token_prompts {
            true => self.report.template_tokens.unwrap_or_default(),
            false => 0,
        };
        let (input, output) = (self.demands.longest_input, self.demands.longest_output);
        let needed = u64::from(input) + u64::from(output) + u64::from(marks);
        if needed > u64::from(limit) {
            self.report.find(
                FindingCode::TooLong,
                Severity::Fatal,
                format!(
                    "the longest request needs {needed} tokens ({input} in, {output} out) and the \
                     server's context holds {limit}"
                ),
                "shorten the lengths, or raise the context (vLLM: `--max-model-len`, llama-server: \
                 `-c`, which its slots share)",
            );
        }
    }

    async fn send_longest(&mut self) {
        let tokens = self.demands.longest_input;
        let prompt = match &self.report.token_ids {
            Some(ids) if self.report.offers.token_prompts => {
                Prompt::Tokens(ids.iter().cycle().take(tokens as usize).copied().collect())
            }
            _ => {
                let line = self.report.text_calibration.unwrap_or_default();
                self.words(20, line.words(tokens))
            }
        };
        let sending = self.send(self.report.api, &prompt, 1, self.report.offers);
        let failure = match Box::pin(sending).await {
            Ok(_) => return,
            Err(failure) => failure,
        };
        let what = format!("a prompt of {tokens} tokens, the longest of the plan,");
        match failure.kind {
            FailureKind::BadRequest | FailureKind::ErrorInStream | FailureKind::Empty => {
                self.report.find(
                    FindingCode::TooLong,
                    Severity::Fatal,
                    format!("{what} is refused: {}", failure.message),
                    "shorten the lengths, or raise the server's context",
                );
            }
            _ => self.fail(&what, &failure),
        }
    }
}
