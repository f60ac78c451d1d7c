//! An answer: its head, and its body on the connection that carries it.

use std::sync::Arc;

use bytes::Bytes;
use http::uri::{InvalidUri, PathAndQuery};
use http::{HeaderMap, HeaderName, StatusCode};
use hyper::body::Incoming;

use super::evidence::Redactor;
use super::line::{Line, LineError};
use super::lines::{Carrier, Lines};
use crate::settings::Timeouts;

/// A request about to be sent, and what surrounds it.
pub(super) struct Outgoing<'a> {
    pub(super) lines: &'a Arc<Lines>,
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
    pub(super) carrier: Carrier,
    /// `None` once it came to its end.
    body: Option<Body>,
}

struct Body {
    line: Line,
    incoming: Incoming,
    lines: Arc<Lines>,
}

impl Outgoing<'_> {
    /// Posts it and waits for the head of the answer.
    pub(super) async fn post(&self, target: PathAndQuery) -> Result<Answer, LineError> {
        let reached = self.lines.post(target, self.body.clone()).await?;
        let (head, incoming) = reached.response.into_parts();
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            carrier: reached.carrier,
            body: Some(Body { line: reached.line, incoming, lines: Arc::clone(self.lines) }),
        })
    }
}

impl Answer {
    /// The next chunk of the body; `None` at its end, when its connection is free again.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, LineError> {
        let Some(body) = &mut self.body else { return Ok(None) };
        let reused = self.carrier.earlier_answers > 0;
        let chunk = body
            .line
            .chunk(&mut body.incoming)
            .await
            .map_err(|error| LineError::Http { error, reused })?;
        if chunk.is_none()
            && let Some(Body { line, lines, .. }) = self.body.take()
        {
            lines.put(line, self.carrier);
        }
        Ok(chunk)
    }
}

/// The first value of a header as text.
pub(super) fn text_header(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}
