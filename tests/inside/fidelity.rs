//! The client proves its own fidelity: against logs made by hand, and against the reference server.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::sync::Arc;
use std::time::Duration;

use inferometer::Result;
use inferometer::api::completions::Completions;
use inferometer::api::{Content, Dialect, GenerateRequest, StreamEvent};
use inferometer::clock::Clock;
use inferometer::drive::{self, Interrupt};
use inferometer::plan::{Phase, PlannedRequest, Side};
use inferometer::record::{GapHistogram, Part, RequestIdent, RequestRecord};
use inferometer::rng::Seed;
use inferometer::scenario::Load;
use inferometer::selftest::{self, Fidelity, SelftestReport, SelftestSettings, Trust, label};
use inferometer::selftest::{ReferenceServer, ReferenceServerConfig, RequestTruth, Scheme};
use inferometer::transport::{Exchange, TokenEvent, TokenSource, TokenTimeline};

const MS: u64 = 1_000_000;

/// A request sent at 1 s whose tokens came at these times after it, ms.
fn record(seed: u64, part: Part, token_ms: &[u64]) -> RequestRecord {
    let at = |ms: u64| 1_000 * MS + ms * MS;
    let event = |ms: &u64| TokenEvent { at_ns: at(*ms), tokens: 1, content: Content::Visible };
    let exchange = Exchange {
        timeline: TokenTimeline {
            sent_ns: Some(at(0)),
            end_ns: token_ms.last().map(|ms| at(*ms)),
            events: token_ms.iter().map(event).collect(),
            ..TokenTimeline::default()
        },
        status: Some(200),
        input_tokens: Some(1),
        cached_tokens: None,
        output_tokens: Some(u32::try_from(token_ms.len()).unwrap()),
        token_source: Some(TokenSource::FinalUsage),
        finish_reason: Some("length".to_owned()),
        failure: None,
    };
    let planned = PlannedRequest {
        index: seed,
        due_ns: None,
        input_tokens: 1,
        output_tokens: 3,
        seed: Seed(seed),
    };
    let (side, phase) = (Side::New, Phase::Load);
    let ident = RequestIdent { side, block: 0, start: 0, round: 0, phase, part };
    RequestRecord::from_exchange(ident, &planned, &exchange, (0, u64::MAX))
}

/// The same by the server's own clock, which began elsewhere.
fn beats(seed: u64, token_ms: &[u64]) -> RequestTruth {
    let token_ns = token_ms.iter().map(|ms| 7 + ms * MS).collect();
    RequestTruth { label: label(seed), received_ns: 7, token_ns }
}

fn gaps(ms: &[u64]) -> GapHistogram {
    let mut gaps = GapHistogram::new();
    for gap in ms {
        gaps.record(gap * MS, 1);
    }
    gaps
}

fn compare(records: &[RequestRecord], itl: &GapHistogram, log: &[RequestTruth]) -> Fidelity {
    Fidelity::of(records, itl, log, |record| label(record.seed))
}

#[track_caller]
fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 2e-3, "{found} is not {expected}");
}

#[test]
fn errors_are_client_minus_server_request_by_request() {
    // The server wrote after 50, 60, 70 ms; the client saw 52, 62, 74 and 48, 60, 70.
    let records =
        [record(1, Part::Measured, &[52, 62, 74]), record(2, Part::Measured, &[48, 60, 70])];
    let log = [beats(2, &[50, 60, 70]), beats(1, &[50, 60, 70]), beats(3, &[500, 600])];
    let found = compare(&records, &gaps(&[10, 12, 12, 10]), &log);
    assert_eq!((found.matched, found.unmatched), (2, 0));
    close(found.ttft.error().mean_ms, 0.0);
    close(found.ttft.error().p50_ms, 0.0);
    // Opposite errors cancel in the mean, and not in pairs: both are off by 2 ms.
    close(found.ttft_paired_p99_ms, 2.0);
    close(found.tpot.error().mean_ms, 1.0);
    close(found.itl.server.p50_ms, 10.0);
    close(found.itl.error().mean_ms, 1.0);
    close(found.itl.error().p99_ms, 2.0);
    assert!(found.is_within(2.1) && !found.is_within(1.9));
}

#[test]
fn what_was_not_measured_or_not_logged_is_not_faithful() {
    let records = [record(1, Part::Measured, &[50, 60]), record(2, Part::Measured, &[50, 60])];
    let itl = gaps(&[10, 10]);
    let whole = compare(&records, &itl, &[beats(1, &[50, 60]), beats(2, &[50, 60])]);
    assert!(whole.is_within(0.1), "{whole:?}");
    let lacking = compare(&records, &itl, &[beats(1, &[50, 60])]);
    assert_eq!((lacking.matched, lacking.unmatched), (1, 1));
    assert!(!lacking.is_within(1e9));
    assert!(!compare(&[], &GapHistogram::new(), &[]).is_within(1e9), "nothing proves nothing");
}

#[test]
fn ramp_and_tail_prove_nothing() {
    let records = [record(1, Part::Ramp, &[90, 99]), record(2, Part::Measured, &[50, 60])];
    let found = compare(&records, &gaps(&[10]), &[beats(1, &[50, 60]), beats(2, &[50, 60])]);
    assert_eq!((found.matched, found.unmatched), (1, 0));
    close(found.ttft.error().p99_ms, 0.0);
}

/// Completions read by a client that takes its time over every event.
struct Slow;

impl Dialect for Slow {
    fn name(&self) -> &'static str {
        Completions.name()
    }

    fn path(&self) -> &'static str {
        Completions.path()
    }

    fn body(&self, request: &GenerateRequest<'_>) -> Result<bytes::Bytes> {
        Completions.body(request)
    }

    fn event(&self, data: &[u8]) -> std::result::Result<StreamEvent, String> {
        std::thread::sleep(Duration::from_millis(4));
        Completions.event(data)
    }
}

fn short(levels: &[u32]) -> SelftestSettings {
    SelftestSettings {
        levels: levels.to_vec(),
        https_levels: Vec::new(),
        ttft: Duration::from_millis(10),
        gap: Duration::from_millis(5),
        tokens: 8,
        window: Duration::from_millis(100),
        // This machine is shared: what is asked here is the shape, not its speed.
        limit_ms: 1e6,
    }
}

async fn selftest(settings: &SelftestSettings, dialect: Arc<dyn Dialect>) -> SelftestReport {
    let interrupt = Interrupt::new();
    let mut show = |_: &selftest::Level| {};
    let run = selftest::run(settings, dialect, &interrupt, &mut show);
    tokio::time::timeout(Duration::from_secs(60), run).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_report_has_rising_loads_and_survives_the_disk() {
    let report = selftest(&short(&[1, 4, 8]), Arc::new(Completions)).await;
    let streams: Vec<u32> = report.levels.iter().map(|level| level.streams).collect();
    assert_eq!(streams, [1, 4, 8]);
    for level in &report.levels {
        assert_eq!((level.trust, level.fidelity.unmatched), (Trust::Faithful, 0), "{level:?}");
        assert!(level.fidelity.matched >= u64::from(level.streams) * 2);
        assert!(level.events_per_s > 0.0);
    }
    assert_eq!(report.proven(Scheme::Http).map(|level| level.streams), Some(8));
    assert!(!report.is_beyond(Scheme::Http, 8.0, 1.0) && report.is_beyond(Scheme::Http, 8.1, 1.0));
    assert!(report.idle.timer_lateness_p99_ms >= report.idle.timer_lateness_p50_ms);
    assert!(report.idle.schedule_lag_p99_ms.is_some());
    let text = serde_json::to_string(&report).unwrap();
    let back: SelftestReport = serde_json::from_str(&text).unwrap();
    // Numbers come back to the last digit but one.
    assert_eq!((back.schema, &back.version, back.at), (report.schema, &report.version, report.at));
    for (read, level) in back.levels.iter().zip(&report.levels) {
        assert_eq!((read.streams, read.trust), (level.streams, level.trust));
        assert_eq!(read.fidelity.matched, level.fidelity.matched);
        close(read.fidelity.ttft_paired_p99_ms, level.fidelity.ttft_paired_p99_ms);
        close(read.fidelity.itl.client.p99_ms, level.fidelity.itl.client.p99_ms);
    }
    assert_eq!(back.levels.len(), report.levels.len());
    let shown = report.render();
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    assert!(shown.contains("measures 8 streams"), "{shown}");
}

#[tokio::test]
async fn a_client_that_cannot_keep_up_is_not_called_faithful() {
    // Four streams a 5 ms gap, 4 ms an event: it falls behind by more than it can hide.
    let settings = SelftestSettings { limit_ms: 1.0, ..short(&[4, 8]) };
    let report = selftest(&settings, Arc::new(Slow)).await;
    assert_eq!(report.levels.len(), 1, "the first level that fails is the last: {report:?}");
    assert_eq!(report.levels[0].trust, Trust::Beyond);
    assert!(report.proven(Scheme::Http).is_none() && report.is_beyond(Scheme::Http, 1.0, 1.0));
    assert!(report.render().contains("not even one stream"));
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn the_selftest_proves_https_by_the_same_path() {
    let settings = SelftestSettings { https_levels: vec![1, 8], ..short(&[2]) };
    let report = selftest(&settings, Arc::new(Completions)).await;
    let proven = |scheme| report.proven(scheme).map(|level| level.streams);
    assert_eq!((proven(Scheme::Http), proven(Scheme::Https)), (Some(2), Some(8)));
    for level in &report.https_levels {
        assert_eq!(level.fidelity.unmatched, 0, "{level:?}");
        assert!(level.fidelity.matched >= u64::from(level.streams) * 2);
    }
    let shown = report.render();
    assert!(shown.contains("http: this machine measures 2 streams"), "{shown}");
    assert!(shown.contains("https: this machine measures 8 streams"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
}

#[tokio::test]
async fn the_reference_server_logs_what_it_wrote() {
    logs_what_it_wrote(Scheme::Http).await;
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn the_reference_server_logs_what_it_wrote_over_https() {
    logs_what_it_wrote(Scheme::Https).await;
}

async fn logs_what_it_wrote(scheme: Scheme) {
    let clock = Clock::start();
    let (ttft, gap, log_limit) = (Duration::from_millis(20), Duration::from_millis(5), 100);
    let config = ReferenceServerConfig { scheme, ttft, gap, log_limit, clock };
    let server = ReferenceServer::start(config).unwrap();
    let wire = selftest::wire_to(&server.url(), Arc::new(Completions)).unwrap();
    let job =
        selftest::round_job(Load::Concurrency(3), 6, 9, Duration::ZERO, Duration::from_millis(45));
    let interrupt = Interrupt::new();
    let outcome = drive::run_round(&wire, clock, &job, &interrupt, &mut |_| {}).await.unwrap();
    let log = server.take_log();
    assert!(log.len() >= 9);
    for record in outcome.records.iter().filter(|record| record.is_sample()) {
        let beats = log.iter().find(|beats| beats.label == label(record.seed)).unwrap();
        assert_eq!(beats.token_ns.len(), 6);
        assert_eq!(record.output_tokens, Some(6));
        assert_eq!(record.token_source, Some(TokenSource::FinalUsage));
        // One clock: nothing is seen before it was written, and nothing written before it was due.
        assert!(record.first_token_ns >= Some(beats.token_ns[0]));
        assert!(record.sent_ns <= Some(beats.received_ns));
        assert!(beats.token_ns[0] >= beats.received_ns + 20 * MS);
        assert!(beats.token_ns.is_sorted());
    }
}
