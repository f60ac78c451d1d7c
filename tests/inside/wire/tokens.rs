//! First tokens, and who counts the others.

use inferometer::api::Content;
use inferometer::api::completions::Completions;
use inferometer::transport::{Exchange, FailureKind, TokenSource};

use super::script::*;

fn tokens(exchange: &Exchange) -> Vec<u32> {
    exchange.timeline.events.iter().map(|event| event.tokens).collect()
}

#[track_caller]
fn check(exchange: &Exchange, source: TokenSource, expect: &[u32]) {
    assert_fine(exchange);
    assert_eq!(exchange.token_source, Some(source));
    assert_eq!(tokens(exchange), expect);
    assert_eq!(exchange.output_tokens, Some(expect.iter().sum()));
}

async fn chat(events: &[&str]) -> Exchange {
    Server::always(stream(events)).await.chat().await
}

async fn completions(events: &[&str]) -> Exchange {
    let server = Server::always(stream(events)).await;
    server.exchange(&server.client(), &Completions).await
}

#[tokio::test]
async fn a_role_is_not_the_first_token() {
    let mut steps = vec![stream_head(), event(ROLE), pause_ms(200)];
    for _ in 0..3 {
        steps.extend([event(TEXT), pause_ms(200)]);
    }
    steps.extend([event(FINISH), pause_ms(20), event(DONE), end()]);
    let server = Server::always(steps).await;
    let exchange = server.chat().await;
    check(&exchange, TokenSource::Events, &[1, 1, 1]);

    // Written: head, role, three texts, finish, done, end.
    let written = server.written_ns();
    let times = exchange.timeline;
    assert!(times.sent_ns.unwrap() <= written[0]);
    assert!(written[0] <= times.headers_ns.unwrap());
    let first_byte_ns = times.first_byte_ns.unwrap();
    assert!(written[1] <= first_byte_ns);
    assert!(first_byte_ns < written[2], "the first byte came with the role, before any text");
    for (event, written_ns) in times.events.iter().zip(&written[2..]) {
        assert!(*written_ns <= event.at_ns, "no token is stamped before it was written");
    }
    assert!(times.events[0].at_ns < written[3] && times.events[1].at_ns < written[4]);
    let last_ns = times.events[2].at_ns;
    assert!(last_ns < written[5], "the last token is not the finish");
    assert!(written[6] <= times.end_ns.unwrap());
}

#[tokio::test]
async fn reasoning_is_generated_but_not_visible() {
    let exchange = chat(&[
        ROLE,
        r#"{"choices":[{"delta":{"reasoning":"hm"}}]}"#,
        r#"{"choices":[{"delta":{"reasoning_content":"hm"}}]}"#,
        TEXT,
        r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{}"}}]}}]}"#,
        FINISH,
        DONE,
    ])
    .await;
    check(&exchange, TokenSource::Events, &[1, 1, 1, 1]);
    let kinds: Vec<Content> = exchange.timeline.events.iter().map(|e| e.content).collect();
    use Content::{Reasoning, Visible};
    assert_eq!(kinds, [Reasoning, Reasoning, Visible, Visible]);
}

#[tokio::test]
async fn events_of_one_read_share_a_stamp() {
    let together = format!("data: {ROLE}\n\ndata: {TEXT}\n\ndata: {TEXT}\n\n");
    let steps = vec![
        stream_head(),
        Step::Chunk(together.into_bytes()),
        pause_ms(20),
        event(TEXT),
        event(FINISH),
        event(DONE),
        end(),
    ];
    let exchange = Server::always(steps).await.chat().await;
    check(&exchange, TokenSource::Events, &[1, 1, 1]);
    let events = &exchange.timeline.events;
    assert_eq!(events[0].at_ns, events[1].at_ns);
    assert!(events[1].at_ns < events[2].at_ns);
}

#[tokio::test]
async fn a_running_usage_counts_each_event_also_without_text() {
    let event = |text: &str, n: u32| {
        format!(
            r#"{{"choices":[{{"text":"{text}"}}],"usage":{{"prompt_tokens":4,"completion_tokens":{n}}}}}"#
        )
    };
    let finish =
        r#"{"choices":[{"text":"","finish_reason":"length"}],"usage":{"completion_tokens":7}}"#;
    let last = r#"{"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":3}}}"#;
    let exchange = completions(&[
        &event("", 1),
        &event("ab", 4),
        &event("c", 4),
        &event("d", 7),
        finish,
        last,
        DONE,
    ])
    .await;
    check(&exchange, TokenSource::EventUsage, &[1, 3, 3]);
    assert_eq!((exchange.input_tokens, exchange.cached_tokens), (Some(4), Some(3)));
    assert!(exchange.timeline.events.iter().all(|e| e.content == Content::Visible));
    assert_eq!(exchange.finish_reason.as_deref(), Some("length"));
}

#[tokio::test]
async fn a_usage_that_falls_or_stays_0_is_no_running_usage() {
    let event =
        |n: u32| format!(r#"{{"choices":[{{"text":"a"}}],"usage":{{"completion_tokens":{n}}}}}"#);
    let finish =
        r#"{"choices":[{"text":"","finish_reason":"stop"}],"usage":{"completion_tokens":4}}"#;
    let zeros = completions(&[&event(0), &event(0), finish, DONE]).await;
    check(&zeros, TokenSource::FinalUsage, &[2, 2]);
    let falling = completions(&[&event(3), &event(1), finish, DONE]).await;
    check(&falling, TokenSource::FinalUsage, &[2, 2]);
}

#[tokio::test]
async fn token_ids_outrank_usage() {
    let finish = r#"{"choices":[{"text":"","token_ids":[9],"finish_reason":"stop"}],"usage":{"completion_tokens":99}}"#;
    let exchange = completions(&[
        r#"{"choices":[{"text":"","token_ids":[1]}]}"#,
        r#"{"choices":[{"text":"abc","token_ids":[2,3,4]}]}"#,
        r#"{"choices":[{"text":"d","token_ids":[]}]}"#,
        finish,
        DONE,
    ])
    .await;
    check(&exchange, TokenSource::TokenIds, &[1, 3, 1]);
}

#[tokio::test]
async fn the_final_usage_is_spread_over_the_events_with_text() {
    let usage = |n: u32| format!(r#"{{"choices":[],"usage":{{"completion_tokens":{n}}}}}"#);
    for (texts, total, expect) in [
        (4, 4, vec![1, 1, 1, 1]),
        (3, 7, vec![2, 2, 3]),
        (4, 5, vec![1, 1, 1, 2]), // an end-of-sequence token has no text: not the first event's
        // More events than tokens: the answer lasts until its last text all the same.
        (4, 2, vec![1, 0, 0, 1]),
        (4, 3, vec![1, 0, 1, 1]),
        (4, 1, vec![1, 0, 0, 0]),
        (1, 9, vec![9]),
    ] {
        let total = usage(total);
        let mut events = vec![ROLE];
        events.extend(vec![TEXT; texts]);
        events.extend([FINISH, &total, DONE]);
        check(&chat(&events).await, TokenSource::FinalUsage, &expect);
    }
}

#[tokio::test]
async fn usage_comes_in_any_event() {
    let in_finish = r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":4}}"#;
    let in_middle = r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}"#;
    let with_text = r#"{"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":4}}"#;
    for events in [
        vec![ROLE, TEXT, TEXT, in_finish, DONE],
        vec![ROLE, TEXT, in_middle, TEXT, FINISH, DONE],
        vec![TEXT, with_text],
    ] {
        let exchange = chat(&events).await;
        check(&exchange, TokenSource::FinalUsage, &[2, 2]);
        assert_eq!(exchange.input_tokens, Some(9));
    }
}

#[tokio::test]
async fn one_token() {
    let exchange =
        chat(&[ROLE, TEXT, FINISH, r#"{"choices":[],"usage":{"completion_tokens":1}}"#]).await;
    check(&exchange, TokenSource::FinalUsage, &[1]);
}

#[tokio::test]
async fn a_usage_that_stands_still_counts_no_event() {
    let text =
        |n: u32| format!(r#"{{"choices":[{{"text":"a"}}],"usage":{{"completion_tokens":{n}}}}}"#);
    let finish = |n: u32| {
        format!(
            r#"{{"choices":[{{"text":"","finish_reason":"stop"}}],"usage":{{"completion_tokens":{n}}}}}"#
        )
    };
    // The sum of the answer in every event; each event counted by itself; one that stops counting.
    for running in [[4, 4, 4, 4], [1, 1, 1, 1], [1, 2, 2, 2]] {
        let texts: Vec<String> = running.iter().map(|n| text(*n)).collect();
        let finish = finish(4);
        let mut events: Vec<&str> = texts.iter().map(String::as_str).collect();
        events.extend([finish.as_str(), DONE]);
        check(&completions(&events).await, TokenSource::FinalUsage, &[1, 1, 1, 1]);
    }
    let (first, later) = (
        r#"{"choices":[{"text":"a","token_ids":[5]}]}"#,
        r#"{"choices":[{"text":"a","token_ids":[]}]}"#,
    );
    let finish = finish(4);
    let events: [&str; 6] = [first, later, later, later, &finish, DONE];
    check(&completions(&events).await, TokenSource::FinalUsage, &[1, 1, 1, 1]);
}

#[tokio::test]
async fn a_usage_after_the_answer_is_no_tokens_time() {
    let text = |n: u32| {
        event(&format!(r#"{{"choices":[{{"text":"a"}}],"usage":{{"completion_tokens":{n}}}}}"#))
    };
    let finish =
        r#"{"choices":[{"text":"","finish_reason":"stop"}],"usage":{"completion_tokens":3}}"#;
    let last = |n: u32| event(&format!(r#"{{"choices":[],"usage":{{"completion_tokens":{n}}}}}"#));
    // One token more (an end-of-sequence token), 300 ms after the last text.
    for (beyond, source, expect) in [
        (3, TokenSource::EventUsage, [1, 1, 1]),
        (4, TokenSource::EventUsage, [1, 1, 2]),
        (2, TokenSource::FinalUsage, [1, 0, 1]), // the two counts differ: the last one counts
        (300, TokenSource::FinalUsage, [100, 100, 100]),
    ] {
        let steps = vec![
            stream_head(),
            text(1),
            text(2),
            text(3),
            event(finish),
            pause_ms(300),
            last(beyond),
            event(DONE),
            end(),
        ];
        let server = Server::always(steps).await;
        let exchange = server.exchange(&server.client(), &Completions).await;
        check(&exchange, source, &expect);
        let written = server.written_ns();
        assert!(exchange.timeline.events[2].at_ns < written[5], "E2EL ends with the answer");
    }
}

#[tokio::test]
async fn what_is_no_count_counts_nothing() {
    let with = |usage: &str| format!(r#"{{"choices":[],"usage":{usage}}}"#);
    for usage in [
        "null",
        "[]",
        "[1,2]",
        r#""none""#,
        "7",
        "true",
        "{}",
        r#"{"completion_tokens":null}"#,
        r#"{"completion_tokens":0}"#,
        r#"{"completion_tokens":-3}"#,
        r#"{"completion_tokens":2.5}"#,
        r#"{"completion_tokens":"2"}"#,
        r#"{"completion_tokens":1e30}"#,
        r#"{"completion_tokens":99999999999}"#,
        r#"{"completion_tokens":4294967295}"#,
        r#"{"completion_tokens":[2]}"#,
        r#"{"completion_tokens":{"total":2}}"#,
    ] {
        let exchange = chat(&[ROLE, TEXT, TEXT, FINISH, &with(usage), DONE]).await;
        check(&exchange, TokenSource::Events, &[1, 1]);
        assert_eq!(exchange.input_tokens, None, "{usage}");
    }
    for usage in [
        r#"{"completion_tokens":4,"prompt_tokens":9}"#,
        r#"{"completion_tokens":4.0,"prompt_tokens":9.0,"prompt_tokens_details":"x"}"#,
        r#"{"completion_tokens":4,"prompt_tokens":9,"prompt_tokens_details":[],"cost":{}}"#,
    ] {
        let exchange = chat(&[ROLE, TEXT, TEXT, FINISH, &with(usage), DONE]).await;
        check(&exchange, TokenSource::FinalUsage, &[2, 2]);
        assert_eq!((exchange.input_tokens, exchange.cached_tokens), (Some(9), None), "{usage}");
    }
}

#[tokio::test]
async fn two_answers_side_by_side_are_counted_together() {
    let text =
        |index: u32| format!(r#"{{"choices":[{{"index":{index},"delta":{{"content":"a"}}}}]}}"#);
    let finish = |index: u32| {
        format!(r#"{{"choices":[{{"index":{index},"delta":{{}},"finish_reason":"stop"}}]}}"#)
    };
    let usage = r#"{"choices":[],"usage":{"completion_tokens":4}}"#;
    let (zero, one, end_zero, end_one) = (text(0), text(1), finish(0), finish(1));
    let whole: [&str; 8] = [&zero, &one, &zero, &end_zero, &one, &end_one, usage, DONE];
    check(&chat(&whole).await, TokenSource::FinalUsage, &[1, 1, 1, 1]);
    let cut = chat(&[&zero, &one, &zero, &end_zero, &one, usage, DONE]).await;
    assert_kind(&cut, FailureKind::Incomplete);
}
