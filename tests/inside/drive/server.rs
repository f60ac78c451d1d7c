//! A scripted loopback server: fixed delays, and its own count of requests in flight.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use inferometer::clock::Clock;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// How the server answers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Script {
    pub(crate) status: u16,
    pub(crate) first_token: Duration,
    pub(crate) between_tokens: Duration,
    pub(crate) tokens: u32,
    /// Requests served at one time; the others queue in the order they came.
    pub(crate) lanes: usize,
    /// The body ends so long after `[DONE]`; none: never.
    pub(crate) body_ends_after: Option<Duration>,
    /// All requests end together, at the multiples of this time.
    pub(crate) wave: Option<Duration>,
    /// Requests after this many are never answered to their end.
    pub(crate) hangs_after: usize,
    /// Tokens that they get before that; with none not even a head.
    pub(crate) tokens_before_hang: u32,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            status: 200,
            first_token: Duration::from_millis(20),
            between_tokens: Duration::from_millis(20),
            tokens: 2,
            lanes: 10_000,
            body_ends_after: Some(Duration::ZERO),
            wave: None,
            hangs_after: usize::MAX,
            tokens_before_hang: 0,
        }
    }
}

/// What the server saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// +1 when a request had been read, −1 when its answer was about to end: (ns, change).
    pub(crate) steps: Vec<(u64, i64)>,
    /// The prompts in the order they came.
    pub(crate) prompts: Vec<String>,
}

impl Seen {
    /// The most requests in flight at one time.
    pub(crate) fn most(&self) -> i64 {
        let mut now = 0;
        self.steps
            .iter()
            .map(|(_, change)| {
                now += change;
                now
            })
            .max()
            .unwrap_or(0)
    }

    /// The time average of requests in flight between two moments.
    pub(crate) fn mean(&self, from_ns: u64, to_ns: u64) -> f64 {
        let (mut now, mut since_ns, mut sum) = (0, from_ns, 0.0);
        for (at_ns, change) in &self.steps {
            let at_ns = (*at_ns).clamp(from_ns, to_ns);
            sum += now as f64 * (at_ns - since_ns) as f64;
            since_ns = at_ns;
            now += change;
        }
        sum += now as f64 * (to_ns - since_ns) as f64;
        sum / (to_ns - from_ns) as f64
    }
}

/// A running server; it ends with its runtime.
pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    pub(crate) seen: Arc<Mutex<Seen>>,
}

struct Shared {
    clock: Clock,
    script: Script,
    seen: Arc<Mutex<Seen>>,
    lanes: Semaphore,
}

impl Server {
    pub(crate) async fn start(clock: Clock, script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let lanes = Semaphore::new(script.lanes);
        let shared = Arc::new(Shared { clock, script, seen: Arc::clone(&seen), lanes });
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                // A client that goes away is its own affair.
                tokio::spawn(async move { serve(stream, &shared).await.ok() });
            }
        });
        Self { addr, seen }
    }
}

impl Shared {
    fn step(&self, change: i64) {
        self.seen.lock().unwrap().steps.push((self.clock.now_ns(), change));
    }
}

async fn serve(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(body) = read_request(&mut stream).await? {
        let number = {
            let mut seen = shared.seen.lock().unwrap();
            let body: serde_json::Value = serde_json::from_slice(&body)?;
            seen.prompts.push(body["prompt"].as_str().unwrap_or("").to_owned());
            seen.prompts.len()
        };
        shared.step(1);
        answer(&mut stream, shared, number).await?;
    }
    Ok(())
}

async fn read_request(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<Vec<u8>>> {
    let mut length = 0;
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Some(body))
}

async fn answer(
    stream: &mut BufReader<TcpStream>,
    shared: &Shared,
    number: usize,
) -> std::io::Result<()> {
    let script = shared.script;
    let lane = shared.lanes.acquire().await.map_err(std::io::Error::other)?;
    if script.status != 200 {
        tokio::time::sleep(script.first_token).await;
        shared.step(-1);
        let head = format!(
            "HTTP/1.1 {} Scripted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            script.status
        );
        stream.write_all(head.as_bytes()).await?;
        return stream.shutdown().await;
    }
    let hangs = number > script.hangs_after;
    if hangs && script.tokens_before_hang == 0 {
        return std::future::pending().await;
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                transfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    for token in 0..script.tokens {
        if hangs && token == script.tokens_before_hang {
            return std::future::pending().await;
        }
        let wait = if token == 0 { script.first_token } else { script.between_tokens };
        let last = token + 1 == script.tokens;
        match script.wave.filter(|_| last) {
            Some(period) => {
                let ns = period.as_nanos() as u64;
                let next = shared.clock.now_ns() / ns + 1;
                tokio::time::sleep_until(shared.clock.instant(next * ns)).await;
            }
            None => tokio::time::sleep(wait).await,
        }
        if last {
            // Before the client can know that it has ended, and refill.
            shared.step(-1);
        }
        let reason = if last { "\"length\"" } else { "null" };
        chunk(
            stream,
            &format!("{{\"choices\":[{{\"index\":0,\"text\":\"a\",\"finish_reason\":{reason}}}]}}"),
        )
        .await?;
    }
    drop(lane);
    chunk(stream, "[DONE]").await?;
    match script.body_ends_after {
        Some(Duration::ZERO) => {}
        Some(time) => tokio::time::sleep(time).await,
        None => return std::future::pending().await,
    }
    stream.write_all(b"0\r\n\r\n").await
}

async fn chunk(stream: &mut BufReader<TcpStream>, data: &str) -> std::io::Result<()> {
    let event = format!("data: {data}\n\n");
    let chunk = format!("{:x}\r\n{event}\r\n", event.len());
    stream.write_all(chunk.as_bytes()).await
}
