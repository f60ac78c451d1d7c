//! Summaries: tables of requests whose right values were worked out by hand.
#![allow(clippy::unwrap_used, clippy::float_cmp)] // a test may

use inferometer::api::Content;
use inferometer::diagnose::samples;
use inferometer::metric::{Measure, Metric, Statistic};
use inferometer::plan::{Phase, PlannedRequest, Side};
use inferometer::record::health::{OfferedLoad, sends_inside};
use inferometer::record::request::Part;
use inferometer::record::stored::Health;
use inferometer::record::{
    GapHistogram, Outcome, RequestIdent, RequestRecord, StoredRound, Window, record_gaps,
};
use inferometer::rng::Seed;
use inferometer::scenario::Slo;
use inferometer::summary::steadiness::{self, Steadiness};
use inferometer::summary::{
    RoundInput, Series, Summary, distribution::Distribution, lockstep, summarise,
};
use inferometer::transport::client::TokenSource;
use inferometer::transport::{Exchange, FailureKind, TokenEvent, TokenTimeline};
use proptest::prelude::*;

use crate::inside::kept::{MS, S, failed, gaps, request, round};

/// A round with its own histograms.
struct Measured {
    round: StoredRound,
    records: Vec<RequestRecord>,
    itl: GapHistogram,
    icl: GapHistogram,
}

impl Measured {
    fn new(records: Vec<RequestRecord>) -> Self {
        Self { round: round(0), records, itl: gaps(&[]), icl: gaps(&[]) }
    }

    fn input(&self) -> RoundInput<'_> {
        RoundInput { round: &self.round, records: &self.records, itl: &self.itl, icl: &self.icl }
    }

    fn summary(&self) -> Summary {
        summarise(&[self.input()], None)
    }
}

/// Window 10 s to 20 s. Four measured completions (the last of one token), two measured failures,
/// one of the ramp that ends inside, one of the tail that ends outside.
fn table() -> Vec<RequestRecord> {
    let mut ramp = request(9_000 * MS, 9_050 * MS, 10_500 * MS, 12);
    (ramp.part, ramp.window_tokens) = (Part::Ramp, 5);
    let mut tail = request(19_000 * MS, 19_100 * MS, 21_000 * MS, 20);
    (tail.part, tail.window_tokens) = (Part::Tail, 7);
    // What it had brought before it failed is of no use to its sender.
    let mut reset = failed(18_000 * MS, 2_000 * MS, FailureKind::Reset);
    reset.window_tokens = 9;
    vec![
        ramp,
        request(10_000 * MS, 10_100 * MS, 11_000 * MS, 10),
        request(11_000 * MS, 11_200 * MS, 13_000 * MS, 19),
        request(13_000 * MS, 13_300 * MS, 17_300 * MS, 21),
        request(17_300 * MS, 17_700 * MS, 17_700 * MS, 1),
        failed(17_700 * MS, 300 * MS, FailureKind::RateLimited),
        reset,
        tail,
    ]
}

fn near(value: Option<f64>, right: f64) -> bool {
    value.is_some_and(|value| (value - right).abs() <= 1e-9 * right.abs().max(1.0))
}

#[test]
fn every_number_of_a_round_by_hand() {
    let slo = Slo { ttft_ms: Some(300.0), tpot_ms: Some(100.0), e2el_ms: None, share: None };
    let measured = Measured::new(table());
    let summary = summarise(&[measured.input()], Some(slo));
    let rates = [
        (summary.request_throughput, (4.0 + 1.0 / 3.0 + 0.5) / 10.0), // 4 measured, parts of ramp and tail
        (summary.output_throughput, 6.3),                             // 10 + 19 + 21 + 1 + 5 + 7
        (summary.total_token_throughput, 6.3 + (4.0 + 1.0 / 3.0 + 0.5) * 51.2), // and prompts of 512
        (summary.goodput, 0.25), // the first two measured, and half of the tail's
        (summary.error_rate(), 2.0 / 6.0),
        (summary.concurrency_mean, 1.15), // 1 + 2 + 4.3 + 0.4 + 0.3 + 2 + 0.5 + 1 s in flight
        (Some(summary.duration_s), 10.0),
    ];
    for (place, (value, right)) in rates.into_iter().enumerate() {
        assert!(near(value, right), "rate {place}: {value:?} for {right}");
    }
    let latencies = [
        ("ttft_mean", 250.0),
        ("ttft_p50", 250.0),
        ("ttft_p90", 370.0),
        ("ttft_p99", 397.0),
        ("tpot_mean", 400.0 / 3.0),
        ("tpot_p50", 100.0),
        ("e2el_mean", 1925.0),
        ("e2el_p50", 1500.0),
        ("worst_gap_mean", 400.0 / 3.0),
    ];
    for (name, right) in latencies {
        let measure: Measure = name.parse().unwrap();
        assert!(near(summary.get(measure), right), "{name}: {:?}", summary.get(measure));
    }
    let ttft = summary.distributions[&Metric::Ttft];
    assert_eq!((ttft.count, ttft.min, ttft.max), (4, Some(100.0), Some(400.0)));
    assert!(near(ttft.std, (50_000.0_f64 / 3.0).sqrt()));
    assert_eq!((summary.completed, summary.failed, summary.tpot_undefined), (4, 2, 1));
    assert_eq!((summary.input_tokens, summary.output_tokens), (2048, 51));
    assert_eq!(summary.failures[&FailureKind::RateLimited], 1);
    assert_eq!(summary.failures[&FailureKind::Reset], 1);
    assert_eq!(summary.distributions[&Metric::ScheduleDelay].count, 0, "a closed loop");
}

#[test]
fn waves_have_their_own_rate_wherever_the_window_lies() {
    // Requests in flight that begin and end together, each a second long.
    for (streams, open_ms, close_ms) in
        [(16, 9_990, 14_010), (16, 10_000, 14_000), (64, 10_010, 13_990), (64, 9_500, 14_500)]
    {
        let wave = |second: u64| {
            let at = second * S;
            (0..streams).map(move |_| request(at, at + 100 * MS, at + S, 10))
        };
        let mut measured = Measured::new((8..17).flat_map(wave).collect());
        measured.round.window_open_ns = open_ms * MS;
        measured.round.window_close_ns = close_ms * MS;
        let rate = measured.summary().request_throughput;
        assert!(near(rate, f64::from(streams)), "{streams} from {open_ms} ms: {rate:?}");
    }
}

#[test]
fn what_is_cut_after_the_window_counts_by_how_long_such_requests_take() {
    let mut cut = request(19 * S, 19 * S + 100 * MS, 20 * S, 5);
    (cut.outcome, cut.end_ns) = (Outcome::Cancelled, Some(20 * S));
    let whole = request(12 * S, 12 * S + 100 * MS, 16 * S, 10);
    let rate = Measured::new(vec![whole, cut]).summary().request_throughput;
    assert!(near(rate, (1.0 + 0.25) / 10.0), "{rate:?}");
}

#[test]
fn in_an_open_loop_the_clock_starts_when_due() {
    let mut late = request(12 * S, 12 * S + 100 * MS, 13 * S, 10);
    late.due_ns = Some(10 * S);
    let summary = Measured::new(vec![late]).summary();
    assert!(near(summary.get(Measure::TTFT_P50), 2100.0));
    assert!(near(summary.distributions[&Metric::TtftFromSent].p50, 100.0));
    assert!(near(summary.distributions[&Metric::ScheduleDelay].p50, 2000.0));
    assert!(near(summary.distributions[&Metric::E2elFromSent].p50, 1000.0));
    assert!(near(summary.concurrency_mean, 0.1), "in flight from the send");
}

#[test]
fn rounds_pool_their_requests_windows_and_gaps() {
    let mut first = Measured::new(table());
    first.itl = gaps(&[10, 10, 10]);
    let mut second = Measured::new(vec![request(11 * S, 11 * S + 500 * MS, 12 * S, 2)]);
    second.round.window_close_ns = 15 * S;
    (second.itl, second.icl) = (gaps(&[20]), gaps(&[40]));
    let summary = summarise(&[first.input(), second.input()], None);
    assert!(near(Some(summary.duration_s), 15.0));
    assert!(near(summary.request_throughput, (5.0 + 1.0 / 3.0 + 0.5) / 15.0));
    assert_eq!(summary.completed, 5);
    assert_eq!(summary.distributions[&Metric::Itl].count, 4);
    let median = summary.get(Measure::ITL_P50).unwrap();
    assert!((median / 10.0 - 1.0).abs() < GapHistogram::RESOLUTION, "{median}");
    assert_eq!(summary.distributions[&Metric::Icl].count, 1);
    assert_eq!(summary.goodput, None, "no limits, no goodput");
}

#[test]
fn nothing_failed_and_single_give_no_number_that_is_not_one() {
    let nothing = summarise(&[], None);
    assert_eq!((nothing.request_throughput, nothing.error_rate()), (None, None));
    let empty = Measured::new(Vec::new()).summary();
    assert_eq!(empty.request_throughput, Some(0.0), "nothing in ten seconds is a rate");
    assert_eq!(empty.get(Measure::TTFT_P50), None);

    let lost = vec![failed(11 * S, S, FailureKind::Reset), failed(12 * S, S, FailureKind::Reset)];
    let all_failed = Measured::new(lost).summary();
    assert_eq!((all_failed.error_rate(), all_failed.failed), (Some(1.0), 2));
    assert_eq!(all_failed.distributions[&Metric::Ttft], Distribution::default());
    assert_eq!(all_failed.output_throughput, Some(0.0));

    let one_token = Measured::new(vec![request(11 * S, 12 * S, 12 * S, 1)]).summary();
    assert_eq!((one_token.tpot_undefined, one_token.get(Measure::TPOT_MEAN)), (1, None));
    assert_eq!(one_token.get(Measure::TTFT_P99), Some(1000.0));
    assert_eq!(one_token.distributions[&Metric::Ttft].std, None);

    let mut unclosed = Measured::new(table());
    unclosed.round.window_close_ns = 0;
    assert_eq!(unclosed.summary().request_throughput, None, "no window, no rate");
    for summary in [nothing, empty, all_failed, one_token] {
        let json = serde_json::to_string(&summary).unwrap();
        assert_eq!(serde_json::from_str::<Summary>(&json).unwrap(), summary);
    }
}

#[test]
fn a_cancelled_request_is_neither_success_nor_failure() {
    let mut cancelled = request(19 * S, 19 * S + 100 * MS, 21 * S, 20);
    (cancelled.outcome, cancelled.failure) = (Outcome::Cancelled, Some(FailureKind::Cancelled));
    cancelled.window_tokens = 9;
    let summary = Measured::new(vec![cancelled]).summary();
    assert_eq!((summary.completed, summary.failed, summary.error_rate()), (0, 0, None));
    assert!(near(summary.output_throughput, 0.9), "its tokens were delivered");
}

/// Four slots of one-second requests over the window, the n-th slot `offset_ns` × n late.
fn four_slots(offset_ns: u64) -> Measured {
    let mut records = Vec::new();
    for slot in 0..4 {
        for turn in 0..12 {
            let sent_ns = 9 * S + turn * S + slot * offset_ns;
            records.push(request(sent_ns, sent_ns + 100 * MS, sent_ns + S, 10));
        }
    }
    Measured::new(records)
}

/// The health of four slots, of which all are taken in turn.
fn health_of(measured: &Measured, arrivals: Option<u64>) -> Health {
    Health::of(&measured.records, Window::of(&measured.round), OfferedLoad { cap: 4, arrivals })
}

#[test]
fn four_in_flight_are_four_by_count_and_by_little() {
    let measured = four_slots(S / 4);
    let summary = measured.summary();
    assert!(near(summary.concurrency_mean, 4.0), "{:?}", summary.concurrency_mean);
    let found = health_of(&measured, None);
    assert!(near(found.in_flight_mean, 4.0), "{found:?}");
    assert!(near(found.little, 4.0), "{found:?}");
}

#[test]
fn waves_are_told_from_an_even_load() {
    let index = |measured: &Measured| {
        let found = health_of(measured, None);
        assert!(near(found.sent_per_s, 4.0), "{:?}", found.sent_per_s);
        let sends = sends_inside(&measured.records, Window::of(&measured.round)).count();
        assert_eq!(lockstep::waves_finding(&found, 15, "p"), None, "too few");
        (found.lockstep.unwrap(), lockstep::waves_finding(&found, sends, "p").is_some())
    };
    let (even, even_finding) = index(&four_slots(S / 4));
    assert!(even < 1e-9 && !even_finding, "{even}");
    let (waves, waves_finding) = index(&four_slots(0));
    assert!((waves - 1.0).abs() < 1e-9 && waves_finding, "{waves}");
    // Half of the slots half a period late, a known sum: |1 + 1 + (−1) + (−1)| / 4.
    assert!(index(&four_slots(S / 2)).0 < 1e-9);
}

#[test]
fn an_open_loop_tells_what_was_offered_and_done() {
    let records = (0..20)
        .map(|n| {
            let due_ns = 10 * S + n * S / 2 + MS;
            let mut record = request(due_ns + MS, due_ns + 50 * MS, due_ns + 2 * S, 10);
            record.due_ns = Some(due_ns);
            record.coalesced_events = 1;
            record
        })
        .collect();
    let found = health_of(&Measured::new(records), Some(20));
    assert!(near(found.offered_per_s, 2.0) && near(found.sent_per_s, 2.0));
    // Due up to 17.999 s have ended by 20 s: 16 of 20.
    assert!(near(found.completion_ratio, 0.8), "{:?}", found.completion_ratio);
    assert!(near(found.coalesced_share, 0.1));
}

#[test]
fn too_few_samples_are_said() {
    assert_eq!(samples::too_few(Metric::Ttft, Statistic::P99, 100), None);
    let text = samples::too_few(Metric::Ttft, Statistic::P99, 99).unwrap();
    assert_eq!(text, "TTFT p99 needs at least 100 requests; measured 99");
    assert!(samples::too_few(Metric::Tpot, Statistic::P90, 29).is_some());
    let finding = samples::finding(&four_slots(0).summary(), "chat/short/c4").unwrap();
    assert!(
        finding.text.contains("TTFT p95 needs at least 60 requests; measured 48"),
        "{}",
        finding.text
    );
    assert_eq!(finding.point.as_deref(), Some("chat/short/c4"));
}

#[test]
fn a_growing_queue_is_not_steady() {
    let of = |ttft_ms: fn(u64) -> u64, count: u64| -> Vec<RequestRecord> {
        let mut records: Vec<_> = (0..count)
            .map(|n| {
                let sent_ns = 10 * S + n * 100 * MS;
                request(sent_ns, sent_ns + ttft_ms(n) * MS, sent_ns + 20 * S, 10)
            })
            .collect();
        records.reverse(); // the order of the file must not matter
        records
    };
    assert_eq!(steadiness::steadiness(&of(|n| 100 + n % 3, 60)), Steadiness::Steady);
    // Thirds of 20: medians 100 + 10 × 9.5 and 100 + 10 × 49.5.
    let growing = of(|n| 100 + 10 * n, 60);
    assert!(near(steadiness::thirds_ratio(&growing), 595.0 / 195.0));
    let finding = steadiness::finding(&growing, "p").unwrap();
    assert!(finding.text.contains("TTFT grew"), "{}", finding.text);
    assert!(
        steadiness::finding(&of(|n| 700 - 10 * n, 60), "p").unwrap().text.contains("TTFT fell")
    );
    assert_eq!(steadiness::steadiness(&of(|n| 100 + 10 * n, 29)), Steadiness::Unknown);
}

#[test]
fn a_series_shows_the_round_second_by_second() {
    let measured = Measured::new(table());
    let series = Series::of(&measured.input());
    // From the ramp's send at 9 s to the tail's end at 21 s.
    assert_eq!((series.bins.len(), series.bin_s), (12, 1.0));
    assert_eq!((series.open_s, series.close_s), (1.0, 11.0));
    let flights: Vec<f64> = series.bins.iter().map(|bin| bin.in_flight).collect();
    // 10 s to 11 s: the first measured all of it, the ramp's half.
    assert!(near(Some(flights[1]), 1.5) && near(Some(flights[0]), 1.0), "{flights:?}");
    let total: f64 = flights.iter().sum();
    assert!(near(Some(total), 13.5), "{total}"); // 11.5 s in the window, 1 before, 1 after
    let completions: f64 = series.bins.iter().map(|bin| bin.completions_per_s).sum();
    assert!(near(Some(completions), 6.0));
    assert_eq!(series.bins.iter().map(|bin| bin.failures).sum::<u32>(), 2);
    assert_eq!(series.dots.len(), 6);
    assert_eq!((series.dots[1].at_s, series.dots[1].ttft_ms), (1.0, 100.0));
    assert_eq!(Series::of(&Measured::new(Vec::new()).input()), Series::default());
}

#[test]
fn a_long_round_keeps_its_series_short() {
    let records = (0..10_000).map(|n| request(n * S, n * S + MS, n * S + 2 * MS, 2)).collect();
    let series = Series::of(&Measured::new(records).input());
    assert!(series.bins.len() <= 600 && series.bin_s == 17.0, "{}", series.bin_s);
    assert!(series.dots.len() <= 4_000);
    let completions: f64 = series.bins.iter().map(|bin| bin.completions_per_s * 17.0).sum();
    assert!((completions - 10_000.0).abs() < 1e-6, "{completions}");
}

/// An exchange whose events come at these times with these tokens.
fn exchange(events: &[(u64, u32)]) -> Exchange {
    let events: Vec<TokenEvent> = events
        .iter()
        .map(|(at_ms, tokens)| TokenEvent {
            at_ns: at_ms * MS,
            tokens: *tokens,
            content: Content::Visible,
        })
        .collect();
    Exchange {
        status: Some(200),
        input_tokens: Some(10),
        cached_tokens: None,
        output_tokens: Some(events.iter().map(|event| event.tokens).sum()),
        token_source: Some(TokenSource::TokenIds),
        finish_reason: None,
        failure: None,
        timeline: TokenTimeline {
            sent_ns: Some(1),
            end_ns: events.last().map(|event| event.at_ns),
            events,
            ..TokenTimeline::default()
        },
    }
}

proptest! {
    // Each case fills and walks two histograms of up to 30 s, which takes a while unoptimised.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn throughput_is_the_tokens_inside_the_window(
        answers in prop::collection::vec(
            prop::collection::vec((1_u64..30_000, 0_u32..5), 1..30),
            1..20,
        ),
    ) {
        let ident = RequestIdent {
            side: Side::New, block: 0, start: 0, round: 0, phase: Phase::Load, part: Part::Measured,
        };
        let planned = PlannedRequest {
            index: 0, due_ns: None, input_tokens: 10, output_tokens: 9, seed: Seed(1),
        };
        let (mut itl, mut icl) = (GapHistogram::new(), GapHistogram::new());
        let (mut inside, mut later_tokens, mut gaps) = (0_u32, 0_u64, 0_u64);
        let mut records = Vec::new();
        for mut events in answers {
            events.sort_unstable();
            inside += events
                .iter()
                .filter(|(at_ms, _)| (10_001..=20_000).contains(at_ms))
                .map(|(_, tokens)| tokens)
                .sum::<u32>();
            later_tokens += events[1..].iter().map(|(_, tokens)| u64::from(*tokens)).sum::<u64>();
            gaps += events.len() as u64 - 1;
            let exchange = exchange(&events);
            record_gaps(&exchange.timeline, &mut itl, &mut icl);
            let window = (10 * S, 20 * S);
            records.push(RequestRecord::from_exchange(ident, &planned, &exchange, window));
        }
        let measured = Measured { round: round(0), records, itl, icl };
        let summary = measured.summary();
        prop_assert!(near(summary.output_throughput, f64::from(inside) / 10.0));
        prop_assert_eq!(summary.distributions[&Metric::Itl].count, later_tokens);
        prop_assert_eq!(summary.distributions[&Metric::Icl].count, gaps);
    }

    #[test]
    fn the_order_of_records_changes_nothing(order in Just(table()).prop_shuffle()) {
        let shuffled = Measured::new(order).summary();
        let straight = Measured::new(table()).summary();
        prop_assert_eq!(shuffled.distributions, straight.distributions);
        prop_assert_eq!(shuffled.failures, straight.failures);
        prop_assert!(near(shuffled.concurrency_mean, 1.15));
    }
}

#[test]
fn an_slo_is_met_by_enough_good_requests_few_failures_and_no_growing_backlog() {
    use inferometer::record::stored::RoundStatus::{Complete, Overloaded, Saturated};
    let slo = Slo { ttft_ms: Some(300.0), tpot_ms: None, e2el_ms: None, share: Some(0.5) };
    let met = |late: u64, failures: u64, status| {
        let good = (0..100 - late - failures)
            .map(|n| request(10_000 * MS + n, 10_100 * MS, 11_000 * MS, 10));
        let slow = (0..late).map(|n| request(10_000 * MS + n, 10_400 * MS, 11_000 * MS, 10));
        let lost = (0..failures).map(|n| failed(11_000 * MS + n, MS, FailureKind::Reset));
        let measured = Measured::new(good.chain(slow).chain(lost).collect());
        summarise(&[measured.input()], Some(slo)).meets(&slo, status)
    };
    assert_eq!((met(50, 0, Complete), met(51, 0, Complete)), (Some(true), Some(false)));
    // One failure alone may be the connection's; many are the server's, though half are good.
    assert_eq!((met(0, 1, Complete), met(0, 30, Complete)), (Some(true), Some(false)));
    assert_eq!((met(0, 0, Saturated), met(0, 0, Overloaded)), (Some(false), Some(false)));
}
