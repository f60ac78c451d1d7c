//! An answer: its head, and its body on the connection that carries it.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::uri::{InvalidUri, PathAndQuery};
use http::{HeaderMap, HeaderName, StatusCode};
use hyper::body::Incoming;

use super::connection::{Connection, ConnectionError};
use super::pool::{ConnectionInfo, ConnectionPool};
use super::redact::Redactor;
use crate::settings::Timeouts;

/// How long the end of a body may take after its answer is over.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);
/// How much may come until then, bytes.
const DRAINED_BYTES: usize = 64 * 1024;

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

    /// Reads a body whose answer is over to its end, which frees its connection. The end mostly lies
    /// in the read that is done already; one that takes longer is waited for by a task of its own,
    /// within limits, beyond which the connection is closed.
    pub(super) async fn drain_aside(mut self) {
        let at_once = poll_fn(|cx| Poll::Ready(pin!(drain(&mut self)).poll(cx).is_ready())).await;
        let Some(place) = self.body.as_ref().and_then(|body| body.pool.drain_place()) else {
            return;
        };
        if !at_once {
            tokio::spawn(async move {
                let _ = tokio::time::timeout(DRAIN_LIMIT, drain(&mut self)).await;
                drop(place);
            });
        }
    }
}

/// Reads what is left of a body, within the limit on bytes.
async fn drain(answer: &mut Answer) {
    let mut left = DRAINED_BYTES;
    while let Ok(Some(chunk)) = answer.chunk().await {
        left = left.saturating_sub(chunk.len());
        if left == 0 {
            return;
        }
    }
}

/// The first value of a header as text.
pub(super) fn text_header(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}
