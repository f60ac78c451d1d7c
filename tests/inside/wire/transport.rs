//! Connections, headers, URLs and the forms a stream may take.

use inferometer::api::chat::Chat;
use inferometer::api::{Dialect, GenerateRequest, StreamEvent};
use inferometer::settings::ApiKey;
use inferometer::transport::client::Endpoint;
use inferometer::transport::{BaseUrl, Client, ClientSettings, FailureKind};
use serde_json::json;

use super::script::*;

#[tokio::test]
async fn a_second_request_uses_the_connection_of_the_first() {
    let server = Server::always(stream(&[ROLE, TEXT, FINISH, DONE])).await;
    let client = server.client();
    let first = server.exchange(&client, &Chat).await;
    let second = server.exchange(&client, &Chat).await;
    assert_fine(&first);
    assert_eq!(first.timeline.connection_reused, Some(false));
    assert!(first.timeline.connect_ns.is_some());
    assert_eq!(second.timeline.connection_reused, Some(true));
    assert_eq!(second.timeline.connect_ns, None);
    assert_eq!(server.log.lock().unwrap().connections, 1);
}

#[tokio::test]
async fn as_many_connections_as_requests_in_flight_are_kept() {
    let steps = vec![stream_head(), pause_ms(100), event(TEXT), event(FINISH), event(DONE), end()];
    let server = Server::always(steps).await;
    let client = Client::new(ClientSettings { pool: 8, ..server.settings() }).unwrap();
    for reused in [false, true] {
        let asks: Vec<_> = (0..8)
            .map(|_| {
                let (client, clock) = (client.clone(), server.clock);
                tokio::spawn(async move { client.exchange(clock, &Chat, "{}".into(), None).await })
            })
            .collect();
        for ask in asks {
            let exchange = ask.await.unwrap();
            assert_fine(&exchange);
            assert_eq!(exchange.timeline.connection_reused, Some(reused));
        }
    }
    assert_eq!(server.log.lock().unwrap().connections, 8);
}

#[tokio::test]
async fn authorization_goes_only_with_a_key() {
    let server = Server::always(stream(&[TEXT, FINISH, DONE])).await;
    assert_fine(&server.chat().await);
    let settings = ClientSettings {
        api_key: Some(ApiKey::new("sk-1234")),
        headers: vec![("X-Team".into(), "a=b: c".into())],
        ..server.settings()
    };
    assert_fine(&server.exchange(&Client::new(settings).unwrap(), &Chat).await);
    let requests: Vec<String> = server.requests().iter().map(|r| r.to_ascii_lowercase()).collect();
    assert!(!requests[0].contains("authorization"));
    assert!(requests[1].contains("authorization: bearer sk-1234\r\n"));
    assert!(requests[1].contains("x-team: a=b: c\r\n"));
    assert!(requests.iter().all(|r| r.starts_with("post /v1/chat/completions http/1.1\r\n")));
    assert!(requests.iter().all(|r| r.contains("content-type: application/json\r\n")));
}

#[test]
fn what_a_header_cannot_carry_is_said_without_the_value() {
    let base_url = BaseUrl::parse("http://127.0.0.1:1").unwrap();
    let key = ClientSettings {
        api_key: Some(ApiKey::new("sk-secret\n")),
        ..ClientSettings::new(base_url.clone())
    };
    let header = ClientSettings {
        headers: vec![("X-Key".into(), "sk-secret\r\nevil: 1".into())],
        ..ClientSettings::new(base_url)
    };
    for settings in [key, header] {
        let error = Client::new(settings).unwrap_err().render();
        assert!(error.contains("error: the ") && !error.contains("sk-secret"), "{error}");
    }
}

#[tokio::test]
async fn streams_in_every_legal_form() {
    let no_space = format!("data:{TEXT}\n\ndata:{FINISH}\n\ndata:[DONE]\n\n");
    let crlf = format!("data: {TEXT}\r\n\r\ndata: {FINISH}\r\n\r\ndata: [DONE]\r\n\r\n");
    let cr = crlf.replace("\r\n", "\r");
    let mark = format!("\u{feff}data: {TEXT}\n\ndata: {FINISH}\n\n");
    let named = format!(
        ": hi\n\nevent: message\nid: 1\nretry: 10\ndata: {TEXT}\n\n:\n\ndata: {FINISH}\n\ndata: [DONE]\n\n"
    );
    let lines = "data: {\"choices\":\ndata: [{\"delta\":{\"content\":\"\u{2028}é\"},\ndata: \"finish_reason\":\"stop\"}]}\n\n".to_owned();
    for body in [no_space, crlf, cr, mark, named, lines] {
        let whole = vec![stream_head(), Step::Chunk(body.clone().into_bytes()), end()];
        let mut bytes = vec![stream_head()];
        bytes.extend(body.bytes().map(|byte| Step::Chunk(vec![byte])));
        bytes.push(end());
        for steps in [whole, bytes] {
            let exchange = Server::always(steps).await.chat().await;
            assert_fine(&exchange);
            assert_eq!(exchange.timeline.events.len(), 1, "{body}");
        }
    }
}

#[tokio::test]
async fn an_event_of_odd_parts_is_read_for_what_it_holds() {
    for odd in [
        r#"{"choices":null}"#,
        r#"{"choices":[null]}"#,
        r#"{"choices":[[]]}"#,
        r#"{"choices":[{}]}"#,
        r#"{"choices":[{"delta":null}]}"#,
        r#"{"choices":[{"delta":"x"}]}"#,
        r#"{"choices":[{"delta":[]}]}"#,
        r#"{"choices":[{"delta":{"content":7,"tool_calls":{}}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[null,{"function":"f"}],"function_call":"g"}}]}"#,
        r#"{"choices":[],"usage":"none"}"#,
        r#"{"choices":[],"usage":[1,2]}"#,
        r#"{"id":7,"object":null,"type":[]}"#,
        "{}",
    ] {
        let exchange =
            Server::always(stream(&[odd, TEXT, odd, TEXT, FINISH, DONE])).await.chat().await;
        assert_fine(&exchange);
        assert_eq!(exchange.timeline.events.len(), 2, "{odd}");
        assert_eq!(exchange.output_tokens, Some(2), "{odd}");
    }
}

#[tokio::test]
async fn a_broken_character_spoils_no_answer() {
    for content in [
        b"\xf0\x9f".as_slice(),
        b"a\xffb",
        br"\ud83d",
        br"\ude00",
        br"\ud83d\u0041",
        b"\xff\\ud83d",
    ] {
        let data = [br#"data: {"choices":[{"delta":{"content":""#, content, b"\"}}]}\n\n"].concat();
        let steps = vec![stream_head(), Step::Chunk(data), event(FINISH), event(DONE), end()];
        let exchange = Server::always(steps).await.chat().await;
        assert_fine(&exchange);
        assert_eq!(exchange.timeline.events.len(), 1);
    }
}

#[tokio::test]
async fn answers_in_every_legal_form_of_http() {
    let events = format!("data: {TEXT}\n\ndata: {FINISH}\n\ndata: [DONE]\n\n");
    let length = events.len();
    let chunked = format!("{length:x};a=b;c=\"d\"\r\n{events}\r\n0;e=f\r\nx-trailer: 1\r\n\r\n");
    let sse = "content-type: text/event-stream\r\n";
    for answer in [
        format!("HTTP/1.1 200 OK\r\n{sse}transfer-encoding: chunked\r\n\r\n{chunked}"),
        format!(
            "HTTP/1.1 200\r\nCONTENT-TYPE:Text/Event-Stream\r\ntRANSFER-eNCODING:Chunked\r\n\r\n{chunked}"
        ),
        format!("HTTP/1.1 200 OK\r\n{sse}Content-Length: {length}\r\n\r\n{events}"),
        format!(
            "HTTP/1.1 200 OK\r\n{sse}content-encoding: identity\r\nContent-Length: {length}\r\n\r\n{events}"
        ),
        format!("HTTP/1.1 200 OK\r\n{sse}Connection: close\r\n\r\n{events}"),
        format!("HTTP/1.0 200 OK\r\n{sse}\r\n{events}"),
        format!(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n{sse}Content-Length: {length}\r\n\r\n{events}"
        ),
        format!(
            "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n\
             HTTP/1.1 200 OK\r\n{sse}Content-Length: {length}\r\n\r\n{events}"
        ),
    ] {
        let server =
            Server::play(vec![vec![vec![Step::Raw(answer.clone().into_bytes()), Step::Close]]])
                .await;
        let exchange = server.chat().await;
        assert_fine(&exchange);
        assert_eq!((exchange.status, exchange.timeline.events.len()), (Some(200), 1), "{answer}");
    }
}

#[tokio::test]
async fn plain_answers_come_with_any_status() {
    let server = Server::play(vec![vec![
        answer("200 OK", "x-Odd: 1\r\n", r#"{"data":[]}"#),
        answer("200 OK", "", "metric 1"),
        answer("404 Not Found", "retry-after: 3\r\n", r#"{"detail":"Not Found"}"#),
    ]])
    .await;
    let client = server.client();
    let models = client.get(Endpoint::Api("models")).await.unwrap();
    assert_eq!((models.status, models.header("x-odd")), (200, Some("1")));
    assert_eq!(client.refusal(&models), None);
    let metrics = client.get(Endpoint::Root("/metrics")).await.unwrap();
    assert_eq!(&metrics.body[..], b"metric 1");
    let tokenize =
        client.post_json(Endpoint::Root("tokenize"), &json!({"prompt": "a"})).await.unwrap();
    let refusal = client.refusal(&tokenize).unwrap();
    assert_eq!(refusal.kind, FailureKind::NotFound);
    assert!(refusal.message.contains("Not Found"));
    assert_eq!(refusal.retry_after.as_deref(), Some("3"));
    let requests = server.requests();
    let lines: Vec<&str> = requests.iter().filter_map(|r| r.lines().next()).collect();
    assert_eq!(
        lines,
        ["GET /v1/models HTTP/1.1", "GET /metrics HTTP/1.1", "POST /tokenize HTTP/1.1"]
    );
    assert!(requests[2].ends_with(r#"{"prompt":"a"}"#));
}

#[tokio::test]
async fn a_late_end_after_done_does_not_hold_the_slot() {
    let steps = vec![stream_head(), event(TEXT), event(FINISH), event(DONE), Step::Hang];
    let server = Server::always(steps).await;
    let exchange = ask_within(&server, limits(60_000, 60_000, None)).await;
    assert_fine(&exchange);
}

#[tokio::test]
async fn a_dropped_exchange_closes_its_connection() {
    let server = Server::play(vec![
        vec![vec![stream_head(), event(TEXT), Step::Hang]],
        vec![stream(&[TEXT, FINISH, DONE]); 4],
    ])
    .await;
    let client = server.client();
    let cut = std::time::Duration::from_millis(300);
    assert!(tokio::time::timeout(cut, server.exchange(&client, &Chat)).await.is_err());
    let next = server.exchange(&client, &Chat).await;
    assert_fine(&next);
    assert_eq!(next.timeline.connection_reused, Some(false));
}

#[tokio::test]
async fn localhost_that_is_only_ipv4_is_found() {
    let server = Server::always(stream(&[TEXT, FINISH, DONE])).await;
    let url = server.url.replace("127.0.0.1", "localhost") + "/v1/";
    let client = Client::new(ClientSettings::new(BaseUrl::parse(&url).unwrap())).unwrap();
    assert_fine(&server.exchange(&client, &Chat).await);
    assert!(server.requests()[0].starts_with("POST /v1/chat/completions HTTP/1.1\r\n"));
}

#[tokio::test]
async fn a_header_of_the_users_own_takes_the_keys_place() {
    let server = Server::always(stream(&[TEXT, FINISH, DONE])).await;
    let settings = ClientSettings {
        api_key: Some(ApiKey::new("sk-1234")),
        headers: vec![("Authorization".into(), "Basic dXNlcg==".into())],
        ..server.settings()
    };
    assert_fine(&server.exchange(&Client::new(settings).unwrap(), &Chat).await);
    let request = server.requests()[0].to_ascii_lowercase();
    assert!(request.contains("authorization: basic dxnlcg==\r\n"));
    assert_eq!(request.matches("authorization:").count(), 1);
}

#[tokio::test]
async fn a_redirect_is_told_and_takes_the_key_nowhere() {
    let other = Server::always(stream(&[TEXT, FINISH, DONE])).await;
    for status in
        ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"]
    {
        let location =
            format!("location: {}/v1/models\r\n", other.url.replace("127.0.0.1", "localhost"));
        let server = Server::always(answer(status, &location, "<h1>moved</h1>")).await;
        let settings =
            ClientSettings { api_key: Some(ApiKey::new("sk-1234")), ..server.settings() };
        let client = Client::new(settings).unwrap();
        let streamed = server.exchange(&client, &Chat).await;
        assert_kind(&streamed, FailureKind::UnexpectedStatus);
        let plain = client.get(Endpoint::Api("models")).await.unwrap();
        let plain = client.refusal(&plain).unwrap();
        for failure in [streamed.failure.unwrap(), plain] {
            assert!(
                failure.message.contains("it points to `http://localhost:"),
                "{}",
                failure.message
            );
        }
    }
    assert_eq!(other.log.lock().unwrap().connections, 0);
}

#[tokio::test]
async fn a_packed_plain_answer_is_called_so() {
    let server = Server::always(answer("200 OK", "content-encoding: gzip\r\n", "\u{1f}x")).await;
    let failure = server.client().get(Endpoint::Api("models")).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::NotAStream);
    assert!(failure.message.contains("`gzip`"), "{}", failure.message);
}

/// Chat at a path that no request line can hold.
struct OddPath;

impl Dialect for OddPath {
    fn name(&self) -> &'static str {
        Chat.name()
    }

    fn path(&self) -> &'static str {
        "chat completions"
    }

    fn body(&self, request: &GenerateRequest<'_>) -> inferometer::Result<bytes::Bytes> {
        Chat.body(request)
    }

    fn event(&self, data: &[u8]) -> Result<StreamEvent, String> {
        Chat.event(data)
    }
}

#[tokio::test]
async fn a_path_that_http_cannot_carry_is_a_failure_and_not_a_request_for_the_root() {
    let server = Server::always(stream(&[TEXT, FINISH, DONE])).await;
    let exchange = server.exchange(&server.client(), &OddPath).await;
    assert_kind(&exchange, FailureKind::BadRequest);
    assert!(server.requests().is_empty());
}
