//! The wire: bytes to stamped events.

mod answer;
pub mod base_url;
mod classify;
pub mod client;
mod connection;
mod connections;
mod error_body;
mod exchange;
pub mod failure;
mod failure_excerpt;
mod pool;
mod redact;
mod response_reader;
pub mod sse;
pub mod timeline;
mod timeouts;
mod tls;
mod token_counter;

pub(crate) use error_body::{Page, is_page};
pub(crate) use redact::Redactor;

pub use base_url::BaseUrl;
pub use client::{Client, ClientSettings};
pub use exchange::{Exchange, TokenSource};
pub use failure::{Failure, FailureKind};
pub use timeline::{TokenEvent, TokenTimeline};

/// How the client names itself to servers.
const USER_AGENT_NAME: &str = concat!("inferometer/", env!("CARGO_PKG_VERSION"));
