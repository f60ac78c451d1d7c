//! What a client needs to know of its server: address, key, headers, limits, trust.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::BaseUrl;
use crate::settings::{ApiKey, Timeouts};

/// What a client needs to know.
#[derive(Clone)]
pub struct ClientSettings {
    /// Where the server is.
    pub base_url: BaseUrl,
    /// The key for `Authorization: Bearer`; without one the header is not sent.
    pub api_key: Option<ApiKey>,
    /// Headers sent with every request; one named `Authorization` takes the key's place.
    pub headers: Vec<(String, String)>,
    /// Secrets that the bodies carry: for redaction only.
    pub body_secrets: Vec<ApiKey>,
    /// The limits of a request.
    pub timeouts: Timeouts,
    /// PEM of the authorities to trust, in place of the system's.
    #[cfg_attr(not(feature = "tls"), allow(dead_code))]
    pub ca_cert_pem: Option<Vec<u8>>,
    /// Accepts any certificate.
    #[cfg_attr(not(feature = "tls"), allow(dead_code))]
    pub insecure: bool,
    /// Idle connections kept: as many as requests will ever be in flight.
    pub pool: usize,
    /// Whether the server was seen to close connections without announcing it. Clients of one server
    /// share it, so that each need not find out anew.
    pub closes_unannounced: Arc<AtomicBool>,
}

impl ClientSettings {
    /// Settings for a server without a key, with the default limits and a pool of 1024.
    #[must_use]
    pub fn new(base_url: BaseUrl) -> Self {
        Self {
            base_url,
            api_key: None,
            headers: Vec::new(),
            body_secrets: Vec::new(),
            timeouts: Timeouts::default(),
            ca_cert_pem: None,
            insecure: false,
            pool: 1024,
            closes_unannounced: Arc::default(),
        }
    }
}
