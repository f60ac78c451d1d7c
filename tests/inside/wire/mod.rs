//! The wire: what the client says of servers that behave, and of those that do not.

// Tests may stop at the first surprise, and read their own files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

mod captures;
mod failures;
mod script;
#[cfg(feature = "tls")]
mod tls;
mod tokens;
mod transport;
