//! How a run ends when much goes wrong: findings, status, exit code.

use inferometer::compare::GateCause;
use inferometer::drive::Interrupt;
use inferometer::record::stored::{RoundStatus, RunStatus};
use inferometer::record::{FindingCode, Outcome, Severity};
use inferometer::report::progress::Silent;
use inferometer::sim::SimServer;
use inferometer::transport::FailureKind;

use super::{Job, OUTPUT};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_refused_at_first_stops_at_once_and_names_the_header() {
    let job = Job::new("kind=401");
    let folder = tempfile::tempdir().unwrap();
    let mut config = job.server();
    config.faults = vec!["kind=401".parse().unwrap()];
    let server = SimServer::start(config).unwrap();
    let harness = job.harness(job.settings(&server.url(), folder.path()));
    let error = harness.run(&mut Silent, &Interrupt::new()).await.unwrap_err();
    assert_eq!(inferometer::compare::gate::exit_code(error.kind()), 3);
    assert!(error.to_string().contains("no `Authorization` header"), "{}", error.render());
    assert!(error.hint().unwrap().contains("--api-key-env"));
    assert!(server.take_truth().len() <= 1, "one refusal is enough");
}

#[test]
fn a_key_refused_in_mid_run_ends_the_run() {
    let ran = Job::new("every=30,kind=401").run();
    assert_eq!(ran.exit_code(), 3);
    assert_eq!((ran.round().status, ran.run.status), (RoundStatus::Stopped, RunStatus::Failed));
    let error = ran.result.as_ref().unwrap_err();
    assert!(error.to_string().contains("no `Authorization` header was sent"), "{}", error.render());
    assert!(error.hint().unwrap().contains("--api-key-env"), "{}", error.render());
    let refused = ran.data().records.iter().filter(|r| r.status == Some(401)).count();
    assert_eq!(refused, 1);
    assert!(ran.data().records.len() < 40, "what was in flight ends, nothing more is sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_preflight_the_job_still_runs() {
    let job = Job::new("kind=no-done");
    let folder = tempfile::tempdir().unwrap();
    let mut config = job.server();
    config.faults = vec!["kind=no-done".parse().unwrap()];
    let server = SimServer::start(config).unwrap();
    let mut settings = job.settings(&server.url(), folder.path());
    settings.skip.preflight = true;
    settings.model = Some("sim".into());
    let conclusion = job.harness(settings).run(&mut Silent, &Interrupt::new()).await.unwrap();
    assert_eq!(conclusion.gate.exit_code, 0);
    let run = conclusion.report.input().run().unwrap();
    assert!(run.findings.iter().any(|f| f.code == FindingCode::NoPreflight));
    assert_eq!(run.rounds[0].status, RoundStatus::Complete);
}

#[test]
fn where_all_fails_the_point_is_stopped_and_the_exit_code_says_invalid() {
    let ran = Job::new("kind=500").run();
    assert_eq!(ran.round().status, RoundStatus::Stopped);
    assert_eq!(ran.exit_code(), 4);
    assert_eq!(ran.run.status, RunStatus::Complete);
    assert!(ran.of_outcome(Outcome::Completed).is_empty());
    let reasons = &ran.result.as_ref().unwrap().gate.reasons;
    assert_eq!((reasons.len(), &reasons[0].cause), (1, &GateCause::NothingMeasured));
}

#[test]
fn a_policy_limit_is_named_with_its_wait() {
    let ran = Job::new("every=3,kind=429:7s").run();
    let finding = ran.finding("rate_limited").unwrap();
    assert!(finding.text.contains("retry after 7"), "{}", finding.text);
    assert_eq!(finding.severity, Severity::Warning);
    let record = ran.of_outcome(Outcome::Failed)[0].clone();
    assert_eq!(record.failure, Some(FailureKind::RateLimited));
    assert_eq!((record.status, record.output_tokens), (Some(429), None));
}

#[test]
fn few_failures_leave_the_point_complete() {
    let ran = Job::new("every=30,kind=500").requests(40).run();
    assert_eq!(ran.round().status, RoundStatus::Complete);
    assert!(ran.of_outcome(Outcome::Failed).len() <= 2);
}

#[test]
fn each_finding_is_told_once() {
    let ran = Job::new("kind=no-usage").run();
    let mut codes = ran.codes();
    codes.sort_unstable();
    let all = codes.len();
    codes.dedup();
    assert_eq!(codes.len(), all, "{codes:?}");
    for code in ["tokens_by_events", "too_few_samples", "server_word", "limit"] {
        assert!(codes.contains(&code), "{code}: {codes:?}");
    }
}

#[test]
fn the_server_s_own_word_stands_beside_ours() {
    let ran = Job::new("every=4,kind=late-token:40ms").run();
    let told = &ran.round().telemetry;
    let sent = ran.data().records.len() as f64;
    assert_eq!(told["server_ttft_count"], sent, "ramp and tail too");
    assert_eq!(told["generation_tokens"], sent * f64::from(OUTPUT));
    assert_eq!(told["client_generation_tokens"], told["generation_tokens"]);
    // The engine is done before the stream is held back: a quarter of 40 ms passes outside it.
    assert!(told["outside_ttft_ms"] > 5.0, "{told:?}");
    assert_eq!(told["prefix_cache_hit_rate"], 0.0, "offered, and nothing was hit");
    assert!(ran.finding("prefix_cache").is_none());
    let text = &ran.finding("server_word").unwrap().text;
    assert!(text.contains("TTFT") && text.contains("in its queue"), "{text}");
    let series = &ran.round().series;
    assert!(series.contains_key("requests_waiting") && series.contains_key("kv_cache_usage"));
}

#[test]
fn a_stall_shows_in_the_worst_gap_and_not_in_itl() {
    let ran = Job::new("every=10,kind=stall:500ms").requests(60).run();
    let mut gaps: Vec<f64> =
        ran.of_outcome(Outcome::Completed).iter().filter_map(|r| r.worst_gap_ms()).collect();
    gaps.sort_by(f64::total_cmp);
    assert!(gaps[gaps.len() - 2] >= 450.0, "the worst gaps are the stalls: {gaps:?}");
    let itl_p99_ms = ran.data().itl.quantile(0.99).unwrap() / 1e6;
    assert!(itl_p99_ms < 250.0, "a stall of one gap in 150 hides from it: {itl_p99_ms}");
}
