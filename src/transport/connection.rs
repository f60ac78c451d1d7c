//! A connection: HTTP/1.1 over one socket, driven by the very task that waits for its answer.
//!
//! reqwest, and hyper's pooled client below it, drive every connection on a task of its own and hand
//! each chunk over to the waiting one: two wake-ups an event, and the stamp is taken only at the
//! second. Here the task that is woken by the socket reads, stamps and decodes in one turn, which
//! halves the client's CPU at small events. It is the same over TLS: the turn that reads the socket also
//! decrypts. reqwest still carries the plain requests.
//!
//! The wake-up invariant: while the task works on the connection, a wake-up is noted, and while it
//! waits, a wake-up goes to the task; going to wait with one noted wakes the task at once. So none is
//! lost. `connection_stress.rs` tries to lose one.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

type Driving = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// An open connection. Dropped, it closes.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    drive: Drive,
    /// Answers that it has carried.
    answers: u64,
}

/// What drives a connection: its future, and the waker of its turns.
struct Drive {
    /// None once it has ended.
    connection: Option<Driving>,
    turn_waker: Arc<TurnWaker>,
    waker: Waker,
}

/// Wakes the waiting task, but not while that task is at work on the connection itself: hyper hands
/// every chunk over a channel whose two ends wake each other, which within one task only means one
/// idle turn more an event.
#[derive(Debug, Default)]
struct TurnWaker {
    /// One of the three below.
    state: AtomicU8,
    task: Mutex<Option<Waker>>,
}

/// The task waits: a wake-up goes to it.
const WAITING: u8 = 0;
/// The task is at work, and there was no wake-up.
const AT_WORK: u8 = 1;
/// The task is at work, and there was a wake-up.
const WOKEN: u8 = 2;

impl Wake for TurnWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let swapped =
            self.state.compare_exchange(AT_WORK, WOKEN, Ordering::AcqRel, Ordering::Acquire);
        if swapped == Err(WAITING) {
            self.wake_task();
        }
    }
}

impl TurnWaker {
    fn wake_task(&self) {
        if let Some(task) = &*self.task.lock().unwrap_or_else(PoisonError::into_inner) {
            task.wake_by_ref();
        }
    }

    /// The task begins its work: wake-ups are only noted.
    fn begin(&self, waker: &Waker) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *task {
            Some(known) if known.will_wake(waker) => {}
            other => *other = Some(waker.clone()),
        }
        drop(task);
        self.state.store(AT_WORK, Ordering::Release);
    }

    /// The task is going to wait. A wake-up since `begin` wakes it at once, so none is lost.
    fn wait(&self) {
        if self.state.swap(WAITING, Ordering::AcqRel) == WOKEN {
            self.wake_task();
        }
    }
}

impl Drive {
    fn new(connection: Driving) -> Self {
        let turn_waker = Arc::new(TurnWaker::default());
        let waker = Waker::from(Arc::clone(&turn_waker));
        Self { connection: Some(connection), turn_waker, waker }
    }

    /// One turn. Its own error reaches the answer or the body, which say it better.
    fn turn(&mut self, cx: &mut Context<'_>) {
        if let Some(connection) = &mut self.connection
            && connection.as_mut().poll(cx).is_ready()
        {
            self.connection = None;
        }
    }

    /// One turn for a task that looks at what came of it next, and calls [`TurnWaker::wait`] if it is
    /// nothing.
    fn turn_for(&mut self, task: &Waker) {
        self.turn_waker.begin(task);
        let waker = self.waker.clone();
        self.turn(&mut Context::from_waker(&waker));
    }
}

/// Why a connection could not carry a request.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionError {
    #[error("the name of the server did not resolve")]
    Dns(#[source] io::Error),
    #[error("no connection")]
    Tcp(#[source] io::Error),
    #[error("the TLS handshake failed")]
    Tls(#[source] io::Error),
    #[error("no connection within {} s", .0.as_secs_f64())]
    ConnectTimeout(Duration),
    #[error("the request failed")]
    Http {
        #[source]
        error: hyper::Error,
        /// Whether the connection had stood idle before, after an answer or opened ahead.
        reused: bool,
    },
}

impl ConnectionError {
    /// Whether there never was a connection.
    pub(super) fn is_connect(&self) -> bool {
        !matches!(self, Self::Http { .. })
    }
}

/// A request that got no answer.
pub(super) struct Unsent {
    pub(super) error: hyper::Error,
    /// The request, where not a byte of it was written: another connection may carry it.
    pub(super) request: Option<Request<Full<Bytes>>>,
}

impl Connection {
    /// Begins to speak HTTP/1.1 over a socket. Nothing is sent.
    pub(super) async fn open(
        socket: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> hyper::Result<Self> {
        let (sender, connection) = http1::handshake(TokioIo::new(socket)).await?;
        let mut connection = Self { sender, drive: Drive::new(Box::pin(connection)), answers: 0 };
        // hyper takes a request only after its first turn.
        connection.drive.turn(&mut Context::from_waker(Waker::noop()));
        Ok(connection)
    }

    /// Answers that it carried before the one at hand.
    pub(super) fn answers(&self) -> u64 {
        self.answers
    }

    /// Whether it may carry another request: the last answer was read to its end, and the server has
    /// not closed it as far as is known.
    pub(super) fn is_free(&mut self) -> bool {
        self.drive.turn(&mut Context::from_waker(Waker::noop()));
        self.drive.connection.is_some() && self.sender.is_ready()
    }

    /// Sends a request and waits for the head of its answer. In the first turn its bytes go to the
    /// socket.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Unsent> {
        let mut sending = pin!(self.sender.try_send_request(request));
        let answer = poll_fn(|cx| {
            self.drive.turn(cx);
            sending.as_mut().poll(cx)
        })
        .await;
        match answer {
            Ok(response) => {
                self.answers += 1;
                Ok(response)
            }
            Err(mut failed) => {
                let request = failed.take_message();
                Err(Unsent { error: failed.into_error(), request })
            }
        }
    }

    /// The next chunk of the answer's body; none at its end. Trailers are passed over.
    pub(super) async fn chunk(&mut self, body: &mut Incoming) -> hyper::Result<Option<Bytes>> {
        poll_fn(|cx| {
            self.drive.turn_for(cx.waker());
            // The body becomes ready in a turn of the connection only, and one has just been.
            let mut unheard = Context::from_waker(Waker::noop());
            while let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(&mut unheard) {
                match frame.transpose()?.map(Frame::into_data) {
                    None => return Poll::Ready(Ok(None)),
                    Some(Ok(data)) => return Poll::Ready(Ok(Some(data))),
                    // Trailers: what follows them needs another turn.
                    Some(Err(_)) => self.drive.turn_for(cx.waker()),
                }
            }
            self.drive.turn_waker.wait();
            Poll::Pending
        })
        .await
    }
}
