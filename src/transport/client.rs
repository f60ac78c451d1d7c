//! The client: one pool, no proxy, no redirect, no retry.
//!
//! Streamed requests go over our own connections ([`super::pool`]), plain ones (models, metrics,
//! tokenize) over reqwest. A streamed request goes to another connection only where its idle one
//! turned out closed *before a byte was written*: the server never saw it, so it is no retry.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::answer::Outgoing;
use super::classify::{self, Stage};
use super::client_settings::ClientSettings;
use super::error_body::{self, compressed};
use super::exchange;
use super::failure_excerpt::Evidence;
use super::pool::ConnectionPool;
use super::redact::Redactor;
use super::tls::Tls;
use super::token_counter::most_events;
use super::{BaseUrl, Failure, FailureKind};
use crate::api::Dialect;
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::settings::Timeouts;

pub use super::timeline::{Exchange, STOPPED, TokenSource};

/// How long a plain request (models, metrics, tokenize) may take in all, connecting included.
const PLAIN_LIMIT: Duration = Duration::from_secs(30);

/// The largest body of a plain answer, bytes: `/metrics` of many models is some MB.
const PLAIN_BYTES: usize = 64 * 1024 * 1024;

/// A place on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint<'a> {
    /// Below the API root: `Api("models")` is `/v1/models`.
    Api(&'a str),
    /// Below the root: `Root("metrics")` is `/metrics`.
    Root(&'a str),
}

/// The answer to a plain request, whatever its status.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The headers, names in lower case; values that are not text are lossy.
    pub headers: Vec<(String, String)>,
    /// The body, at most 64 MiB.
    pub body: Bytes,
}

impl Reply {
    /// A header's first value; `name` in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Whether the status is 2xx.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// The client. Clones share one pool of connections.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    /// Carries the plain requests.
    http: reqwest::Client,
    /// Carry the streamed requests.
    pool: Arc<ConnectionPool>,
    base_url: BaseUrl,
    timeouts: Timeouts,
    redactor: Redactor,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({})", self.0.base_url.root())
    }
}

impl Client {
    /// Builds a client. Nothing is sent.
    ///
    /// # Errors
    /// Headers or a key that HTTP cannot carry, a certificate that cannot be read, `https` without
    /// the feature `tls` or without any authority to trust.
    pub fn new(settings: ClientSettings) -> Result<Self> {
        let tls = Tls::new(&settings)?;
        let headers = header_map(&settings)?;
        let builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .http1_only()
            .tcp_nodelay(true)
            .user_agent(super::USER_AGENT_NAME)
            .default_headers(headers.clone())
            .connect_timeout(settings.timeouts.connect)
            .pool_max_idle_per_host(settings.pool);
        let http = tls
            .configure(builder)
            .build()
            .map_err(|e| Error::usage("the HTTP client could not be set up").with_cause(e))?;
        let pool = Arc::new(ConnectionPool::new(&settings, &tls, headers)?);
        Ok(Self(Arc::new(Inner {
            http,
            pool,
            redactor: Redactor::new(
                settings.api_key.as_ref(),
                &settings.headers,
                &settings.body_secrets,
            ),
            base_url: settings.base_url,
            timeouts: settings.timeouts,
        })))
    }

    /// Where the server is.
    #[must_use]
    pub fn base_url(&self) -> &BaseUrl {
        &self.0.base_url
    }

    /// `text` without secrets, on one line, without control codes and at most 1 KiB: fit to be shown.
    #[must_use]
    pub fn clean(&self, text: &str) -> String {
        self.0.redactor.message(text)
    }

    /// Sends one streamed request and reads its answer to the end. `due_ns` (open loop) is kept
    /// beside the times on `clock`. It never fails: a failure is part of what was seen. Dropped
    /// before its end, it closes the connection.
    #[cfg(any(test, feature = "internals"))]
    pub async fn exchange(
        &self,
        clock: Clock,
        dialect: &dyn Dialect,
        body: Bytes,
        due_ns: Option<u64>,
    ) -> Exchange {
        self.exchange_within(clock, dialect, body, due_ns, u32::MAX, std::future::pending()).await
    }

    /// As [`Client::exchange`], for an answer that was asked for `max_tokens` tokens: one that has come
    /// to four times as many, and 4096 more, is broken off as a failure. When `stop` is done it ends
    /// as `Cancelled`: what had come by then is kept, as it is of every failure.
    pub async fn exchange_within(
        &self,
        clock: Clock,
        dialect: &dyn Dialect,
        body: Bytes,
        due_ns: Option<u64>,
        max_tokens: u32,
        stop: impl Future<Output = ()>,
    ) -> Exchange {
        let outgoing = Outgoing {
            pool: &self.0.pool,
            target: self.0.base_url.target(dialect.path()),
            body,
            timeouts: self.0.timeouts,
            most_events: most_events(max_tokens),
            redactor: &self.0.redactor,
        };
        exchange::run(outgoing, clock, dialect, due_ns, stop).await
    }

    /// Opens connections ahead, so that connecting (over `https` with its TLS handshake) is no part of
    /// what is measured: until `wanted` are idle, within the pool. Returns how many are. Failures are
    /// left to the requests, which meet the same and keep the evidence.
    pub async fn open(&self, wanted: usize) -> usize {
        ConnectionPool::open(&self.0.pool, wanted).await
    }

    /// Gets a plain answer.
    ///
    /// # Errors
    /// Where no whole answer came within 30 s. A status of refusal is an answer.
    pub async fn get(&self, endpoint: Endpoint<'_>) -> Result<Reply, Failure> {
        self.plain(self.0.http.get(self.url(endpoint))).await
    }

    /// Posts JSON and gets a plain answer.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn post_json(&self, endpoint: Endpoint<'_>, body: &Value) -> Result<Reply, Failure> {
        let request = self
            .0
            .http
            .post(self.url(endpoint))
            .header(reqwest::header::CONTENT_TYPE, "application/json")
            .body(body.to_string());
        self.plain(request).await
    }

    /// The failure that a plain answer stands for; `None` if its status is 2xx.
    #[must_use]
    pub fn refusal(&self, reply: &Reply) -> Option<Failure> {
        if reply.is_success() {
            return None;
        }
        let status = reqwest::StatusCode::from_u16(reply.status).ok()?;
        let mut evidence = Evidence::new(&self.0.redactor);
        evidence.push(&reply.body);
        let ends = evidence.ends(&self.0.redactor);
        Some(Failure {
            kind: classify::status(status),
            message: self.0.redactor.message(&error_body::text(
                status,
                &reply.body,
                reply.header("location"),
            )),
            retry_after: reply.header("retry-after").map(|v| self.0.redactor.message(v)),
            first_bytes: ends.first,
            last_bytes: ends.last,
        })
    }

    fn url(&self, endpoint: Endpoint<'_>) -> String {
        match endpoint {
            Endpoint::Api(path) => self.0.base_url.api(path),
            Endpoint::Root(path) => self.0.base_url.below(path),
        }
    }

    async fn plain(&self, request: reqwest::RequestBuilder) -> Result<Reply, Failure> {
        let reading = Box::pin(self.read_fresh(request));
        match tokio::time::timeout(PLAIN_LIMIT, reading).await {
            Ok(reply) => reply,
            Err(_) => Err(self.failure(
                FailureKind::TotalTimeout,
                &format!("no whole answer within {} s", PLAIN_LIMIT.as_secs()),
            )),
        }
    }

    /// A plain question whose connection closed is asked once more: nothing is measured here, and
    /// servers close idle connections after seconds.
    async fn read_fresh(&self, request: reqwest::RequestBuilder) -> Result<Reply, Failure> {
        let again = request.try_clone();
        match (self.read_plain(request).await, again) {
            (Err(failure), Some(again)) if failure.kind == FailureKind::Reset => {
                self.read_plain(again).await
            }
            (reply, _) => reply,
        }
    }

    async fn read_plain(&self, request: reqwest::RequestBuilder) -> Result<Reply, Failure> {
        let failed = |error: reqwest::Error, stage| {
            let (kind, message) = classify::plain(&error, stage);
            self.failure(kind, &message)
        };
        let clock = Clock::start();
        let mut response = request.send().await.map_err(|error| {
            failed(error, Stage::Head { waited: Duration::from_nanos(clock.now_ns()) })
        })?;
        if let Some(message) = compressed(response.headers()) {
            return Err(self.failure(FailureKind::NotAStream, &message));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|e| failed(e, Stage::Body))? {
            if body.len() + chunk.len() > PLAIN_BYTES {
                let message = format!("an answer of more than {PLAIN_BYTES} bytes");
                return Err(self.failure(FailureKind::Oversized, &message));
            }
            body.extend_from_slice(&chunk);
        }
        let headers = response.headers().iter().map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        Ok(Reply {
            status: response.status().as_u16(),
            headers: headers.collect(),
            body: Bytes::from(body),
        })
    }

    fn failure(&self, kind: FailureKind, message: &str) -> Failure {
        Failure {
            kind,
            message: self.0.redactor.message(message),
            retry_after: None,
            first_bytes: String::new(),
            last_bytes: String::new(),
        }
    }
}

fn header_map(settings: &ClientSettings) -> Result<HeaderMap> {
    let mut map = HeaderMap::new();
    if let Some(key) = &settings.api_key {
        // The cause would not show the value, but gives no information beyond this either.
        let mut value =
            HeaderValue::from_str(&format!("Bearer {}", key.expose())).map_err(|_| {
                Error::usage("the API key holds a character that a header cannot carry")
                    .with_hint("look for a connection break at its end")
            })?;
        value.set_sensitive(true);
        map.insert(AUTHORIZATION, value);
    }
    for (name, value) in &settings.headers {
        let bad =
            |what: &str| Error::usage(format!("the {what} of the header `{name}` is not HTTP's"));
        let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("name"))?;
        let mut value = HeaderValue::from_str(value).map_err(|_| bad("value"))?;
        value.set_sensitive(true);
        map.insert(parsed, value);
    }
    Ok(map)
}

impl From<Failure> for Error {
    /// For preflight and the like, where a failed request stops the operator's job.
    fn from(failure: Failure) -> Self {
        let kind = match failure.kind {
            FailureKind::ClientDescriptors | FailureKind::ClientPorts => ErrorKind::Client,
            _ => ErrorKind::Server,
        };
        Self::new(kind, failure.message)
    }
}
