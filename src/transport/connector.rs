//! A connector: from a host to a connection that stands, through name, TCP and TLS.
//!
//! A name may have addresses of which some lead nowhere (an IPv6 address without a route, most often):
//! the next one is tried while the first is still silent, and the first connection wins (RFC 8305).

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::ClientSettings;
use super::connection::{Connection, ConnectionError};
use super::tls::{self, Tls};
use crate::error::Result;

/// How long an address may be silent before the next one is tried too: RFC 8305's recommendation.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Connects to one server, over TLS where its URL is `https`.
pub(super) struct Connector {
    host: String,
    port: u16,
    tls: Option<tls::Session>,
    limit: Duration,
}

impl Connector {
    /// A connector to the settings' server.
    ///
    /// # Errors
    /// `https` to a host that no certificate can name.
    pub(super) fn new(settings: &ClientSettings, tls: &Tls) -> Result<Self> {
        let url = &settings.base_url;
        Ok(Self {
            host: url.host().to_owned(),
            port: url.port(),
            tls: if url.is_tls() { Some(tls.session(url.host())?) } else { None },
            limit: settings.timeouts.connect,
        })
    }

    /// A new connection, its TLS handshake done.
    pub(super) async fn connect(&self) -> Result<Connection, ConnectionError> {
        match tokio::time::timeout(self.limit, Box::pin(self.connect_at_leisure())).await {
            Ok(connection) => connection,
            Err(_) => Err(ConnectionError::ConnectTimeout(self.limit)),
        }
    }

    async fn connect_at_leisure(&self) -> Result<Connection, ConnectionError> {
        let addresses = tokio::net::lookup_host((self.host.as_str(), self.port))
            .await
            .map_err(ConnectionError::Dns)?;
        let socket = first_connected(addresses.collect()).await.map_err(ConnectionError::Tcp)?;
        socket.set_nodelay(true).map_err(ConnectionError::Tcp)?;
        let connection = match &self.tls {
            None => Connection::open(socket).await,
            Some(tls) => {
                Connection::open(tls.handshake(socket).await.map_err(ConnectionError::Tls)?).await
            }
        };
        connection.map_err(|error| ConnectionError::Http { error, reused: false })
    }
}

/// A socket connected to the first address that answers. The others are given up.
///
/// # Errors
/// The last failure, where all fail.
async fn first_connected(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    if let [address] = addresses[..] {
        return TcpStream::connect(address).await;
    }
    let mut untried = alternating(addresses).into_iter();
    let mut attempts = JoinSet::new();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    loop {
        if let Some(address) = untried.next() {
            attempts.spawn(TcpStream::connect(address));
        }
        tokio::select! {
            attempt = attempts.join_next() => match attempt {
                Some(Ok(Ok(socket))) => return Ok(socket),
                Some(Ok(Err(error))) => last = error,
                Some(Err(error)) => last = io::Error::other(error),
                None => return Err(last),
            },
            () = tokio::time::sleep(ATTEMPT_DELAY), if untried.len() > 0 => {}
        }
    }
}

/// The addresses with IPv6 and IPv4 in turn, as far as both last; each family in the order given.
fn alternating(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv6() == first_is_v6);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut all = Vec::new();
    loop {
        let pair = (first.next(), second.next());
        if pair == (None, None) {
            return all;
        }
        all.extend(pair.0);
        all.extend(pair.1);
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    const LOOPBACK: &str = "127.0.0.1:0";
    /// Far beyond what a working connector needs, far below what a silent address takes.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// A listener whose queue is full: what connects to it hears nothing.
    async fn silent() -> (TcpListener, Vec<tokio::task::JoinHandle<io::Result<TcpStream>>>) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(LOOPBACK.parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let fill: Vec<_> = (0..8).map(|_| tokio::spawn(TcpStream::connect(address))).collect();
        // Two of them stand, the others wait for room that never comes.
        while fill.iter().filter(|attempt| attempt.is_finished()).count() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        (listener, fill)
    }

    /// An address where nobody listens.
    async fn closed() -> SocketAddr {
        TcpListener::bind(LOOPBACK).await.unwrap().local_addr().unwrap()
    }

    async fn peer_of(addresses: Vec<SocketAddr>) -> io::Result<SocketAddr> {
        let socket = tokio::time::timeout(PATIENCE, first_connected(addresses)).await;
        socket.expect("one silent address does not hold up the others")?.peer_addr()
    }

    #[tokio::test]
    async fn a_silent_address_gives_way_to_the_next() {
        let (silent, _fill) = silent().await;
        let good = TcpListener::bind(LOOPBACK).await.unwrap();
        let (silent, good) = (silent.local_addr().unwrap(), good.local_addr().unwrap());
        assert_eq!(peer_of(vec![silent, silent, good]).await.unwrap(), good);
    }

    #[tokio::test]
    async fn a_refused_address_gives_way_at_once() {
        let good = TcpListener::bind(LOOPBACK).await.unwrap();
        let good = good.local_addr().unwrap();
        assert_eq!(peer_of(vec![closed().await, good]).await.unwrap(), good);
        let error = peer_of(vec![closed().await, closed().await]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(peer_of(Vec::new()).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_families_alternate_from_the_resolvers_first() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let v6 = ["[::1]:1", "[::2]:1", "[::3]:1"].map(address);
        let v4 = ["127.0.0.1:1"].map(address);
        let given = vec![v6[0], v6[1], v6[2], v4[0]];
        assert_eq!(alternating(given), [v6[0], v4[0], v6[1], v6[2]]);
        assert_eq!(alternating(vec![v4[0], v6[0]]), [v4[0], v6[0]]);
    }
}
