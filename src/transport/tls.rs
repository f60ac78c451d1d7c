//! TLS: which authorities a client trusts.

use super::ClientSettings;
use crate::error::{Error, Result};

/// Sets up TLS, with ring as the provider.
///
/// For `http://` no authority is loaded: a container without a CA bundle must still measure.
#[cfg(feature = "tls")]
pub(super) fn configure(
    builder: reqwest::ClientBuilder,
    settings: &ClientSettings,
) -> Result<reqwest::ClientBuilder> {
    // An error says that the program installed a provider before us: that one serves too.
    let _ = rustls::crypto::ring::default_provider().install_default();
    if let Some(pem) = &settings.ca_cert_pem {
        let unreadable = || {
            Error::usage("the CA certificate holds no PEM certificate")
                .with_hint("it begins with `-----BEGIN CERTIFICATE-----`")
        };
        let certificates =
            reqwest::Certificate::from_pem_bundle(pem).map_err(|e| unreadable().with_cause(e))?;
        if certificates.is_empty() {
            return Err(unreadable());
        }
        let builder = builder.tls_certs_only(certificates);
        return Ok(builder.tls_danger_accept_invalid_certs(settings.insecure));
    }
    if settings.insecure {
        return Ok(builder.tls_danger_accept_invalid_certs(true));
    }
    if settings.base_url.is_tls() { Ok(builder) } else { Ok(builder.tls_certs_only([])) }
}

/// Without the feature, `https://` is refused.
#[cfg(not(feature = "tls"))]
pub(super) fn configure(
    builder: reqwest::ClientBuilder,
    settings: &ClientSettings,
) -> Result<reqwest::ClientBuilder> {
    if settings.base_url.is_tls() {
        return Err(Error::usage("this build has no TLS, and the server's URL is `https://`")
            .with_hint("build with the feature `tls`, which is on by default"));
    }
    Ok(builder)
}

/// The error of a client that could not be built. Over `https://` the one cause met in the field
/// is a container without a CA bundle.
pub(super) fn build_error(error: reqwest::Error, settings: &ClientSettings) -> Error {
    let described = Error::usage("the HTTP client could not be set up").with_cause(error);
    if settings.base_url.is_tls() && settings.ca_cert_pem.is_none() {
        described.with_hint(
            "is there a CA bundle? install `ca-certificates`, or give `--ca-cert` or `--insecure`",
        )
    } else {
        described
    }
}
