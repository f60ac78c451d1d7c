//! The wire: bytes to stamped events.

mod answer;
pub mod base_url;
mod buffer_budget;
mod classify;
pub mod client;
mod client_settings;
mod connection;
#[cfg(test)]
mod connection_stress;
mod connector;
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
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod token_counter;
#[cfg(feature = "tls")]
mod unverified;

pub(crate) use error_body::{Page, is_page};
pub(crate) use redact::Redactor;

pub use base_url::BaseUrl;
pub use client::Client;
pub use client_settings::ClientSettings;
pub use failure::{Failure, FailureKind};
pub use timeline::{Exchange, TokenEvent, TokenSource, TokenTimeline};

/// How the client names itself to servers.
const USER_AGENT_NAME: &str = concat!("inferometer/", env!("CARGO_PKG_VERSION"));
