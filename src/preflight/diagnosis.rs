//! What a failure means to a user: the cause in words, and the remedy.

use super::Examination;
use crate::record::{Finding, FindingCode, Severity};
use crate::transport::{Failure, FailureKind};
use crate::units;

impl Examination<'_> {
    /// A failure of `what` as a fatal finding.
    pub(super) fn fail(&mut self, what: &str, failure: &Failure) {
        let finding = match failure.kind {
            FailureKind::Unauthorized => self.key_refused(failure),
            FailureKind::RateLimited => quota(failure),
            _ => self.unreachable(what, failure),
        };
        self.report.findings.push(finding);
    }

    fn unreachable(&self, what: &str, failure: &Failure) -> Finding {
        let url = self.client.base_url().root();
        let said = &failure.message;
        let fatal = |code: FindingCode, text: String, hint: &str| {
            Finding::new(code, Severity::Fatal, text).with_hint(hint)
        };
        match failure.kind {
            FailureKind::Dns => {
                let hint = match proxy_in_environment(url, |name| std::env::var_os(name).is_some())
                {
                    Some(name) => format!(
                        "`{name}` names a proxy, which is not used: its time would be in every figure; run \
                         the client where the server can be reached directly"
                    ),
                    None => "check its spelling, and that this machine can resolve it".to_owned(),
                };
                let text = format!("the host of `{url}` has no address ({said})");
                fatal(FindingCode::Dns, text, &hint)
            }
            FailureKind::ConnectRefused => fatal(
                FindingCode::Refused,
                format!("nobody listens at `{url}` (connection refused)"),
                "is the server running, and is this its port? to have it launched, give \
                 `--server-cmd`",
            ),
            FailureKind::ConnectTimeout => {
                let limit = units::duration(self.settings.timeouts.connect.as_secs_f64());
                fatal(
                    FindingCode::ConnectTimeout,
                    format!("no connection to `{url}` within {limit}"),
                    "a firewall, or a wrong host? else give it longer with `--connect-timeout`",
                )
            }
            FailureKind::Tls
            | FailureKind::TlsUntrusted
            | FailureKind::TlsNameMismatch
            | FailureKind::TlsExpired => no_tls(url, failure),
            FailureKind::BadRequest if wants_tls(url, said) => fatal(
                FindingCode::TlsWanted,
                format!("`{url}` speaks only TLS ({said})"),
                "use `https://`",
            ),
            FailureKind::FirstByteTimeout | FailureKind::TotalTimeout => fatal(
                FindingCode::NoAnswer,
                format!("{what}: `{url}` took the request and did not answer ({said})"),
                "is the server still loading, or hung? look at its log",
            ),
            FailureKind::ClientDescriptors => fatal(
                FindingCode::ClientDescriptors,
                format!("this client has no descriptor left to reach `{url}` ({said})"),
                "raise the limit: `ulimit -n`, `LimitNOFILE=`",
            ),
            FailureKind::ClientPorts => fatal(
                FindingCode::ClientPorts,
                format!("this machine has no address or port left to reach `{url}` ({said})"),
                "widen `net.ipv4.ip_local_port_range`, or wait until old connections are forgotten; to an \
                 IPv6 address: is IPv6 on?",
            ),
            FailureKind::BadRequest if self.settings.extra_body.is_empty() => fatal(
                FindingCode::ProbeFailed,
                format!("{what} failed: {said}"),
                "it was refused without each optional field, too: set or leave out fields with `--extra-body` \
                 (`null` leaves one out), or try `--api chat` or `--api completions`",
            ),
            kind => fatal(FindingCode::ProbeFailed, format!("{what} failed: {said}"), hint(kind)),
        }
    }

    fn key_refused(&self, failure: &Failure) -> Finding {
        let named = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("authorization");
        let own_header = self.settings.headers.iter().find(named).is_some();
        let (sent, hint) = match (&self.settings.api_key, own_header) {
            (_, true) => {
                ("the `Authorization` header that you gave", "check the value of `--header`")
            }
            (Some(key), _) if key.expose().trim() != key.expose() => (
                "the header `Authorization: Bearer …`, with white space around the key",
                "take the spaces or the line end off the key",
            ),
            (Some(_), _) => (
                "the header `Authorization: Bearer …`",
                "check the key: `--api-key-env NAME` or `--api-key-file PATH`",
            ),
            (None, _) => (
                "no `Authorization` header",
                "give a key with `--api-key-env NAME` or `--api-key-file PATH`",
            ),
        };
        let text = format!("the server refused the key ({}): it was sent {sent}", failure.message);
        Finding::new(FindingCode::KeyRefused, Severity::Fatal, text).with_hint(hint)
    }

    /// Says that a key has white space around it, where the server takes it all the same.
    pub(super) fn check_key_spaces(&mut self) {
        let stray = |key: &crate::settings::ApiKey| key.expose().trim() != key.expose();
        if self.settings.api_key.as_ref().is_some_and(stray) {
            self.report.find(
                FindingCode::KeySpaces,
                Severity::Warning,
                "the key has white space around it",
                "take the spaces or the line end off the key",
            );
        }
    }
}

/// The variable of the environment that names a proxy for this URL.
fn proxy_in_environment(url: &str, is_set: impl Fn(&str) -> bool) -> Option<&'static str> {
    let names = match url.starts_with("https:") {
        true => ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"],
        false => ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"],
    };
    names.into_iter().find(|name| is_set(name))
}

/// Why there is no TLS with the server.
fn no_tls(url: &str, failure: &Failure) -> Finding {
    let said = &failure.message;
    let (code, text, hint) = match failure.kind {
        FailureKind::TlsUntrusted => (
            FindingCode::TlsUntrusted,
            format!("the certificate of `{url}` is not trusted ({said})"),
            "trust its authority with `--ca-cert FILE`, or accept any certificate with `--insecure`",
        ),
        FailureKind::TlsNameMismatch => (
            FindingCode::TlsNameMismatch,
            format!("the certificate of `{url}` is for another name ({said})"),
            "use a host name that the certificate lists, or accept any certificate with \
             `--insecure`",
        ),
        FailureKind::TlsExpired => (
            FindingCode::TlsExpired,
            format!("the certificate of `{url}` is not valid today ({said})"),
            "renew it if this machine's clock is right, or accept any certificate with \
             `--insecure`",
        ),
        _ => (
            FindingCode::Tls,
            format!("the TLS handshake with `{url}` failed ({said})"),
            "does the server offer TLS 1.2 or 1.3 on this port, without client certificates?",
        ),
    };
    Finding::new(code, Severity::Fatal, text).with_hint(hint)
}

/// Whether a server said that it expects TLS at this port: nginx and Go do, with status 400.
fn wants_tls(url: &str, said: &str) -> bool {
    url.starts_with("http://") && said.to_ascii_lowercase().contains("https")
}

fn quota(failure: &Failure) -> Finding {
    let wait = match &failure.retry_after {
        Some(after) => format!(", retry after {after}"),
        None => String::new(),
    };
    let text = format!(
        "the server limits requests ({}{wait}): that is a policy, not its speed",
        failure.message
    );
    Finding::new(FindingCode::Quota, Severity::Fatal, text)
        .with_hint("raise the quota of this key, or measure the server behind the gateway")
}

/// What to do about a failed probe.
fn hint(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::UnexpectedStatus => {
            "is the base URL right, and its scheme? if it moved, give the URL that it points to"
        }
        FailureKind::NotFound => "is the base URL right, with its prefix?",
        FailureKind::NotAStream | FailureKind::InvalidEvent | FailureKind::Oversized => {
            "does a gateway or another service answer in the server's place? check the base URL"
        }
        FailureKind::BadRequest => {
            "the server refuses what every run sends: try `--api chat` or `--api completions`, and take \
             fields that it does not know out of the extra body"
        }
        FailureKind::Unavailable => {
            "it is busy or still loading: `--ready-timeout 5m` waits for it"
        }
        FailureKind::ServerError => {
            "the server or its gateway is at fault: look at its log, and at that of the gateway's upstream"
        }
        FailureKind::Reset | FailureKind::StaleConnection | FailureKind::Truncated => {
            "the server or a proxy broke the connection off: has the process died? does `http://` meet a \
             port that speaks TLS?"
        }
        FailureKind::Empty => {
            "it accepts requests and generates nothing: does the prompt fit its context? look at its log"
        }
        FailureKind::ErrorInStream | FailureKind::Incomplete => {
            "its engine fails while it generates: look at the server's log"
        }
        _ => "see the server's log; `--no-preflight` skips these checks",
    }
}
