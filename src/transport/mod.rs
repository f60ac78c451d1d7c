//! The wire: bytes to stamped events.

mod classify;
pub mod client;
mod connections;
mod evidence;
mod exchange;
pub mod failure;
mod limits;
mod reading;
pub mod sse;
mod tally;
pub mod timeline;
mod tls;
pub mod url;

pub use client::{Client, ClientSettings, Endpoint, Reply};
pub use exchange::{Exchange, TokenSource};
pub use failure::{Failure, FailureKind};
pub use timeline::{TokenEvent, TokenTimeline};
pub use url::BaseUrl;
