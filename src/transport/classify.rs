//! From errors and statuses to the one kind that a reader can act on: by types, never by text.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use nix::errno::Errno;
use reqwest::StatusCode;

use super::FailureKind;
use super::connection::ConnectionError;
use super::tls;

/// The deepest chain of causes looked at: deeper ones are loops or noise.
const MAX_CAUSES: usize = 16;

/// A connection that the server had closed says so within a round trip. One that closes later
/// without a byte had taken the request: the server gave it up.
const STALE_LIMIT: Duration = Duration::from_millis(500);

/// Whether a request met a connection that the server was closing, `waited` after it was sent.
pub(super) fn is_stale(error: &ConnectionError, waited: Duration) -> bool {
    streamed(error, Stage::Head { waited }).0 == FailureKind::StaleConnection
}

/// How far the request had come when an error struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// No response head yet; the request was handed over so long ago.
    Head { waited: Duration },
    /// The body was being read.
    Body,
}

/// The kind of an error of a streamed request, and its causes in words.
pub(super) fn streamed(error: &ConnectionError, stage: Stage) -> (FailureKind, String) {
    let clues = ErrorFacts {
        connecting: error.is_connect(),
        timed_out: matches!(error, ConnectionError::ConnectTimeout(_)),
        dns: matches!(error, ConnectionError::Dns(_)),
        tls: matches!(error, ConnectionError::Tls(_)).then_some(FailureKind::Tls),
        reused: matches!(error, ConnectionError::Http { reused: true, .. }),
        ..ErrorFacts::default()
    };
    (clues.with_causes(error).kind(stage), describe(error, error.is_connect()))
}

/// The kind of an error of a plain request, and its causes in words.
pub(super) fn plain(error: &reqwest::Error, stage: Stage) -> (FailureKind, String) {
    let clues = ErrorFacts {
        connecting: error.is_connect(),
        timed_out: error.is_timeout(),
        dns: error.is_dns(),
        ..ErrorFacts::default()
    };
    (clues.with_causes(error).kind(stage), describe(error, error.is_connect()))
}

/// What the chain of causes reports.
#[derive(Debug, Default)]
struct ErrorFacts {
    connecting: bool,
    timed_out: bool,
    dns: bool,
    io: Option<io::ErrorKind>,
    errno: Option<i32>,
    tls: Option<FailureKind>,
    not_http: bool,
    closed: bool,
    reused: bool,
}

impl ErrorFacts {
    /// Adds what the chain of causes holds.
    fn with_causes(mut self, error: &(dyn StdError + 'static)) -> Self {
        let clues = &mut self;
        for cause in causes(error) {
            if let Some(io) = cause.downcast_ref::<io::Error>() {
                clues.io = clues.io.or(Some(io.kind()));
                clues.errno = clues.errno.or(io.raw_os_error());
            } else if let Some(hyper) = cause.downcast_ref::<hyper::Error>() {
                clues.closed |=
                    hyper.is_incomplete_message() || hyper.is_canceled() || hyper.is_closed();
                clues.not_http |= hyper.is_parse();
            } else {
                clues.tls = tls::failure_kind(cause).or(clues.tls);
            }
        }
        self
    }

    fn kind(&self, stage: Stage) -> FailureKind {
        use FailureKind::{
            ClientDescriptors, ClientPorts, Connect, ConnectRefused, ConnectTimeout, Dns,
            NotAStream, Reset, StaleConnection, Truncated,
        };
        let errno = self.errno.map(Errno::from_raw);
        match (errno, self.io) {
            (Some(Errno::EMFILE | Errno::ENFILE), _) => return ClientDescriptors,
            (Some(Errno::EADDRNOTAVAIL), _) if self.connecting => return ClientPorts,
            _ if self.dns => return Dns,
            _ => {}
        }
        if let Some(kind) = self.tls {
            return kind;
        }
        match self.io {
            _ if self.connecting && self.timed_out => return ConnectTimeout,
            Some(io::ErrorKind::ConnectionRefused) => return ConnectRefused,
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
fn describe(error: &(dyn StdError + 'static), is_connect: bool) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in causes(error) {
        let wraps = matches!(
            cause.downcast_ref::<ConnectionError>(),
            Some(ConnectionError::Tcp(_) | ConnectionError::Http { .. })
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
    let text = if parts.is_empty() { error.to_string() } else { parts.join(": ") };
    if is_connect { format!("could not connect: {text}") } else { text }
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
