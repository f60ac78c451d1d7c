//! TLS: which authority is trusted, and that its handshake is no part of the first token's time.
//! The certificates are for 127.0.0.1 and protect nothing.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use inferometer::api::chat::Chat;
use inferometer::clock::Clock;
use inferometer::transport::{BaseUrl, Client, ClientSettings, Exchange, FailureKind};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::script::*;

const CA: &[u8] = include_bytes!("certificates/ca.pem");
const OTHER_CA: &[u8] = include_bytes!("certificates/other-ca.pem");

/// A TLS server that answers every request with one token.
fn serve() -> BaseUrl {
    let chain = CertificateDer::from_pem_slice(include_bytes!("certificates/server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("certificates/server-key.pem")).unwrap();
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
    std::thread::spawn(move || {
        let body = format!("data: {TEXT}\n\ndata: {FINISH}\n\n");
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        for socket in listener.incoming() {
            let connection = ServerConnection::new(config.clone()).unwrap();
            let mut stream = StreamOwned::new(connection, socket.unwrap());
            let mut request = [0; 4096];
            while stream.read(&mut request).is_ok_and(|n| n > 0) {
                if stream.write_all(answer.as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
    BaseUrl::parse(&url).unwrap()
}

async fn ask(settings: ClientSettings) -> Exchange {
    let client = Client::new(settings).unwrap();
    client.exchange(Clock::start(), &Chat, "{}".into(), None).await
}

#[tokio::test]
async fn a_given_authority_is_trusted_and_another_is_not() {
    let settings = |pem: &[u8]| ClientSettings {
        ca_cert_pem: Some(pem.to_vec()),
        ..ClientSettings::new(serve())
    };
    let exchange = ask(settings(CA)).await;
    assert_fine(&exchange);
    let times = &exchange.timeline;
    assert_eq!(times.connection_reused, Some(false));
    assert!(times.connect_ns.unwrap() > 0);
    assert!(times.connect_ns.unwrap() <= times.sent_ns.unwrap(), "sent after the handshake");
    assert_kind(&ask(settings(OTHER_CA)).await, FailureKind::Tls);
}

#[tokio::test]
async fn insecure_accepts_any_certificate() {
    let settings = ClientSettings { insecure: true, ..ClientSettings::new(serve()) };
    assert_fine(&ask(settings).await);
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
