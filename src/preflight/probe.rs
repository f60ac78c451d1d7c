//! Probes: small streamed requests end to end, and what they show of the server's offers.

use std::time::Duration;

use super::Examination;
use crate::api::chat::Chat;
use crate::api::completions::Completions;
use crate::api::{Dialect, GenerateRequest, Offers, tokens_asked};
use crate::error::Error;
use crate::record::{FindingCode, Severity};
use crate::rng::Seed;
use crate::scenario::prompt::{SyntheticText, TextCalibration};
use crate::scenario::{Prompt, PromptSource};
use crate::settings::{ApiChoice, TriState};
use crate::transport::client::TokenSource;
use crate::transport::{Exchange, Failure, FailureKind};

/// Tokens that a probe asks for: enough to see whether the length is obeyed.
pub(super) const PROBE_TOKENS: u32 = 8;

/// How long a small probe may take. A cold server compiles for 20 s; ten minutes, the limit of a
/// measured request, would leave the user in the dark ten times over.
const PROBE_LIMIT: Duration = Duration::from_secs(120);

/// Words of a probe's prompt.
const PROBE_WORDS: u32 = 12;

/// A failure that no server has a part in.
fn failure(kind: FailureKind, message: String) -> Failure {
    let (first_bytes, last_bytes) = (String::new(), String::new());
    Failure { kind, message, retry_after: None, first_bytes, last_bytes }
}

impl Examination<'_> {
    /// The dialect of an API.
    pub(super) fn dialect(api: ApiChoice) -> &'static dyn Dialect {
        match api {
            ApiChoice::Chat => &Chat,
            ApiChoice::Auto | ApiChoice::Completions => &Completions,
        }
    }

    /// A prompt of this many words, another for every `index`.
    pub(super) fn words(&self, index: u64, words: u32) -> Prompt {
        // Salted by the wall clock: a prefix cache must not answer for an earlier preflight.
        let salt = self.clock.wall_origin().as_nanosecond();
        let salt = Seed(u64::try_from(salt).unwrap_or_default()).named("preflight");
        let source = SyntheticText::new(TextCalibration::default(), salt);
        let prompt = source.prompt(index, words, salt.nth(index));
        prompt.unwrap_or_else(|_| Prompt::Text("one two three".to_owned()))
    }

    /// Sends one streamed request.
    pub(super) async fn send(
        &self,
        api: ApiChoice,
        prompt: &Prompt,
        max_tokens: u32,
        offers: Offers,
    ) -> Result<Exchange, Failure> {
        let dialect = Self::dialect(api);
        let request = GenerateRequest {
            model: &self.report.model,
            prompt,
            max_tokens,
            seed: 0,
            offers,
            extra: &self.settings.extra_body,
        };
        let refused = |error: Error| failure(FailureKind::BadRequest, error.to_string());
        let body = dialect.body(&request).map_err(refused)?;
        let max_tokens = tokens_asked(max_tokens, &self.settings.extra_body);
        let ask = |body| {
            self.client.exchange_within(
                self.clock,
                dialect,
                body,
                None,
                max_tokens,
                std::future::pending(),
            )
        };
        let exchange = ask(body.clone()).await;
        // A connection that the server had closed meanwhile carries no information about it.
        let stale = |f: &Failure| f.kind == FailureKind::StaleConnection;
        let exchange = match exchange.failure.as_ref().is_some_and(stale) {
            true => ask(body).await,
            false => exchange,
        };
        match exchange.failure {
            Some(failure) => Err(failure),
            None => Ok(exchange),
        }
    }

    /// Sends a small request, within [`PROBE_LIMIT`].
    pub(super) async fn send_small(
        &self,
        prompt: &Prompt,
        max_tokens: u32,
        offers: Offers,
    ) -> Result<Exchange, Failure> {
        let sending = Box::pin(self.send(self.report.api, prompt, max_tokens, offers));
        tokio::time::timeout(PROBE_LIMIT, sending).await.unwrap_or_else(|_| {
            let message = format!("no whole answer within {} s", PROBE_LIMIT.as_secs());
            Err(failure(FailureKind::TotalTimeout, message))
        })
    }

    /// A probe of the standard kind.
    pub(super) async fn probe(&self, index: u64, offers: Offers) -> Result<Exchange, Failure> {
        let prompt = self.words(index, PROBE_WORDS);
        self.send_small(&prompt, PROBE_TOKENS, offers).await
    }

    /// Finds the API that answers: completions first, since they take token ids.
    pub(super) async fn choose_api(&mut self) {
        let candidates: &[ApiChoice] = match self.settings.api {
            ApiChoice::Auto => &[ApiChoice::Completions, ApiChoice::Chat],
            ApiChoice::Completions => &[ApiChoice::Completions],
            ApiChoice::Chat => &[ApiChoice::Chat],
        };
        let mut told: Option<(ApiChoice, Failure)> = None;
        for (place, api) in candidates.iter().enumerate() {
            self.report.api = *api;
            match Box::pin(self.probe_fields(place as u64)).await {
                Ok(exchange) => return self.read_first(&exchange),
                Err(failure) => {
                    let hopeless = matches!(
                        failure.kind,
                        FailureKind::Unauthorized | FailureKind::RateLimited
                    );
                    // A path that is not there says less than why the other one failed.
                    let absent = |f: &Failure| f.kind == FailureKind::NotFound;
                    if told.as_ref().is_none_or(|(_, f)| absent(f) && !absent(&failure)) {
                        told = Some((*api, failure));
                    }
                    if hopeless {
                        break;
                    }
                }
            }
        }
        let is_absent = |(_, f): &(ApiChoice, Failure)| f.kind == FailureKind::NotFound;
        if candidates.len() > 1 && told.as_ref().is_some_and(is_absent) {
            return self.no_dialect();
        }
        if let Some((api, failure)) = told {
            let path = Self::dialect(api).path();
            self.fail(&format!("a streamed request to `{path}`"), &failure);
        }
    }

    fn read_first(&mut self, exchange: &Exchange) {
        let counted = matches!(
            exchange.token_source,
            Some(TokenSource::FinalUsage | TokenSource::EventUsage | TokenSource::TokenIds)
        );
        if !counted {
            self.report.offers.include_usage = false;
            self.report.find(
                FindingCode::NoUsage,
                Severity::Warning,
                "the server reports no token counts: every event is taken for one token",
                "token rates are wrong where an event carries several; have it report usage",
            );
        }
        let got = exchange.output_tokens.unwrap_or_default();
        let asked = tokens_asked(PROBE_TOKENS, &self.settings.extra_body);
        if counted && got > asked {
            self.report.find(
                FindingCode::LengthIgnored,
                Severity::Warning,
                format!("asked for {asked} tokens, the server generated {got}"),
                "it ignores the limit of this API: try `--api completions` or `--api chat`",
            );
        }
    }

    /// Learns which optional parameters the server takes, one at a time.
    pub(super) async fn learn_offers(&mut self) {
        Box::pin(self.learn_ignore_eos()).await;
        let continuous = Offers { continuous_usage: true, ..self.report.offers };
        if self.report.offers.include_usage
            && self.tells(2, continuous, TokenSource::EventUsage).await
        {
            self.report.offers = continuous;
            // One authority is enough: ids come with the prompt's own, which costs the server.
            return;
        }
        let ids = Offers { token_ids: true, ..self.report.offers };
        if self.tells(3, ids, TokenSource::TokenIds).await {
            self.report.offers = ids;
        }
    }

    async fn tells(&self, index: u64, offers: Offers, source: TokenSource) -> bool {
        let exchange = Box::pin(self.probe(index, offers)).await;
        exchange.is_ok_and(|exchange| exchange.token_source == Some(source))
    }

    async fn learn_ignore_eos(&mut self) {
        if self.settings.ignore_eos == TriState::Off {
            return;
        }
        let both = Offers { ignore_eos: true, min_tokens: true, ..self.report.offers };
        let (offers, answer) = match Box::pin(self.probe(4, both)).await {
            Err(failure) => self.without_min_tokens(failure).await,
            answer => (both, answer),
        };
        match answer {
            Ok(exchange) => {
                self.report.offers = offers;
                let got = exchange.output_tokens.unwrap_or_default();
                let counted = exchange.token_source != Some(TokenSource::Events);
                if counted && got < PROBE_TOKENS {
                    self.report.find(
                        FindingCode::IgnoreEosWithoutEffect,
                        Severity::Warning,
                        format!(
                            "`ignore_eos` is accepted and has no effect: {got} of {PROBE_TOKENS} \
                             tokens came"
                        ),
                        "answers end where the model ends them: compare TPOT rather than E2EL",
                    );
                }
            }
            Err(failure) if self.settings.ignore_eos == TriState::On => {
                let text = format!("`ignore_eos` is refused: {}", failure.message);
                self.report.find(
                    FindingCode::IgnoreEos,
                    Severity::Fatal,
                    text,
                    "leave `--ignore-eos` out: answers then end where the model ends them",
                );
            }
            Err(failure) => {
                let text = format!(
                    "`ignore_eos` is refused ({}): answers end where the model ends them",
                    failure.message
                );
                self.report.find(FindingCode::IgnoreEos, Severity::Note, text, "");
            }
        }
    }

    /// Where `ignore_eos` and `min_tokens` together are refused: `ignore_eos` alone.
    async fn without_min_tokens(
        &mut self,
        refusal: Failure,
    ) -> (Offers, Result<Exchange, Failure>) {
        let offers = Offers { ignore_eos: true, ..self.report.offers };
        match Box::pin(self.probe(5, offers)).await {
            Ok(exchange) => {
                let text = format!("`min_tokens` is refused and left out: {}", refusal.message);
                self.report.find(FindingCode::FieldRefused, Severity::Note, text, "");
                (offers, Ok(exchange))
            }
            Err(_) => (offers, Err(refusal)),
        }
    }

    /// Neither API is served.
    fn no_dialect(&mut self) {
        let base = self.client.base_url();
        let [first, second] = [ApiChoice::Completions, ApiChoice::Chat]
            .map(|api| base.api(Self::dialect(api).path()));
        self.report.find(
            FindingCode::NoDialect,
            Severity::Fatal,
            format!("the server answers neither `{first}` nor `{second}` (404 Not Found)"),
            "only these two APIs of OpenAI are measured: does a gateway offer one of them under another \
             prefix? give it with `--url`",
        );
    }
}
