//! TLS in a build without it: `https` is refused.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::io;

use tokio::net::TcpStream;

use super::{ClientSettings, FailureKind};
use crate::error::{Error, Result};

/// Nothing.
#[derive(Clone)]
pub(super) struct Tls;

impl Tls {
    pub(super) fn new(settings: &ClientSettings) -> Result<Self> {
        if settings.base_url.is_tls() { Err(no_tls()) } else { Ok(Self) }
    }

    pub(super) fn configure(&self, builder: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
        builder
    }

    pub(super) fn session(&self, _: &str) -> Result<Session> {
        Err(no_tls())
    }
}

/// There is none.
pub(super) struct Session(Infallible);

impl Session {
    pub(super) async fn handshake(&self, _: TcpStream) -> io::Result<TcpStream> {
        match self.0 {}
    }
}

fn no_tls() -> Error {
    Error::usage("this build has no TLS, and the server's URL is `https://`")
        .with_hint("build with the feature `tls`, which is on by default")
}

pub(super) fn failure_kind(_: &(dyn StdError + 'static)) -> Option<FailureKind> {
    None
}
