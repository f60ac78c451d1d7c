//! Tokens and their times, against the server's own log of the same run.

use inferometer::metric::Metric;
use inferometer::record::{FindingCode, Outcome, Part, RequestRecord, Severity};
use inferometer::sim::truth::TruthRecord;
use inferometer::transport::TokenSource;

use super::{Job, OUTPUT, Ran, run_all};

/// Each completed request beside the server's log of it: one at a time, so both are in one order.
fn beside(ran: &Ran) -> Vec<(&RequestRecord, &TruthRecord)> {
    let records = &ran.data().records;
    assert_eq!(records.len(), ran.truth.len());
    let pairs = records.iter().zip(&ran.truth).filter(|(r, _)| r.part == Part::Measured);
    let pairs: Vec<_> = pairs.collect();
    assert!(pairs.iter().all(|(r, _)| r.outcome == Outcome::Completed));
    pairs
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn truth_ttft_ms(truth: &TruthRecord) -> f64 {
    (truth.first_token_ns.unwrap() - truth.received_ns) as f64 / 1e6
}

/// The time from the first token to the last over the tokens after the first event.
fn truth_tpot_ms(truth: &TruthRecord, first_event: u32) -> f64 {
    let span = truth.last_token_ns.unwrap() - truth.first_token_ns.unwrap();
    span as f64 / 1e6 / f64::from(truth.output_tokens - first_event)
}

#[test]
fn a_role_only_chunk_is_no_token() {
    let ran = Job::new("kind=role-first").and("kind=late-token:150ms").chat().one_by_one(8).run();
    for (record, truth) in beside(&ran) {
        let (ours, theirs) = (record.ttft_ms().unwrap(), truth_ttft_ms(truth));
        assert!(ours >= 150.0 && theirs >= 150.0, "{ours} {theirs}");
        let first_byte_ns = record.first_byte_ns.unwrap();
        assert!(first_byte_ns + 100_000_000 < record.first_token_ns.unwrap(), "kept beside it");
        assert_eq!((record.events, record.output_tokens), (OUTPUT, Some(OUTPUT)));
    }
}

#[test]
fn tokens_in_bundles_keep_their_tpot_and_itl() {
    let ran = Job::new("kind=burst:4").one_by_one(10).run();
    let pairs = beside(&ran);
    for (record, truth) in &pairs {
        assert_eq!(record.token_source, Some(TokenSource::EventUsage));
        assert_eq!((record.output_tokens, truth.output_tokens), (Some(OUTPUT), OUTPUT));
        assert_eq!((record.events, record.first_event_tokens), (5, 1), "1, 4, 4, 4, 3");
    }
    let ratio = |(record, truth): &(&RequestRecord, &TruthRecord)| {
        record.tpot_ms().unwrap() / truth_tpot_ms(truth, record.first_event_tokens)
    };
    let tpot = median(pairs.iter().map(ratio).collect());
    // By events instead of tokens it would be 3.75.
    assert!((tpot - 1.0).abs() < 0.2, "{tpot}");
    let (itl, icl) = (&ran.data().itl, &ran.data().icl);
    let n = pairs.len() as u64;
    assert_eq!((itl.count(), icl.count()), (n * u64::from(OUTPUT - 1), n * 4));
    let spread = icl.mean().unwrap() / itl.mean().unwrap();
    assert!((spread - 3.75).abs() < 0.01, "a gap is spread over its tokens: {spread}");
    let text = &ran.finding("tokens_per_event").unwrap().text;
    assert!(text.contains("3.20 tokens"), "{text}");
    assert!(ran.finding("coalesced").is_none());
}

#[test]
fn events_that_come_together_are_told() {
    let ran = Job::new("kind=coalesce:4").one_by_one(10).run();
    let finding = ran.finding("coalesced").unwrap();
    assert!(finding.text.contains("ITL percentiles are not meaningful"), "{}", finding.text);
    assert_eq!(finding.severity, Severity::Warning);
    assert!(ran.round().health.coalesced_share.unwrap() > 0.5);
    for (record, _) in beside(&ran) {
        assert_eq!((record.output_tokens, record.events), (Some(OUTPUT), OUTPUT));
    }
}

#[test]
fn more_than_was_asked_is_a_finding() {
    for (fault, more) in [("kind=ignore-max-tokens", OUTPUT), ("kind=wrong-usage", 7)] {
        let ran = Job::new(fault).run();
        let finding = ran.finding("output_over_cap").unwrap();
        assert!(finding.text.contains(&format!("up to {more} more")), "{}", finding.text);
        assert_eq!(finding.severity, Severity::Warning);
    }
}

#[test]
fn an_answer_that_stops_early_counts_as_long_as_it_was() {
    let mut job = Job::new("kind=no-done");
    job.config.stop_after_tokens = Some(9);
    // Refused in the preflight, so that auto goes on without it.
    job.config.faults = vec!["kind=reject-ignore-eos".parse().unwrap()];
    let ran = job.run();
    for record in ran.of_outcome(Outcome::Completed) {
        assert_eq!((record.output_tokens, record.output_tokens_asked), (Some(9), OUTPUT));
    }
    let finding = ran.finding("early_stops").unwrap();
    assert!(finding.text.starts_with("100 % of the answers"), "{}", finding.text);
    assert!(finding.text.contains("p50 -7"), "{}", finding.text);
    assert!(ran.run.findings.iter().any(|f| f.code == FindingCode::IgnoreEos), "{:?}", ran.codes());
}

#[test]
fn who_counted_is_stored_and_told() {
    let usual = Job::new("kind=no-done").run();
    let of = |ran: &Ran| {
        let input = ran.result.as_ref().unwrap().report.input();
        input.points[0].side(0).unwrap().summary.token_sources.clone()
    };
    assert_eq!(of(&usual).into_iter().collect::<Vec<_>>(), [(TokenSource::EventUsage, 24)]);
    let last_resort = Job::new("kind=no-usage").run();
    assert_eq!(of(&last_resort).into_iter().collect::<Vec<_>>(), [(TokenSource::Events, 24)]);
    let finding = last_resort.finding("tokens_by_events").unwrap();
    assert!(
        finding.text.starts_with("the server reported no token count for 24 of 24"),
        "{}",
        finding.text
    );
    let mixed = Job::new("every=2,kind=no-usage").run();
    assert!(mixed.finding("token_sources").unwrap().text.contains("usage in every event"));
}

#[test]
fn reasoning_counts_for_ttft_and_ttfo_waits() {
    for fault in ["kind=reasoning:8", "kind=reasoning-content:8"] {
        let ran = Job::new(fault).chat().one_by_one(6).run();
        for (record, _) in beside(&ran) {
            let (ttft, ttfo) = (record.ttft_ms().unwrap(), record.ttfo_ms().unwrap());
            assert!(ttfo > ttft, "{ttft} {ttfo}");
            assert_eq!(record.output_tokens, Some(OUTPUT));
        }
        let summary =
            &ran.result.as_ref().unwrap().report.input().points[0].side(0).unwrap().summary;
        assert_eq!(summary.distributions[&Metric::Ttfo].count, 6);
    }
}

#[test]
fn what_a_failed_request_had_received_is_kept_and_counts_in_no_latency() {
    let kinds = ["reset-during", "truncate", "error-object", "error-string", "interrupted"];
    let job = |kind: &&'static str| (*kind, Job::new(&format!("every=3,kind={kind}:5")));
    run_all(kinds.iter().map(job).collect(), |kind, ran| {
        let failed = ran.of_outcome(Outcome::Failed);
        assert!(!failed.is_empty(), "{kind}");
        for record in failed {
            assert_eq!((record.events, record.output_tokens), (5, Some(5)), "{kind}: {record:?}");
            let (first, last) = (record.first_token_ns.unwrap(), record.last_token_ns.unwrap());
            assert!(first < last && last <= record.end_ns.unwrap(), "{kind}: {record:?}");
            let worst = record.worst_gap_ns.unwrap();
            assert!(worst * 4 >= last - first && worst <= last - first, "{kind}: {record:?}");
        }
        let gaps: u64 =
            ran.of_outcome(Outcome::Completed).iter().map(|r| u64::from(r.events) - 1).sum();
        assert_eq!(ran.data().icl.count(), gaps, "{kind}: gaps are those of the completed");
    });
}
