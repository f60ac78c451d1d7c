//! A TLS session of the reference server: one connection's encryption, apart from its socket.
//!
//! Two threads take turns at a connection, the reading and the writing one. The session goes from one
//! to the other with it, which an encrypted stream that owns its socket could not.

use std::io::{self, ErrorKind as IoKind, Read, Write};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};
use tokio::net::TcpStream;

use super::loopback::CERTIFICATE;
use crate::error::{Error, ErrorKind, Result};

const KEY: &[u8] = include_bytes!("loopback-key.pem");
/// Decrypted bytes taken at once.
const READ_BYTES: usize = 4096;

/// Begins sessions.
#[derive(Debug, Clone)]
pub(super) struct TlsSessions(Arc<ServerConfig>);

impl TlsSessions {
    pub(super) fn new() -> Result<Self> {
        let config =
            || -> std::result::Result<ServerConfig, Box<dyn std::error::Error + Send + Sync>> {
                let certificate = CertificateDer::from_pem_slice(CERTIFICATE)?;
                let key = PrivateKeyDer::from_pem_slice(KEY)?;
                let provider = Arc::new(rustls::crypto::ring::default_provider());
                Ok(ServerConfig::builder_with_provider(provider)
                    .with_safe_default_protocol_versions()?
                    .with_no_client_auth()
                    .with_single_cert(vec![certificate], key)?)
            };
        let config = config().map_err(|e| {
            Error::new(ErrorKind::Client, "the reference server's TLS could not be set up")
                .with_cause(e)
        })?;
        Ok(Self(Arc::new(config)))
    }

    /// A session for a new connection. `None` where it cannot begin.
    pub(super) fn begin(&self) -> Option<TlsSession> {
        let connection = ServerConnection::new(Arc::clone(&self.0)).ok()?;
        Some(TlsSession(Box::new(connection)))
    }
}

/// The encryption of one connection.
#[derive(Debug)]
pub(super) struct TlsSession(Box<ServerConnection>);

impl TlsSession {
    /// Reads what the client sent next, the handshake included; 0 bytes at its end.
    pub(super) async fn read(
        &mut self,
        socket: &TcpStream,
        into: &mut Vec<u8>,
    ) -> io::Result<usize> {
        let mut plain = [0; READ_BYTES];
        loop {
            self.flush(socket).await?;
            match self.0.reader().read(&mut plain) {
                Ok(length) => {
                    into.extend_from_slice(&plain[..length]);
                    return Ok(length);
                }
                Err(error) if error.kind() == IoKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            socket.readable().await?;
            match self.0.read_tls(&mut Ready(socket)) {
                Ok(0) => return Ok(0),
                Ok(_) => {
                    self.0.process_new_packets().map_err(io::Error::other)?;
                }
                Err(error) if error.kind() == IoKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Encrypts bytes in their place.
    pub(super) fn seal(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        self.0.writer().write_all(bytes)?;
        bytes.clear();
        while self.0.wants_write() {
            self.0.write_tls(bytes)?;
        }
        Ok(())
    }

    async fn flush(&mut self, socket: &TcpStream) -> io::Result<()> {
        while self.0.wants_write() {
            match self.0.write_tls(&mut Ready(socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == IoKind::WouldBlock => socket.writable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A socket as far as it is ready: what would wait is `WouldBlock`.
struct Ready<'a>(&'a TcpStream);

impl Read for Ready<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(into)
    }
}

impl Write for Ready<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
