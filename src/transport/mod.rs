//! The wire: bytes to stamped events.

pub mod client;
pub mod failure;
pub mod sse;
pub mod timeline;

pub use client::{Client, Exchange};
pub use failure::{Failure, FailureKind};
pub use timeline::{TokenEvent, TokenTimeline};
