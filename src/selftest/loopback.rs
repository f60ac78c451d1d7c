//! The certificate of the loopback address.

/// PEM of its certificate over `https`, which a client has to trust: it is for 127.0.0.1, its key is
/// public, and it protects nothing.
pub const CERTIFICATE: &[u8] = include_bytes!("loopback-cert.pem");
