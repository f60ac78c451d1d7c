//! Token account: who counted the tokens, and how what came differs from what was asked.

use std::collections::BTreeMap;

use super::server_metrics::{CACHE_LIMIT, prefix_cache};
use crate::record::{Finding, FindingCode, Finish, RequestRecord, Severity};
use crate::transport::TokenSource;

/// Above this share of coalesced events ITL percentiles are fiction: each such event makes one gap
/// near zero and the gap before it too long, so at a tenth both p10 and p90 are of no token's time.
pub const COALESCED_LIMIT: f64 = 0.10;

/// Mean tokens per event above which the spread of a gap over its tokens is worth a sentence. vLLM
/// itself puts two tokens into some first events, which this leaves alone.
const BURST_LIMIT: f64 = 1.05;

/// Lengths that differ from the plan by more than this on average change the work measured: STATISTICS
/// D.8 has 0.5 % between two sides, which an approximate prompt of both sides alike does not touch.
const LENGTH_LIMIT: f64 = 0.02;

/// The tokens of the measured completed requests of a load point. Memory: one entry for each different
/// deviation from the asked length.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TokenAccount {
    sources: BTreeMap<TokenSource, u64>,
    completed: u64,
    input: Deviation,
    output: Deviation,
    most_over: u32,
    over: u64,
    early: u64,
    /// Answers that a content filter cut.
    filtered: u64,
    /// Prompt tokens from the server's cache, by usage.
    cached: u64,
    prompt_tokens: u64,
    /// Answers with fewer tokens than events that carry text.
    under_events: u64,
    events: u64,
    coalesced: u64,
    tokens: u64,
}

/// Counted minus asked.
#[derive(Debug, Clone, Default, PartialEq)]
struct Deviation {
    times: BTreeMap<i64, u64>,
    asked: u64,
    counted: u64,
}

impl Deviation {
    fn add(&mut self, asked: u32, counted: u32) {
        *self.times.entry(i64::from(counted) - i64::from(asked)).or_default() += 1;
        self.asked += u64::from(asked);
        self.counted += u64::from(counted);
    }

    fn requests(&self) -> u64 {
        self.times.values().sum()
    }

    /// The difference below which a share of the requests lies (the lower of two neighbours).
    fn quantile(&self, share: f64) -> i64 {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to the count
        #[allow(clippy::cast_precision_loss)] // counts of requests
        let rank = ((self.requests().saturating_sub(1)) as f64 * share) as u64;
        let mut passed = 0;
        for (difference, times) in &self.times {
            passed += times;
            if passed > rank {
                return *difference;
            }
        }
        0
    }

    #[allow(clippy::cast_precision_loss)] // counts of tokens
    fn ratio(&self) -> f64 {
        if self.asked == 0 { 1.0 } else { self.counted as f64 / self.asked as f64 }
    }

    fn differs(&self) -> bool {
        self.times.keys().any(|difference| *difference != 0)
    }

    /// `128.0 asked, 127.2 counted on average; counted − asked p5 -3, p50 0, p95 +1`.
    #[allow(clippy::cast_precision_loss)] // counts of tokens
    fn words(&self) -> String {
        let n = self.requests().max(1) as f64;
        format!(
            "{:.1} tokens asked, {:.1} counted on average; counted minus asked: p5 {:+}, p50 {:+}, p95 {:+}",
            self.asked as f64 / n,
            self.counted as f64 / n,
            self.quantile(0.05),
            self.quantile(0.5),
            self.quantile(0.95),
        )
    }
}

impl TokenAccount {
    /// Enters the measured completed requests among these.
    pub fn add(&mut self, records: &[RequestRecord]) {
        for record in records.iter().filter(|record| record.is_sample()) {
            self.completed += 1;
            if let Some(source) = record.token_source {
                *self.sources.entry(source).or_default() += 1;
            }
            // Prompts of the caller's own have no asked length.
            if let Some(counted) = record.input_tokens.filter(|_| record.input_tokens_asked > 0) {
                self.input.add(record.input_tokens_asked, counted);
            }
            self.prompt_tokens += u64::from(record.input_tokens.unwrap_or(0));
            self.cached += u64::from(record.cached_tokens.unwrap_or(0));
            let (asked, counted) = (record.output_tokens_asked, record.output_tokens.unwrap_or(0));
            self.output.add(asked, counted);
            let is_filtered = record.finish == Some(Finish::ContentFilter);
            // By events there is no count that could be too small: the server ended it by its length.
            let by_length = record.token_source == Some(TokenSource::Events)
                && record.finish == Some(Finish::Length);
            self.filtered += u64::from(is_filtered);
            self.early += u64::from(counted < asked && !is_filtered && !by_length);
            self.over += u64::from(counted > asked);
            self.most_over = self.most_over.max(counted.saturating_sub(asked));
            self.under_events += u64::from(counted < record.events);
            self.events += u64::from(record.events);
            self.coalesced += u64::from(record.coalesced_events);
            self.tokens += u64::from(counted);
        }
    }

    /// Share of events that came within 50 µs of the one before; `None` without events.
    #[must_use]
    pub fn coalesced_share(&self) -> Option<f64> {
        share(self.coalesced, self.events)
    }

    /// What limits trust in the counts and in ITL, each once.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        [
            self.by_events(),
            self.mixed(),
            self.over_cap(),
            self.fewer_than_events(),
            self.early_stops(),
            self.filtered(),
            self.cached(),
            self.prompts(),
            self.coalesced(),
            self.bursts(),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn by_events(&self) -> Option<Finding> {
        let events = self.sources.get(&TokenSource::Events).copied().filter(|n| *n > 0)?;
        let text = format!(
            "the server reported no token count for {events} of {} requests: each event counts as one token",
            self.completed
        );
        Some(
            Finding::new(FindingCode::TokensByEvents, Severity::Warning, text)
                .with_hint("token rates, TPOT and ITL are per event: have the server report usage"),
        )
    }

    fn mixed(&self) -> Option<Finding> {
        if self.sources.len() < 2 {
            return None;
        }
        let parts: Vec<String> =
            self.sources.iter().map(|(source, n)| format!("{} {n}", source.words())).collect();
        let text = format!("tokens were counted in several ways: {}", parts.join(", "));
        let finding = Finding::new(FindingCode::TokenSources, Severity::Warning, text);
        Some(finding.with_hint("does a gateway spread requests over servers that differ?"))
    }

    fn over_cap(&self) -> Option<Finding> {
        (self.over > 0).then(|| {
            let text = format!(
                "{} of {} answers have more tokens than `max_tokens` allows, up to {} more",
                self.over, self.completed, self.most_over
            );
            let hint = "the server ignores the limit or counts wrongly: do not compare token rates \
                        with those of another server";
            Finding::new(FindingCode::OutputOverCap, Severity::Warning, text).with_hint(hint)
        })
    }

    /// A token may have no text of its own, but text without a token there is none: the count is wrong,
    /// or something between cuts tokens into pieces.
    fn fewer_than_events(&self) -> Option<Finding> {
        (self.under_events > 0).then(|| {
            let text = format!(
                "{} of {} answers have fewer tokens by the server's usage than events with text: {} tokens \
                 in {} events over all answers",
                self.under_events, self.completed, self.tokens, self.events
            );
            let hint = "the server counts wrongly, or a proxy cuts tokens into pieces: token rates, TPOT and \
                        ITL are by its count; measure without the proxy, or compare ICL";
            Finding::new(FindingCode::TokensBelowEvents, Severity::Warning, text).with_hint(hint)
        })
    }

    fn early_stops(&self) -> Option<Finding> {
        let early = share(self.early, self.completed).filter(|share| *share > 0.0)?;
        let severity = if self.output.ratio() < 1.0 - LENGTH_LIMIT {
            Severity::Warning
        } else {
            Severity::Note
        };
        let text = format!(
            "{:.0} % of the answers ended before the requested length and count with their actual length: {}",
            early * 100.0,
            self.output.words()
        );
        let hint = "the server ended them itself: `--ignore-eos on` where it obeys that, else compare \
                    TPOT rather than E2EL";
        Some(Finding::new(FindingCode::EarlyStops, severity, text).with_hint(hint))
    }

    fn filtered(&self) -> Option<Finding> {
        (self.filtered > 0).then(|| {
            let text = format!(
                "a content filter cut {} of {} answers: they count with their actual length",
                self.filtered, self.completed
            );
            let hint = "use prompts that the filter lets pass, or measure the server behind it";
            Finding::new(FindingCode::ContentFilter, Severity::Warning, text).with_hint(hint)
        })
    }

    /// As the server's metrics say it, where only the usage does.
    fn cached(&self) -> Option<Finding> {
        let rate = share(self.cached, self.prompt_tokens).filter(|rate| *rate > CACHE_LIMIT)?;
        Some(prefix_cache(rate, ""))
    }

    fn prompts(&self) -> Option<Finding> {
        if !self.input.differs() {
            return None;
        }
        let off = (self.input.ratio() - 1.0).abs();
        let severity = if off > LENGTH_LIMIT { Severity::Warning } else { Severity::Note };
        let text = format!("prompts differ from the requested length: {}", self.input.words());
        Some(Finding::new(FindingCode::InputLengths, severity, text))
    }

    fn coalesced(&self) -> Option<Finding> {
        let share = self.coalesced_share().filter(|share| *share > COALESCED_LIMIT)?;
        let text = format!(
            "{:.0} % of the events arrived together with the previous one: ITL percentiles are not \
             meaningful here; use TPOT",
            share * 100.0
        );
        let hint = "the server, a proxy or the network sends several events at once: is the gateway \
                    buffering?";
        Some(Finding::new(FindingCode::Coalesced, Severity::Warning, text).with_hint(hint))
    }

    fn bursts(&self) -> Option<Finding> {
        let per_event = share(self.tokens, self.events).filter(|mean| *mean > BURST_LIMIT)?;
        let text = format!(
            "an event carries {per_event:.2} tokens on average: ITL spreads each gap over them, ICL is \
             the gap itself"
        );
        Some(Finding::new(FindingCode::TokensPerEvent, Severity::Note, text))
    }
}

#[allow(clippy::cast_precision_loss)] // counts below 2^53
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Content;
    use crate::plan::{Phase, PlannedRequest, Side};
    use crate::record::{Part, RequestIdent};
    use crate::rng::Seed;
    use crate::transport::{Exchange, TokenEvent, TokenTimeline};

    #[test]
    fn lengths_are_told_as_a_distribution() {
        let mut lengths = Deviation::default();
        for counted in [126, 128, 128, 128, 131] {
            lengths.add(128, counted);
        }
        assert!(lengths.differs());
        assert_eq!(
            (lengths.quantile(0.05), lengths.quantile(0.5), lengths.quantile(0.95)),
            (-2, 0, 0)
        );
        assert_eq!(lengths.quantile(1.0), 3);
        assert!(
            lengths.words().starts_with("128.0 tokens asked, 128.2 counted"),
            "{}",
            lengths.words()
        );
        assert_eq!(Deviation::default().quantile(0.5), 0);
    }

    /// A completed answer of `events` events with text and this many tokens by its final usage.
    fn answer(events: u32, tokens: u32) -> RequestRecord {
        let ident = RequestIdent {
            side: Side::New,
            block: 0,
            start: 0,
            round: 0,
            phase: Phase::Load,
            part: Part::Measured,
        };
        let planned = PlannedRequest {
            index: 0,
            due_ns: None,
            input_tokens: 8,
            output_tokens: tokens,
            seed: Seed(0),
        };
        let event = |at: u32| TokenEvent {
            at_ns: u64::from(at) * 1_000_000,
            tokens: u32::from(at < tokens),
            content: Content::Visible,
        };
        let exchange = Exchange {
            timeline: TokenTimeline {
                sent_ns: Some(0),
                events: (0..events).map(event).collect(),
                ..TokenTimeline::default()
            },
            status: Some(200),
            input_tokens: Some(8),
            cached_tokens: None,
            output_tokens: Some(tokens),
            token_source: Some(TokenSource::FinalUsage),
            finish_reason: Some("length".into()),
            failure: None,
        };
        RequestRecord::from_exchange(ident, &planned, &exchange, (0, u64::MAX))
    }

    #[test]
    fn fewer_tokens_than_events_with_text_are_told() {
        let mut account = TokenAccount::default();
        account.add(&[answer(8, 8), answer(4, 8)]);
        assert!(account.findings().iter().all(|f| f.code != FindingCode::TokensBelowEvents));
        account.add(&[answer(8, 5)]);
        let findings = account.findings();
        let found = findings.iter().find(|f| f.code == FindingCode::TokensBelowEvents).unwrap();
        assert_eq!(found.severity, Severity::Warning);
        assert!(found.text.starts_with("1 of 3 answers have fewer tokens"), "{}", found.text);
        assert!(found.text.contains("21 tokens in 20 events"), "{}", found.text);
    }

    #[test]
    fn nothing_measured_is_no_finding() {
        assert!(TokenAccount::default().findings().is_empty());
    }
}
