//! The wire: bytes to stamped events.

mod answer;
mod classify;
pub mod client;
mod connections;
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
mod tls;
pub mod url;

pub(crate) use evidence::Redactor;

pub use client::{Client, ClientSettings, Endpoint, Reply};
pub use exchange::{Exchange, TokenSource};
pub use failure::{Failure, FailureKind};
pub use timeline::{TokenEvent, TokenTimeline};
pub use url::BaseUrl;

/// How the client names itself to servers.
const USER_AGENT_NAME: &str = concat!("inferometer/", env!("CARGO_PKG_VERSION"));
