//! The client: one pool, no proxy, no redirect, no retry.

use serde::{Deserialize, Serialize};

use bytes::Bytes;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::{Failure, FailureKind, TokenEvent, TokenTimeline};
use crate::api::{Content, Dialect};
use crate::clock::Clock;

/// Which source counted a request's output tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenSource {
    /// Token ids in the events.
    TokenIds,
    /// A running usage in the events.
    EventUsage,
    /// The final usage, spread over the events.
    FinalUsage,
    /// One token an event: a last resort, said aloud.
    Events,
}

/// Everything seen of one request.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// When what happened.
    pub timeline: TokenTimeline,
    /// The status, where there was one.
    pub status: Option<u16>,
    /// Prompt tokens by the server's count.
    pub input_tokens: Option<u32>,
    /// Prompt tokens served from a cache, where told.
    pub cached_tokens: Option<u32>,
    /// Generated tokens by the authority.
    pub output_tokens: Option<u32>,
    /// Who counted.
    pub token_source: Option<TokenSource>,
    /// `stop`, `length`, …
    pub finish_reason: Option<String>,
    /// Why it failed, where it did.
    pub failure: Option<Failure>,
}

/// The client.
#[derive(Debug, Clone)]
pub struct Client {
    addr: std::net::SocketAddr,
}

impl Client {
    /// A stand-in.
    #[must_use]
    pub fn stand_in(addr: std::net::SocketAddr) -> Self {
        Self { addr }
    }

    /// A stand-in.
    pub async fn exchange(
        &self,
        clock: Clock,
        dialect: &dyn Dialect,
        body: Bytes,
        due_ns: Option<u64>,
    ) -> Exchange {
        let mut exchange = Exchange {
            timeline: TokenTimeline { due_ns, sent_ns: Some(clock.now_ns()), ..Default::default() },
            status: None,
            input_tokens: None,
            cached_tokens: None,
            output_tokens: None,
            token_source: Some(TokenSource::Events),
            finish_reason: None,
            failure: None,
        };
        let kind = match self.read(clock, dialect, body, &mut exchange).await {
            Ok(()) => match exchange.status {
                Some(200) => None,
                Some(401) => Some(FailureKind::Unauthorized),
                _ => Some(FailureKind::ServerError),
            },
            Err(_) => Some(FailureKind::Reset),
        };
        exchange.failure = kind.map(|kind| Failure {
            kind,
            message: String::new(),
            retry_after: None,
            first_bytes: String::new(),
            last_bytes: String::new(),
        });
        exchange.output_tokens = u32::try_from(exchange.timeline.events.len()).ok();
        exchange.timeline.end_ns = Some(clock.now_ns());
        exchange
    }

    async fn read(
        &self,
        clock: Clock,
        dialect: &dyn Dialect,
        body: Bytes,
        exchange: &mut Exchange,
    ) -> std::io::Result<()> {
        let mut stream = BufReader::new(tokio::net::TcpStream::connect(self.addr).await?);
        let path = dialect.path();
        let head = format!(
            "POST /v1/{path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(&body).await?;
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        exchange.status = line.get(9..12).and_then(|code| code.parse().ok());
        loop {
            line.clear();
            if stream.read_line(&mut line).await? == 0 || line.starts_with("data: [DONE]") {
                return Ok(());
            }
            let Some(data) = line.strip_prefix("data: ") else { continue };
            let at_ns = clock.now_ns();
            if dialect.event(data.trim().as_bytes()).is_ok_and(|e| e.content != Content::None) {
                exchange.timeline.events.push(TokenEvent {
                    at_ns,
                    tokens: 1,
                    content: Content::Visible,
                });
            }
        }
    }
}
