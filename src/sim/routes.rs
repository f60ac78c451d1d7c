//! Routes: which answer each path gets.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, SERVER};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::json;
use tokio::sync::{Notify, mpsc};

use super::config::{Offer, Overload, SimConfig};
use super::exposition::Observed;
use super::fault::{Active, FaultKind};
use super::link::{Busy, Link};
use super::player::{Command, Outcome, Submission, Tick, Ticket};
use super::prefix_cache::PrefixCache;
use super::request::{self, Api, Delivery, Form, Refusal, Rules, TokenIds, refuse};
use super::scheduler::{EventKind, RequestSpec};
use super::stream::{Reply, ReplyKind, Stamp, TokenStream};
use super::stream_script::{Script, Times};
use super::truth::{TruthLog, TruthRecord, lock};
use super::vocabulary;
use super::wire::{Field, Piece, Place, Usage, Writer};
use crate::clock::{Clock, duration_ns};
use crate::units::ns_to_s;

/// The longest body read: a prompt of some million token ids.
const BODY_LIMIT_BYTES: usize = 64 << 20;

/// How long closing the port may take.
const CLOSING: Duration = Duration::from_secs(1);

const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream; charset=utf-8";
const METRICS: &str = "text/plain; version=1.0.0; charset=utf-8";

/// When a refused client should come again.
const RETRY_AFTER_OVERLOAD: Duration = Duration::from_secs(1);
/// What vLLM reports when its queue is full.
const QUEUE_FULL: &str = "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.";

/// What all connections of one start share.
pub(crate) struct Shared {
    pub(crate) config: SimConfig,
    pub(crate) clock: Clock,
    pub(crate) started_ns: u64,
    pub(crate) commands: Sender<Command>,
    pub(crate) observed: Arc<Mutex<Observed>>,
    /// Requests that wait, as the player last saw them.
    pub(crate) waiting: Arc<AtomicU32>,
    pub(crate) longest_wait_ns: Arc<AtomicU64>,
    pub(crate) truth: Arc<TruthLog>,
    pub(crate) cache: Mutex<PrefixCache>,
    pub(crate) next_key: AtomicU64,
    /// For how long the port shall be closed, told by `refuse`.
    pub(crate) refuse_ms: AtomicU64,
    pub(crate) refuse: Notify,
    /// ConclusionInput when the port has been closed.
    pub(crate) refusing: Notify,
}

/// An answer to be made of these, unless the connection is to be reset.
struct Answer {
    status: u16,
    content_type: &'static str,
    body: ReplyKind,
    retry_after: Option<Duration>,
}

impl Answer {
    fn whole(status: u16, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        let body = ReplyKind::Whole(Some(body.into()).filter(|bytes: &Bytes| !bytes.is_empty()));
        Self { status, content_type, body, retry_after: None }
    }

    fn json(body: impl Into<Bytes>) -> Self {
        Self::whole(200, JSON, body)
    }

    fn refusal(refusal: Refusal) -> Self {
        Self::whole(refusal.status, JSON, refusal.body)
    }
}

impl Shared {
    /// Answers one request.
    pub(crate) async fn answer(
        self: Arc<Self>,
        link: Arc<Link>,
        request: Request<Incoming>,
    ) -> io::Result<Response<Reply>> {
        let busy = Busy::new(link.clone());
        let answer = self.route(&link, request).await?;
        let mut response = Response::new(Reply::new(answer.body, busy));
        *response.status_mut() =
            StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(SERVER, HeaderValue::from_static("inferometer-sim"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
        if let Some(wait) = answer.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
        }
        Ok(response)
    }

    async fn route(&self, link: &Arc<Link>, request: Request<Incoming>) -> io::Result<Answer> {
        let path = request.uri().path().to_owned();
        if path.starts_with("/v1") && !self.key_fits(&request) {
            return Ok(unauthorized());
        }
        let post = request.method() == Method::POST;
        let answer = match (post, path.as_str()) {
            (false, "/health") => Answer::whole(200, JSON, ""),
            (false, "/version") => {
                Answer::json(format!(r#"{{"version":"{}"}}"#, env!("CARGO_PKG_VERSION")))
            }
            (false, "/metrics") => Answer::whole(200, METRICS, self.metrics()),
            (false, "/v1/models") => Answer::json(self.models()),
            (true, "/tokenize") => self.tokenize(&read(request).await?),
            (true, "/detokenize") => self.detokenize(&read(request).await?),
            (true, "/v1/completions") => {
                return self.generate(Api::Completions, link, &read(request).await?).await;
            }
            (true, "/v1/chat/completions") => {
                return self.generate(Api::Chat, link, &read(request).await?).await;
            }
            (
                _,
                "/health"
                | "/version"
                | "/metrics"
                | "/v1/models"
                | "/tokenize"
                | "/detokenize"
                | "/v1/completions"
                | "/v1/chat/completions",
            ) => Answer::whole(405, JSON, r#"{"detail":"Method Not Allowed"}"#),
            _ => Answer::whole(404, JSON, r#"{"detail":"Not Found"}"#),
        };
        Ok(answer)
    }

    fn key_fits(&self, request: &Request<Incoming>) -> bool {
        let Some(key) = &self.config.api_key else { return true };
        let sent = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
        sent.and_then(|value| value.strip_prefix(b"Bearer ")) == Some(key.as_bytes())
    }

    fn wall_s(&self, at_ns: u64) -> i64 {
        self.clock.wall(at_ns).as_second()
    }

    fn metrics(&self) -> String {
        let origin = self.clock.wall_origin().as_duration().as_secs_f64();
        let started_s = origin + ns_to_s(self.started_ns);
        lock(&self.observed).page(&self.config.model, &self.config.profile, started_s)
    }

    fn models(&self) -> String {
        let model = json!(self.config.model);
        let created = self.wall_s(self.started_ns);
        format!(
            r#"{{"object":"list","data":[{{"id":{model},"object":"model","created":{created},"owned_by":"inferometer","root":{model},"parent":null,"max_model_len":{},"permission":[{{"id":"modelperm-{:016x}","object":"model_permission","created":{created},"allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,"allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,"organization":"*","group":null,"is_blocking":false}}]}}]}}"#,
            self.config.max_model_len,
            self.config.seed.named("permission").0
        )
    }

    fn tokenize(&self, body: &[u8]) -> Answer {
        let value = match request::parse_json(body) {
            Ok(value) => value,
            Err(refusal) => return Answer::refusal(refusal),
        };
        if let Err(refusal) = request::check_model(&value, &self.config.model) {
            return Answer::refusal(refusal);
        }
        let ids = match request::tokenize_prompt(&value) {
            Ok(ids) => ids,
            Err(refusal) => return Answer::refusal(refusal),
        };
        Answer::json(format!(
            r#"{{"count":{},"max_model_len":{},"tokens":{},"token_strs":null}}"#,
            ids.len(),
            self.config.max_model_len,
            json!(ids)
        ))
    }

    fn detokenize(&self, body: &[u8]) -> Answer {
        let value = match request::parse_json(body) {
            Ok(value) => value,
            Err(refusal) => return Answer::refusal(refusal),
        };
        let ids: Option<Vec<u32>> = value["tokens"]
            .as_array()
            .and_then(|tokens| tokens.iter().map(|id| u32::try_from(id.as_u64()?).ok()).collect());
        match ids {
            Some(ids) => {
                Answer::json(json!({ "prompt": vocabulary::text_of_all(&ids) }).to_string())
            }
            None => Answer::refusal(refuse(
                400,
                "BadRequestError",
                "tokens must be a list of token ids",
                Some("tokens"),
            )),
        }
    }

    async fn generate(&self, api: Api, link: &Arc<Link>, body: &[u8]) -> io::Result<Answer> {
        let received_ns = self.clock.now_ns();
        let key = self.next_key.fetch_add(1, Ordering::Relaxed);
        let active = Active::of(&self.config.faults, key);
        if let Some(fault) = active.get(FaultKind::LateHead) {
            tokio::time::sleep(fault.duration).await;
        }
        if let Some(fault) = active.get(FaultKind::Refuse) {
            let ms = u64::try_from(fault.duration.as_millis()).unwrap_or(u64::MAX);
            self.refuse_ms.store(ms, Ordering::Relaxed);
            self.refuse.notify_one();
            // The port must be closed before the client learns of the reset. Where it is closed already nobody
            // answers, hence the limit.
            let _ = tokio::time::timeout(CLOSING, self.refusing.notified()).await;
        }
        if let Some(answer) = self.refused(&active, link, body)? {
            return Ok(answer);
        }
        let rules = Rules {
            model: &self.config.model,
            max_model_len: self.config.max_model_len,
            stop_after_tokens: self.config.stop_after_tokens,
        };
        let mut form = match request::parse(api, body, rules) {
            Ok(form) => form,
            Err(refusal) => return Ok(Answer::refusal(refusal)),
        };
        if active.has(FaultKind::IgnoreMaxTokens) {
            form.output_tokens = form.output_tokens.saturating_mul(2).min(rules.max_model_len);
        }
        if self.is_overloaded() {
            return Ok(self.overloaded());
        }
        if let (Some(id), Delivery::Whole) = (form.bad_token, form.delivery) {
            let message = format!("Token id {id} is out of vocabulary");
            return Ok(Answer::refusal(refuse(400, "BadRequestError", &message, None)));
        }
        let id = self.response_id(api, key);
        let writer =
            Writer::new(api, form.token_ids, &id, &self.config.model, self.wall_s(received_ns));
        let record = TruthRecord {
            id,
            received_ns,
            first_token_ns: None,
            last_token_ns: None,
            prompt_tokens: u32::try_from(form.prompt.len()).unwrap_or(u32::MAX),
            output_tokens: 0,
        };
        let stamp = Stamp::new(self.clock, self.truth.clone(), record);
        let (ticket, ticks) = self.submit(&form, key, received_ns);
        match form.delivery {
            Delivery::Stream => {
                let interval = self.config.stream_interval;
                let metrics = self.config.request_metrics;
                let script = Script::new(form, writer, active, interval, metrics);
                let stream = TokenStream::new(ticks, ticket, script, stamp, link.clone());
                let body = ReplyKind::Stream(Box::new(stream));
                Ok(Answer { status: 200, content_type: EVENT_STREAM, body, retry_after: None })
            }
            Delivery::Whole => Ok(self.whole(&form, &writer, ticks, ticket, stamp).await),
        }
    }

    /// The answers that come before the request reaches an engine; an error resets the connection.
    fn refused(
        &self,
        active: &Active,
        link: &Arc<Link>,
        body: &[u8],
    ) -> io::Result<Option<Answer>> {
        let stale = active.has(FaultKind::Stale) && link.is_reused();
        if stale || active.has(FaultKind::Refuse) || active.has(FaultKind::ResetBefore) {
            link.reset();
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if active.has(FaultKind::Unauthorized) {
            return Ok(Some(unauthorized()));
        }
        if let Some(fault) = active.get(FaultKind::RateLimit) {
            let refusal = refuse(429, "rate_limit_error", "Rate limit reached", None);
            let answer = Answer { retry_after: Some(fault.duration), ..Answer::refusal(refusal) };
            return Ok(Some(answer));
        }
        if active.has(FaultKind::ServerError) {
            let refusal = refuse(500, "InternalServerError", "Internal server error", None);
            return Ok(Some(Answer::refusal(refusal)));
        }
        if active.has(FaultKind::BadGateway) {
            let page = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n";
            return Ok(Some(Answer::whole(502, "text/html", page)));
        }
        if active.has(FaultKind::Unavailable) {
            return Ok(Some(queue_full()));
        }
        if active.has(FaultKind::RejectIgnoreEos)
            && request::parse_json(body).is_ok_and(|value| !value["ignore_eos"].is_null())
        {
            let message = "1 validation error: {'type': 'extra_forbidden', 'loc': 'body.ignore_eos', 'msg': 'Extra inputs are not permitted'}";
            let refusal = refuse(400, "Bad Request", message, Some("body.ignore_eos"));
            return Ok(Some(Answer::refusal(refusal)));
        }
        Ok(None)
    }

    fn response_id(&self, api: Api, key: u64) -> String {
        let number = self.config.seed.named("id").nth(key).0;
        match api {
            Api::Chat => format!("chatcmpl-{number:016x}"),
            Api::Completions => format!("cmpl-{number:016x}"),
        }
    }

    /// Whether the queue is too long, or moves too slowly.
    fn is_overloaded(&self) -> bool {
        let longest_ns = self.config.max_queue_wait.map_or(u64::MAX, duration_ns);
        self.waiting.load(Ordering::Relaxed) >= self.config.max_queued
            || self.longest_wait_ns.load(Ordering::Relaxed) >= longest_ns
    }

    /// The refusal of an overloaded server: 503 as vLLM's, or 429 as a gateway's, and when to come again.
    fn overloaded(&self) -> Answer {
        let refusal = match self.config.overload {
            Overload::Unavailable => refuse(503, "Service Unavailable", QUEUE_FULL, None),
            Overload::TooManyRequests => refuse(429, "Too Many Requests", QUEUE_FULL, None),
        };
        Answer { retry_after: Some(RETRY_AFTER_OVERLOAD), ..Answer::refusal(refusal) }
    }

    fn submit(&self, form: &Form, key: u64, received_ns: u64) -> (Ticket, mpsc::Receiver<Tick>) {
        // One tick a token and no more: the channel can't fill.
        let (sender, ticks) = mpsc::channel(form.output_tokens.max(1) as usize);
        let cached_tokens = match self.config.prefix_cache {
            Offer::On => lock(&self.cache).look_up(&form.prompt),
            Offer::Off => 0,
        };
        let spec = RequestSpec {
            prompt_tokens: u32::try_from(form.prompt.len()).unwrap_or(u32::MAX),
            output_tokens: form.output_tokens,
            cached_tokens,
        };
        let submission = Submission { key, received_ns, spec, reason: form.reason, ticks: sender };
        // Where the player is gone the channel closes, and the answer says that the engine is.
        let _ = self.commands.send(Command::Submit(submission));
        let commands = self.commands.clone();
        (Ticket { key, commands, outcome: Outcome::Open }, ticks)
    }

    async fn whole(
        &self,
        form: &Form,
        writer: &Writer,
        mut ticks: mpsc::Receiver<Tick>,
        mut ticket: Ticket,
        mut stamp: Stamp,
    ) -> Answer {
        let mut times = Times::default();
        let mut tokens = 0;
        while let Some(tick) = ticks.recv().await {
            times.see(tick);
            tokens += tick.tokens;
            if tick.kind == EventKind::Finished {
                ticket.outcome = Outcome::Complete;
                break;
            }
        }
        if ticket.outcome == Outcome::Open {
            let refusal =
                refuse(500, "InternalServerError", "EngineCore encountered an issue.", None);
            return Answer::refusal(refusal);
        }
        let ids: Vec<u32> =
            (0..tokens).map(|place| vocabulary::generated(form.text_seed, place)).collect();
        let piece = Piece {
            text: &vocabulary::text_of_all(&ids),
            ids: &ids,
            prompt_ids: (form.token_ids == TokenIds::Shown).then_some(&form.prompt),
            field: Field::Content,
            finish: Some(form.reason.word()),
            usage: None,
            place: Place::End,
        };
        let prompt = u32::try_from(form.prompt.len()).unwrap_or(u32::MAX);
        let usage = Usage { prompt, completion: tokens };
        let report = (self.config.request_metrics == Offer::On).then(|| times.report(tokens));
        let body = writer.whole(&piece, usage, report);
        stamp.tokens(tokens);
        Answer::json(body)
    }
}

async fn read(request: Request<Incoming>) -> io::Result<Bytes> {
    let body = Limited::new(request.into_body(), BODY_LIMIT_BYTES);
    let whole = body.collect().await.map_err(io::Error::other)?;
    Ok(whole.to_bytes())
}

fn unauthorized() -> Answer {
    Answer::whole(401, JSON, r#"{"error":"Unauthorized"}"#)
}

fn queue_full() -> Answer {
    Answer::refusal(refuse(503, "Service Unavailable", QUEUE_FULL, None))
}
