//! The one public error: what failed, why, and how to fix it.

use std::fmt;

/// What an [`Error`] is about. Exit codes are derived from it in `compare/exit.rs` alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A flag, argument or environment variable is wrong.
    Usage,
    /// A scenario, in code or in a file, is wrong.
    Scenario,
    /// A named baseline or run does not exist.
    NotFound,
    /// The server will not serve this run: found in preflight, or a key refused in mid-run.
    Preflight,
    /// The server could not be launched, got lost, or could not be stopped.
    Server,
    /// The client's own machine refused (descriptors, ports, threads).
    Client,
    /// A file could not be read, written or understood.
    Store,
    /// The user asked to stop.
    Interrupted,
}

/// An error for the operator. A request that fails is not an `Error`: it is data.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A new error. `message` is lower case, without a final period, literals in backticks.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), hint: None, cause: None }))
    }

    /// A wrong flag, argument or environment variable.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    /// A wrong scenario.
    pub fn scenario(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Scenario, message)
    }

    /// A file that could not be read, written or understood.
    pub fn store(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Store, message)
    }

    /// A server that could not be launched, reached or stopped.
    pub fn server(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Server, message)
    }

    /// Adds how to fix it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Keeps what lies below.
    #[must_use]
    pub fn with_cause(
        mut self,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.cause = Some(cause.into());
        self
    }

    /// What this error is about.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// How to fix it, where that is known.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The text for a terminal: the message, each cause on a line of its own, then the hint.
    pub fn render(&self) -> String {
        let mut text = format!("error: {}", self.0.message);
        let mut cause = std::error::Error::source(self);
        // A chain longer than this is a loop or noise.
        for _ in 0..8 {
            let Some(error) = cause else { break };
            text.push_str(&format!("\n  because: {error}"));
            cause = error.source();
        }
        if let Some(hint) = &self.0.hint {
            text.push_str(&format!("\n  hint: {hint}"));
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.cause.as_ref().map(|c| &**c as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn render_puts_cause_and_hint_on_lines_of_their_own() {
        let error = Error::usage("unknown metric `ttf`")
            .with_cause(Error::store("inner"))
            .with_hint("known metrics: `ttft`");
        assert_eq!(
            error.render(),
            "error: unknown metric `ttf`\n  because: inner\n  hint: known metrics: `ttft`"
        );
    }
}
