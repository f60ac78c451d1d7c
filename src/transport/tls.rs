//! TLS: which authorities a client trusts, and the handshake with its server.
//!
//! One configuration serves the streamed and the plain requests. The provider is ring.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::unverified::Unverified;
use super::{ClientSettings, FailureKind};
use crate::error::{Error, Result};

/// What a client needs for TLS with any server.
#[derive(Clone)]
pub(super) struct Tls(Arc<ClientConfig>);

impl Tls {
    /// TLS as the settings ask for it.
    ///
    /// # Errors
    /// Certificates that cannot be read, or, over `https`, a system without any authority.
    pub(super) fn new(settings: &ClientSettings) -> Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = given_roots(settings)?;
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(not_set_up)?;
        let builder = match roots {
            _ if settings.insecure => {
                let any = Unverified::new(&provider);
                builder.dangerous().with_custom_certificate_verifier(Arc::new(any))
            }
            Some(roots) => builder.with_root_certificates(roots),
            None if settings.base_url.is_tls() => {
                builder.dangerous().with_custom_certificate_verifier(system(provider)?)
            }
            // A container without a CA bundle must still measure over `http`.
            None => builder.with_root_certificates(RootCertStore::empty()),
        };
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }

    /// Sets the plain requests up.
    pub(super) fn configure(&self, builder: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
        builder.tls_backend_preconfigured(ClientConfig::clone(&self.0))
    }

    /// TLS with the server of this name or address.
    ///
    /// # Errors
    /// A host that no certificate can name.
    pub(super) fn session(&self, host: &str) -> Result<Session> {
        let name = ServerName::try_from(host.to_owned()).map_err(|e| {
            Error::usage(format!("no certificate can be for the host `{host}`")).with_cause(e)
        })?;
        Ok(Session { connector: TlsConnector::from(Arc::clone(&self.0)), name })
    }
}

/// TLS with one server.
pub(super) struct Session {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Session {
    /// Speaks TLS over a socket.
    ///
    /// # Errors
    /// Those of the socket, and `rustls::Error` within.
    pub(super) async fn handshake(&self, socket: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.name.clone(), socket).await
    }
}

/// The authorities that the user gave, in place of the system's.
fn given_roots(settings: &ClientSettings) -> Result<Option<RootCertStore>> {
    let Some(pem) = &settings.ca_cert_pem else { return Ok(None) };
    let unreadable = || {
        Error::usage("the CA certificate holds no PEM certificate")
            .with_hint("it begins with `-----BEGIN CERTIFICATE-----`")
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|e| unreadable().with_cause(e))?;
        roots.add(certificate).map_err(|e| unreadable().with_cause(e))?;
    }
    if roots.is_empty() { Err(unreadable()) } else { Ok(Some(roots)) }
}

fn system(provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>> {
    let verifier = rustls_platform_verifier::Verifier::new(provider).map_err(|e| {
        not_set_up(e).with_hint(
            "is there a CA bundle? install `ca-certificates`, or give `--ca-cert` or `--insecure`",
        )
    })?;
    Ok(Arc::new(verifier))
}

fn not_set_up(error: rustls::Error) -> Error {
    Error::usage("TLS could not be set up").with_cause(error)
}

/// The kind of failure that a cause stands for, if it is one of TLS.
pub(super) fn failure_kind(cause: &(dyn StdError + 'static)) -> Option<FailureKind> {
    use CertificateError::{
        Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
        NotValidYetContext,
    };
    match cause.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(error) => Some(match error {
            Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. } => {
                FailureKind::TlsExpired
            }
            NotValidForName | NotValidForNameContext { .. } => FailureKind::TlsNameMismatch,
            _ => FailureKind::TlsUntrusted,
        }),
        _ => Some(FailureKind::Tls),
    }
}
