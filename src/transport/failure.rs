//! How a request fails: a closed list, kept with what was seen.

use serde::{Deserialize, Serialize};

/// The kinds of failure. Each names one cause that a reader can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The name did not resolve.
    Dns,
    /// Nobody listens.
    ConnectRefused,
    /// No connection within the limit.
    ConnectTimeout,
    /// Another failure to connect.
    Connect,
    /// The TLS handshake failed, but not by the certificate.
    Tls,
    /// The server's certificate is of no trusted authority, or invalid.
    TlsUntrusted,
    /// The server's certificate is for another name.
    TlsNameMismatch,
    /// The server's certificate is expired, or not yet valid.
    TlsExpired,
    /// Our own machine ran out of descriptors (EMFILE, ENFILE).
    ClientDescriptors,
    /// Our own machine ran out of ports (EADDRNOTAVAIL).
    ClientPorts,
    /// A connection that had stood idle and that the server had already closed.
    StaleConnection,
    /// The connection was reset before or in the answer.
    Reset,
    /// 401 or 403.
    Unauthorized,
    /// 404.
    NotFound,
    /// 429: a policy limit, not a slow server.
    RateLimited,
    /// 400, 422 or another 4xx.
    BadRequest,
    /// 503: busy, or not ready.
    Unavailable,
    /// 500, 502 or another 5xx.
    ServerError,
    /// A status outside 2xx, 4xx and 5xx.
    UnexpectedStatus,
    /// An answer that is not a stream of events (an HTML page from a gateway).
    NotAStream,
    /// An event that is not the dialect's JSON.
    InvalidEvent,
    /// A line or event beyond the decoder's limit, or an answer far beyond its length.
    Oversized,
    /// An error object inside a 200 stream.
    ErrorInStream,
    /// Status 200 and no token.
    Empty,
    /// The stream ended before its finish.
    Incomplete,
    /// The body was cut (chunked encoding, content length).
    Truncated,
    /// No first byte within the limit.
    FirstByteTimeout,
    /// No token event for longer than the limit.
    IdleTimeout,
    /// The whole request took longer than the limit.
    TotalTimeout,
    /// We stopped it.
    Cancelled,
    /// Another tool's words that name none of these causes.
    Unclassified,
}

impl FailureKind {
    /// The name in files: `idle_timeout`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::ConnectRefused => "connect_refused",
            Self::ConnectTimeout => "connect_timeout",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::TlsUntrusted => "tls_untrusted",
            Self::TlsNameMismatch => "tls_name_mismatch",
            Self::TlsExpired => "tls_expired",
            Self::ClientDescriptors => "client_descriptors",
            Self::ClientPorts => "client_ports",
            Self::StaleConnection => "stale_connection",
            Self::Reset => "reset",
            Self::Unauthorized => "unauthorized",
            Self::NotFound => "not_found",
            Self::RateLimited => "rate_limited",
            Self::BadRequest => "bad_request",
            Self::Unavailable => "unavailable",
            Self::ServerError => "server_error",
            Self::UnexpectedStatus => "unexpected_status",
            Self::NotAStream => "not_a_stream",
            Self::InvalidEvent => "invalid_event",
            Self::Oversized => "oversized",
            Self::ErrorInStream => "error_in_stream",
            Self::Empty => "empty",
            Self::Incomplete => "incomplete",
            Self::Truncated => "truncated",
            Self::FirstByteTimeout => "first_byte_timeout",
            Self::IdleTimeout => "idle_timeout",
            Self::TotalTimeout => "total_timeout",
            Self::Cancelled => "cancelled",
            Self::Unclassified => "unclassified",
        }
    }

    /// The name for people: `connect refused`, `server error`.
    #[must_use]
    pub fn words(self) -> String {
        self.name().replace('_', " ")
    }

    /// Whether no server was reached, by no fault of this machine's.
    #[must_use]
    pub const fn is_unreached(self) -> bool {
        matches!(self, Self::Dns | Self::ConnectRefused | Self::ConnectTimeout | Self::Connect)
    }

    /// Whether nothing came within a limit.
    #[must_use]
    pub const fn is_silence(self) -> bool {
        matches!(self, Self::FirstByteTimeout | Self::IdleTimeout)
    }

    /// Whether this client's machine is at fault, and no server has a part in it.
    #[must_use]
    pub const fn is_clients(self) -> bool {
        matches!(self, Self::ClientDescriptors | Self::ClientPorts)
    }
}

/// One failure with its evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Which kind.
    pub kind: FailureKind,
    /// What was said: by the server, the system or the decoder. Redacted, at most 1 KiB.
    pub message: String,
    /// `Retry-After`, as sent.
    pub retry_after: Option<String>,
    /// The first bytes of the body, lossy, at most 512; empty where there were none.
    pub first_bytes: String,
    /// The last bytes of the body, lossy, at most 512; empty where `first_bytes` holds it all.
    pub last_bytes: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [FailureKind; 31] = [
        FailureKind::Dns,
        FailureKind::ConnectRefused,
        FailureKind::ConnectTimeout,
        FailureKind::Connect,
        FailureKind::Tls,
        FailureKind::TlsUntrusted,
        FailureKind::TlsNameMismatch,
        FailureKind::TlsExpired,
        FailureKind::ClientDescriptors,
        FailureKind::ClientPorts,
        FailureKind::StaleConnection,
        FailureKind::Reset,
        FailureKind::Unauthorized,
        FailureKind::NotFound,
        FailureKind::RateLimited,
        FailureKind::BadRequest,
        FailureKind::Unavailable,
        FailureKind::ServerError,
        FailureKind::UnexpectedStatus,
        FailureKind::NotAStream,
        FailureKind::InvalidEvent,
        FailureKind::Oversized,
        FailureKind::ErrorInStream,
        FailureKind::Empty,
        FailureKind::Incomplete,
        FailureKind::Truncated,
        FailureKind::FirstByteTimeout,
        FailureKind::IdleTimeout,
        FailureKind::TotalTimeout,
        FailureKind::Cancelled,
        FailureKind::Unclassified,
    ];

    #[test]
    fn a_kind_has_one_name_in_files_and_in_reports() {
        for kind in KINDS {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        assert_eq!(KINDS[KINDS.len() - 1] as usize, KINDS.len() - 1, "a kind is missing");
    }
}
