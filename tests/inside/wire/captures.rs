//! What real servers sent: the same events however the bytes are split, and the right counts.

use std::ops::ControlFlow;
use std::path::PathBuf;

use inferometer::api::chat::Chat;
use inferometer::api::completions::Completions;
use inferometer::api::tokenize::parse_tokenized;
use inferometer::api::{Dialect, error_text};
use inferometer::transport::sse::Decoder;
use inferometer::transport::{FailureKind, TokenSource};
use proptest::prelude::*;

use super::script::*;

/// The body of a capture: what follows its HTTP head.
fn body(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/captures").join(name);
    let bytes = std::fs::read(path).unwrap();
    let at = bytes.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    bytes[at + 4..].to_vec()
}

/// The names of the captures that hold streams.
fn streams() -> Vec<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("-stream") || name.contains(".abort-"))
        .collect();
    names.sort();
    assert_eq!(names.len(), 19);
    names
}

fn decode(chunks: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut decoder = Decoder::new();
    let mut events = Vec::new();
    for chunk in chunks {
        let flow = decoder.feed(chunk, |event| {
            events.push(event.data.to_vec());
            ControlFlow::Continue(())
        });
        assert_eq!(flow, Ok(ControlFlow::Continue(())));
    }
    events
}

#[test]
fn every_split_in_two_gives_the_same_events() {
    for name in streams() {
        let body = body(&name);
        let whole = decode(&[&body]);
        assert!(!whole.is_empty(), "{name}");
        for at in 0..=body.len() {
            let (a, b) = body.split_at(at);
            assert_eq!(decode(&[a, b]), whole, "{name} at {at}");
        }
        let single: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(decode(&single), whole, "{name} byte by byte");
    }
}

proptest! {
    #[test]
    fn any_splits_give_the_same_events(
        which in any::<prop::sample::Index>(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..40),
        line_end in prop_oneof![Just("\n"), Just("\r\n"), Just("\r")],
    ) {
        let names = streams();
        let body = body(&names[which.index(names.len())]);
        let whole = decode(&[&body]);
        let text = String::from_utf8(body).unwrap().replace('\n', line_end);
        let mut at: Vec<usize> = cuts.iter().map(|c| c.index(text.len() + 1)).collect();
        at.extend([0, text.len()]);
        at.sort_unstable();
        let chunks: Vec<&[u8]> = at.windows(2).map(|w| &text.as_bytes()[w[0]..w[1]]).collect();
        prop_assert_eq!(decode(&chunks), whole);
    }

    #[test]
    fn the_dialects_never_panic(data in proptest::collection::vec(any::<u8>(), 0..200), cut in any::<prop::sample::Index>()) {
        let _ = Chat.event(&data);
        let _ = Completions.event(&data);
        for capture in ["vllm.chat-stream.txt", "llama-server.completion-stream.txt"] {
            for event in decode(&[&body(capture)]) {
                let part = &event[..cut.index(event.len() + 1)];
                let _ = (Chat.event(part), Completions.event(part));
            }
        }
    }
}

/// Plays a capture and checks who counted how many tokens in how many events.
async fn check(name: &str, dialect: &dyn Dialect, source: TokenSource, input: u32, tokens: &[u32]) {
    let steps = vec![stream_head(), Step::Chunk(body(name)), end()];
    let server = Server::always(steps).await;
    let exchange = server.exchange(&server.client(), dialect).await;
    assert_fine(&exchange);
    let counted: Vec<u32> = exchange.timeline.events.iter().map(|e| e.tokens).collect();
    assert_eq!(counted, tokens, "{name}");
    assert_eq!(exchange.output_tokens, Some(tokens.iter().sum()), "{name}");
    assert_eq!(exchange.token_source, Some(source), "{name}");
    assert_eq!(exchange.input_tokens, (input > 0).then_some(input), "{name}");
    assert_eq!(exchange.finish_reason.as_deref(), Some("length"), "{name}");
}

#[tokio::test]
async fn whole_answers_are_counted() {
    use TokenSource::{EventUsage, Events, FinalUsage};
    check("vllm.chat-stream.txt", &Chat, FinalUsage, 13, &[1; 8]).await;
    check("vllm.completion-stream-ids.txt", &Completions, FinalUsage, 5, &[1; 6]).await;
    check("vllm.completion-stream-keepalive.txt", &Completions, FinalUsage, 4, &[2; 3]).await;
    check("vllm.completion-stream-contusage.txt", &Completions, EventUsage, 4, &[2, 1, 1]).await;
    check("llama-server.chat-stream.txt", &Chat, FinalUsage, 32, &[1; 8]).await;
    check("llama-server.completion-stream.txt", &Completions, FinalUsage, 2, &[1; 8]).await;
    check("vllm.completion-stream-nousage.txt", &Completions, Events, 0, &[1; 3]).await;
}

#[tokio::test]
async fn an_engine_that_died_in_the_answer_is_an_error() {
    // The middle of this capture was cut out when it was stored; its end is whole.
    let body = body("vllm.abort-engine-killed-chat.txt");
    let at = body.windows(9).rposition(|w| w == b"data: {\"e").unwrap();
    let mut steps = vec![stream_head(), event(TEXT)];
    steps.extend([Step::Chunk(body[at..].to_vec()), end()]);
    let exchange = Server::always(steps).await.chat().await;
    assert_kind(&exchange, FailureKind::ErrorInStream);
    assert!(exchange.failure.unwrap().message.starts_with("EngineCore encountered an issue"));
}

#[test]
fn refusals_speak_for_themselves() {
    for (name, said) in [
        ("vllm.err-401-badkey.txt", "Unauthorized"),
        ("vllm.err-model.txt", "Valid aliases: tiny"),
        ("vllm.err-503-queue-full.txt", "currently busy"),
        ("vllm.notfound.txt", "Not Found"),
        ("llama-server.err-401-nokey.txt", "Invalid API Key"),
        ("llama-server.err-toolong.txt", "exceeds the available context size"),
    ] {
        let value = serde_json::from_slice(&body(name)).unwrap();
        assert!(error_text(&value).unwrap().contains(said), "{name}");
    }
}

#[test]
fn tokenize_answers_are_read() {
    let vllm = parse_tokenized(&body("vllm.tokenize.txt")).unwrap();
    assert_eq!((vllm.ids.len(), vllm.max_model_len), (4, Some(4096)));
    assert_eq!(parse_tokenized(&body("llama-server.tokenize.txt")).unwrap().ids, [19556, 905]);
}
