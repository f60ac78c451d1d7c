//! The lines to one server: those that stand idle, and how another one is opened.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, USER_AGENT};
use http::{Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::connection::{Connection, Unsent};
use super::connections::Carrier;
use super::{ClientSettings, USER_AGENT_NAME};
use crate::clock::{Clock, duration_ns};

/// A line idle for longer is not used again: what lies between may have forgotten it without a word
/// (reqwest's own limit).
const IDLE_LIMIT: Duration = Duration::from_secs(90);

/// Below so many answers a line that closes was not worn out: servers that count allow a hundred.
const YOUNG_ANSWERS: u64 = 20;

/// ConnectionPool opened at once when many are wanted: more would overflow the backlog of small servers.
const OPENED_AT_ONCE: usize = 64;

/// Why a line could not carry a request.
#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    #[error("the name of the server did not resolve")]
    Dns(#[source] io::Error),
    #[error("no connection")]
    Connect(#[source] io::Error),
    #[error("no connection within {} s", .0.as_secs_f64())]
    ConnectTimeout(Duration),
    #[error("the request failed")]
    Http {
        #[source]
        error: hyper::Error,
        /// Whether the line had stood idle before, after an answer or opened ahead.
        reused: bool,
    },
}

impl LineError {
    /// Whether no connection came to stand.
    pub(super) fn is_connect(&self) -> bool {
        !matches!(self, Self::Http { .. })
    }
}

/// What came back, and the line it comes on.
pub(super) struct Reached {
    pub(super) line: Connection,
    pub(super) response: Response<Incoming>,
    pub(super) carrier: Carrier,
}

/// The lines to one server over plain HTTP.
pub(super) struct ConnectionPool {
    clock: Clock,
    host: String,
    port: u16,
    headers: HeaderMap,
    connect: Duration,
    /// The one used last comes first.
    idle: Mutex<Vec<Idle>>,
    most_idle: usize,
    /// The server was seen to close a line soon after an answer, without having announced it.
    closes_unannounced: AtomicBool,
}

struct Idle {
    line: Connection,
    connected_ns: u64,
    since_ns: u64,
}

impl ConnectionPool {
    /// ConnectionPool to the settings' server; none where it speaks TLS. `headers` go with every request.
    pub(super) fn new(settings: &ClientSettings, mut headers: HeaderMap) -> Option<Self> {
        let url = reqwest::Url::parse(settings.base_url.root()).ok()?;
        if url.scheme() != "http" {
            return None;
        }
        let host = url.host_str()?;
        let port = url.port_or_known_default()?;
        let authority = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        // What the user set stays.
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(USER_AGENT_NAME));
        headers.entry(HOST).or_insert(HeaderValue::from_str(&authority).ok()?);
        Some(Self {
            clock: Clock::start(),
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port,
            headers,
            connect: settings.timeouts.connect,
            idle: Mutex::new(Vec::new()),
            most_idle: settings.pool,
            closes_unannounced: AtomicBool::new(false),
        })
    }

    /// Posts `body` and waits for the head of the answer. A request of which no byte was written,
    /// because its idle line turned out closed, goes to another line: the server never saw it.
    pub(super) async fn post(&self, uri: Uri, body: Bytes) -> Result<Reached, LineError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        request.headers_mut().clone_from(&self.headers);
        // Bounded: every turn but the last uses up an idle line.
        loop {
            let idle = self.take();
            let had_stood = idle.is_some();
            let Idle { mut line, connected_ns, .. } = match idle {
                Some(idle) => idle,
                None => self.dial().await?,
            };
            let earlier_answers = line.answers();
            match line.send(request).await {
                Ok(response) => {
                    let connected = self.clock.instant(connected_ns);
                    let carrier = Carrier { connected, earlier_answers };
                    return Ok(Reached { line, response, carrier });
                }
                Err(Unsent { request: Some(back), .. }) if had_stood => request = back,
                Err(Unsent { error, .. }) => {
                    self.note_closed(&error, earlier_answers);
                    return Err(LineError::Http { error, reused: had_stood });
                }
            }
        }
    }

    /// Some servers promise to keep a connection and close it with every answer (llama.cpp's does).
    /// Their end arrives too late to be seen before the next request, which then dies with the line.
    /// Once that has happened on a young line, each request gets a line of its own.
    fn note_closed(&self, error: &hyper::Error, earlier_answers: u64) {
        let young = (1..YOUNG_ANSWERS).contains(&earlier_answers);
        if young && (error.is_incomplete_message() || error.is_closed() || error.is_canceled()) {
            self.closes_unannounced.store(true, Ordering::Relaxed);
        }
    }

    /// Takes a line back after an answer that was read to its end.
    pub(super) fn put(&self, mut line: Connection, carrier: Carrier) {
        if line.is_free() {
            let connected_ns = self.clock.at_ns(carrier.connected);
            self.keep(Idle { line, connected_ns, since_ns: self.clock.now_ns() });
        }
    }

    /// Opens lines until `wanted` stand idle, or no more can be opened. How many do.
    pub(super) async fn open(lines: &std::sync::Arc<Self>, wanted: usize) -> usize {
        let standing = lines.idle().len();
        let mut left = wanted.min(lines.most_idle).saturating_sub(standing);
        let mut dialling = JoinSet::new();
        loop {
            while left > 0 && dialling.len() < OPENED_AT_ONCE {
                left -= 1;
                let lines = std::sync::Arc::clone(lines);
                dialling.spawn(async move { lines.dial().await });
            }
            match dialling.join_next().await {
                Some(Ok(Ok(idle))) => lines.keep(idle),
                // The requests themselves will meet the same and say so.
                Some(_) => left = 0,
                None => return lines.idle().len(),
            }
        }
    }

    fn take(&self) -> Option<Idle> {
        let now_ns = self.clock.now_ns();
        loop {
            let mut idle = self.idle().pop()?;
            let fresh = now_ns.saturating_sub(idle.since_ns) < duration_ns(IDLE_LIMIT);
            let worn = idle.line.answers() > 0 && self.closes_unannounced.load(Ordering::Relaxed);
            if fresh && !worn && idle.line.is_free() {
                return Some(idle);
            }
        }
    }

    fn keep(&self, idle: Idle) {
        let mut all = self.idle();
        if all.len() < self.most_idle {
            all.push(idle);
        }
    }

    async fn dial(&self) -> Result<Idle, LineError> {
        let line = match tokio::time::timeout(self.connect, self.connect()).await {
            Ok(line) => line?,
            Err(_) => return Err(LineError::ConnectTimeout(self.connect)),
        };
        let now_ns = self.clock.now_ns();
        Ok(Idle { line, connected_ns: now_ns, since_ns: now_ns })
    }

    async fn connect(&self) -> Result<Connection, LineError> {
        let addresses = tokio::net::lookup_host((self.host.as_str(), self.port))
            .await
            .map_err(LineError::Dns)?;
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(socket) => {
                    socket.set_nodelay(true).map_err(LineError::Connect)?;
                    return Connection::open(socket)
                        .await
                        .map_err(|error| LineError::Http { error, reused: false });
                }
                Err(error) => last = error,
            }
        }
        Err(LineError::Connect(last))
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
