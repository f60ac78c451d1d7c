//! Link: one connection as faults see it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::clock::Clock;

/// A connection's state, shared between its socket, its task and its responses.
#[derive(Debug)]
pub(crate) struct Link {
    clock: Clock,
    reset: AtomicBool,
    answered: AtomicU32,
    in_flight: AtomicU32,
    idle_since_ns: AtomicU64,
    close_after: Option<u32>,
    /// ConclusionInput when the connection shall be closed.
    pub(crate) close: Notify,
}

impl Link {
    pub(crate) fn new(clock: Clock, close_after: Option<u32>) -> Arc<Self> {
        Arc::new(Self {
            clock,
            reset: AtomicBool::new(false),
            answered: AtomicU32::new(0),
            in_flight: AtomicU32::new(0),
            idle_since_ns: AtomicU64::new(clock.now_ns()),
            close_after,
            close: Notify::new(),
        })
    }

    /// The next write, or the close, resets the connection instead.
    pub(crate) fn reset(&self) {
        self.reset.store(true, Ordering::Relaxed);
    }

    /// Whether a request was answered on it before.
    pub(crate) fn is_reused(&self) -> bool {
        self.answered.load(Ordering::Relaxed) > 0
    }

    fn is_reset(&self) -> bool {
        self.reset.load(Ordering::Relaxed)
    }

    /// How long no request has been under way; none before the first answer, since a keep-alive limit
    /// counts from an answer.
    pub(crate) fn idle_ns(&self) -> Option<u64> {
        let idle = self.in_flight.load(Ordering::Relaxed) == 0 && self.is_reused();
        let since = self.idle_since_ns.load(Ordering::Relaxed);
        idle.then(|| self.clock.now_ns().saturating_sub(since))
    }
}

/// A request under way on a link.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Link>);

impl Busy {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        link.in_flight.fetch_add(1, Ordering::Relaxed);
        Self(link)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let link = &self.0;
        link.idle_since_ns.store(link.clock.now_ns(), Ordering::Relaxed);
        link.in_flight.fetch_sub(1, Ordering::Relaxed);
        let answered = link.answered.fetch_add(1, Ordering::Relaxed) + 1;
        if link.close_after.is_some_and(|limit| answered >= limit) {
            link.close.notify_one();
        }
    }
}

/// The socket, which turns a wanted reset into a real one (RST, by a linger of zero).
#[derive(Debug)]
pub(crate) struct Tap {
    stream: TcpStream,
    link: Arc<Link>,
}

impl Tap {
    pub(crate) fn new(stream: TcpStream, link: Arc<Link>) -> Self {
        Self { stream, link }
    }

    fn check(&self) -> io::Result<()> {
        if self.link.is_reset() { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        if self.link.is_reset() {
            // Where it fails the connection ends by FIN, and the fault is a milder one.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Tap {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Tap {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A FIN before the RST would look like an orderly end.
        self.check()?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
