//! The decoder and both dialects on any bytes: however they are split, the same events come out, an event
//! that is recognised reads as one that is parsed, and nothing panics.
#![no_main]

use std::ops::ControlFlow;

use inferometer::internals::api::Dialect;
use inferometer::internals::api::chat::Chat;
use inferometer::internals::api::completions::Completions;
use inferometer::internals::api::template_cache::TemplateCache;
use inferometer::internals::transport::sse::Decoder;
use libfuzzer_sys::fuzz_target;

/// Small, so that the limit is met within libFuzzer's own inputs of 4 KiB.
const LIMIT_BYTES: usize = 1024;

/// The longest error text that a dialect may hand out, bytes.
const ERROR_BYTES: usize = 1024;

/// The data of all events, and whether the limit was met.
fn decode<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, bool) {
    let mut decoder = Decoder::with_limit(LIMIT_BYTES);
    let mut events = Vec::new();
    for chunk in chunks {
        let fed = decoder.feed(chunk, |event| {
            events.push(event.data.to_vec());
            ControlFlow::Continue(())
        });
        if fed.is_err() {
            return (events, true);
        }
    }
    (events, false)
}

fuzz_target!(|input: &[u8]| {
    // The first byte says how the rest is split: 0, in chunks of growing size; else in chunks of that size.
    let Some((step, body)) = input.split_first() else { return };
    let (whole, oversized) = decode(std::iter::once(body));
    let (bytewise, bytewise_oversized) = decode(body.chunks(1));
    assert_eq!((&whole, oversized), (&bytewise, bytewise_oversized));
    let (split, split_oversized) = match step {
        0 => {
            let mut rest = body;
            let mut size = 0;
            decode(std::iter::from_fn(move || {
                size += 1;
                let (chunk, left) = rest.split_at(size.min(rest.len()));
                rest = left;
                (!chunk.is_empty()).then_some(chunk)
            }))
        }
        size => decode(body.chunks(usize::from(*size))),
    };
    assert_eq!((&whole, oversized), (&split, split_oversized));
    let (chat, completions) = (TemplateCache::new(Chat), TemplateCache::new(Completions));
    for data in &whole {
        assert_eq!(chat.event(data), Chat.event(data));
        assert_eq!(completions.event(data), Completions.event(data));
        for dialect in [&Chat as &dyn Dialect, &Completions] {
            match dialect.event(data) {
                Ok(event) => {
                    assert!(event.error.is_none_or(|text| text.len() <= ERROR_BYTES));
                }
                Err(text) => assert!(!text.is_empty()),
            }
        }
    }
});
