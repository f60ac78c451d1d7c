//! The wire: bytes to stamped events.

mod answer;
mod classify;
pub mod client;
#[cfg(test)]
mod connection_stress;
mod connector;
mod evidence;
mod exchange;
pub mod failure;
mod limits;
mod line;
mod lines;
pub(crate) mod page;
mod reading;
mod refusal;
pub mod sse;
mod tally;
pub mod timeline;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
#[cfg(feature = "tls")]
mod unverified;
pub mod url;

pub(crate) use evidence::Redactor;

pub use client::{Client, ClientSettings, Endpoint, Reply};
pub use failure::{Failure, FailureKind};
pub use timeline::{Exchange, TokenEvent, TokenSource, TokenTimeline};
pub use url::BaseUrl;

/// How the client names itself to servers.
const USER_AGENT_NAME: &str = concat!("inferometer/", env!("CARGO_PKG_VERSION"));
