//! A line: one HTTP/1.1 connection, driven by the very task that waits for its answer.
//!
//! reqwest, and hyper's pooled client below it, drive every connection on a task of its own and hand
//! each chunk over to the waiting one: two wake-ups an event, and the stamp is taken only at the
//! second. Here the task that is woken by the socket reads, stamps and decodes in one turn, which
//! halves the client's CPU at small events. reqwest still carries the plain requests.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

type Driving = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// A connection that stands. Dropped, it closes.
pub(super) struct Line {
    sender: SendRequest<Full<Bytes>>,
    /// None once it has ended.
    driving: Option<Driving>,
    /// Answers that it has carried.
    answers: u64,
}

/// A request that got no answer.
pub(super) struct Unsent {
    pub(super) error: hyper::Error,
    /// The request, where not a byte of it was written: another line may carry it.
    pub(super) request: Option<Request<Full<Bytes>>>,
}

impl Line {
    /// Begins to speak HTTP/1.1 over a socket. Nothing is sent.
    pub(super) async fn open(
        socket: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> hyper::Result<Self> {
        let (sender, connection) = http1::handshake(TokioIo::new(socket)).await?;
        let mut line = Self { sender, driving: Some(Box::pin(connection)), answers: 0 };
        // hyper takes a request only after its first turn.
        line.drive(&mut Context::from_waker(Waker::noop()));
        Ok(line)
    }

    /// Answers that it carried before the one at hand.
    pub(super) fn answers(&self) -> u64 {
        self.answers
    }

    /// Whether it may carry another request: the last answer was read to its end, and the server has
    /// not closed it as far as is known.
    pub(super) fn is_free(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.driving.is_some() && self.sender.is_ready()
    }

    /// Sends a request and waits for the head of its answer. In the first turn its bytes go to the
    /// socket.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Unsent> {
        let mut sending = pin!(self.sender.try_send_request(request));
        let answer = poll_fn(|cx| {
            drive(&mut self.driving, cx);
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
            self.drive(cx);
            loop {
                return match Pin::new(&mut *body).poll_frame(cx) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(None) => Poll::Ready(Ok(None)),
                    Poll::Ready(Some(Err(error))) => Poll::Ready(Err(error)),
                    Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                        Ok(data) => Poll::Ready(Ok(Some(data))),
                        Err(_) => continue,
                    },
                };
            }
        })
        .await
    }

    fn drive(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.driving, cx);
    }
}

/// One turn of the connection. Its own error reaches the answer or the body, which say it better.
fn drive(driving: &mut Option<Driving>, cx: &mut Context<'_>) {
    if let Some(connection) = driving
        && connection.as_mut().poll(cx).is_ready()
    {
        *driving = None;
    }
}
