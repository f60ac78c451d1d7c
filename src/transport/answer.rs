//! An answer: its head, and its body on the connection that carries it.

use std::sync::Arc;

use bytes::Bytes;
use http::uri::{InvalidUri, PathAndQuery};
use http::{HeaderMap, HeaderName, StatusCode};
use hyper::body::Incoming;

use super::connection::{Connection, ConnectionError};
use super::pool::{ConnectionInfo, ConnectionPool};
use super::redact::Redactor;
use crate::settings::Timeouts;

/// A request about to be sent, and what surrounds it.
pub(super) struct Outgoing<'a> {
    pub(super) pool: &'a Arc<ConnectionPool>,
    pub(super) target: Result<PathAndQuery, InvalidUri>,
    pub(super) body: Bytes,
    pub(super) timeouts: Timeouts,
    pub(super) most_events: usize,
    pub(super) redactor: &'a Redactor,
}

/// A response whose head has been read.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) info: ConnectionInfo,
    /// `None` once it ended.
    body: Option<Body>,
}

struct Body {
    connection: Connection,
    incoming: Incoming,
    pool: Arc<ConnectionPool>,
}

impl Outgoing<'_> {
    /// Posts it and waits for the head of the answer.
    pub(super) async fn post(&self, target: PathAndQuery) -> Result<Answer, ConnectionError> {
        let sent = self.pool.post(target, self.body.clone()).await?;
        let (head, incoming) = sent.response.into_parts();
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            info: sent.info,
            body: Some(Body { connection: sent.connection, incoming, pool: Arc::clone(self.pool) }),
        })
    }
}

impl Answer {
    /// The next chunk of the body; `None` at its end, when its connection is free again.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, ConnectionError> {
        let Some(body) = &mut self.body else { return Ok(None) };
        let reused = self.info.earlier_answers > 0;
        let chunk = body
            .connection
            .chunk(&mut body.incoming)
            .await
            .map_err(|error| ConnectionError::Http { error, reused })?;
        if chunk.is_none()
            && let Some(Body { connection, pool, .. }) = self.body.take()
        {
            pool.put(connection, self.info);
        }
        Ok(chunk)
    }
}

/// The first value of a header as text.
pub(super) fn text_header(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}
