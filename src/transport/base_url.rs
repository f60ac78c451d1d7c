//! A base URL: where the API root lies, however the user wrote it.

use http::uri::PathAndQuery;

use crate::error::{Error, Result};

/// The base of a server's URLs. `http://h`, `http://h/`, `http://h/v1` and
/// `http://h/v1/completions` are the same base; a prefix (`http://h/api`) is kept; `/v1` is never
/// doubled, and another version (`http://h/api/v4`) stays the user's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl {
    /// Without version and trailing slash.
    root: String,
    /// The root with its version: what API paths are joined to.
    api: String,
    /// Without the brackets of an IPv6 address.
    host: String,
    port: u16,
    /// Length of scheme, host and port in `root`.
    origin_bytes: usize,
}

impl BaseUrl {
    /// Reads a base URL.
    ///
    /// # Errors
    /// A missing or unknown scheme, no host, a query or fragment, a path that HTTP cannot carry, or a
    /// user name (keys belong into headers, where they are redacted). The text is not repeated where it
    /// may hold a password.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        if !text.contains("://") {
            // `user:password@host` and `host?key=…` have no scheme either.
            return Err(if text.starts_with(['/', '.']) {
                Error::usage(
                    "a path is no URL: a server on a unix socket is not measured, only TCP is",
                )
                .with_hint("have the server listen on a port, and give `http://127.0.0.1:PORT`")
            } else if text.contains(['@', '?']) {
                Error::usage("the server's URL has no scheme").with_hint("write `http://…`")
            } else {
                Error::usage(format!("the URL `{text}` has no scheme"))
                    .with_hint(format!("write `http://{text}`"))
            });
        }
        let url = reqwest::Url::parse(text)
            .map_err(|e| Error::usage("the server's URL cannot be read").with_cause(e))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Error::usage("the server's URL holds a user name or password")
                .with_hint("give it as a header instead: `--header 'Authorization: Basic …'`"));
        }
        if url.scheme() == "unix" {
            return Err(Error::usage("a unix socket is not measured: only TCP is")
                .with_hint("have the server listen on a port, and give `http://127.0.0.1:PORT`"));
        }
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Error::usage(format!("the scheme `{}` is not HTTP", url.scheme()))
                .with_hint("use `http://` or `https://`"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            let base = text.split(['?', '#']).next().unwrap_or_default();
            return Err(Error::usage(format!("the URL `{base}…` has a query or fragment"))
                .with_hint(
                    "give the base URL alone: query parameters (`api-version`) are not sent; Azure's base \
                     without them ends in `/openai/v1`; a key goes into a header: `--api-key-env NAME`",
                ));
        }
        let origin = url.origin().ascii_serialization();
        let path = strip_endpoint(url.path().trim_end_matches('/'));
        let (prefix, version) = match path.rsplit_once('/') {
            Some((prefix, last)) if is_version(last) => (prefix.trim_end_matches('/'), last),
            _ => (path, "v1"),
        };
        let root = format!("{origin}{prefix}");
        let api = format!("{root}/{version}");
        let no_host = || Error::usage("the server's URL has no host");
        let host = url.host_str().ok_or_else(no_host)?;
        let base = Self {
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: url.port_or_known_default().ok_or_else(no_host)?,
            origin_bytes: origin.len(),
            root,
            api,
        };
        base.target("").map_err(|e| {
            Error::usage("HTTP cannot carry the path of the server's URL").with_cause(e)
        })?;
        Ok(base)
    }

    /// The name or address to connect to.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// The port to connect to.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Host and port as the header `Host` has them: a scheme's default port is left out.
    pub(super) fn authority(&self) -> &str {
        let origin = &self.root[..self.origin_bytes];
        origin.split_once("://").map_or(origin, |(_, authority)| authority)
    }

    /// What the request line of a path below the API root names: `/v1/completions`.
    ///
    /// # Errors
    /// A path that HTTP cannot carry.
    pub(super) fn target(&self, path: &str) -> Result<PathAndQuery, http::uri::InvalidUri> {
        self.api(path)[self.origin_bytes..].parse()
    }

    /// The root: no version, no trailing slash.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The URL of a path below the API root: `api("models")` is `http://h/v1/models`.
    #[must_use]
    pub fn api(&self, path: &str) -> String {
        format!("{}/{}", self.api, path.trim_start_matches('/'))
    }

    /// The URL of a path below the root: `below("/metrics")` is `http://h/metrics`.
    #[must_use]
    pub fn below(&self, path: &str) -> String {
        format!("{}/{}", self.root, path.trim_start_matches('/'))
    }

    /// Whether it is `https`.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.root.starts_with("https:")
    }
}

/// A user may paste the whole endpoint.
fn strip_endpoint(path: &str) -> &str {
    ["/chat/completions", "/completions", "/models"]
        .iter()
        .find_map(|end| path.strip_suffix(end))
        .unwrap_or(path)
        .trim_end_matches('/')
}

/// `v1`, `v4`, …
fn is_version(segment: &str) -> bool {
    segment
        .strip_prefix('v')
        .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, root: &str, models: &str) {
        let url = BaseUrl::parse(text).unwrap();
        assert_eq!((url.root(), url.api("models").as_str()), (root, models), "{text}");
    }

    #[test]
    fn every_spelling_of_a_base() {
        for text in [
            "http://h",
            "http://h/",
            "http://h/v1",
            "http://h/v1/",
            " http://h//v1// ",
            "http://h:80",
            "http://h/v1/chat/completions",
            "http://h/v1/completions",
            "HTTP://H/v1/models",
        ] {
            check(text, "http://h", "http://h/v1/models");
        }
    }

    #[test]
    fn prefixes_and_versions_stay() {
        check("http://h/api", "http://h/api", "http://h/api/v1/models");
        check("http://h/api/v1/", "http://h/api", "http://h/api/v1/models");
        check("https://h:8443/a/b", "https://h:8443/a/b", "https://h:8443/a/b/v1/models");
        check("http://h/paas/v4", "http://h/paas", "http://h/paas/v4/models");
        check("http://h/vllm", "http://h/vllm", "http://h/vllm/v1/models");
    }

    #[test]
    fn ipv6_literals() {
        check("http://[::1]:8000/v1", "http://[::1]:8000", "http://[::1]:8000/v1/models");
    }

    #[test]
    fn a_path_joins_with_and_without_its_slash() {
        let url = BaseUrl::parse("http://h/api").unwrap();
        assert_eq!(url.below("/metrics"), "http://h/api/metrics");
        assert_eq!(url.below("metrics"), "http://h/api/metrics");
        assert_eq!(url.api("/completions"), "http://h/api/v1/completions");
    }

    #[test]
    fn what_a_connection_needs_is_read_once() {
        for (text, host, port, authority) in [
            ("http://h", "h", 80, "h"),
            ("https://h/api", "h", 443, "h"),
            ("https://h:8443", "h", 8443, "h:8443"),
            ("http://[::1]:8000/v1", "::1", 8000, "[::1]:8000"),
        ] {
            let url = BaseUrl::parse(text).unwrap();
            assert_eq!((url.host(), url.port(), url.authority()), (host, port, authority));
        }
    }

    #[test]
    fn a_target_is_the_whole_path_or_an_error_and_never_the_root() {
        let url = BaseUrl::parse("https://h:8443/a b").unwrap();
        assert_eq!(url.target("chat/completions").unwrap(), "/a%20b/v1/chat/completions");
        assert_eq!(url.target("/x?y=1").unwrap(), "/a%20b/v1/x?y=1");
        assert!(url.target("a b").is_err());
        let long = format!("http://h/{}", "a".repeat(70_000));
        let error = BaseUrl::parse(&long).unwrap_err().render();
        assert!(error.contains("HTTP cannot carry the path"), "{error}");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("localhost:8000", "no scheme"),
            ("", "no scheme"),
            ("ftp://h", "not HTTP"),
            ("http://", "cannot be read"),
            ("http://h:99999", "cannot be read"),
            ("user:hunter2@h:8000", "no scheme"),
            ("h:8000?key=hunter2", "no scheme"),
            ("http://h/v1?key=hunter2", "`http://h/v1…` has a query"),
            ("http://h/#a", "query or fragment"),
        ] {
            let error = BaseUrl::parse(text).unwrap_err().render();
            assert!(error.contains(part) && !error.contains("hunter2"), "{text}: {error}");
        }
        let error = BaseUrl::parse("http://user:hunter2@h").unwrap_err().render();
        assert!(error.contains("user name") && !error.contains("hunter2"), "{error}");
    }
}
