//! The connections of a client: which one carried a request, and when it came to stand.
//!
//! reqwest does not say whether a connection was reused, and counts connecting as part of the
//! request. A layer around its connector notes every new connection by its local address; the
//! answer (or the error) names the local address of the connection that carried it.

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::{Connection, HttpInfo};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use crate::clock::Clock;

/// Every connection made. One entry a local address; an address used anew replaces its entry, so
/// the number of local ports bounds it.
#[derive(Debug, Clone)]
pub(super) struct Connections {
    clock: Clock,
    by_local: Arc<Mutex<HashMap<SocketAddr, Entry>>>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    connected_ns: u64,
    answers: u64,
}

/// The connection that carried a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Carrier {
    /// When it stood (name, TCP and TLS done).
    pub(super) connected: Instant,
    /// Answers that it had carried before.
    pub(super) earlier_answers: u64,
}

impl Connections {
    pub(super) fn new() -> Self {
        Self { clock: Clock::start(), by_local: Arc::default() }
    }

    /// The carrier of the answer with these extensions; counts the answer.
    pub(super) fn answered(&self, extensions: &http::Extensions) -> Option<Carrier> {
        let local = extensions.get::<HttpInfo>()?.local_addr();
        let mut entries = self.entries();
        let entry = entries.get_mut(&local)?;
        let carrier = self.carrier(*entry);
        entry.answers += 1;
        Some(carrier)
    }

    /// The carrier of a request that got no answer, where the error names it.
    pub(super) fn failed(&self, error: &hyper_util::client::legacy::Error) -> Option<Carrier> {
        let mut extensions = http::Extensions::new();
        error.connect_info()?.get_extras(&mut extensions);
        let local = extensions.get::<HttpInfo>()?.local_addr();
        self.entries().get(&local).map(|entry| self.carrier(*entry))
    }

    fn carrier(&self, entry: Entry) -> Carrier {
        Carrier {
            connected: self.clock.instant(entry.connected_ns),
            earlier_answers: entry.answers,
        }
    }

    fn connected(&self, connection: &impl Connection) {
        let connected_ns = self.clock.now_ns();
        let mut extensions = http::Extensions::new();
        connection.connected().get_extras(&mut extensions);
        if let Some(info) = extensions.get::<HttpInfo>() {
            self.entries().insert(info.local_addr(), Entry { connected_ns, answers: 0 });
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<SocketAddr, Entry>> {
        self.by_local.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Layer<S> for Connections {
    type Service = Noting<S>;

    fn layer(&self, inner: S) -> Noting<S> {
        Noting { inner, connections: self.clone() }
    }
}

/// A connector that notes what it connects.
#[derive(Debug, Clone)]
pub(super) struct Noting<S> {
    inner: S,
    connections: Connections,
}

impl<S, R> Service<R> for Noting<S>
where
    S: Service<R>,
    S::Response: Connection,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, target: R) -> Self::Future {
        let connecting = self.inner.call(target);
        let connections = self.connections.clone();
        Box::pin(async move {
            let connection = connecting.await?;
            connections.connected(&connection);
            Ok(connection)
        })
    }
}
