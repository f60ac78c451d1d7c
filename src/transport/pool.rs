//! A pool: the idle connections to one server, and how another one is opened.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, USER_AGENT};
use http::uri::PathAndQuery;
use http::{Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::buffer_budget::BufferBudget;
use super::classify;
use super::connection::{Connection, ConnectionError, Unsent};
use super::connector::Connector;
use super::tls::Tls;
use super::{ClientSettings, USER_AGENT_NAME};
use crate::clock::{Clock, duration_ns};
use crate::error::Error;

/// A connection idle for longer is not used again: a gateway in between may have dropped it without
/// notice (reqwest's own limit).
const IDLE_LIMIT: Duration = Duration::from_secs(90);

/// Below this many answers a connection that closes was not worn out: servers that count allow a hundred.
const YOUNG_ANSWERS: u64 = 20;

/// Connections opened at once when many are wanted: more would overflow the backlog of small servers.
const OPENED_AT_ONCE: usize = 64;

/// The connection that carried a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConnectionInfo {
    /// When it was established (name, TCP and TLS done).
    pub(super) connected: Instant,
    /// Answers that it had carried before.
    pub(super) earlier_answers: u64,
    /// Whether the request was first sent on another one, which the server was closing just then.
    pub(super) resent: bool,
}

/// The head of a response, and the connection that it comes on.
pub(super) struct Sent {
    pub(super) connection: Connection,
    pub(super) response: Response<Incoming>,
    pub(super) info: ConnectionInfo,
}

/// The connections to one server.
pub(super) struct ConnectionPool {
    clock: Clock,
    connector: Connector,
    headers: HeaderMap,
    /// The one used last comes first.
    idle: Mutex<Vec<Idle>>,
    most_idle: usize,
    /// The server was seen to close a connection soon after an answer, without having announced it.
    closes_unannounced: Arc<AtomicBool>,
    /// What unfinished events take.
    buffers: BufferBudget,
    /// As many bodies as may be drained at a time.
    drains: Arc<Semaphore>,
}

struct Idle {
    connection: Connection,
    connected_ns: u64,
    since_ns: u64,
}

impl ConnectionPool {
    /// A pool for the settings' server. `headers` go with every request.
    ///
    /// # Errors
    /// A host that HTTP or TLS cannot name.
    pub(super) fn new(
        settings: &ClientSettings,
        tls: &Tls,
        mut headers: HeaderMap,
    ) -> crate::Result<Self> {
        let host = HeaderValue::from_str(settings.base_url.authority()).map_err(|e| {
            Error::usage("the header `Host` cannot carry the server's host").with_cause(e)
        })?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        // What the user set stays.
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(USER_AGENT_NAME));
        headers.entry(HOST).or_insert(host);
        Ok(Self {
            clock: Clock::start(),
            connector: Connector::new(settings, tls)?,
            headers,
            idle: Mutex::new(Vec::new()),
            most_idle: settings.pool,
            closes_unannounced: Arc::clone(&settings.closes_unannounced),
            buffers: BufferBudget::default(),
            drains: Arc::new(Semaphore::new(settings.pool)),
        })
    }

    /// Posts `body` and waits for the head of the answer. A request of which no byte was written,
    /// because its idle connection turned out closed, goes to another connection: the server never saw it.
    /// One whose idle connection closes in the same moment, before a byte of an answer, is sent once
    /// more on a new connection: a race that clients lose (RFC 9112, section 9.3.1), no fault of the engine.
    pub(super) async fn post(
        &self,
        target: PathAndQuery,
        body: Bytes,
    ) -> Result<Sent, ConnectionError> {
        let write = || {
            let mut request = Request::new(Full::new(body.clone()));
            *request.method_mut() = Method::POST;
            *request.uri_mut() = Uri::from(target.clone());
            request.headers_mut().clone_from(&self.headers);
            request
        };
        let mut request = write();
        let mut resent = false;
        // Bounded: every turn but the last two uses up an idle connection.
        loop {
            let idle = if resent { None } else { self.take() };
            let had_stood = idle.is_some();
            let sent_ns = self.clock.now_ns();
            let Idle { mut connection, connected_ns, .. } = match idle {
                Some(idle) => idle,
                None => self.dial().await?,
            };
            let earlier_answers = connection.answers();
            match connection.send(request).await {
                Ok(response) => {
                    let connected = self.clock.instant(connected_ns);
                    let info = ConnectionInfo { connected, earlier_answers, resent };
                    return Ok(Sent { connection, response, info });
                }
                Err(Unsent { request: Some(back), .. }) if had_stood => request = back,
                Err(Unsent { error, .. }) => {
                    self.note_closed(&error, earlier_answers);
                    let waited = Duration::from_nanos(self.clock.now_ns().saturating_sub(sent_ns));
                    let error = ConnectionError::Http { error, reused: had_stood };
                    if resent || !classify::is_stale(&error, waited) {
                        return Err(error);
                    }
                    resent = true;
                    request = write();
                }
            }
        }
    }

    /// Some servers promise to keep a connection and close it with every answer (llama.cpp's does).
    /// Their end arrives too late to be seen before the next request, which then dies with the connection.
    /// Once that has happened on a young connection, each request gets a connection of its own.
    fn note_closed(&self, error: &hyper::Error, earlier_answers: u64) {
        let young = (1..YOUNG_ANSWERS).contains(&earlier_answers);
        if young && (error.is_incomplete_message() || error.is_closed() || error.is_canceled()) {
            self.closes_unannounced.store(true, Ordering::Relaxed);
        }
    }

    /// Takes a connection back after an answer that was read to its end.
    pub(super) fn put(&self, mut connection: Connection, info: ConnectionInfo) {
        if connection.is_free() {
            let connected_ns = self.clock.at_ns(info.connected);
            self.keep(Idle { connection, connected_ns, since_ns: self.clock.now_ns() });
        }
    }

    /// Opens connections until `wanted` are idle, or no more can be opened. Returns how many are.
    pub(super) async fn open(pool: &Arc<Self>, wanted: usize) -> usize {
        let standing = pool.idle().len();
        let mut left = wanted.min(pool.most_idle).saturating_sub(standing);
        let mut dialling = JoinSet::new();
        loop {
            while left > 0 && dialling.len() < OPENED_AT_ONCE {
                left -= 1;
                let pool = Arc::clone(pool);
                dialling.spawn(async move { pool.dial().await });
            }
            match dialling.join_next().await {
                Some(Ok(Ok(idle))) => pool.keep(idle),
                // The requests themselves will meet the same and say so.
                Some(_) => left = 0,
                None => return pool.idle().len(),
            }
        }
    }

    /// What the unfinished events of all answers take.
    pub(super) fn buffers(&self) -> &BufferBudget {
        &self.buffers
    }

    /// The right to drain a body aside; none where too many are drained already.
    pub(super) fn drain_place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.drains).try_acquire_owned().ok()
    }

    fn take(&self) -> Option<Idle> {
        let now_ns = self.clock.now_ns();
        loop {
            let mut idle = self.idle().pop()?;
            let fresh = now_ns.saturating_sub(idle.since_ns) < duration_ns(IDLE_LIMIT);
            let worn =
                idle.connection.answers() > 0 && self.closes_unannounced.load(Ordering::Relaxed);
            if fresh && !worn && idle.connection.is_free() {
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

    async fn dial(&self) -> Result<Idle, ConnectionError> {
        let connection = self.connector.connect().await?;
        let now_ns = self.clock.now_ns();
        Ok(Idle { connection, connected_ns: now_ns, since_ns: now_ns })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
