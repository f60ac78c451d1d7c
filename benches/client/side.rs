//! Our side: the real path, as the harness takes it.

use std::sync::Arc;
use std::time::Duration;

use inferometer::internals::api::completions::Completions;
use inferometer::internals::api::template_cache::TemplateCache;
use inferometer::internals::clock::Clock;
use inferometer::internals::drive::{self, Interrupt, RoundOutcome};
use inferometer::internals::scenario::Load;
use inferometer::internals::selftest::fidelity::Figures;
use inferometer::internals::selftest::{self, Fidelity};
use inferometer::internals::selftest::{ReferenceServer, ReferenceServerConfig, Scheme};
use inferometer::internals::settings::SlotStart;
use inferometer::internals::telemetry::host::cpu_ns;

use crate::Outcome;
use crate::machine::{self, Role};

/// One thing to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) scheme: Scheme,
    pub(crate) ttft: Duration,
    pub(crate) gap: Duration,
    pub(crate) streams: u32,
    pub(crate) requests: u32,
    pub(crate) tokens: u32,
    /// How the streams begin. Together, their tokens come in bursts, as from a server that decodes in
    /// one batch; spread, each token wakes the client by itself, which costs more.
    pub(crate) start: SlotStart,
}

impl Case {
    /// How long an answer takes.
    pub(crate) fn e2el(self) -> Duration {
        self.ttft + self.gap * self.tokens
    }
}

/// CPU time and what it bought.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) cpu_ns: u64,
    pub(crate) events: u64,
}

impl Cost {
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn ms_per_1000(self) -> f64 {
        self.cpu_ns as f64 / 1e3 / self.events.max(1) as f64
    }
}

/// Client − server, ms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Errors {
    pub(crate) ttft: Figures,
    pub(crate) tpot: Figures,
    pub(crate) itl: Figures,
    pub(crate) unmatched: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) growth_bytes: f64,
    pub(crate) peak_bytes: f64,
}

/// Starts the server on its core, and leaves the caller on the client's.
pub(crate) fn serve(case: Case, log_limit: usize) -> Outcome<(ReferenceServer, Clock)> {
    let clock = Clock::start();
    machine::pin(Role::Server);
    let (scheme, ttft, gap) = (case.scheme, case.ttft, case.gap);
    let server =
        ReferenceServer::start(ReferenceServerConfig { scheme, ttft, gap, log_limit, clock });
    machine::pin(Role::Client);
    Ok((server?, clock))
}

/// CPU time of the process without the server's, ns.
pub(crate) fn client_cpu_ns(server: &ReferenceServer) -> u64 {
    cpu_ns().unwrap_or(0).saturating_sub(server.cpu_ns())
}

pub(crate) fn runtime() -> Outcome<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

fn round(case: Case, server: &ReferenceServer, clock: Clock) -> Outcome<RoundOutcome> {
    let wire = selftest::wire_to(&server.url(), Arc::new(TemplateCache::new(Completions)))?;
    let load = Load::Concurrency(case.streams);
    let mut job =
        selftest::round_job(load, case.tokens, case.requests, Duration::ZERO, case.e2el());
    job.slot_start = case.start;
    let interrupt = Interrupt::new();
    let mut show = |_| {};
    let run = drive::run_round(&wire, clock, &job, &interrupt, &mut show);
    Ok(runtime()?.block_on(run)?)
}

pub(crate) fn cost(case: Case) -> Outcome<Cost> {
    let (server, clock) = serve(case, 0)?;
    let before_ns = client_cpu_ns(&server);
    let outcome = round(case, &server, clock)?;
    let cpu_ns = client_cpu_ns(&server).saturating_sub(before_ns);
    let events = outcome.records.iter().map(|record| u64::from(record.events)).sum();
    Ok(Cost { cpu_ns, events })
}

pub(crate) fn fidelity(case: Case) -> Outcome<Errors> {
    let (server, clock) = serve(case, 100_000)?;
    let outcome = round(case, &server, clock)?;
    let log = server.take_log();
    let found =
        Fidelity::of(&outcome.records, &outcome.itl, &log, |record| selftest::label(record.seed));
    Ok(Errors {
        ttft: found.ttft.error(),
        tpot: found.tpot.error(),
        itl: found.itl.error(),
        unmatched: found.unmatched,
    })
}

pub(crate) fn memory(case: Case) -> Outcome<Memory> {
    let (server, clock) = serve(case, 0)?;
    // What a first round needs once is no growth.
    let first = round(Case { requests: 500, ..case }, &server, clock)?;
    let before = machine::memory_bytes("VmRSS");
    let outcome = round(case, &server, clock)?;
    let growth_bytes = machine::memory_bytes("VmRSS") - before;
    let peak_bytes = machine::memory_bytes("VmHWM");
    drop((first, outcome));
    Ok(Memory { growth_bytes, peak_bytes })
}

/// The self-test's report, unpinned.
pub(crate) fn selftest() -> Outcome<String> {
    let interrupt = Interrupt::new();
    let report = runtime()?.block_on(selftest::run_default(&interrupt, &mut |_| {}))?;
    Ok(report.render())
}
