//! The simulated engine in virtual time: conservation, closed forms, and the ordering that real servers show.
#![allow(clippy::unwrap_used)] // helpers of tests

use crate::inside::acceptance::h200::{self, Load, MEASURED, Measured, Started, predicted};
use crate::inside::acceptance::virtual_run::{
    Arrival, SlotStart, VirtualRequest, closed_loop, open_loop,
};
use inferometer::rng::Seed;
use inferometer::sim::noise::Noise;
use inferometer::sim::profile::Prefill;
use inferometer::sim::scheduler::EventKind;
use inferometer::sim::{Engine, FrontEnd, Preset, Profile, RequestSpec, start_seed};

const S: u64 = 1_000_000_000;

fn quiet(profile: Profile) -> Engine {
    Engine::new(profile, Noise::OFF, Seed(1))
}

fn uniform(count: usize, prompt: u32, output: u32) -> Vec<RequestSpec> {
    vec![RequestSpec::new(prompt, output); count]
}

/// Linear interpolation between order statistics.
fn quantile_ms(mut values: Vec<u64>, q: f64) -> f64 {
    values.sort_unstable();
    let place = q * (values.len() - 1) as f64;
    let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
    (low as f64 + (high - low) as f64 * place.fract()) / 1e6
}

/// Tokens that arrive while the load is full, over that time.
fn output_rate(requests: &[VirtualRequest], skip: usize) -> f64 {
    let mut ends: Vec<u64> = requests.iter().map(|r| r.last_token_ns).collect();
    ends.sort_unstable();
    let (from, to) = (ends[skip], ends[ends.len() - 1 - skip]);
    let mut tokens = 0;
    for request in requests {
        let mut at = request.first_token_ns;
        tokens += u64::from((from..to).contains(&at));
        for gap in &request.gaps_ns {
            at += gap;
            tokens += u64::from((from..to).contains(&at));
        }
    }
    tokens as f64 * 1e9 / (to - from) as f64
}

#[test]
fn a_single_request_follows_the_formula() {
    for preset in Preset::ALL {
        let mut profile = preset.profile();
        profile.front.in_sigma = 0.0;
        let (costs, front) = (profile.costs, profile.front);
        let run =
            closed_loop(&mut quiet(profile), 0, &uniform(1, 512, 128), 1, SlotStart::Together);
        let prefill = costs.base_ms
            + costs.prefill_ms
            + 512.0 * costs.prefill_token_ms
            + 512.0 * 511.0 / 2.0 * costs.position_ms;
        let ttft =
            front.busy_at_512_ms + front.in_ms + prefill + front.out_ms + front.busy_token_ms;
        assert!((run[0].ttft_ns() as f64 / 1e6 - ttft).abs() < 1e-5, "{preset}");
        // The k-th decode step sees a context of 512 + k tokens, k = 1, …, 127: 576 in the mean.
        let step = costs.base_ms + costs.decoding_ms + 576.0 * costs.context_token_ms;
        assert!((run[0].tpot_ms().unwrap() - step).abs() < 1e-5, "{preset}");
        assert_eq!(run[0].gaps_ns.len(), 127);
    }
}

#[test]
fn a_long_prompt_is_computed_in_pieces_of_the_budget() {
    let mut profile = Preset::Statistics.profile();
    profile.front.in_sigma = 0.0;
    let run = closed_loop(&mut quiet(profile), 0, &uniform(1, 5000, 1), 1, SlotStart::Together);
    // 2048 + 2048 + 904 tokens: three iterations of 6 ms, 0.020 ms a token, 2 ms of way in.
    assert_eq!(run[0].ttft_ns(), 2_000_000 + 3 * 6_000_000 + 5000 * 20_000);
    assert_eq!(run[0].tpot_ms(), None);
}

#[test]
fn a_prompt_that_is_continued_uses_the_budget_of_its_iteration() {
    let mut profile = Profile { slowdown: 1.0, ..Preset::Demo.profile() };
    profile.limits.max_num_batched_tokens = 100;
    let mut engine = quiet(profile);
    // 100 + 100 + 50 of the first prompt: what is left for the second comes with the third piece.
    let first = engine.submit(0, RequestSpec::new(250, 1));
    let second = engine.submit(0, RequestSpec::new(50, 1));
    let mut ends = std::collections::BTreeMap::new();
    while let Some(at) = engine.next_event_time() {
        ends.extend(engine.advance(at).into_iter().map(|event| (event.request, event.at_ns)));
    }
    assert_eq!(ends[&first], ends[&second]);
}

#[test]
fn a_request_sent_at_the_moment_an_iteration_ends_joins_the_next() {
    let mut profile = Preset::Statistics.profile();
    profile.front = FrontEnd {
        busy_at_512_ms: 0.0,
        in_ms: 0.0,
        in_sigma: 0.0,
        out_ms: 0.0,
        busy_token_ms: 0.0,
    };
    let specs = [RequestSpec::new(100, 1), RequestSpec::new(100, 9), RequestSpec::new(100, 1)];
    let run = closed_loop(&mut quiet(profile), 0, &specs, 2, SlotStart::Together);
    // Two prompts take 6 + 200 x 0.020 ms. The third then shares an iteration with one that decodes.
    assert_eq!((run[2].sent_ns, run[2].ttft_ns()), (10_000_000, 6_000_000 + 2_000_000 + 40_000));
    assert_eq!(run[1].gaps_ns[..2], [8_040_000, 6_040_000]);
}

#[test]
fn slowdown_scales_iterations_and_nothing_else() {
    let mut profile = Preset::Demo.profile();
    let base = closed_loop(&mut quiet(profile), 0, &uniform(1, 512, 128), 1, SlotStart::Together);
    profile.slowdown = 1.10;
    let slow = closed_loop(&mut quiet(profile), 0, &uniform(1, 512, 128), 1, SlotStart::Together);
    let ratio = slow[0].tpot_ms().unwrap() / base[0].tpot_ms().unwrap();
    assert!((ratio - 1.10).abs() < 1e-5, "{ratio}");
    let front = (profile.front.busy_at_512_ms + profile.front.in_ms + profile.front.out_ms) * 1e6;
    let ratio = (slow[0].ttft_ns() as f64 - front) / (base[0].ttft_ns() as f64 - front);
    assert!((ratio - 1.10).abs() < 1e-5, "{ratio}");
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_does_not() {
    let run = |seed| {
        let mut engine =
            Engine::new(Preset::Statistics.profile(), Preset::Statistics.noise(), seed);
        closed_loop(&mut engine, 0, &uniform(64, 400, 32), 8, SlotStart::Spread { over_ns: S })
    };
    let first = run(start_seed(Seed(1), "base", 0));
    assert_eq!(first, run(start_seed(Seed(1), "base", 0)));
    assert_ne!(first, run(start_seed(Seed(1), "base", 1)));
    assert_ne!(first, run(start_seed(Seed(1), "new", 0)));
}

#[test]
fn every_request_ends_with_exactly_its_tokens() {
    for prefill in [Prefill::Chunked, Prefill::Whole] {
        for kv_capacity_tokens in [1_600_000, 3000] {
            let mut profile = Preset::Demo.profile();
            profile.limits.prefill = prefill;
            profile.limits.max_num_seqs = 7;
            profile.limits.max_num_batched_tokens = 300;
            profile.limits.kv_capacity_tokens = kv_capacity_tokens;
            let arrivals: Vec<Arrival> = (0..300_u32)
                .map(|i| Arrival {
                    due_ns: Seed(9).nth(u64::from(i)).0 % S,
                    // Prompts from 1 to 4001 tokens: some larger than the budget, some than the cache.
                    spec: RequestSpec::new(1 + (i * 137) % 4001, 1 + (i * 31) % 90),
                })
                .collect();
            let mut engine = Engine::new(profile, Preset::Statistics.noise(), Seed(2));
            let run = open_loop(&mut engine, &arrivals);
            assert_eq!(run.len(), arrivals.len());
            for (request, arrival) in run.iter().zip(&arrivals) {
                assert_eq!(request.output_tokens, arrival.spec.output_tokens);
                assert_eq!(request.gaps_ns.len() + 1, arrival.spec.output_tokens as usize);
                assert!(request.first_token_ns > arrival.due_ns);
            }
            let gauges = engine.gauges();
            assert_eq!((gauges.running, gauges.waiting, gauges.finished), (0, 0, 300));
            let sum =
                |f: fn(&Arrival) -> u32| arrivals.iter().map(|a| u64::from(f(a))).sum::<u64>();
            assert_eq!(gauges.prompt_tokens, sum(|a| a.spec.prompt_tokens));
            assert_eq!(gauges.generation_tokens, sum(|a| a.spec.output_tokens));
        }
    }
}

#[test]
fn an_aborted_request_leaves_no_trace() {
    let mut engine = quiet(Preset::Statistics.profile());
    let ids: Vec<_> = (0..4).map(|_| engine.submit(0, RequestSpec::new(400, 100))).collect();
    engine.advance(100_000_000);
    assert_eq!(engine.gauges().running, 4);
    engine.abort(ids[1]);
    let late = engine.submit(100_000_000, RequestSpec::new(400, 100));
    engine.abort(late);
    let events = engine.advance(100 * S);
    assert!(events.iter().all(|e| e.request != ids[1] && e.request != late));
    assert_eq!(events.iter().filter(|e| e.kind == EventKind::Finished).count(), 3);
    let gauges = engine.gauges();
    assert_eq!((gauges.running, gauges.waiting, gauges.aborted), (0, 0, 2));
    assert_eq!(engine.next_event_time(), None);
}

#[test]
fn small_steps_of_time_change_nothing() {
    let play = |step_ns: u64| {
        let mut engine = Engine::new(Preset::Demo.profile(), Preset::Demo.noise(), Seed(4));
        for i in 0..20 {
            engine.submit(0, RequestSpec::new(100 + i, 20));
        }
        let mut events = Vec::new();
        for at in (0..=S).step_by(usize::try_from(step_ns).unwrap()) {
            engine.advance_into(at, &mut events);
        }
        events
    };
    assert_eq!(play(100_000), play(S));
}

/// Eight long decodes with a long prompt thrown in every 300 ms: p99 ITL of the decodes and mean TTFT of the prompts.
fn disturbed(prefill: Prefill, budget: u32) -> (f64, f64) {
    let mut profile = Preset::H200Qwen25Seven.profile();
    profile.limits.prefill = prefill;
    profile.limits.max_num_batched_tokens = budget;
    let mut arrivals = vec![Arrival { due_ns: 0, spec: RequestSpec::new(128, 800) }; 8];
    arrivals.extend(
        (1..=10).map(|i| Arrival { due_ns: i * 3 * S / 10, spec: RequestSpec::new(6000, 1) }),
    );
    let run = open_loop(&mut quiet(profile), &arrivals);
    let gaps = run[..8].iter().flat_map(|r| r.gaps_ns.iter().copied()).collect();
    let ttft = run[8..].iter().map(|r| r.ttft_ns() as f64 / 1e6).sum::<f64>() / 10.0;
    (quantile_ms(gaps, 0.99), ttft)
}

#[test]
fn chunked_prefill_trades_ttft_for_smooth_decodes() {
    let (whole_itl, whole_ttft) = disturbed(Prefill::Whole, 8192);
    let (chunked_itl, chunked_ttft) = disturbed(Prefill::Chunked, 2048);
    let (small_itl, small_ttft) = disturbed(Prefill::Chunked, 256);
    assert!(whole_itl > 2.0 * chunked_itl, "{whole_itl} {chunked_itl}");
    assert!(chunked_itl > 2.0 * small_itl, "{chunked_itl} {small_itl}");
    assert!(small_ttft > 1.2 * chunked_ttft, "{small_ttft} {chunked_ttft}");
    assert!(chunked_ttft > whole_ttft, "{chunked_ttft} {whole_ttft}");
}

#[test]
fn the_h200_preset_gives_the_throughput_of_the_real_one() {
    // vLLM 0.22 on one H200, 512/128 at 64: 5571 to 5806 output tok/s in nine runs, slots started together,
    // drain included. The fit promises 5 %; 10 % is the acceptance.
    let mut engine = quiet(Preset::H200Qwen25Seven.profile());
    let run = closed_loop(&mut engine, 0, &uniform(512, 512, 128), 64, SlotStart::Together);
    let end = run.iter().map(|r| r.last_token_ns).max().unwrap();
    let rate = 512.0 * 128.0 * 1e9 / end as f64;
    assert!((0.9 * 5571.0..1.1 * 5806.0).contains(&rate), "{rate}");
    // And alone: 205 tok/s, TTFT 23.5 ms, TPOT 4.7 ms.
    let mut engine = quiet(Preset::H200Qwen25Seven.profile());
    let run = closed_loop(&mut engine, 0, &uniform(32, 512, 128), 1, SlotStart::Together);
    let rate = 32.0 * 128.0 * 1e9 / run[31].last_token_ns as f64;
    assert!((rate / 205.0 - 1.0).abs() < 0.05, "{rate}");
    assert!((run[0].ttft_ns() as f64 / 23.5e6 - 1.0).abs() < 0.10, "{}", run[0].ttft_ns());
}

#[test]
fn the_statistics_preset_sits_where_its_tables_do() {
    // The tables' operating points: TPOT 6.1 ms alone, 7.8 ms at 16, 13.3 ms at 64, with log-normal lengths.
    let lengths = |i: u64, mid: f64, sigma: f64, what: &str| {
        // A sum of twelve uniforms is normal enough for a mean.
        let seed = Seed(8).named(what).nth(i);
        let normal = (0..12).map(|k| seed.nth(k).unit()).sum::<f64>() - 6.0;
        (mid * (sigma * normal).exp()).round().max(1.0) as u32
    };
    for (concurrency, count, expected_ms) in [(1, 60, 6.1), (16, 400, 7.8), (64, 1500, 13.3)] {
        let specs: Vec<_> = (0..count)
            .map(|i| RequestSpec::new(lengths(i, 400.0, 0.8, "in"), lengths(i, 128.0, 0.5, "out")))
            .collect();
        let mut engine = quiet(Preset::Statistics.profile());
        let slots = SlotStart::Spread { over_ns: S };
        let run = closed_loop(&mut engine, 0, &specs, concurrency, slots);
        let tpot: Vec<f64> = run.iter().filter_map(VirtualRequest::tpot_ms).collect();
        let mean = tpot.iter().sum::<f64>() / tpot.len() as f64;
        assert!((mean / expected_ms - 1.0).abs() < 0.08, "c{concurrency}: {mean}");
    }
}

#[test]
fn the_demo_gets_slower_with_load_and_stays_quick() {
    let mut last = (0.0, 0.0);
    for concurrency in [1, 4, 16, 64] {
        let mut engine = quiet(Preset::Demo.profile());
        let specs = uniform((8 * concurrency).max(32), 512, 128);
        let slots = SlotStart::Spread { over_ns: S / 10 };
        let run = closed_loop(&mut engine, 0, &specs, concurrency, slots);
        let steady = &run[concurrency..];
        let ttft = quantile_ms(steady.iter().map(VirtualRequest::ttft_ns).collect(), 0.5);
        let tpot =
            steady.iter().filter_map(VirtualRequest::tpot_ms).sum::<f64>() / steady.len() as f64;
        assert!(ttft > 1.05 * last.0 && tpot > 1.2 * last.1, "c{concurrency}: {ttft} {tpot}");
        assert!(output_rate(&run, concurrency / 2) < 16_000.0, "too much for a small machine");
        eprintln!(
            "c{concurrency} ttft {ttft:.2} tpot {tpot:.3} rate {:.0}",
            output_rate(&run, concurrency / 2)
        );
        last = (ttft, tpot);
    }
}

/// Half of the runs, from which the front end and the prefill were fitted; the other half shows how
/// far that carries.
fn is_fitted(run: &Measured) -> bool {
    let closed = |slots| run.load == Load::Closed(slots);
    match (run.started, run.lengths) {
        (Started::A, (512, _)) => closed(1) || closed(16) || closed(128),
        (Started::A, _) => closed(64),
        (Started::B, (512, _)) => {
            closed(4)
                || closed(16)
                || closed(64)
                || [5.0, 20.0, 40.0].map(Load::Rate).contains(&run.load)
        }
        (Started::B, _) => closed(16),
        (Started::C, (512, _)) => closed(1) || closed(64),
        (Started::C, _) => closed(16),
    }
}

#[test]
fn the_h200_preset_is_near_the_real_server_at_every_point_it_was_not_fitted_to() {
    assert_eq!(MEASURED.iter().filter(|run| is_fitted(run)).count(), 14);
    for run in MEASURED {
        let ours = predicted(&run);
        println!("{}", h200::table_row(&run, &ours, is_fitted(&run)));
        let ratio: Vec<f64> = ours.iter().zip(&run.figures).map(|(o, m)| o / m).collect();
        let [ttft, _, tpot, _, e2el, output] = ratio[..] else { panic!("{ratio:?}") };
        // At 50 requests/s the real server was not steady; C at 4096 x 64 ran in waves of its own.
        let unsteady =
            run.load == Load::Rate(50.0) || (run.started, run.lengths) == (Started::C, (4096, 128));
        assert!(unsteady || (ttft.ln()).abs() < 0.36, "{run:?}: TTFT {ttft:.2} of it");
        for (what, ratio, most) in
            [("TPOT", tpot, 0.22), ("E2EL", e2el, 0.11), ("output", output, 0.08)]
        {
            assert!((ratio - 1.0).abs() < most, "{run:?}: {what} {ratio:.2} of it");
        }
    }
}
