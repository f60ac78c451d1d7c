//! An answer: the head and the body of a response, by whichever way it comes.
//!
//! Plain HTTP comes over our own [`ConnectionPool`]; `https` over reqwest, which sets TLS up as users expect
//! and whose encryption costs more than its hand-overs.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use hyper::body::Incoming;

use super::connection::Connection;
use super::connections::{Carrier, Connections};
use super::pool::{ConnectionPool, LineError};

/// Why no answer came, or not all of it.
#[derive(Debug)]
pub(super) enum WireError {
    Connection(LineError),
    Reqwest(reqwest::Error),
}

impl From<reqwest::Error> for WireError {
    fn from(error: reqwest::Error) -> Self {
        Self::Reqwest(error)
    }
}

impl WireError {
    pub(super) fn as_error(&self) -> &(dyn std::error::Error + 'static) {
        match self {
            Self::Connection(error) => error,
            Self::Reqwest(error) => error,
        }
    }

    /// Whether no connection came to stand.
    pub(super) fn is_connect(&self) -> bool {
        match self {
            Self::Connection(error) => error.is_connect(),
            Self::Reqwest(error) => error.is_connect(),
        }
    }
}

/// The way that requests take.
#[derive(Clone)]
pub(super) enum Way {
    ConnectionPool(Arc<ConnectionPool>),
    Reqwest(reqwest::Client, Connections),
}

/// A response whose head has been read.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// What carried it, where that is known.
    pub(super) carrier: Option<Carrier>,
    body: Body,
}

enum Body {
    Connection {
        line: Connection,
        incoming: Incoming,
        carrier: Carrier,
        lines: Arc<ConnectionPool>,
    },
    Reqwest(reqwest::Response),
    /// It came to its end.
    Over,
}

impl Way {
    /// Posts JSON and waits for the head of the answer.
    pub(super) async fn post(&self, url: &str, body: Bytes) -> Result<Answer, WireError> {
        match self {
            Self::ConnectionPool(lines) => {
                let uri = path_of(url).parse().unwrap_or_default();
                let reached = lines.post(uri, body).await.map_err(WireError::Connection)?;
                let (head, incoming) = reached.response.into_parts();
                let (line, carrier) = (reached.line, reached.carrier);
                let lines = Arc::clone(lines);
                Ok(Answer {
                    status: head.status,
                    headers: head.headers,
                    carrier: Some(carrier),
                    body: Body::Connection { line, incoming, carrier, lines },
                })
            }
            Self::Reqwest(http, connections) => {
                let request = http
                    .post(url)
                    .header(http::header::CONTENT_TYPE, "application/json")
                    .header(http::header::ACCEPT, "text/event-stream")
                    .body(body);
                let mut response = request.send().await?;
                Ok(Answer {
                    status: response.status(),
                    headers: std::mem::take(response.headers_mut()),
                    carrier: connections.answered(response.extensions()),
                    body: Body::Reqwest(response),
                })
            }
        }
    }
}

/// The path of a URL that was built from a base URL.
fn path_of(url: &str) -> &str {
    let after_scheme = url.find("://").map_or(0, |at| at + 3);
    url[after_scheme..].find('/').map_or("/", |at| &url[after_scheme + at..])
}

impl Answer {
    /// The next chunk of the body; none at its end, when what carried it is free again.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, WireError> {
        let chunk = match &mut self.body {
            Body::Over => None,
            Body::Reqwest(response) => response.chunk().await?,
            Body::Connection { line, incoming, .. } => {
                let reused = line.answers() > 1;
                line.chunk(incoming)
                    .await
                    .map_err(|error| WireError::Connection(LineError::Http { error, reused }))?
            }
        };
        if chunk.is_none()
            && let Body::Connection { line, carrier, lines, .. } =
                std::mem::replace(&mut self.body, Body::Over)
        {
            lines.put(line, carrier);
        }
        Ok(chunk)
    }
}
