//! Every fault of the simulator, and what the job makes of it.

use std::collections::BTreeSet;

use inferometer::metric::Metric;
use inferometer::record::stored::RoundStatus;
use inferometer::record::{FindingCode, Outcome, RequestRecord, Severity};
use inferometer::report::detail::Detail;
use inferometer::report::{csv, json, junit, markdown, terminal};
use inferometer::sim::fault::FaultSpec;
use inferometer::transport::FailureKind::{
    self, BadRequest, Connect, ConnectRefused, Empty, ErrorInStream, Incomplete, RateLimited,
    Reset, ServerError, StaleConnection, Truncated, Unavailable,
};

use super::{INPUT, Job, OUTPUT, Ran, run_all};

/// What is to come of a fault.
enum Expect {
    /// Every third request fails as one of these: the load point is overloaded, the run goes on.
    Fails(&'static [FailureKind]),
    /// Some may fail as one of these, how many depends on chance.
    MayFail(&'static [FailureKind]),
    /// All complete, with this many output tokens.
    Completes(u32),
    /// All complete, some of them on a second connection, which is told.
    Resends,
}
use Expect::{Completes, Fails, MayFail, Resends};

/// Fault, how it is asked to strike, what comes of it. The refused key is in `ends`.
const TABLE: [(&str, &str, Expect); 35] = [
    ("429", "every=3,kind=429", Fails(&[RateLimited])),
    ("500", "every=3,kind=500", Fails(&[ServerError])),
    ("502", "every=3,kind=502", Fails(&[ServerError])),
    ("503", "every=3,kind=503", Fails(&[Unavailable])),
    ("reject-ignore-eos", "every=3,kind=reject-ignore-eos", Fails(&[BadRequest])),
    (
        "refuse",
        "limit=1,kind=refuse:50ms",
        MayFail(&[ConnectRefused, Reset, StaleConnection, Connect]),
    ),
    // A reused connection that closes at once looks like one that the server was closing just then.
    ("reset-before", "every=3,kind=reset-before", Resends),
    // It strikes only where the connection was used before.
    ("stale", "every=3,kind=stale", Resends),
    ("late-head", "every=6,kind=late-head:200ms", Completes(OUTPUT)),
    ("late-token", "every=6,kind=late-token:200ms", Completes(OUTPUT)),
    ("reset-during", "every=3,kind=reset-during", Fails(&[Reset])),
    ("truncate", "every=3,kind=truncate", Fails(&[Truncated])),
    ("error-object", "every=3,kind=error-object", Fails(&[ErrorInStream])),
    ("error-string", "every=3,kind=error-string", Fails(&[ErrorInStream])),
    ("empty", "every=3,kind=empty", Fails(&[Empty])),
    ("no-tokens", "every=3,kind=no-tokens", Fails(&[Empty])),
    ("interrupted", "every=3,kind=interrupted", Fails(&[Incomplete])),
    ("stall", "every=6,kind=stall:200ms", Completes(OUTPUT)),
    ("drip", "kind=drip", Completes(OUTPUT)),
    ("role-first", "kind=role-first", Completes(OUTPUT)),
    ("burst", "kind=burst:4", Completes(OUTPUT)),
    ("coalesce", "kind=coalesce:4", Completes(OUTPUT)),
    ("split-utf8", "kind=split-utf8", Completes(OUTPUT)),
    ("keep-alive", "kind=keep-alive:2ms", Completes(OUTPUT)),
    ("no-usage", "kind=no-usage", Completes(OUTPUT)),
    ("usage-with-choices", "kind=usage-with-choices", Completes(OUTPUT)),
    ("wrong-usage", "kind=wrong-usage", Completes(OUTPUT + 7)),
    ("no-done", "kind=no-done", Completes(OUTPUT)),
    ("ignore-max-tokens", "kind=ignore-max-tokens", Completes(2 * OUTPUT)),
    ("reasoning", "kind=reasoning", Completes(OUTPUT)),
    ("reasoning-content", "kind=reasoning-content", Completes(OUTPUT)),
    ("crlf", "kind=crlf", Completes(OUTPUT)),
    ("no-space", "kind=no-space", Completes(OUTPUT)),
    ("close-after", "kind=close-after:3", MayFail(&[])),
    ("idle-close", "kind=idle-close:1ms", MayFail(&[])),
];

fn is_of_chat(fault: &str) -> bool {
    matches!(fault, "role-first" | "reasoning" | "reasoning-content")
}

#[test]
fn every_fault_is_what_it_is() {
    let jobs = TABLE.iter().map(|(name, fault, _)| {
        let job = Job::new(fault);
        (*name, if is_of_chat(name) { job.chat() } else { job })
    });
    run_all(jobs.collect(), |name, ran| {
        let (_, _, expect) = TABLE.iter().find(|(n, ..)| *n == name).unwrap();
        check(name, expect, ran);
        println!("{}", said_in_every_output(name, ran));
    });
}

/// Where a fault is said: a row for each output, the words in it. Panics where one says nothing.
fn said_in_every_output(name: &str, ran: &Ran) -> String {
    let conclusion = ran.result.as_ref().unwrap_or_else(|error| panic!("{name}: {error}"));
    let report = &conclusion.report;
    let failures = summary(ran).failures;
    let failed: Vec<FailureKind> = failures.keys().copied().collect();
    let told = ran.run.findings.iter().find(|finding| {
        finding.severity >= Severity::Warning || finding.code == FindingCode::StaleConnections
    });
    // For people by its finding, else the words of the failure, else that none failed.
    let words = match (told, failed.first()) {
        (Some(finding), _) => finding.text.clone(),
        (None, Some(kind)) => kind.words().to_owned(),
        (None, None) => String::new(),
    };
    let words = words.split_whitespace().take(4).collect::<Vec<_>>().join(" ");
    let (key, code) = match (failed.first(), told) {
        (Some(kind), _) => (kind.name(), kind.name()),
        (None, Some(finding)) => ("served to the end", finding.code.name()),
        (None, None) => ("served to the end", "complete"),
    };
    let terminal = terminal::render(report, 100, terminal::Color::Never, Detail::Verbose);
    let rows = [
        ("terminal", terminal, if words.is_empty() { "none failed" } else { &words }),
        ("JSON", json::render(report).unwrap(), code),
        ("CSV", csv::render(report), if failed.is_empty() { "server_state,ran" } else { key }),
        (
            "JUnit",
            junit::render(report),
            &failed.first().map_or_else(|| key.to_owned(), |kind| kind.words().to_string()),
        ),
        (
            "Markdown",
            markdown::render(report, None),
            if words.is_empty() { "none failed" } else { &words },
        ),
        ("exit code", format!("exit {}", ran.exit_code()), "exit 0"),
    ];
    let mut table = String::new();
    for (output, text, wanted) in rows {
        // Lines are broken at the width of the terminal.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('\\', "");
        assert!(text.contains(wanted), "{name}: {output} lacks `{wanted}`: {text}");
        table.push_str(&format!("{name:<20} {output:<10} {wanted}\n"));
    }
    table
}

#[test]
fn the_table_holds_every_kind() {
    let kind = |text: &String| text.split('[').next().unwrap().to_owned();
    let known: BTreeSet<String> = FaultSpec::kinds().iter().map(kind).collect();
    let here: BTreeSet<String> = TABLE.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let missing: Vec<&String> = known.difference(&here).collect();
    assert_eq!(missing, ["401"]);
}

fn check(name: &str, expect: &Expect, ran: &Ran) {
    nothing_is_dropped(name, ran);
    failures_stay_out_of_figures(name, ran);
    let failed = ran.of_outcome(Outcome::Failed);
    let (kinds, share) = match expect {
        Fails(kinds) => (*kinds, Some(3)),
        MayFail(kinds) => (*kinds, None),
        Resends => {
            assert!(failed.is_empty(), "{name}: {:?}", failed[0].evidence);
            let resent = ran.data().records.iter().filter(|record| record.resent).count() as u64;
            assert!(resent > 0 && ran.round().health.resent == resent, "{name}: {resent}");
            assert!(ran.codes().contains(&"stale_connections"), "{name}: {:?}", ran.codes());
            return;
        }
        Completes(tokens) => {
            assert!(failed.is_empty(), "{name}: {:?}", failed[0].evidence);
            assert_eq!(ran.round().status, RoundStatus::Complete, "{name}");
            for record in ran.measured() {
                assert_eq!(record.output_tokens, Some(*tokens), "{name}: {record:?}");
            }
            return;
        }
    };
    for record in &failed {
        assert!(kinds.contains(&record.failure.unwrap()), "{name}: {:?}", record.evidence);
        evidence_is_bounded(name, record);
    }
    if let Some(every) = share {
        // By the order of arrival, of all that were sent: no two of the measured are far apart there.
        let all = &ran.data().records;
        let struck = all.iter().filter(|r| r.outcome == Outcome::Failed).count();
        assert_eq!(struck, all.len() / every, "{name}: of {}", all.len());
        assert!(!failed.is_empty(), "{name}");
        assert_eq!(ran.round().status, RoundStatus::Overloaded, "{name}");
    }
}

fn nothing_is_dropped(name: &str, ran: &Ran) {
    let measured = ran.measured();
    let summary = summary(ran);
    assert_eq!(ran.of_outcome(Outcome::Cancelled).len(), 0, "{name}");
    assert_eq!(summary.completed + summary.failed, measured.len() as u64, "{name}");
    assert_eq!(summary.failed, summary.failures.values().sum::<u64>(), "{name}");
    if ran.round().status != RoundStatus::Stopped {
        assert_eq!(measured.len(), 24, "{name}: {:?}", ran.codes());
        assert_eq!(ran.exit_code(), 0, "{name}: a load point that fails is a result");
    }
}

fn summary(ran: &Ran) -> inferometer::summary::Summary {
    let data = ran.data();
    let input = inferometer::summary::RoundInput {
        round: ran.round(),
        records: &data.records,
        itl: &data.itl,
        icl: &data.icl,
    };
    inferometer::summary::summarise(&[input], None)
}

/// Latencies are of the completed alone, and rates of what they brought inside the window.
fn failures_stay_out_of_figures(name: &str, ran: &Ran) {
    let summary = summary(ran);
    let completed = ran.of_outcome(Outcome::Completed);
    let count = |metric| summary.distributions[&metric].count;
    assert_eq!(count(Metric::Ttft), completed.len() as u64, "{name}");
    assert_eq!(count(Metric::E2el), completed.len() as u64, "{name}");
    let gaps: u64 = completed.iter().map(|r| u64::from(r.output_tokens.unwrap())).sum::<u64>()
        - completed.iter().map(|r| u64::from(r.first_event_tokens)).sum::<u64>();
    assert_eq!(count(Metric::Itl), gaps, "{name}");
    let round = ran.round();
    // Each request by the share of its time inside the window; one that was cut, by a typical time.
    let (open, close) = (round.window_open_ns as f64, round.window_close_ns as f64);
    let lived = |r: &RequestRecord| Some((r.sent_ns? as f64, r.ended_ns()? as f64));
    let all = |outcome: Outcome| {
        let records = ran.data().records.iter();
        records.filter(move |r| r.outcome == outcome).filter_map(lived).collect::<Vec<_>>()
    };
    let whole = all(Outcome::Completed);
    let typical = whole.iter().map(|(sent, end)| end - sent).sum::<f64>() / whole.len() as f64;
    let inside = |(sent, end): &(f64, f64)| (end.min(close) - sent.max(open)).max(0.0);
    let of_whole = whole.iter().map(|span| inside(span) / (span.1 - span.0)).sum::<f64>();
    let of_cut = |span: &(f64, f64)| inside(span) / typical.max(span.1 - span.0);
    let served = of_whole + all(Outcome::Cancelled).iter().map(of_cut).sum::<f64>();
    let brought = |of: fn(&RequestRecord) -> u32| -> f64 {
        let kept = ran.data().records.iter().filter(|r| r.outcome == Outcome::Completed);
        kept.map(|r| f64::from(of(r))).sum()
    };
    if summary.duration_s > 0.0 {
        let near = |rate: Option<f64>, sum: f64| {
            (rate.unwrap() * summary.duration_s - sum).abs() < 1e-6 * sum.max(1.0)
        };
        assert!(near(summary.request_throughput, served), "{name}: {served}");
        assert!(near(summary.output_throughput, brought(|r| r.window_tokens)), "{name}");
    }
    for record in completed {
        assert!(record.ttft_ms().is_some_and(|ms| ms > 0.0), "{name}: {record:?}");
        assert_eq!(record.input_tokens_asked, INPUT, "{name}");
    }
}

fn evidence_is_bounded(name: &str, record: &RequestRecord) {
    let evidence = record.evidence.as_ref().unwrap_or_else(|| panic!("{name}: no evidence"));
    assert!(!evidence.message.is_empty() && evidence.message.len() <= 1024, "{name}");
    assert!(evidence.first_bytes.len() <= 512 && evidence.last_bytes.len() <= 512, "{name}");
    let has_status =
        !matches!(record.failure, Some(Reset | StaleConnection | ConnectRefused | Connect));
    assert!(record.status.is_some() || !has_status, "{name}: {record:?}");
}
