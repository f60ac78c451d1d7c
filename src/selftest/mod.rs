//! The self-test: the client against a server of known timing, at rising load.
//!
//! It takes the real path: [`drive::run_round`] over a [`Client`] on the caller's runtime. Client and
//! server share this machine, so what it proves is a lower bound for a server elsewhere.

pub mod fidelity;
mod loopback;
mod reference_server;
mod report;
#[cfg_attr(not(feature = "tls"), path = "no_tls_session.rs")]
mod tls_session;

pub use fidelity::Fidelity;
pub use reference_server::{ReferenceServer, ReferenceServerConfig, RequestTruth, Scheme};
pub use report::{IdleFloor, Level, SCHEMA, SelftestReport, Trust};

use std::sync::Arc;
use std::time::Duration;

use crate::api::completions::Completions;
use crate::api::template_cache::TemplateCache;
use crate::api::{Dialect, Offers};
use crate::clock::Clock;
use crate::drive::{self, ErrorLimit, Interrupt, RoundJob, RoundOutcome, Wire};
use crate::error::Result;
use crate::plan::{Phase, RoundPlan, Side, StopRule};
use crate::record::RequestRecord;
use crate::rng::Seed;
use crate::scenario::load::RequestRate;
use crate::scenario::{Length, Load, LoadPoint, Prompt, PromptSource, PromptSpec};
use crate::settings::SlotStart;
use crate::stats::quantile;
use crate::telemetry::host::cpu_ns;
use crate::transport::ClientSettings;
use crate::transport::{BaseUrl, Client};
use crate::units::{ns_to_ms, ns_to_s};

/// Requests whose truth is kept a level: ten seconds of the highest one.
const LOG_LIMIT: usize = 100_000;
/// The runtime's timer is asked this often for the idle floor.
const TIMER_PERIOD_NS: u64 = 5_000_000;
/// Timers asked at most: a minute of them.
const TIMERS: usize = 12_000;
/// The idle floor's arrivals per second: enough for a p99, too few to be load.
const IDLE_PER_S: f64 = 100.0;

/// What is tried.
#[derive(Debug, Clone)]
pub struct SelftestSettings {
    /// Streams of each level, rising.
    pub levels: Vec<u32>,
    /// The same over `https`, which takes the same path but for the encryption; none in a build
    /// without TLS.
    pub https_levels: Vec<u32>,
    /// From the request to the first token.
    pub ttft: Duration,
    /// From token to token.
    pub gap: Duration,
    /// Tokens of an answer.
    pub tokens: u32,
    /// The window of a level lasts at least so long.
    pub window: Duration,
    /// The largest error that counts as true, ms.
    pub limit_ms: f64,
}

impl Default for SelftestSettings {
    fn default() -> Self {
        Self {
            // To where two cores end; 10 ms is a fast decode step, 50 ms a short prompt's prefill.
            levels: vec![1, 16, 64, 128, 256, 512, 1024],
            https_levels: if cfg!(feature = "tls") { vec![1, 64, 256, 512, 1024] } else { vec![] },
            ttft: Duration::from_millis(50),
            gap: Duration::from_millis(10),
            tokens: 24,
            window: Duration::from_millis(600),
            limit_ms: 1.0,
        }
    }
}

/// A prompt that names its request, so that the server's log can be matched.
#[derive(Debug, Clone, Copy)]
pub struct NamedPrompts;

impl PromptSource for NamedPrompts {
    fn prompt(&self, _index: u64, _tokens: u32, seed: Seed) -> Result<Prompt> {
        Ok(Prompt::Text(label(seed.0)))
    }
}

/// The name of the request with this seed, by [`NamedPrompts`].
#[must_use]
pub fn label(seed: u64) -> String {
    format!("{seed:016x}")
}

/// How often a level is tried: virtual machines pause for tens of milliseconds now and then.
const TRIES: u32 = 3;

/// Runs it: the idle floor, then the levels over `http` and those over `https`, each up to the first
/// that is not measured truly in three tries.
///
/// # Errors
/// Where the machine refuses a port, a thread or descriptors; levels over `https` in a build without
/// TLS.
pub async fn run(
    settings: &SelftestSettings,
    dialect: Arc<dyn Dialect>,
    interrupt: &Interrupt,
    show: &mut (dyn FnMut(&Level) + Send),
) -> Result<SelftestReport> {
    let bench = Bench::start(settings, Scheme::Http, Arc::clone(&dialect))?;
    let idle = bench.idle(interrupt).await?;
    let levels = bench.levels(&settings.levels, interrupt, show).await?;
    let mut https_levels = Vec::new();
    if !settings.https_levels.is_empty() {
        let secure = Bench::start(settings, Scheme::Https, dialect)?;
        https_levels = secure.levels(&settings.https_levels, interrupt, show).await?;
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Ok(SelftestReport {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        at: bench.clock.wall(bench.clock.now_ns()),
        cores: u32::try_from(cores).unwrap_or(u32::MAX),
        limit_ms: settings.limit_ms,
        ttft_ms: settings.ttft.as_secs_f64() * 1e3,
        gap_ms: settings.gap.as_secs_f64() * 1e3,
        idle,
        levels,
        https_levels,
    })
}

/// [`run`] with the completions dialect.
///
/// # Errors
/// As [`run`].
pub async fn run_default(
    interrupt: &Interrupt,
    show: &mut (dyn FnMut(&Level) + Send),
) -> Result<SelftestReport> {
    run(&SelftestSettings::default(), Arc::new(TemplateCache::new(Completions)), interrupt, show)
        .await
}

/// A reference server and a wire to it.
struct Bench<'a> {
    settings: &'a SelftestSettings,
    clock: Clock,
    server: ReferenceServer,
    wire: Arc<Wire>,
}

impl<'a> Bench<'a> {
    fn start(
        settings: &'a SelftestSettings,
        scheme: Scheme,
        dialect: Arc<dyn Dialect>,
    ) -> Result<Self> {
        let clock = Clock::start();
        let (ttft, gap, log_limit) = (settings.ttft, settings.gap, LOG_LIMIT);
        let server =
            ReferenceServer::start(ReferenceServerConfig { scheme, ttft, gap, log_limit, clock })?;
        let wire = wire_to(&server.url(), dialect)?;
        Ok(Self { settings, clock, server, wire })
    }

    /// Tries rising levels up to the first that is not measured truly.
    async fn levels(
        &self,
        streams: &[u32],
        interrupt: &Interrupt,
        show: &mut (dyn FnMut(&Level) + Send),
    ) -> Result<Vec<Level>> {
        let mut levels = Vec::new();
        for streams in streams {
            let mut level = self.level(*streams, interrupt).await?;
            for _ in 1..TRIES {
                if level.trust == Trust::Beyond && interrupt.urgency() == drive::Urgency::None {
                    // Again: a machine's hiccup is not the client's limit.
                    level = self.level(*streams, interrupt).await?;
                }
            }
            levels.push(level);
            show(&level);
            if level.trust == Trust::Beyond {
                break;
            }
        }
        Ok(levels)
    }

    async fn level(&self, streams: u32, interrupt: &Interrupt) -> Result<Level> {
        let tokens = self.settings.tokens;
        let job = self.job(Load::Concurrency(streams), tokens, streams.saturating_mul(2));
        let (cpu_before, server_before) = (cpu_ns(), self.server.cpu_ns());
        let outcome = self.round(&job, interrupt).await?;
        let server_ns = self.server.cpu_ns().saturating_sub(server_before);
        let client_ns = cpu_ns()
            .zip(cpu_before)
            .map(|(after, before)| after.saturating_sub(before).saturating_sub(server_ns));
        let log = self.server.take_log();
        let name = |record: &RequestRecord| label(record.seed);
        let fidelity = Fidelity::of(&outcome.records, &outcome.itl, &log, name);
        let window_s = ns_to_s(outcome.window_close_ns.saturating_sub(outcome.window_open_ns));
        let inside: u32 = outcome.records.iter().map(|r| r.window_tokens).sum();
        let events: u64 = outcome.records.iter().map(|r| u64::from(r.events)).sum();
        let trust = if fidelity.is_within(self.settings.limit_ms) {
            Trust::Faithful
        } else {
            Trust::Beyond
        };
        #[allow(clippy::cast_precision_loss)] // exact below 2^53
        let per_1000 = |ns: u64| ns as f64 / 1e3 / events.max(1) as f64;
        Ok(Level {
            streams,
            events_per_s: if window_s > 0.0 { f64::from(inside) / window_s } else { 0.0 },
            cpu_ms_per_1000_events: client_ns.map(per_1000),
            fidelity,
            trust,
        })
    }

    /// A trickle of requests in an open loop, with timers beside it.
    async fn idle(&self, interrupt: &Interrupt) -> Result<IdleFloor> {
        let rate = RequestRate { per_s: IDLE_PER_S, burstiness: 1.0, max_concurrency: None };
        let job = self.job(Load::RequestRate(rate), 1, 1);
        let clock = self.clock;
        let mut lags_ms = Vec::new();
        let outcome = tokio::select! {
            outcome = Box::pin(self.round(&job, interrupt)) => outcome?,
            never = lateness(clock, &mut lags_ms) => match never {},
        };
        let _ = self.server.take_log();
        Ok(IdleFloor {
            timer_lateness_p50_ms: quantile::quantile(&lags_ms, 0.5).unwrap_or(0.0),
            timer_lateness_p99_ms: quantile::quantile(&lags_ms, 0.99).unwrap_or(0.0),
            loop_lag_p99_ms: outcome.health.loop_lag_p99_ms,
            schedule_lag_p50_ms: outcome.health.schedule_lag_p50_ms,
            schedule_lag_p99_ms: outcome.health.schedule_lag_p99_ms,
        })
    }

    async fn round(&self, job: &RoundJob, interrupt: &Interrupt) -> Result<RoundOutcome> {
        drive::run_round(&self.wire, self.clock, job, interrupt, &mut |_| {}).await?.whole()
    }

    fn job(&self, load: Load, tokens: u32, requests: u32) -> RoundJob {
        let e2el = self.settings.ttft + self.settings.gap * tokens.saturating_sub(1);
        round_job(load, tokens, requests, self.settings.window, e2el)
    }
}

/// Asks the runtime's timer again and again how late it is, ms. Never ends by itself.
async fn lateness(clock: Clock, lags_ms: &mut Vec<f64>) -> std::convert::Infallible {
    while lags_ms.len() < TIMERS {
        let asked_ns = clock.now_ns().saturating_add(TIMER_PERIOD_NS);
        clock.sleep_until(asked_ns).await;
        lags_ms.push(ns_to_ms(clock.now_ns().saturating_sub(asked_ns)));
    }
    std::future::pending().await
}

/// A wire to a reference server at `url`, with prompts that name their requests.
///
/// # Errors
/// Where the client cannot be built.
pub fn wire_to(url: &str, dialect: Arc<dyn Dialect>) -> Result<Arc<Wire>> {
    let base_url = BaseUrl::parse(url)?;
    let ca_cert_pem = base_url.is_tls().then(|| loopback::CERTIFICATE.to_vec());
    let client = Client::new(ClientSettings { ca_cert_pem, ..ClientSettings::new(base_url) })?;
    Ok(Arc::new(Wire {
        client,
        dialect,
        model: "reference".to_owned(),
        // As against most real servers: the token count comes at the end.
        offers: Offers { include_usage: true, ..Offers::default() },
        extra_body: serde_json::Map::new(),
        prompts: Arc::new(NamedPrompts),
    }))
}

/// A round against a reference server: `requests` at least, and a window of `window` at least. `e2el` is
/// how long an answer takes.
#[must_use]
pub fn round_job(
    load: Load,
    tokens: u32,
    requests: u32,
    window: Duration,
    e2el: Duration,
) -> RoundJob {
    RoundJob {
        plan: RoundPlan {
            phase: Phase::Load,
            point: LoadPoint {
                group: "selftest".to_owned(),
                scenario: "reference".to_owned(),
                input: Length::Fixed(1),
                output: Length::Fixed(tokens),
                load,
                prompt: PromptSpec::Synthetic,
                slo: None,
                num_prompts: None,
                measurement_time_s: None,
            },
            round: 0,
            seed: Seed(0),
            stop: StopRule { requests, min_time_s: window.as_secs_f64(), max_time_s: 600.0 },
            first_prompt: 0,
        },
        side: Side::New,
        block: 0,
        start: 0,
        expected_e2el_s: Some(e2el.as_secs_f64()),
        slot_start: SlotStart::Spread,
        error_limit: ErrorLimit::default(),
        in_flight_limit: None,
    }
}
