//! A scripted server on a raw socket: it sends exactly the given bytes at the given times.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use inferometer::api::Dialect;
use inferometer::api::chat::Chat;
use inferometer::clock::Clock;
use inferometer::settings::Timeouts;
use inferometer::transport::{BaseUrl, Client, ClientSettings, Exchange, FailureKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// One thing the server does.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Writes bytes as they are.
    Raw(Vec<u8>),
    /// Writes bytes as one HTTP chunk.
    Chunk(Vec<u8>),
    /// Writes bytes as one HTTP chunk, again and again until nobody reads.
    Flood(Vec<u8>),
    /// Waits.
    Pause(Duration),
    /// Closes with a reset.
    Reset,
    /// Closes in order.
    Close,
    /// Says nothing more and keeps the connection.
    Hang,
}

/// What the server saw and when it spoke.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Heads and bodies of the requests, in order.
    pub(crate) requests: Vec<String>,
    /// When each `Raw` or `Chunk` was about to be written, on the test's clock.
    pub(crate) written_ns: Vec<u64>,
    /// Connections accepted.
    pub(crate) connections: usize,
}

pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) clock: Clock,
    pub(crate) log: Arc<Mutex<Log>>,
}

/// A script: per connection, per request, the steps. The last connection's serves all later ones.
type Script = Vec<Vec<Vec<Step>>>;

impl Server {
    /// Serves one answer to every request, each connection as often as it asks.
    pub(crate) async fn always(steps: Vec<Step>) -> Self {
        Self::play(vec![vec![steps; 64]]).await
    }

    pub(crate) async fn play(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let clock = Clock::start();
        let log = Arc::new(Mutex::new(Log::default()));
        let shared = log.clone();
        tokio::spawn(async move {
            let mut number = 0;
            while let Ok((socket, _)) = listener.accept().await {
                shared.lock().unwrap().connections += 1;
                let answers = script[number.min(script.len() - 1)].clone();
                number += 1;
                tokio::spawn(serve(socket, answers, clock, shared.clone()));
            }
        });
        Self { url, clock, log }
    }

    pub(crate) fn settings(&self) -> ClientSettings {
        ClientSettings::new(BaseUrl::parse(&self.url).unwrap())
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.settings()).unwrap()
    }

    /// One chat request with a fresh client.
    pub(crate) async fn chat(&self) -> Exchange {
        self.exchange(&self.client(), &Chat).await
    }

    pub(crate) async fn exchange(&self, client: &Client, dialect: &dyn Dialect) -> Exchange {
        client.exchange(self.clock, dialect, Bytes::from_static(b"{}"), None).await
    }

    pub(crate) fn written_ns(&self) -> Vec<u64> {
        self.log.lock().unwrap().written_ns.clone()
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.log.lock().unwrap().requests.clone()
    }
}

async fn serve(mut socket: TcpStream, answers: Vec<Vec<Step>>, clock: Clock, log: Arc<Mutex<Log>>) {
    socket.set_nodelay(true).unwrap();
    for steps in answers {
        let Some(request) = read_request(&mut socket).await else { return };
        log.lock().unwrap().requests.push(request);
        for step in steps {
            let bytes = match step {
                Step::Raw(bytes) => bytes,
                Step::Chunk(bytes) => framed(&bytes),
                Step::Flood(bytes) => {
                    while socket.write_all(&framed(&bytes)).await.is_ok() {}
                    return;
                }
                Step::Pause(time) => {
                    tokio::time::sleep(time).await;
                    continue;
                }
                Step::Reset => {
                    socket.set_zero_linger().unwrap();
                    return;
                }
                Step::Close => return,
                Step::Hang => std::future::pending().await,
            };
            log.lock().unwrap().written_ns.push(clock.now_ns());
            if socket.write_all(&bytes).await.is_err() {
                return;
            }
        }
    }
}

fn framed(chunk: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat()
}

async fn read_request(socket: &mut TcpStream) -> Option<String> {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let n = socket.read(&mut buffer).await.ok().filter(|&n| n > 0)?;
        seen.extend_from_slice(&buffer[..n]);
        let text = String::from_utf8_lossy(&seen).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .map_or(0, |(_, value)| value.parse().unwrap());
        if body.len() >= length {
            return Some(text);
        }
    }
}

/// The head of a stream of events.
pub(crate) fn stream_head() -> Step {
    Step::Raw(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
          transfer-encoding: chunked\r\n\r\n"
            .to_vec(),
    )
}

/// One event with this data, in a chunk of its own.
pub(crate) fn event(data: &str) -> Step {
    Step::Chunk(format!("data: {data}\n\n").into_bytes())
}

/// The end of a chunked body.
pub(crate) fn end() -> Step {
    Step::Raw(b"0\r\n\r\n".to_vec())
}

pub(crate) fn pause_ms(ms: u64) -> Step {
    Step::Pause(Duration::from_millis(ms))
}

pub(crate) const ROLE: &str = r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#;
pub(crate) const TEXT: &str = r#"{"choices":[{"delta":{"content":" a"}}]}"#;
pub(crate) const FINISH: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
pub(crate) const DONE: &str = "[DONE]";

/// A whole chat stream of these events.
pub(crate) fn stream(events: &[&str]) -> Vec<Step> {
    let mut steps = vec![stream_head()];
    steps.extend(events.iter().map(|data| event(data)));
    steps.push(end());
    steps
}

/// An answer in one piece.
pub(crate) fn answer(status: &str, headers: &str, body: &str) -> Vec<Step> {
    let length = body.len();
    let text = format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}");
    vec![Step::Raw(text.into_bytes())]
}

/// Limits short enough for a test; those not named are long enough not to strike.
pub(crate) fn limits(first_byte_ms: u64, idle_ms: u64, total_ms: Option<u64>) -> Timeouts {
    Timeouts {
        connect: Duration::from_secs(20),
        first_byte: Duration::from_millis(first_byte_ms),
        idle: Duration::from_millis(idle_ms),
        total: total_ms.map(Duration::from_millis),
    }
}

/// Asks once with these limits.
pub(crate) async fn ask_within(server: &Server, timeouts: Timeouts) -> Exchange {
    let client = Client::new(ClientSettings { timeouts, ..server.settings() }).unwrap();
    server.exchange(&client, &Chat).await
}

#[track_caller]
pub(crate) fn assert_kind(exchange: &Exchange, kind: FailureKind) {
    let failure = exchange.failure.as_ref();
    assert_eq!(failure.map(|f| f.kind), Some(kind), "{exchange:?}");
    let failure = failure.unwrap();
    assert!(!failure.message.is_empty(), "a failure says something");
    assert!(failure.message.len() <= 1024);
    assert!(failure.first_bytes.len() <= 512 && failure.last_bytes.len() <= 512);
    assert!(exchange.timeline.sent_ns.is_some() && exchange.timeline.end_ns.is_some());
}

#[track_caller]
pub(crate) fn assert_fine(exchange: &Exchange) {
    assert_eq!(exchange.failure, None, "{exchange:?}");
}
