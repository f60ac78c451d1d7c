//! TLS sessions of the reference server in a build without TLS: there are none.

use std::convert::Infallible;
use std::io;

use tokio::net::TcpStream;

use crate::error::{Error, Result};

#[derive(Debug, Clone)]
pub(super) struct TlsSessions(Infallible);

impl TlsSessions {
    pub(super) fn new() -> Result<Self> {
        Err(Error::usage("this build has no TLS")
            .with_hint("build with the feature `tls`, which is on by default"))
    }

    pub(super) fn begin(&self) -> Option<TlsSession> {
        match self.0 {}
    }
}

#[derive(Debug)]
pub(super) struct TlsSession(Infallible);

impl TlsSession {
    pub(super) async fn read(&mut self, _: &TcpStream, _: &mut Vec<u8>) -> io::Result<usize> {
        match self.0 {}
    }

    pub(super) fn seal(&mut self, _: &mut Vec<u8>) -> io::Result<()> {
        match self.0 {}
    }
}
