//! The wake-up invariant under stress: no answer hangs, and none loses a byte.
//!
//! A connection's task notes wake-ups while it works and is woken by them while it waits
//! ([`super::connection`]). What could lose one is tried here, over both schemes, on one thread and on
//! several: bodies in many small pieces, readers slower than the server, reads given up half-way,
//! readers that hand their connection to another task, and sockets that become readable just as the
//! task, having found nothing, is about to wait.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::connection::Connection;
use super::tls::Tls;
use super::{BaseUrl, ClientSettings};
use crate::rng::Seed;

/// Far beyond what all of it takes on a busy machine: only a lost wake-up lasts as long.
const PATIENCE: Duration = Duration::from_secs(120);
const CONNECTIONS_EACH: u64 = 4;
const REQUESTS: u64 = 12;
const MOST_PIECES: u64 = 80;
const MOST_PIECE_BYTES: u64 = 40;
/// Chunks that one task reads before it hands its connection over.
const HELD_CHUNKS: u64 = 5;

#[derive(Debug, Clone, Copy)]
enum Reader {
    Eager,
    /// Lets the server get ahead.
    Slow,
    /// Gives most reads up and reads again.
    Fickle,
    /// Goes on in another task every few chunks.
    Moving,
}

#[derive(Debug, Clone, Copy)]
enum Scheme {
    Http,
    #[cfg(feature = "tls")]
    Https,
}

#[tokio::test]
async fn on_one_thread_over_http() {
    stress(Scheme::Http).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_several_threads_over_http() {
    stress(Scheme::Http).await;
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn on_one_thread_over_https() {
    stress(Scheme::Https).await;
}

#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_several_threads_over_https() {
    stress(Scheme::Https).await;
}

async fn stress(scheme: Scheme) {
    let settings = serve(scheme).await;
    let mut readers = JoinSet::new();
    for reader in [Reader::Eager, Reader::Slow, Reader::Fickle, Reader::Moving] {
        for number in 0..CONNECTIONS_EACH {
            let seed = Seed(number).named(&format!("{reader:?}"));
            readers.spawn(read_all(settings.clone(), reader, seed));
        }
    }
    let all = async {
        while let Some(read) = readers.join_next().await {
            read.unwrap()
        }
    };
    tokio::time::timeout(PATIENCE, all).await.expect("an answer hangs: a wake-up was lost");
}

/// Asks again and again over one connection, and checks every byte.
async fn read_all(settings: ClientSettings, reader: Reader, seed: Seed) {
    let mut connection = connect(&settings, seed).await;
    for number in 0..REQUESTS {
        let length = seed.nth(number).0 % (MOST_PIECES * MOST_PIECE_BYTES / 2);
        let request = Request::post(format!("/{length}")).header("host", "h");
        let request = request.body(Full::new(Bytes::new())).unwrap();
        let Ok(response) = connection.send(request).await else { panic!("{reader:?}: not sent") };
        let mut answer = Answer { connection, body: response.into_body(), read: Vec::new() };
        loop {
            let is_whole;
            (answer, is_whole) = match reader {
                Reader::Moving => tokio::spawn(answer.some(reader, seed)).await.unwrap(),
                _ => answer.some(reader, seed).await,
            };
            if is_whole {
                break;
            }
        }
        let whole: Vec<u8> = content().take(usize::try_from(length).unwrap()).collect();
        assert!(answer.read == whole, "{reader:?}: {} of {length} bytes", answer.read.len());
        connection = answer.connection;
        assert!(connection.is_free(), "{reader:?}: an answer read to its end frees its connection");
    }
}

async fn connect(settings: &ClientSettings, seed: Seed) -> Connection {
    let url = &settings.base_url;
    let socket = TcpStream::connect((url.host(), url.port())).await.unwrap();
    socket.set_nodelay(true).unwrap();
    if !url.is_tls() {
        return Connection::open(Restless { inner: socket, polls: 0, seed }).await.unwrap();
    }
    let session = Tls::new(settings).unwrap().session(url.host()).unwrap();
    let inner = session.handshake(socket).await.unwrap();
    Connection::open(Restless { inner, polls: 0, seed }).await.unwrap()
}

/// A socket of which many reads find nothing and are woken at once: while the task that read is still
/// at work, or from another task.
struct Restless<S> {
    inner: S,
    polls: u64,
    seed: Seed,
}

impl<S: AsyncRead + Unpin> AsyncRead for Restless<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.polls += 1;
        match self.seed.nth(self.polls).0 % 4 {
            0 => cx.waker().wake_by_ref(),
            1 => {
                let waker = cx.waker().clone();
                tokio::spawn(async move { waker.wake() });
            }
            _ => return Pin::new(&mut self.inner).poll_read(cx, into),
        }
        Poll::Pending
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Restless<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// An answer being read.
struct Answer {
    connection: Connection,
    body: Incoming,
    read: Vec<u8>,
}

impl Answer {
    /// Reads some chunks. Whether the end came.
    async fn some(mut self, reader: Reader, seed: Seed) -> (Self, bool) {
        for _ in 0..HELD_CHUNKS {
            let dice = seed.nth(self.read.len() as u64).0;
            match reader {
                Reader::Slow if dice.is_multiple_of(8) => {
                    tokio::time::sleep(Duration::from_millis(1)).await
                }
                Reader::Slow => tokio::task::yield_now().await,
                Reader::Eager | Reader::Fickle | Reader::Moving => {}
            }
            let chunk = match reader {
                Reader::Fickle => self.given_up_at_first(dice % 4).await,
                _ => self.connection.chunk(&mut self.body).await,
            };
            match chunk.unwrap() {
                Some(chunk) => self.read.extend_from_slice(&chunk),
                None => return (self, true),
            }
        }
        (self, false)
    }

    /// Begins to read this often in vain, then reads.
    async fn given_up_at_first(&mut self, times: u64) -> hyper::Result<Option<Bytes>> {
        for turn in 0..times {
            let patience = Duration::from_micros(turn * 700);
            let read = self.connection.chunk(&mut self.body);
            if let Ok(chunk) = tokio::time::timeout(patience, read).await {
                return chunk;
            }
        }
        self.connection.chunk(&mut self.body).await
    }
}

fn content() -> impl Iterator<Item = u8> {
    (0..251).cycle()
}

/// A server that answers `POST /LENGTH` with this many bytes in small pieces.
async fn serve(scheme: Scheme) -> ClientSettings {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let name = match scheme {
        Scheme::Http => "http",
        #[cfg(feature = "tls")]
        Scheme::Https => "https",
    };
    let base_url = BaseUrl::parse(&format!("{name}://{address}")).unwrap();
    tokio::spawn(async move {
        let mut number = 0;
        while let Ok((socket, _)) = listener.accept().await {
            socket.set_nodelay(true).unwrap();
            number += 1;
            let seed = Seed(number);
            match scheme {
                Scheme::Http => drop(tokio::spawn(answer_all(socket, seed))),
                #[cfg(feature = "tls")]
                Scheme::Https => drop(tokio::spawn(async move {
                    answer_all(secure::acceptor().accept(socket).await?, seed).await
                })),
            }
        }
    });
    #[cfg(feature = "tls")]
    let ca_cert_pem = Some(secure::CERTIFICATE.to_vec());
    #[cfg(not(feature = "tls"))]
    let ca_cert_pem = None;
    ClientSettings { ca_cert_pem, ..ClientSettings::new(base_url) }
}

async fn answer_all(mut socket: impl AsyncRead + AsyncWrite + Unpin, seed: Seed) -> io::Result<()> {
    let mut pieces = 0;
    while let Some(length) = asked(&mut socket).await? {
        let mut out = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
        let mut bytes = content();
        let mut left = length;
        while left > 0 {
            pieces += 1;
            let dice = seed.nth(pieces).0;
            let piece = (1 + dice % MOST_PIECE_BYTES).min(left);
            left -= piece;
            out.extend_from_slice(format!("{piece:x}\r\n").as_bytes());
            out.extend(bytes.by_ref().take(usize::try_from(piece).unwrap()));
            out.extend_from_slice(b"\r\n");
            match (dice >> 32) % 16 {
                // Several pieces go out together.
                0..4 => continue,
                4 => tokio::time::sleep(Duration::from_millis(1)).await,
                5..9 => tokio::task::yield_now().await,
                _ => {}
            }
            // Half of the bytes first: a piece comes in two reads.
            let half = out.len() / (1 + usize::from(dice.is_multiple_of(3)));
            socket.write_all(&out[..half]).await?;
            socket.flush().await?;
            out.drain(..half);
        }
        out.extend_from_slice(b"0\r\n\r\n");
        socket.write_all(&out).await?;
        socket.flush().await?;
    }
    Ok(())
}

/// The length that the next request asks for; `None` at the end of the connection.
async fn asked(socket: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<u64>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if socket.read_buf(&mut head).await? == 0 {
            return Ok(None);
        }
    }
    let head = String::from_utf8_lossy(&head);
    let path = head.split(' ').nth(1).unwrap();
    Ok(path.trim_start_matches('/').parse().ok())
}

#[cfg(feature = "tls")]
mod secure {
    use std::sync::Arc;

    use rustls::ServerConfig;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio_rustls::TlsAcceptor;

    pub(super) const CERTIFICATE: &[u8] = include_bytes!("../selftest/loopback-cert.pem");
    const KEY: &[u8] = include_bytes!("../selftest/loopback-key.pem");

    pub(super) fn acceptor() -> TlsAcceptor {
        let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
        let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}
