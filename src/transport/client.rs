//! The client: one pool, no proxy, no redirect, no retry.

use serde::{Deserialize, Serialize};

use super::{Failure, TokenTimeline};

/// Which source counted a request's output tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenSource {
    /// Token ids in the events.
    TokenIds,
    /// A running usage in the events.
    EventUsage,
    /// The final usage, spread over the events.
    FinalUsage,
    /// One token an event: a last resort, said aloud.
    Events,
}

/// Everything seen of one request.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// When what happened.
    pub timeline: TokenTimeline,
    /// The status, where there was one.
    pub status: Option<u16>,
    /// Prompt tokens by the server's count.
    pub input_tokens: Option<u32>,
    /// Prompt tokens served from a cache, where told.
    pub cached_tokens: Option<u32>,
    /// Generated tokens by the authority.
    pub output_tokens: Option<u32>,
    /// Who counted.
    pub token_source: Option<TokenSource>,
    /// `stop`, `length`, …
    pub finish_reason: Option<String>,
    /// Why it failed, where it did.
    pub failure: Option<Failure>,
}

/// Where a request goes: below the API root (`/v1`) or the server's root.
#[derive(Debug, Clone, Copy)]
pub enum Endpoint<'a> {
    /// Below `/v1`.
    Api(&'a str),
    /// Below the root.
    Root(&'a str),
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: reqwest::header::HeaderMap,
    /// The body.
    pub body: bytes::Bytes,
}

/// The base URL.
#[derive(Debug, Clone)]
pub struct BaseUrl(String);

impl BaseUrl {
    /// Stand-in.
    pub fn parse(text: &str) -> crate::Result<Self> {
        Ok(Self(text.trim_end_matches('/').trim_end_matches("/v1").to_owned()))
    }
    /// Stand-in.
    pub fn root(&self) -> &str {
        &self.0
    }
}

/// Settings.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// Base.
    pub base_url: BaseUrl,
    /// Key.
    pub api_key: Option<crate::settings::ApiKey>,
    /// Headers.
    pub headers: Vec<(String, String)>,
    /// Timeouts.
    pub timeouts: crate::settings::Timeouts,
    /// CA.
    pub ca_cert_pem: Option<Vec<u8>>,
    /// TLS.
    pub insecure: bool,
    /// Pool.
    pub pool: usize,
}

/// The client.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    settings: ClientSettings,
}

impl Client {
    /// Stand-in.
    pub fn new(settings: ClientSettings) -> crate::Result<Self> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .build()
            .map_err(|e| crate::Error::server("x").with_cause(e))?;
        Ok(Self { http, settings })
    }
    fn url(&self, e: Endpoint<'_>) -> String {
        let root = &self.settings.base_url.0;
        match e {
            Endpoint::Api(p) => format!("{root}/v1/{}", p.trim_start_matches('/')),
            Endpoint::Root(p) => format!("{root}/{}", p.trim_start_matches('/')),
        }
    }
    /// Stand-in.
    pub async fn get(&self, e: Endpoint<'_>) -> Result<Reply, Failure> {
        self.send(self.http.get(self.url(e))).await
    }
    /// Stand-in.
    pub async fn post_json(
        &self,
        e: Endpoint<'_>,
        v: &serde_json::Value,
    ) -> Result<Reply, Failure> {
        let r = self
            .http
            .post(self.url(e))
            .header("content-type", "application/json")
            .body(v.to_string());
        self.send(r).await
    }
    async fn send(&self, mut r: reqwest::RequestBuilder) -> Result<Reply, Failure> {
        if let Some(k) = &self.settings.api_key {
            r = r.header("authorization", format!("Bearer {}", k.expose()));
        }
        let fail = |e: reqwest::Error| Failure {
            kind: super::FailureKind::ConnectRefused,
            message: e.to_string(),
            retry_after: None,
            first_bytes: String::new(),
            last_bytes: String::new(),
        };
        let a = r.send().await.map_err(fail)?;
        let (status, headers) = (a.status().as_u16(), a.headers().clone());
        Ok(Reply { status, headers, body: a.bytes().await.map_err(fail)? })
    }
    /// Stand-in.
    pub async fn exchange(
        &self,
        _c: crate::clock::Clock,
        _d: &dyn crate::api::Dialect,
        _b: bytes::Bytes,
        _due: Option<u64>,
    ) -> Exchange {
        unimplemented!()
    }
}
