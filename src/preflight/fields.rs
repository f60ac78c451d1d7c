//! Fields that every request carries and that some servers refuse: found one by one, then left out.

use super::Examination;
use crate::api::Offers;
use crate::record::{FindingCode, Severity};
use crate::transport::{Exchange, Failure, FailureKind};

/// A field of every request that can be left out, or sent under another name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Usage,
    Seed,
    Temperature,
    MaxTokens,
}

impl Field {
    /// In the order in which they are tried where the refusal names none.
    const ALL: [Self; 4] = [Self::Usage, Self::Seed, Self::Temperature, Self::MaxTokens];

    /// Names by which a refusal may call it.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Usage => &["stream_options", "include_usage"],
            Self::Seed => &["seed"],
            Self::Temperature => &["temperature"],
            Self::MaxTokens => &["max_tokens"],
        }
    }

    fn is_sent(self, offers: Offers) -> bool {
        match self {
            Self::Usage => offers.include_usage,
            Self::Seed => !offers.left_out.seed,
            Self::Temperature => !offers.left_out.temperature,
            Self::MaxTokens => !offers.left_out.max_tokens,
        }
    }

    fn without(self, mut offers: Offers) -> Offers {
        match self {
            Self::Usage => offers.include_usage = false,
            Self::Seed => offers.left_out.seed = true,
            Self::Temperature => offers.left_out.temperature = true,
            Self::MaxTokens => offers.left_out.max_tokens = true,
        }
        offers
    }

    /// What is refused, and what is done instead.
    fn words(self, said: &str) -> String {
        match self {
            Self::Usage => format!("`stream_options.include_usage` is refused: {said}"),
            Self::Seed => format!("`seed` is refused and left out: {said}"),
            Self::Temperature => format!(
                "`temperature` is refused and left out, so the server samples by its own default: {said}"
            ),
            Self::MaxTokens => format!(
                "`max_tokens` is refused; `max_completion_tokens` is sent in its place: {said}"
            ),
        }
    }

    /// The field that a refusal names, of those that are sent.
    fn named_in(message: &str, offers: Offers) -> Option<Self> {
        let named = |field: &Self| field.names().iter().any(|name| message.contains(name));
        Self::ALL.into_iter().filter(|field| field.is_sent(offers)).find(named)
    }
}

impl Examination<'_> {
    /// Sends a small request with usage asked for. A field that is refused is left out and a note
    /// explains it; the error is that of the whole request, if no request without such fields is taken
    /// either. At most eight requests.
    pub(super) async fn probe_fields(&mut self, index: u64) -> Result<Exchange, Failure> {
        let mut offers = Offers { include_usage: true, ..Offers::default() };
        let mut refused: Vec<(Field, Failure)> = Vec::new();
        let exchange = loop {
            let failure = match self.probe(index, offers).await {
                Ok(exchange) => break exchange,
                Err(failure) if failure.kind == FailureKind::BadRequest => failure,
                Err(failure) => return Err(first(refused, failure)),
            };
            let Some(field) = Field::named_in(&failure.message, offers) else {
                let Some((field, exchange)) = self.try_each(index, offers).await else {
                    return Err(first(refused, failure));
                };
                offers = field.without(offers);
                refused.push((field, failure));
                break exchange;
            };
            offers = field.without(offers);
            refused.push((field, failure));
        };
        self.report.offers = offers;
        for (field, failure) in refused {
            let code = match field {
                Field::Usage => FindingCode::UsageRefused,
                _ => FindingCode::FieldRefused,
            };
            self.report.find(code, Severity::Note, field.words(&failure.message), "");
        }
        Ok(exchange)
    }

    /// Where the refusal names no field: the first that the server takes a request without.
    async fn try_each(&self, index: u64, offers: Offers) -> Option<(Field, Exchange)> {
        for field in Field::ALL.into_iter().filter(|field| field.is_sent(offers)) {
            if let Ok(exchange) = self.probe(index, field.without(offers)).await {
                return Some((field, exchange));
            }
        }
        None
    }
}

/// The first refusal is the one that names what was sent.
fn first(refused: Vec<(Field, Failure)>, last: Failure) -> Failure {
    refused.into_iter().next().map_or(last, |(_, failure)| failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_field_that_is_refused() {
        let all = Offers { include_usage: true, ..Offers::default() };
        let newer = "Unsupported parameter: 'max_tokens' is not supported with this model. \
                     Use 'max_completion_tokens' instead.";
        assert_eq!(Field::named_in(newer, all), Some(Field::MaxTokens));
        let warm = "'temperature' does not support 0.0 with this model";
        assert_eq!(Field::named_in(warm, all), Some(Field::Temperature));
        // One that is not sent any more is not the reason.
        assert_eq!(Field::named_in(warm, Field::Temperature.without(all)), None);
        assert_eq!(Field::named_in("max_completion_tokens is too large", all), None);
    }
}
