//! From errors and statuses to the one kind that a reader can act on: by types, never by text.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use nix::errno::Errno;
use reqwest::StatusCode;

use super::FailureKind;
use super::answer::WireError;
use super::connections::Connections;
use super::pool::LineError;

/// The deepest chain of causes looked at: deeper ones are loops or noise.
const MAX_CAUSES: usize = 16;

/// A connection that the server had closed says so within a round trip. One that closes later
/// without a byte had taken the request: the server gave it up.
const STALE_LIMIT: Duration = Duration::from_millis(500);

/// How far the request had come when an error struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// No response head yet; the request was handed over so long ago.
    Head { waited: Duration },
    /// The body was being read.
    Body,
}

/// The kind of a transport error, and what was said.
pub(super) fn transport(
    error: &WireError,
    stage: Stage,
    connections: &Connections,
) -> (FailureKind, String) {
    let clues = ErrorFacts::of(error, connections);
    (clues.kind(stage), describe(error))
}

/// What the chain of causes says.
#[derive(Debug, Default)]
struct ErrorFacts {
    connecting: bool,
    timed_out: bool,
    dns: bool,
    io: Option<io::ErrorKind>,
    errno: Option<i32>,
    tls: bool,
    not_http: bool,
    closed: bool,
    reused: bool,
}

impl ErrorFacts {
    fn of(error: &WireError, connections: &Connections) -> Self {
        let mut clues = match error {
            WireError::Reqwest(error) => Self {
                connecting: error.is_connect(),
                timed_out: error.is_timeout(),
                dns: error.is_dns(),
                ..Self::default()
            },
            WireError::Connection(error) => Self {
                connecting: error.is_connect(),
                timed_out: matches!(error, LineError::ConnectTimeout(_)),
                dns: matches!(error, LineError::Dns(_)),
                reused: matches!(error, LineError::Http { reused: true, .. }),
                ..Self::default()
            },
        };
        for cause in causes(error.as_error()) {
            if let Some(io) = cause.downcast_ref::<io::Error>() {
                clues.io = clues.io.or(Some(io.kind()));
                clues.errno = clues.errno.or(io.raw_os_error());
            } else if let Some(hyper) = cause.downcast_ref::<hyper::Error>() {
                clues.closed |=
                    hyper.is_incomplete_message() || hyper.is_canceled() || hyper.is_closed();
                clues.not_http |= hyper.is_parse();
            } else if let Some(legacy) = cause.downcast_ref::<hyper_util::client::legacy::Error>() {
                clues.reused = connections.failed(legacy).is_some_and(|c| c.earlier_answers > 0);
            } else {
                clues.tls |= is_tls(cause);
            }
        }
        clues
    }

    fn kind(&self, stage: Stage) -> FailureKind {
        use FailureKind::{
            ClientDescriptors, ClientPorts, Connect, ConnectRefused, ConnectTimeout, Dns,
            NotAStream, Reset, StaleConnection, Tls, Truncated,
        };
        let errno = self.errno.map(Errno::from_raw);
        match (errno, self.io) {
            (Some(Errno::EMFILE | Errno::ENFILE), _) => return ClientDescriptors,
            (Some(Errno::EADDRNOTAVAIL), _) if self.connecting => return ClientPorts,
            _ if self.dns => return Dns,
            _ if self.tls => return Tls,
            _ if self.connecting && self.timed_out => return ConnectTimeout,
            (_, Some(io::ErrorKind::ConnectionRefused)) => return ConnectRefused,
            _ if self.connecting => return Connect,
            _ => {}
        }
        let reset = matches!(
            self.io,
            Some(
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
            )
        );
        match stage {
            Stage::Head { waited }
                if self.reused && (reset || self.closed) && waited <= STALE_LIMIT =>
            {
                StaleConnection
            }
            Stage::Head { .. } if self.not_http => NotAStream,
            Stage::Head { .. } => Reset,
            Stage::Body if reset => Reset,
            // A cut or malformed chunk or content length: the body did not come whole.
            Stage::Body => Truncated,
        }
    }
}

#[cfg(feature = "tls")]
fn is_tls(cause: &(dyn StdError + 'static)) -> bool {
    cause.is::<rustls::Error>() || cause.is::<rustls::pki_types::InvalidDnsNameError>()
}

#[cfg(not(feature = "tls"))]
fn is_tls(_: &(dyn StdError + 'static)) -> bool {
    false
}

/// The causes of an error, the error first. An `io::Error` hides the error it wraps from
/// `source()`, so that is opened too.
fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    let next = |cause: &&'a (dyn StdError + 'static)| -> Option<&'a (dyn StdError + 'static)> {
        let cause: &'a (dyn StdError + 'static) = *cause;
        if let Some(inner) = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            let inner: &'a (dyn StdError + 'static) = inner;
            return Some(inner);
        }
        cause.source()
    };
    std::iter::successors(Some(error), next).take(MAX_CAUSES)
}

/// The causes in words, without repeats, outermost first. The wrappers of reqwest and hyper-util
/// name only the URL and their own layer, and are left out where anything lies below them.
fn describe(error: &WireError) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in causes(error.as_error()) {
        let wraps = matches!(
            cause.downcast_ref::<LineError>(),
            Some(LineError::Connect(_) | LineError::Http { .. })
        );
        if wraps || cause.is::<reqwest::Error>() || cause.is::<hyper_util::client::legacy::Error>()
        {
            continue;
        }
        let text = cause.to_string();
        if !text.is_empty() && !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
    }
    let text = if parts.is_empty() { error.as_error().to_string() } else { parts.join(": ") };
    if error.is_connect() { format!("could not connect: {text}") } else { text }
}

/// The kind of a status that is not 2xx.
pub(super) fn status(status: StatusCode) -> FailureKind {
    match status.as_u16() {
        401 | 403 => FailureKind::Unauthorized,
        404 => FailureKind::NotFound,
        429 => FailureKind::RateLimited,
        503 => FailureKind::Unavailable,
        400..=499 => FailureKind::BadRequest,
        500..=599 => FailureKind::ServerError,
        _ => FailureKind::UnexpectedStatus,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_ONCE: Stage = Stage::Head { waited: Duration::ZERO };

    #[test]
    fn statuses() {
        for (code, kind) in [
            (204, FailureKind::UnexpectedStatus),
            (302, FailureKind::UnexpectedStatus),
            (400, FailureKind::BadRequest),
            (401, FailureKind::Unauthorized),
            (403, FailureKind::Unauthorized),
            (404, FailureKind::NotFound),
            (422, FailureKind::BadRequest),
            (429, FailureKind::RateLimited),
            (500, FailureKind::ServerError),
            (503, FailureKind::Unavailable),
            (504, FailureKind::ServerError),
        ] {
            assert_eq!(status(StatusCode::from_u16(code).unwrap()), kind, "{code}");
        }
    }

    #[test]
    fn clues_of_our_own_machine_come_first() {
        let connecting = |errno: Errno| ErrorFacts {
            connecting: true,
            io: Some(io::Error::from_raw_os_error(errno as i32).kind()),
            errno: Some(errno as i32),
            ..ErrorFacts::default()
        };
        for (errno, kind) in [
            (Errno::EMFILE, FailureKind::ClientDescriptors),
            (Errno::ENFILE, FailureKind::ClientDescriptors),
            (Errno::EADDRNOTAVAIL, FailureKind::ClientPorts),
            (Errno::ECONNREFUSED, FailureKind::ConnectRefused),
            (Errno::EHOSTUNREACH, FailureKind::Connect),
        ] {
            assert_eq!(connecting(errno).kind(AT_ONCE), kind, "{errno}");
        }
        let dns = ErrorFacts { connecting: true, dns: true, ..ErrorFacts::default() };
        assert_eq!(dns.kind(AT_ONCE), FailureKind::Dns);
        let slow = ErrorFacts { connecting: true, timed_out: true, ..ErrorFacts::default() };
        assert_eq!(slow.kind(AT_ONCE), FailureKind::ConnectTimeout);
    }

    #[test]
    fn a_connection_is_stale_only_where_it_closes_at_once() {
        let kind = |reused, ms| {
            let clues = ErrorFacts { reused, closed: true, ..ErrorFacts::default() };
            clues.kind(Stage::Head { waited: Duration::from_millis(ms) })
        };
        assert_eq!(kind(true, 500), FailureKind::StaleConnection);
        assert_eq!(kind(true, 501), FailureKind::Reset);
        assert_eq!(kind(false, 0), FailureKind::Reset);
    }

    #[test]
    fn an_io_error_is_opened() {
        let inner = io::Error::from_raw_os_error(Errno::EMFILE as i32);
        let outer = io::Error::other(inner);
        let found: Vec<Option<i32>> = causes(&outer)
            .map(|cause| cause.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error))
            .collect();
        assert_eq!(found, [None, Some(Errno::EMFILE as i32)]);
    }
}
