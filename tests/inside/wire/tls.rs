//! TLS: which authority is trusted, how each fault is named, and that the handshake is no part of the
//! first token's time.
//! The certificates are for 127.0.0.1 and protect nothing.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

use inferometer::api::chat::Chat;
use inferometer::clock::Clock;
use inferometer::transport::client::Endpoint;
use inferometer::transport::{BaseUrl, Client, ClientSettings, Exchange, FailureKind};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use super::script::*;

const CA: &[u8] = include_bytes!("certificates/ca.pem");
const OTHER_CA: &[u8] = include_bytes!("certificates/other-ca.pem");

const SERVER: &[u8] = include_bytes!("certificates/server.pem");

/// A TLS server with this certificate that answers every request with a stream of one token, an event
/// a write.
struct Server {
    url: BaseUrl,
    log: Arc<Mutex<Log>>,
}

#[derive(Debug, Default)]
struct Log {
    connections: usize,
    requests: usize,
    /// Connections when the first request came.
    ahead: Option<usize>,
}

impl Server {
    fn start(certificate: &[u8]) -> Self {
        let chain = CertificateDer::from_pem_slice(certificate).unwrap();
        let key = include_bytes!("certificates/server-key.pem");
        let key = PrivateKeyDer::from_pem_slice(key).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![chain], key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let log = Arc::new(Mutex::new(Log::default()));
        let shared = log.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let connection = ServerConnection::new(config.clone()).unwrap();
                let stream = StreamOwned::new(connection, socket.unwrap());
                let log = shared.clone();
                log.lock().unwrap().connections += 1;
                // None is how a client leaves.
                std::thread::spawn(move || answer_all(stream, &log));
            }
        });
        Self { url: BaseUrl::parse(&url).unwrap(), log }
    }

    fn settings(&self, ca: &[u8]) -> ClientSettings {
        ClientSettings { ca_cert_pem: Some(ca.to_vec()), ..ClientSettings::new(self.url.clone()) }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap()
    }
}

fn answer_all(
    mut stream: StreamOwned<ServerConnection, TcpStream>,
    log: &Mutex<Log>,
) -> std::io::Result<()> {
    stream.sock.set_nodelay(true)?;
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        request.extend_from_slice(&buffer[..read]);
        // The body of every request here.
        if !request.ends_with(b"\r\n\r\n{}") {
            continue;
        }
        request.clear();
        {
            let mut log = log.lock().unwrap();
            log.requests += 1;
            log.ahead = log.ahead.or(Some(log.connections));
        }
        stream.write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
              transfer-encoding: chunked\r\n\r\n",
        )?;
        for data in [ROLE, TEXT, FINISH, DONE] {
            let event = format!("data: {data}\n\n");
            write!(stream, "{:x}\r\n{event}\r\n", event.len())?;
            stream.flush()?;
        }
        stream.write_all(b"0\r\n\r\n")?;
    }
}

async fn ask(client: &Client) -> Exchange {
    client.exchange(Clock::start(), &Chat, "{}".into(), None).await
}

/// The kind of the failure of one request with a fresh client; its message has this word.
async fn fault(settings: ClientSettings, word: &str) -> FailureKind {
    let exchange = ask(&Client::new(settings).unwrap()).await;
    let failure = exchange.failure.unwrap();
    assert!(failure.message.contains(word), "{}", failure.message);
    failure.kind
}

#[tokio::test]
async fn a_given_authority_is_trusted_and_its_handshake_is_no_part_of_the_answer() {
    let server = Server::start(SERVER);
    let client = Client::new(server.settings(CA)).unwrap();
    let first = ask(&client).await;
    assert_fine(&first);
    let times = &first.timeline;
    assert_eq!(times.connection_reused, Some(false));
    assert!(times.connect_ns.unwrap() > 0);
    assert!(times.connect_ns.unwrap() <= times.sent_ns.unwrap(), "sent after the handshake");
    let second = ask(&client).await;
    assert_fine(&second);
    assert_eq!(second.timeline.connection_reused, Some(true));
    assert_eq!(second.timeline.connect_ns, None);
    let log = server.log();
    assert_eq!((log.connections, log.requests), (1, 2));
}

#[tokio::test]
async fn connections_opened_ahead_have_their_handshake_behind_them() {
    let server = Server::start(SERVER);
    let client = Client::new(server.settings(CA)).unwrap();
    assert_eq!(client.open(3).await, 3);
    let asks: Vec<_> = (0..3)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { ask(&client).await })
        })
        .collect();
    for asked in asks {
        let exchange = asked.await.unwrap();
        assert_fine(&exchange);
        assert_eq!(exchange.timeline.connect_ns, None, "no request waited for its connection");
    }
    let log = server.log();
    assert_eq!((log.ahead, log.connections, log.requests), (Some(3), 3, 3));
}

#[tokio::test]
async fn plain_requests_trust_the_same_authority() {
    let server = Server::start(SERVER);
    let client = Client::new(server.settings(CA)).unwrap();
    let reply = client.post_json(Endpoint::Api("tokenize"), &json!({})).await.unwrap();
    assert_eq!(reply.status, 200);
    let other = Client::new(server.settings(OTHER_CA)).unwrap();
    let failure = other.post_json(Endpoint::Api("tokenize"), &json!({})).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::TlsUntrusted);
}

#[tokio::test]
async fn each_fault_of_a_certificate_has_its_own_kind() {
    let server = Server::start(SERVER);
    let kind = fault(server.settings(OTHER_CA), "UnknownIssuer").await;
    assert_eq!(kind, FailureKind::TlsUntrusted);
    let elsewhere = Server::start(include_bytes!("certificates/elsewhere.pem"));
    let kind = fault(elsewhere.settings(CA), "elsewhere.example").await;
    assert_eq!(kind, FailureKind::TlsNameMismatch);
    let expired = Server::start(include_bytes!("certificates/expired.pem"));
    let kind = fault(expired.settings(CA), "expired").await;
    assert_eq!(kind, FailureKind::TlsExpired);
}

#[tokio::test]
async fn a_handshake_that_breaks_off_is_a_fault_of_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let _ = socket.unwrap().read(&mut [0; 64]);
        }
    });
    let settings = ClientSettings {
        ca_cert_pem: Some(CA.to_vec()),
        ..ClientSettings::new(BaseUrl::parse(&url).unwrap())
    };
    assert_eq!(fault(settings, "the TLS handshake failed").await, FailureKind::Tls);
}

#[tokio::test]
async fn insecure_accepts_any_certificate() {
    for certificate in [
        SERVER,
        include_bytes!("certificates/elsewhere.pem"),
        include_bytes!("certificates/expired.pem"),
    ] {
        let server = Server::start(certificate);
        let settings = ClientSettings { insecure: true, ..server.settings(OTHER_CA) };
        assert_fine(&ask(&Client::new(settings).unwrap()).await);
    }
}

#[test]
fn a_file_without_a_certificate_is_an_error() {
    for pem in [b"".as_slice(), b"not PEM", include_bytes!("certificates/server-key.pem")] {
        let base_url = BaseUrl::parse("https://127.0.0.1:1").unwrap();
        let settings =
            ClientSettings { ca_cert_pem: Some(pem.to_vec()), ..ClientSettings::new(base_url) };
        let error = Client::new(settings).unwrap_err().render();
        assert!(error.contains("no PEM certificate") && error.contains("hint:"), "{error}");
    }
}
