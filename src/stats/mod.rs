//! Statistics on `&[f64]`: knows nothing of metrics, requests or servers.
