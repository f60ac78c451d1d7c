//! Every way a request fails has a kind of its own, with its evidence.

use inferometer::api::chat::Chat;
use inferometer::settings::ApiKey;
use inferometer::transport::{BaseUrl, Client, ClientSettings, Exchange, FailureKind};

use super::script::*;

async fn ask(steps: Vec<Step>) -> Exchange {
    Server::always(steps).await.chat().await
}

#[tokio::test]
async fn statuses_have_their_kinds_and_the_servers_words() {
    for (status, headers, body, kind, said) in [
        (
            "400 Bad Request",
            "",
            r#"{"error":{"message":"too long"}}"#,
            FailureKind::BadRequest,
            "too long",
        ),
        (
            "401 Unauthorized",
            "",
            r#"{"error":"Unauthorized"}"#,
            FailureKind::Unauthorized,
            "Unauthorized",
        ),
        ("403 Forbidden", "", "", FailureKind::Unauthorized, "403"),
        ("404 Not Found", "", r#"{"detail":"Not Found"}"#, FailureKind::NotFound, "Not Found"),
        (
            "422 Unprocessable",
            "",
            r#"{"detail":[{"msg":"ignore_eos"}]}"#,
            FailureKind::BadRequest,
            "ignore_eos",
        ),
        ("429 Too Many", "retry-after: 7\r\n", "slow down", FailureKind::RateLimited, "slow down"),
        ("500 Internal", "", "<html>boom</html>", FailureKind::ServerError, "boom"),
        (
            "502 Bad Gateway",
            "content-type: text/html\r\n",
            "<h1>nginx</h1>",
            FailureKind::ServerError,
            "nginx",
        ),
        ("503 Unavailable", "", "{}", FailureKind::Unavailable, "503"),
        (
            "302 Found",
            "location: http://elsewhere/\r\n",
            "",
            FailureKind::UnexpectedStatus,
            "elsewhere",
        ),
        ("204 No Content", "", "", FailureKind::UnexpectedStatus, "204"),
    ] {
        let exchange = ask(answer(status, headers, body)).await;
        assert_kind(&exchange, kind);
        let failure = exchange.failure.unwrap();
        assert!(failure.message.contains(said), "{status}: {}", failure.message);
        assert_eq!(exchange.status.map(|s| s.to_string()).as_deref(), status.get(..3));
        if kind != FailureKind::UnexpectedStatus {
            assert_eq!(failure.first_bytes, body, "{status}");
        }
        let retry_after = (kind == FailureKind::RateLimited).then_some("7");
        assert_eq!(failure.retry_after.as_deref(), retry_after);
        assert_eq!(exchange.output_tokens, None);
    }
}

#[tokio::test]
async fn a_page_or_a_whole_answer_is_not_a_stream() {
    for (headers, body) in [
        ("content-type: text/html\r\n", "<html>sign in</html>"),
        ("content-type: application/json\r\n", r#"{"choices":[{"message":{"content":"a"}}]}"#),
        ("", "<html>no type</html>"),
        ("content-type: text/plain\r\n", "hello\n\n"),
    ] {
        let exchange = ask(answer("200 OK", headers, body)).await;
        assert_kind(&exchange, FailureKind::NotAStream);
        assert_eq!(exchange.failure.unwrap().first_bytes, body);
    }
}

#[tokio::test]
async fn what_is_no_stream_speaks_for_itself() {
    let packed = b"\x1f\x8b\x08\x00data".as_slice();
    for (headers, body, said) in [
        (
            "content-type: text/event-stream\r\n",
            br#"{"error":{"message":"boom"}}"#.as_slice(),
            "boom",
        ),
        ("content-type: application/json\r\n", br#"{"error":{"message":"boom"}}"#, "boom"),
        ("content-type: application/problem+json\r\n", br#"{"title":"t","detail":"boom"}"#, "boom"),
        ("", b"{\"detail\":\"boom\"}\n", "boom"),
        ("content-type: text/html\r\n", b"<html><title>Sign in</title>", "Sign in"),
        ("content-type: text/event-stream\r\ncontent-encoding: GZIP\r\n", packed, "`gzip`"),
        ("content-type: text/event-stream\r\n", packed, "no event"),
    ] {
        let head = format!("HTTP/1.1 200 OK\r\n{headers}content-length: {}\r\n\r\n", body.len());
        let exchange = ask(vec![Step::Raw([head.as_bytes(), body].concat())]).await;
        assert_kind(&exchange, FailureKind::NotAStream);
        let message = exchange.failure.unwrap().message;
        assert!(message.contains(said), "{message}");
        assert!(!message.contains(char::is_control), "{message:?}");
    }
}

#[tokio::test]
async fn a_stream_without_a_token_is_empty() {
    for steps in [
        stream(&[]),
        stream(&[DONE]),
        stream(&[ROLE, FINISH, DONE]),
        stream(&[ROLE, r#"{"choices":[],"usage":{"completion_tokens":3}}"#, DONE]),
        vec![stream_head(), Step::Chunk(b": ping\n\n".to_vec()), end()],
    ] {
        let exchange = ask(steps).await;
        assert_kind(&exchange, FailureKind::Empty);
        assert_eq!(exchange.status, Some(200));
        assert!(exchange.timeline.events.is_empty());
    }
}

#[tokio::test]
async fn an_error_inside_a_stream_is_no_success() {
    for (error, said) in [
        (r#"{"error": {"message": "EngineCore died", "code": 500}}"#, "EngineCore died"),
        (r#"{"error": "as text"}"#, "as text"),
    ] {
        let exchange = ask(stream(&[ROLE, TEXT, error, DONE])).await;
        assert_kind(&exchange, FailureKind::ErrorInStream);
        assert_eq!(exchange.failure.unwrap().message, said);
        assert_eq!(exchange.timeline.events.len(), 1, "what came before is kept");
    }
}

#[tokio::test]
async fn an_error_is_one_by_whatever_it_is_told() {
    let named = |data: &str| Step::Chunk(format!("event: error\ndata: {data}\n\n").into_bytes());
    let field = |data: &str| Step::Chunk(format!("error: {data}\n\n").into_bytes());
    for error in [
        named(r#"{"message":"boom"}"#),
        named("boom"),
        field(r#"{"code":500,"message":"boom"}"#),
        event(r#"{"code":500,"message":"boom"}"#),
        event(r#"{"type":"error","message":"boom"}"#),
        event(r#"{"object":"error","message":"boom"}"#),
        event(r#"{"detail":"boom"}"#),
        event(r#"{"error":{"message":"boom"},"choices":[{"delta":{},"finish_reason":"error"}]}"#),
    ] {
        // What comes after it, a finish even, makes no success of it.
        let steps = vec![stream_head(), event(TEXT), error, event(FINISH), event(DONE), end()];
        let exchange = ask(steps).await;
        assert_kind(&exchange, FailureKind::ErrorInStream);
        assert_eq!(exchange.failure.unwrap().message, "boom");
        assert_eq!(exchange.timeline.events.len(), 1);
    }
    let silent = ask(vec![stream_head(), event(TEXT), named(""), event(FINISH), end()]).await;
    assert_kind(&silent, FailureKind::ErrorInStream);
    for no_error in [
        r#"{"type":"ping"}"#,
        r#"{"message":"still working"}"#,
        r#"{"code":0,"message":"ok","error":null}"#,
        r#"{"error":{},"detail":null,"choices":[]}"#,
    ] {
        assert_fine(&ask(stream(&[no_error, TEXT, no_error, FINISH, DONE])).await);
    }
}

#[tokio::test]
async fn a_finish_reason_is_one_only_where_the_answer_came_to_its_end() {
    let text = |reason: &str| {
        format!(r#"{{"choices":[{{"delta":{{"content":"a"}},"finish_reason":{reason}}}]}}"#)
    };
    for reason in [r#""abort""#, r#""error""#, r#""cancelled""#] {
        let exchange = ask(stream(&[TEXT, &text(reason), DONE])).await;
        assert_kind(&exchange, FailureKind::ErrorInStream);
        assert!(exchange.failure.unwrap().message.contains(reason.trim_matches('"')));
    }
    for reason in [r#""""#, r#""null""#, "null", "false", "0", "[]", "{}"] {
        let exchange = ask(stream(&[&text(reason), &text(reason), DONE])).await;
        assert_kind(&exchange, FailureKind::Incomplete);
        assert_fine(&ask(stream(&[&text(reason), FINISH, DONE])).await);
    }
    for reason in [r#""stop""#, r#""length""#, r#""tool_calls""#, r#""eos_token""#] {
        assert_fine(&ask(stream(&[TEXT, &text(reason), DONE])).await);
    }
}

#[tokio::test]
async fn a_stream_ends_at_its_finish_or_is_incomplete() {
    assert_kind(&ask(stream(&[TEXT, DONE])).await, FailureKind::Incomplete);
    assert_kind(&ask(stream(&[TEXT])).await, FailureKind::Incomplete);
    assert_fine(&ask(stream(&[TEXT, FINISH])).await);
    assert_fine(&ask(stream(&[TEXT, FINISH, DONE])).await);
}

#[tokio::test]
async fn a_cut_body_is_truncated() {
    let cut_chunks = vec![stream_head(), event(TEXT), Step::Close];
    assert_kind(&ask(cut_chunks).await, FailureKind::Truncated);
    let inside_a_chunk =
        vec![stream_head(), event(TEXT), Step::Raw(b"ff\r\ndata: x".to_vec()), Step::Close];
    assert_kind(&ask(inside_a_chunk).await, FailureKind::Truncated);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 999\r\n\r\n";
    let cut_length = vec![Step::Raw(format!("{head}data: {TEXT}\n\n").into_bytes()), Step::Close];
    assert_kind(&ask(cut_length).await, FailureKind::Truncated);
    let finished = vec![stream_head(), event(TEXT), event(FINISH), Step::Close];
    assert_kind(&ask(finished).await, FailureKind::Truncated);
    let done = vec![stream_head(), event(TEXT), event(FINISH), event(DONE), Step::Close];
    assert_fine(&ask(done).await);
}

#[tokio::test]
async fn a_body_until_close_may_end_by_closing() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let body = format!("{head}data: {TEXT}\n\ndata: {FINISH}\n\n");
    assert_fine(&ask(vec![Step::Raw(body.into_bytes()), Step::Close]).await);
}

#[tokio::test]
async fn an_event_that_is_not_the_dialects_json() {
    for data in ["{\"choices\":[", "hello", "<html>", "{\"choices\":3}"] {
        let exchange = ask(stream(&[TEXT, data, DONE])).await;
        assert_kind(&exchange, FailureKind::InvalidEvent);
        assert!(exchange.failure.unwrap().first_bytes.contains(data));
    }
}

#[tokio::test]
async fn an_endless_line_stops_at_the_limit() {
    let mut steps = vec![stream_head(), Step::Chunk(b"data: ".to_vec())];
    steps.extend(vec![Step::Chunk(vec![b'x'; 1024 * 1024]); 17]);
    let exchange = ask(steps).await;
    assert_kind(&exchange, FailureKind::Oversized);
    assert_eq!(exchange.failure.unwrap().last_bytes, "x".repeat(512));
}

#[tokio::test]
async fn an_answer_without_an_end_stops_far_beyond_its_length() {
    let many = format!("data: {TEXT}\n\n").repeat(1000);
    let mut steps = vec![stream_head()];
    steps.extend(vec![Step::Chunk(many.into_bytes()); 6]);
    steps.extend([event(FINISH), event(DONE), end()]);
    let server = Server::always(steps).await;
    let (client, clock) = (server.client(), server.clock);
    let ask = |max_tokens| {
        client.exchange_within(clock, &Chat, "{}".into(), None, max_tokens, std::future::pending())
    };
    let endless = ask(100).await;
    assert_kind(&endless, FailureKind::Oversized);
    assert_eq!(endless.timeline.events.len(), 4 * 100 + 4096);
    assert!(endless.failure.unwrap().message.contains("4496 events"));
    assert_fine(&ask(500).await);
}

#[tokio::test]
async fn a_stream_that_does_not_end_after_its_finish_is_told_so() {
    let steps = vec![stream_head(), event(TEXT), event(FINISH), Step::Hang];
    let exchange = ask_within(&Server::always(steps).await, limits(60_000, 100, None)).await;
    assert_kind(&exchange, FailureKind::IdleTimeout);
    let message = exchange.failure.unwrap().message;
    assert_eq!(message, "the answer finished, but its stream did not end within 0.1 s");
}

#[tokio::test]
async fn a_reset_before_and_in_the_answer() {
    assert_kind(&ask(vec![Step::Reset]).await, FailureKind::Reset);
    assert_kind(&ask(vec![Step::Close]).await, FailureKind::Reset);
    // The pause lets the client read what came before the reset throws it away.
    let inside = vec![stream_head(), event(TEXT), pause_ms(200), Step::Reset];
    let exchange = ask(inside).await;
    assert_kind(&exchange, FailureKind::Reset);
    assert_eq!(exchange.timeline.events.len(), 1);
}

#[tokio::test]
async fn what_is_not_http_is_not_a_stream() {
    let exchange = ask(vec![Step::Raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n".to_vec())]).await;
    assert_kind(&exchange, FailureKind::NotAStream);
}

#[tokio::test]
async fn nobody_listens() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::new(ClientSettings::new(BaseUrl::parse(&url).unwrap())).unwrap();
    let clock = inferometer::clock::Clock::start();
    let exchange = client.exchange(clock, &Chat, "{}".into(), Some(5)).await;
    assert_kind(&exchange, FailureKind::ConnectRefused);
    assert_eq!(exchange.status, None);
    assert_eq!(exchange.timeline.due_ns, Some(5));
    assert_eq!(exchange.timeline.headers_ns, None);
    assert_eq!(exchange.timeline.connection_reused, None);
}

#[tokio::test]
async fn a_name_that_does_not_resolve() {
    // A label of 64 characters is refused by the resolver itself: nothing is sent.
    let url = format!("http://{}.invalid", "a".repeat(64));
    let client = Client::new(ClientSettings::new(BaseUrl::parse(&url).unwrap())).unwrap();
    let clock = inferometer::clock::Clock::start();
    let exchange = client.exchange(clock, &Chat, "{}".into(), None).await;
    assert_kind(&exchange, FailureKind::Dns);
}

#[tokio::test]
async fn no_connection_within_the_limit() {
    // A listener that accepts nobody, its queue full: the next handshake gets no answer.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    let wait = std::time::Duration::from_millis(300);
    for _ in 0..8 {
        let connecting = tokio::net::TcpStream::connect(address);
        if let Ok(stream) = tokio::time::timeout(wait, connecting).await {
            queued.push(stream);
        } else {
            break;
        }
    }
    let base_url = BaseUrl::parse(&format!("http://{address}")).unwrap();
    let mut settings = ClientSettings::new(base_url);
    settings.timeouts.connect = wait;
    let client = Client::new(settings).unwrap();
    let clock = inferometer::clock::Clock::start();
    let exchange = client.exchange(clock, &Chat, "{}".into(), None).await;
    assert_kind(&exchange, FailureKind::ConnectTimeout);
    assert!(exchange.failure.unwrap().message.starts_with("could not connect: "));
}

#[tokio::test]
async fn a_reused_connection_that_closes_late_is_a_reset() {
    let fine = stream(&[TEXT, FINISH, DONE]);
    let late = vec![pause_ms(700), Step::Close];
    let server = Server::play(vec![vec![fine, late]]).await;
    let client = server.client();
    assert_fine(&server.exchange(&client, &Chat).await);
    assert_kind(&server.exchange(&client, &Chat).await, FailureKind::Reset);
}

#[tokio::test]
async fn no_first_byte() {
    for steps in [vec![Step::Hang], vec![stream_head(), Step::Hang]] {
        let server = Server::always(steps).await;
        let exchange = ask_within(&server, limits(80, 60_000, None)).await;
        assert_kind(&exchange, FailureKind::FirstByteTimeout);
        assert_eq!(exchange.timeline.first_byte_ns, None);
    }
}

#[tokio::test]
async fn keep_alives_do_not_hide_a_stall() {
    let ping = || [pause_ms(20), Step::Chunk(b": keep-alive\n\n".to_vec())];
    let mut after_a_token = vec![stream_head(), event(ROLE), event(TEXT)];
    after_a_token.extend((0..200).flat_map(|_| ping()));
    after_a_token.push(Step::Close);
    let server = Server::always(after_a_token).await;
    let exchange = ask_within(&server, limits(60_000, 150, None)).await;
    assert_kind(&exchange, FailureKind::IdleTimeout);
    assert_eq!(exchange.timeline.events.len(), 1);

    let mut before_any = vec![stream_head(), event(ROLE)];
    before_any.extend((0..200).flat_map(|_| ping()));
    before_any.push(Step::Close);
    let server = Server::always(before_any).await;
    let exchange = ask_within(&server, limits(150, 60_000, None)).await;
    assert_kind(&exchange, FailureKind::IdleTimeout);
    assert!(exchange.timeline.first_byte_ns.is_some());
}

#[tokio::test]
async fn a_flood_without_a_token_does_not_hide_a_stall() {
    // More than is read within the limits, so that a chunk lies ready at every turn.
    for line in ["z\n", ": ping\n\n", "data: {}\n\n"] {
        let flood = Step::Flood(line.repeat(65_536 / line.len()).into_bytes());
        let server = Server::play(vec![vec![vec![stream_head(), event(TEXT), flood]]]).await;
        let exchange = ask_within(&server, limits(60_000, 300, None)).await;
        assert_kind(&exchange, FailureKind::IdleTimeout);
        assert_eq!(exchange.timeline.events.len(), 1, "{line:?}");
    }
}

#[tokio::test]
async fn tokens_reset_the_idle_limit_but_not_the_total() {
    let token = || [pause_ms(60), event(TEXT)];
    let mut steps = vec![stream_head()];
    steps.extend((0..20).flat_map(|_| token()));
    steps.extend([event(FINISH), event(DONE), end()]);
    let server = Server::always(steps).await;
    // 1.2 s of answer against an idle limit of 1 s.
    assert_fine(&ask_within(&server, limits(60_000, 1_000, None)).await);
    let exchange = ask_within(&server, limits(60_000, 60_000, Some(400))).await;
    assert_kind(&exchange, FailureKind::TotalTimeout);
}

#[tokio::test]
async fn a_request_on_a_connection_that_the_server_was_closing_is_sent_once_more() {
    let fine = stream(&[TEXT, FINISH, DONE]);
    // The second request on the first connection meets a close without a byte of answer.
    let server = Server::play(vec![vec![fine.clone(), vec![Step::Close]], vec![fine; 8]]).await;
    let client = server.client();
    assert_fine(&server.exchange(&client, &Chat).await);
    let again = server.exchange(&client, &Chat).await;
    assert_fine(&again);
    assert!(again.timeline.resent && again.timeline.connection_reused == Some(false));
    assert_eq!(again.timeline.connect_ns, None, "its clock runs from the first send");
    assert_eq!(server.requests().len(), 3);
    assert!(!server.exchange(&client, &Chat).await.timeline.resent);
}

#[tokio::test]
async fn a_request_is_sent_a_second_time_and_not_a_third() {
    // Opened ahead and closed, then a new one that closes too.
    let server = Server::play(vec![vec![vec![Step::Close]]; 4]).await;
    let client = server.client();
    assert_eq!(client.open(1).await, 1);
    let exchange = server.exchange(&client, &Chat).await;
    assert_kind(&exchange, FailureKind::Reset);
    assert_eq!(server.requests().len(), 2);
    // One made for the request alone cannot have been closed before it.
    assert_kind(&server.exchange(&client, &Chat).await, FailureKind::Reset);
}

#[tokio::test]
async fn a_server_that_closes_after_every_answer_fails_no_request_and_is_learnt() {
    let fine = stream(&[TEXT, FINISH, DONE]);
    // Every connection carries one answer; the second request on it meets a close.
    let connection = vec![fine, vec![Step::Close]];
    let server = Server::play(vec![connection; 12]).await;
    let client = server.client();
    let mut resent = 0;
    for _ in 0..8 {
        let exchange = server.exchange(&client, &Chat).await;
        assert_fine(&exchange);
        resent += usize::from(exchange.timeline.resent);
    }
    assert_eq!(resent, 1, "from then on each request has a connection of its own");
}

#[tokio::test]
async fn a_key_that_the_server_echoes_is_redacted() {
    let key = "sk-very-secret-0123456789";
    let body =
        format!(r#"{{"error":{{"message":"bad key {key}"}},"pad":"{}{key}"}}"#, "x".repeat(600));
    let in_stream = format!(r#"{{"error":"{key} is over its quota"}}"#);
    for steps in [
        answer("401 Unauthorized", &format!("retry-after: {key}\r\n"), &body),
        answer("200 OK", "content-type: text/html\r\n", &body),
        stream(&[TEXT, &in_stream]),
    ] {
        let server = Server::always(steps).await;
        let settings = ClientSettings { api_key: Some(ApiKey::new(key)), ..server.settings() };
        let client = Client::new(settings).unwrap();
        let exchange = server.exchange(&client, &Chat).await;
        let shown = format!("{exchange:?} {client:?}");
        assert!(!shown.contains("very-secret"), "{shown}");
        assert!(shown.contains("[redacted]"), "{shown}");
        assert!(server.requests()[0].contains(key), "but it was sent");
    }
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn a_plain_server_behind_https_is_a_tls_failure() {
    use tokio::io::AsyncWriteExt;

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        std::future::pending::<()>().await;
    });
    let settings =
        ClientSettings { insecure: true, ..ClientSettings::new(BaseUrl::parse(&url).unwrap()) };
    let client = Client::new(settings).unwrap();
    let clock = inferometer::clock::Clock::start();
    let exchange = client.exchange(clock, &Chat, "{}".into(), None).await;
    assert_kind(&exchange, FailureKind::Tls);
}
