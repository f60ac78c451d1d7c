//! The token counter of a request: its events, and after its end their tokens by one authority.
//!
//! The first authority that holds for the whole request counts it:
//!
//! 1. **token ids**: every event with text carries a list of ids, and at least half of the lists hold some. An
//!    event has as many tokens as ids, also where its text is "".
//! 2. **event usage**: every event with text carries a running usage that starts at 1 or more, never
//!    falls, and grows with most of them: one that stands still is a final usage sent early, or counts
//!    each event by itself. An event has as many tokens as the usage grew by; growth counts also where
//!    the text is "", and an event without growth carries no token. What the usage after the answer
//!    counts beyond it (an end-of-sequence token) falls to the last event: that usage is no token's time.
//! 3. **final usage**: N tokens by the last usage seen, spread over the E events with text: the
//!    first i events have ⌊iN/E⌋ tokens between them where N ≥ E (what is left over, such as an
//!    end-of-sequence token that has no text, so falls to the later events and never makes the
//!    first token look like two). Where N < E the first event and the last have one each and the others
//!    lie evenly between; events without one stay, since the answer was not over before the last of them.
//! 4. **events**: one token an event with text, where neither server nor client counted them, or the count cannot be right.

use super::{TokenEvent, TokenSource};
use crate::api::{Content, Place, StreamEvent, Usage};

/// The most events kept of one request: more than any context holds tokens.
pub(super) const MAX_EVENTS: usize = 4_000_000;

/// Beyond this many tokens an event, a usage is no count unless the limit allows it. Servers that send in
/// pieces put some tens of tokens into one.
const MOST_TOKENS_PER_EVENT: u64 = 256;

/// The most events of an answer that was asked for this many tokens. Servers that ignore the limit end an
/// answer themselves, after 1024 tokens or so; one that goes on beyond this would never free its slot.
pub(super) fn most_events(max_tokens: u32) -> usize {
    (max_tokens as usize).saturating_mul(4).saturating_add(4096).min(MAX_EVENTS)
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    at_ns: u64,
    content: Content,
    token_ids: Option<u32>,
    completion_tokens: Option<u32>,
}

/// What came so far.
#[derive(Debug)]
pub(super) struct TokenCounter {
    seen: Vec<Seen>,
    usage: Usage,
    most_events: usize,
}

/// Whether an event moved the answer on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// It carried text, ids or a growing usage.
    Token,
    /// It did not.
    Nothing,
    /// It carried a token, but there is no room left.
    Full,
}

/// Whether there is a token that has a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HasTokens {
    /// At least one event with text or ids.
    Tokens,
    /// None; a usage alone says how many, but not when.
    Nothing,
}

/// The request's tokens, counted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) events: Vec<TokenEvent>,
    pub(super) output_tokens: Option<u32>,
    pub(super) source: Option<TokenSource>,
    pub(super) usage: Usage,
}

impl TokenCounter {
    /// Nothing yet, and room for this many events.
    pub(super) fn new(most_events: usize) -> Self {
        Self { seen: Vec::new(), usage: Usage::default(), most_events }
    }

    /// Notes an event that had been read at `at_ns`.
    pub(super) fn push(&mut self, at_ns: u64, event: &StreamEvent) -> Progress {
        let before = self.usage.completion_tokens.unwrap_or(0);
        let completion_tokens = event.usage.and_then(|usage| usage.completion_tokens);
        if let Some(usage) = event.usage {
            self.usage = Usage {
                prompt_tokens: usage.prompt_tokens.or(self.usage.prompt_tokens),
                completion_tokens: usage.completion_tokens.or(self.usage.completion_tokens),
                cached_tokens: usage.cached_tokens.or(self.usage.cached_tokens),
            };
        }
        let ids = event.token_ids.is_some_and(|ids| ids > 0);
        let in_answer = event.place == Place::InAnswer;
        let grew = in_answer && completion_tokens.is_some_and(|now| now > before);
        if event.content == Content::None && !ids && !grew {
            return Progress::Nothing;
        }
        if self.seen.len() >= self.most_events {
            return Progress::Full;
        }
        self.seen.push(Seen {
            at_ns,
            content: event.content,
            token_ids: event.token_ids,
            completion_tokens,
        });
        Progress::Token
    }

    /// Whether counting will find a token.
    pub(super) fn holds(&self) -> HasTokens {
        let ids = |seen: &Seen| seen.token_ids.is_some_and(|ids| ids > 0);
        let token = |seen: &Seen| seen.content != Content::None || ids(seen);
        if self.seen.iter().any(token) { HasTokens::Tokens } else { HasTokens::Nothing }
    }

    /// Counts the tokens.
    pub(super) fn count(self) -> Counted {
        let usage = self.usage;
        let (source, events) = if let Some(events) = self.by_ids() {
            (TokenSource::TokenIds, events)
        } else if let Some(events) = self.by_event_usage() {
            (TokenSource::EventUsage, events)
        } else if let Some(events) = self.by_final_usage() {
            (TokenSource::FinalUsage, events)
        } else {
            (TokenSource::Events, self.with_text().map(|s| s.token_event(1)).collect())
        };
        if events.is_empty() {
            let output_tokens = usage.completion_tokens;
            let source = output_tokens.map(|_| TokenSource::FinalUsage);
            return Counted { events, output_tokens, source, usage };
        }
        let sum = events.iter().fold(0_u32, |sum, event| sum.saturating_add(event.tokens));
        let events = settle_content(events);
        Counted { events, output_tokens: Some(sum), source: Some(source), usage }
    }

    fn with_text(&self) -> impl Iterator<Item = &Seen> {
        self.seen.iter().filter(|seen| seen.content != Content::None)
    }

    fn by_ids(&self) -> Option<Vec<TokenEvent>> {
        self.with_text().all(|seen| seen.token_ids.is_some()).then_some(())?;
        let texts = self.with_text().count();
        let with_ids = self.with_text().filter(|seen| seen.token_ids > Some(0)).count();
        (2 * with_ids >= texts).then_some(())?;
        let events = self.seen.iter().filter_map(|seen| {
            let ids = seen.token_ids.unwrap_or(0);
            (ids > 0).then(|| seen.token_event(ids))
        });
        Some(events.collect()).filter(|events: &Vec<_>| !events.is_empty())
    }

    fn by_event_usage(&self) -> Option<Vec<TokenEvent>> {
        // Without text there is no telling a running usage from a final one.
        self.with_text().next()?.completion_tokens.filter(|&first| first > 0)?;
        self.with_text().all(|seen| seen.completion_tokens.is_some()).then_some(())?;
        let mut before = 0;
        let mut growing = 0;
        let mut events = Vec::with_capacity(self.seen.len());
        for seen in &self.seen {
            let Some(now) = seen.completion_tokens else { continue };
            let grown = now.checked_sub(before)?;
            if grown > 0 {
                growing += usize::from(seen.content != Content::None);
                events.push(seen.token_event(grown));
            }
            before = now;
        }
        (2 * growing > self.with_text().count()).then_some(())?;
        let beyond = self.usage.completion_tokens?.checked_sub(before)?;
        // More than the events counted themselves is no remainder: the two counts differ.
        (beyond <= before).then_some(())?;
        let last = events.last_mut()?;
        last.tokens = last.tokens.saturating_add(beyond);
        Some(events)
    }

    fn by_final_usage(&self) -> Option<Vec<TokenEvent>> {
        let tokens = u64::from(self.usage.completion_tokens.filter(|&tokens| tokens > 0)?);
        let texts = self.with_text().count() as u64;
        // A count far beyond both the limit and the text is no count.
        let most = (texts * MOST_TOKENS_PER_EVENT).max(self.most_events as u64);
        (tokens <= most).then_some(())?;
        let due = |i: u64| match texts {
            _ if tokens >= texts => i * tokens / texts,
            // Here texts > tokens, so that there are two at least.
            _ => 1 + (i - 1) * (tokens - 1) / (texts - 1),
        };
        let mut events = Vec::with_capacity(self.seen.len());
        let mut given = 0;
        for (seen, i) in self.with_text().zip(1_u64..) {
            let due = due(i);
            events.push(seen.token_event(u32::try_from(due - given).unwrap_or(u32::MAX)));
            given = due;
        }
        Some(events).filter(|events| !events.is_empty())
    }
}

impl Seen {
    fn token_event(&self, tokens: u32) -> TokenEvent {
        TokenEvent { at_ns: self.at_ns, tokens, content: self.content }
    }
}

/// A token whose text was "" (part of a character, a held-back stop word) is of the kind of the
/// next text, where its own comes out; at the end, of the kind of the last; without any, visible.
fn settle_content(mut events: Vec<TokenEvent>) -> Vec<TokenEvent> {
    let last = events.iter().rev().map(|e| e.content).find(|c| *c != Content::None);
    let mut next = last.unwrap_or(Content::Visible);
    for event in events.iter_mut().rev() {
        if event.content == Content::None {
            event.content = next;
        }
        next = event.content;
    }
    events
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event(content: Content, ids: Option<u32>, completion_tokens: Option<u32>) -> StreamEvent {
        let beside = content == Content::None && ids.is_none();
        StreamEvent {
            content,
            place: if beside { Place::Beside } else { Place::InAnswer },
            token_ids: ids,
            usage: completion_tokens
                .map(|n| Usage { completion_tokens: Some(n), ..Usage::default() }),
            ..StreamEvent::default()
        }
    }

    fn count(events: &[StreamEvent]) -> Counted {
        let mut tally = TokenCounter::new(MAX_EVENTS);
        for (event, at_ns) in events.iter().zip(1..) {
            tally.push(at_ns, event);
        }
        assert_eq!(tally.holds() == HasTokens::Tokens, !tally.seen_tokens().is_empty());
        tally.count()
    }

    impl TokenCounter {
        /// The same question asked the long way.
        fn seen_tokens(&self) -> Vec<TokenEvent> {
            Self { seen: self.seen.clone(), ..*self }.count().events
        }
    }

    #[test]
    fn a_token_without_text_is_of_the_kind_of_the_text_it_comes_out_in() {
        use Content::{None, Reasoning, Visible};
        let kinds: Vec<Content> = count(&[
            event(None, Some(1), Option::None),
            event(Reasoning, Some(1), Option::None),
            event(None, Some(1), Option::None),
            event(Visible, Some(1), Option::None),
            event(None, Some(1), Option::None),
        ])
        .events
        .iter()
        .map(|event| event.content)
        .collect();
        assert_eq!(kinds, [Reasoning, Reasoning, Visible, Visible, Visible]);
        let alone = count(&[event(None, Some(2), Option::None)]);
        assert_eq!(alone.events[0].content, Visible);
    }

    #[test]
    fn a_usage_without_text_has_no_times() {
        let counted = count(&[event(Content::None, None, Some(5))]);
        assert_eq!((counted.events.len(), counted.output_tokens), (0, Some(5)));
    }

    proptest! {
        #[test]
        fn a_final_usage_is_spread_whole(texts in 1_usize..200, tokens in 1_u32..1000) {
            let mut events = vec![event(Content::Visible, None, None); texts];
            events.push(event(Content::None, None, Some(tokens)));
            let counted = count(&events);
            let least = tokens / texts as u32;
            prop_assert_eq!(counted.output_tokens, Some(tokens));
            prop_assert_eq!(counted.source, Some(TokenSource::FinalUsage));
            prop_assert_eq!(counted.events[0].at_ns, 1);
            prop_assert_eq!(counted.events[0].tokens, least.max(1));
            prop_assert!(counted.events.iter().all(|e| e.tokens == least || e.tokens == least + 1));
            prop_assert_eq!(counted.events.len(), texts, "the answer ends with its last text");
            let last = counted.events.last().unwrap();
            prop_assert!(last.tokens > 0 || tokens == 1, "{:?}", last);
        }

        #[test]
        fn any_mixture_is_counted_without_a_panic(
            parts in proptest::collection::vec(
                (0_u8..3, proptest::option::of(0_u32..4), proptest::option::of(any::<u32>())),
                0..40,
            ),
        ) {
            let kinds = [Content::None, Content::Reasoning, Content::Visible];
            let events: Vec<StreamEvent> = parts
                .iter()
                .map(|&(kind, ids, usage)| event(kinds[usize::from(kind)], ids, usage))
                .collect();
            let counted = count(&events);
            prop_assert!(counted.events.iter().all(|e| e.content != Content::None));
            prop_assert!(counted.events.first().is_none_or(|e| e.tokens > 0));
            prop_assert!(counted.events.is_sorted_by_key(|e| e.at_ns));
        }
    }
}
