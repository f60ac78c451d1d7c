//! The plan: designs, orders, seeds, counts, arrivals, and how it prints.

#![allow(clippy::unwrap_used)] // helpers outside `#[test]` functions

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use super::arrivals::round;
use inferometer::Result;
use inferometer::plan::{
    Design, ListFormat, Matching, Phase, Plan, RoundPlan, Schedule, Side, StopRule, build_points,
    list, select,
};
use inferometer::rng::Seed;
use inferometer::scenario::points;
use inferometer::settings::{Launch, Settings, Target};
use inferometer::{Length, Load, Scenario, ScenarioGroup, scenarios};
use proptest::prelude::*;

fn build(groups: &[ScenarioGroup], settings: &Settings) -> Result<Plan> {
    build_points(points(groups)?, settings)
}

fn matrix() -> Vec<ScenarioGroup> {
    scenarios! {
        "chat/short": 512 => 128 @ concurrency [64, 1, 16];
        "chat/long": 4096 => 128 @ rate [1, 20];
        "chat/again": 512 => 128 @ concurrency [4]
    }
}

fn command(name: &str) -> Target {
    let launch = Launch::Command {
        command: name.into(),
        ready_path: "/health".into(),
        ready_timeout_s: 60.0,
    };
    Target::new("http://127.0.0.1:8000", launch)
}

fn two_sided(starts: u32) -> Settings {
    let mut settings = Settings::for_url("");
    settings.target = command("new");
    settings.against = Some(command("base"));
    settings.starts = Some(starts);
    settings
}

fn ids(plan: &Plan, start: usize) -> Vec<String> {
    plan.starts[start].rounds.iter().map(|round| round.point.id()).collect()
}

fn of_id<'a>(plan: &'a Plan, id: &str) -> &'a RoundPlan {
    plan.starts[0].rounds.iter().find(|round| round.point.id() == id).unwrap()
}

#[test]
fn the_first_start_runs_up_after_the_references() {
    let plan = build(&matrix(), &Settings::for_url("http://h")).unwrap();
    assert_eq!(plan.design, Design::OneSided);
    assert_eq!(
        ids(&plan, 0),
        [
            "reference/512x128/r1",
            "reference/4096x128/r1",
            "chat/short/c1",
            "chat/short/c16",
            "chat/short/c64",
            "chat/long/r1",
            "chat/long/r20",
            "chat/again/c4",
        ]
    );
    let long = &of_id(&plan, "chat/long/r20").point;
    assert_eq!(plan.reference_of(long).unwrap().id(), "reference/4096x128/r1");
}

#[test]
fn blocks_alternate_and_share_order_and_seeds() {
    let plan = build(&matrix(), &two_sided(6)).unwrap();
    assert_eq!(plan.design, Design::Interleaved);
    let sides: Vec<Side> = plan.starts.iter().map(|start| start.side).collect();
    let (b, n) = (Side::Base, Side::New);
    assert_eq!(sides, [b, n, n, b, b, n, n, b, b, n, n, b]);
    for pair in plan.starts.chunks(2) {
        assert_eq!(pair[0].block, pair[1].block);
        assert_eq!(pair[0].rounds, pair[1].rounds, "the same rounds, order and seeds");
    }
    assert_eq!(
        plan.starts.iter().map(|s| s.start).collect::<Vec<_>>(),
        (0..12).collect::<Vec<_>>()
    );
    let is_reference = |round: &RoundPlan| round.phase == Phase::Reference;
    assert!(
        plan.starts[..2].iter().all(|s| s.rounds.iter().filter(|r| is_reference(r)).count() == 2)
    );
    assert!(!plan.starts[2..].iter().flat_map(|s| &s.rounds).any(is_reference));
    let orders: HashSet<Vec<String>> = (2..12).step_by(2).map(|start| ids(&plan, start)).collect();
    assert!(orders.len() >= 4, "later blocks have orders of their own: {orders:?}");
    let seeds: HashSet<u64> =
        plan.starts.iter().step_by(2).flat_map(|s| &s.rounds).map(|r| r.seed.0).collect();
    assert_eq!(seeds.len(), 6 * 6 + 2, "each round of a side has its own seed");
}

#[test]
fn seeds_hang_on_seed_id_and_block_alone() {
    let whole = build(&matrix(), &two_sided(3)).unwrap();
    let mut alone = two_sided(5);
    alone.against = None;
    let filter = ["chat/short/c16".to_owned()];
    let some = select(points(&matrix()).unwrap(), &filter, Matching::Exact).unwrap();
    let alone = inferometer::plan::build_points(some, &alone).unwrap();
    for (block, start) in whole.starts.iter().step_by(2).enumerate() {
        let find = |rounds: &[RoundPlan]| {
            rounds.iter().find(|r| r.point.id() == "chat/short/c16").unwrap().clone()
        };
        assert_eq!(find(&start.rounds), find(&alone.starts[block].rounds));
    }
}

#[test]
fn rounds_of_a_start_go_round_all_points() {
    let mut settings = Settings::for_url("http://h");
    settings.rounds = 3;
    settings.skip.reference = true;
    let plan = build(&matrix(), &settings).unwrap();
    assert!(plan.references.is_empty());
    let passes: Vec<u32> = plan.starts[0].rounds.iter().map(|round| round.round).collect();
    assert_eq!(passes, [[0; 6], [1; 6], [2; 6]].concat());
}

#[test]
fn two_sides_that_can_be_started_have_eight_pairs_and_a_burn_in_without_being_asked() {
    let mut settings = two_sided(1);
    settings.starts = None;
    let plan = build(&matrix(), &settings).unwrap();
    assert_eq!((plan.design, plan.starts.len()), (Design::Interleaved, 16));
    assert!(plan.burn_in && plan.describe(200).contains("one unmeasured start each"));
    let whole_s = plan.estimate(&plan.expected).seconds;
    settings.skip.burn_in = true;
    let plan = build(&matrix(), &settings).unwrap();
    assert!(!plan.burn_in && plan.estimate(&plan.expected).seconds < whole_s - 100.0);
    // One side alone, or a server that nobody starts, is started once.
    settings.against = None;
    assert_eq!(build(&matrix(), &settings).unwrap().starts.len(), 1);
    // What a budget leaves of the pairs is reported.
    settings = two_sided(8);
    settings.budget = Some(Duration::from_secs(60));
    let plan = build(&matrix(), &settings).unwrap();
    assert!(plan.given_up.iter().any(|text| text.contains("fits 1 pair")), "{:?}", plan.given_up);
}

#[test]
fn routes_alternate_within_one_start() {
    let mut settings = Settings::for_url("http://gateway");
    settings.against = Some(Target::new("http://direct", Launch::External));
    let plan = build(&matrix(), &settings).unwrap();
    assert_eq!((plan.design, plan.starts.len()), (Design::Routes, 2));
    let sides: Vec<Side> = plan.steps().iter().map(|step| step.start.side).collect();
    let (b, n) = (Side::Base, Side::New);
    assert_eq!(sides[..6], [b, n, n, b, b, n]);
    assert_eq!(sides.len(), 2 * (2 + 6 * 5), "five rounds of each point, references once");
    for pair in plan.steps().chunks(2) {
        assert_eq!(pair[0].round, pair[1].round);
    }
}

#[test]
fn what_nobody_can_start_is_refused() {
    let mut settings = Settings::for_url("http://h");
    settings.starts = Some(8);
    let text = build(&matrix(), &settings).unwrap_err().render();
    assert!(text.contains("8 starts") && text.contains("--server-cmd"), "{text}");
    settings.against = Some(command("base"));
    let text = build(&matrix(), &settings).unwrap_err().render();
    assert!(text.contains("only the other side"), "{text}");
    let mut many = two_sided(u32::MAX);
    many.rounds = u32::MAX;
    assert!(build(&matrix(), &many).is_err());
}

#[test]
fn counts_follow_the_load() {
    let count = |load: Load, settings: &Settings| {
        let mut group = ScenarioGroup::new("g");
        group.scenario(Scenario::new("s").input(8).output(8).load(load));
        build(&[group], settings).unwrap().starts[0].rounds.last().unwrap().stop.requests
    };
    let real = Settings::for_url("http://h");
    let simulated = Settings::for_simulator("demo");
    let mut gates_p99 = real.clone();
    gates_p99.judge.gate = Some(vec!["ttft_p99".parse().unwrap()]);
    for (load, expected) in [
        (Load::concurrency(1), [32, 32, 512]),
        (Load::concurrency(16), [128, 32, 512]),
        (Load::concurrency(64), [256, 128, 512]),
        (Load::request_rate(0.5).into(), [128, 32, 512]),
        (Load::request_rate(20.05).into(), [201, 32, 512]),
        (Load::request_rate(100.0).into(), [1000, 100, 1000]),
    ] {
        let counts = [&real, &simulated, &gates_p99].map(|settings| count(load, settings));
        assert_eq!(counts, expected, "{}", load.id());
    }
}

#[test]
fn count_and_time_give_the_later_within_twice_the_time() {
    let stop = |num_prompts: Option<u32>, time_s: Option<u64>| {
        let mut settings = Settings::for_url("http://h");
        settings.num_prompts = num_prompts;
        settings.measurement_time = time_s.map(Duration::from_secs);
        of_id(&build(&matrix(), &settings).unwrap(), "chat/short/c16").stop
    };
    let rule = |requests, min_time_s, max_time_s| StopRule { requests, min_time_s, max_time_s };
    assert_eq!(stop(None, None), rule(128, 0.0, 3600.0));
    assert_eq!(stop(Some(40), None), rule(40, 0.0, 3600.0));
    assert_eq!(stop(None, Some(10)), rule(1, 10.0, 20.0));
    assert_eq!(stop(Some(40), Some(10)), rule(40, 10.0, 20.0));
}

#[test]
fn the_reference_is_sixty_requests_at_one_a_second() {
    let plan = build(&matrix(), &Settings::for_url("http://h")).unwrap();
    let reference = of_id(&plan, "reference/512x128/r1");
    assert_eq!(reference.point.load, Load::request_rate(1.0).into());
    assert_eq!(reference.stop.requests, 60);
    let simulated = build(&matrix(), &Settings::for_simulator("demo")).unwrap();
    assert_eq!(of_id(&simulated, "reference/512x128/r1").stop.requests, 10);
}

#[test]
fn the_workload_hash_follows_the_work_alone() {
    let hash = |settings: &Settings| build(&matrix(), settings).unwrap().workload_hash;
    let base = hash(&two_sided(3));
    assert_eq!(base, hash(&two_sided(8)), "more starts are the same work each");
    let mut other = two_sided(3);
    other.seed = Seed(1);
    assert_ne!(base, hash(&other));
    other = two_sided(3);
    other.num_prompts = Some(9);
    assert_ne!(base, hash(&other));
    let mut group = ScenarioGroup::new("g");
    group.scenario(Scenario::new("s").prompts_from("p").output(8).load(Load::concurrency(1)));
    let mut plan = build(&[group], &two_sided(1)).unwrap();
    let mut with = |hash: &str| {
        plan.note_datasets(&BTreeMap::from([("p".into(), hash.to_owned())]));
        plan.workload_hash.clone()
    };
    assert_ne!(with("a"), with("b"));
    assert_eq!(with("a"), with("a"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_schedule_is_the_same_however_it_is_asked(
        seed in any::<u64>(),
        per_s in 0.01..1000.0_f64,
        burstiness in 0.1..10.0_f64,
        skip in 0..50_usize,
    ) {
        let round = round(Load::request_rate(per_s).burstiness(burstiness), seed);
        let all: Vec<_> = Schedule::new(&round).take(100).collect();
        let late: Vec<_> = Schedule::new(&round).skip(skip).take(100 - skip).collect();
        prop_assert_eq!(&all[skip..], &late[..]);
        prop_assert!(all.windows(2).all(|w| w[0].due_ns <= w[1].due_ns));
        prop_assert!(all.iter().enumerate().all(|(i, r)| r.index == i as u64));
        let seeds: HashSet<u64> = all.iter().map(|r| r.seed.0).collect();
        prop_assert_eq!(seeds.len(), 100);
        prop_assert!(all.iter().all(|r| r.input_tokens >= 1 && (1..=50).contains(&r.output_tokens)));
    }

    #[test]
    fn lengths_do_not_move_arrivals_nor_each_other(seed in any::<u64>()) {
        let a = round(Load::request_rate(3.0), seed);
        let mut b = a.clone();
        b.point.input = Length::Fixed(7);
        for (x, y) in Schedule::new(&a).zip(Schedule::new(&b)).take(50) {
            prop_assert_eq!((x.due_ns, x.output_tokens, x.seed), (y.due_ns, y.output_tokens, y.seed));
        }
    }

    #[test]
    fn a_budget_is_kept_or_its_breach_is_said(minutes in 1..200_u64, starts in 1..12_u32) {
        let mut settings = two_sided(starts);
        settings.budget = Some(Duration::from_secs(60 * minutes));
        let plan = build(&matrix(), &settings).unwrap();
        let needed_s = plan.estimate(&plan.expected).seconds;
        let breach = plan.given_up.iter().any(|line| line.contains("even so"));
        prop_assert_eq!(needed_s > 60.0 * minutes as f64, breach);
        prop_assert!(plan.starts.iter().any(|s| s.side == Side::Base));
        prop_assert!(plan.starts.iter().any(|s| s.side == Side::New));
        prop_assert!(plan.starts.iter().flat_map(|s| &s.rounds).all(|r| r.stop.requests >= 10));
    }
}

#[test]
fn a_closed_loop_has_no_due_times() {
    let plan = build(&matrix(), &Settings::for_url("http://h")).unwrap();
    let requests = Schedule::new(of_id(&plan, "chat/short/c16")).take(20);
    for request in requests {
        assert_eq!((request.due_ns, request.input_tokens, request.output_tokens), (None, 512, 128));
    }
}

#[test]
fn warm_up_is_like_the_round_but_never_the_same() {
    let round = round(Load::request_rate(5.0), 1);
    let warm_up = round.warm_up();
    assert_eq!((warm_up.phase, &warm_up.point), (Phase::WarmUp, &round.point));
    let seeds = |round| Schedule::new(round).take(500).map(|r| r.seed.0).collect::<HashSet<_>>();
    assert!(seeds(&round).is_disjoint(&seeds(&warm_up)));
}

#[test]
fn rounds_of_a_start_take_different_prompts_of_a_file() {
    let mut group = ScenarioGroup::new("g");
    group
        .scenario(Scenario::new("s").prompts_from("p").output(8).sweep(Load::concurrency, [1, 16]));
    let plan = build(&[group], &Settings::for_url("http://h")).unwrap();
    let start = &plan.starts[0];
    let firsts: Vec<u64> = start.rounds.iter().map(|r| Plan::first_prompt(start, r)).collect();
    // The reference sends 60 and may send as many again twice; c1 32 and two of its slot.
    assert_eq!(firsts, [0, 180, 180 + 34]);
    assert_eq!(start.rounds[0].point.id(), "reference/px8/r1");
}

#[test]
fn an_estimate_adds_up() {
    let mut group = ScenarioGroup::new("g");
    group.scenario(Scenario::new("s").input(100).output(11).load(Load::concurrency(4)));
    let mut settings = Settings::for_url("http://h");
    settings.skip.reference = true;
    settings.skip.warm_up = true;
    settings.num_prompts = Some(40);
    settings.cool_down = Duration::from_secs(3);
    let mut plan = build(&[group], &settings).unwrap();
    (plan.expected.ttft_s, plan.expected.tpot_s) = (0.5, 0.05);
    let estimate = plan.estimate(&plan.expected);
    // E2E 1 s, 4/s: 40 requests take 10 s, with ramp and drain 12 s and 48 requests.
    assert!((estimate.seconds - (12.0 + 3.0)).abs() < 1e-9, "{estimate:?}");
    assert!((estimate.input_tokens - 4800.0).abs() < 1e-6, "{estimate:?}");
    assert!((estimate.output_tokens - 528.0).abs() < 1e-6, "{estimate:?}");
}

#[test]
fn filters_are_expressions_on_the_whole_id() {
    let chosen = |filters: &[&str], matching| {
        let filters: Vec<String> = filters.iter().map(|f| (*f).to_owned()).collect();
        let points = select(points(&matrix()).unwrap(), &filters, matching)?;
        Ok::<_, inferometer::Error>(points.iter().map(|p| p.id()).collect::<Vec<_>>())
    };
    assert_eq!(chosen(&[], Matching::Regex).unwrap().len(), 6);
    assert_eq!(
        chosen(&["short/c1$", "again"], Matching::Regex).unwrap(),
        ["chat/short/c1", "chat/again/c4"]
    );
    assert_eq!(chosen(&["chat/short/c1"], Matching::Exact).unwrap(), ["chat/short/c1"]);
    assert!(chosen(&["nothing"], Matching::Regex).unwrap().is_empty());
    assert!(chosen(&["("], Matching::Regex).unwrap_err().to_string().contains("`(`"));
}

#[test]
fn lists_read_as_libtest_lists() {
    let points = points(&matrix()[..1]).unwrap();
    assert_eq!(list(&points[..1], ListFormat::Terse), "chat/short/c64: benchmark\n");
    assert!(list(&points, ListFormat::Pretty).ends_with("\n\n0 tests, 6 benchmarks\n"));
}

#[test]
fn plans_print_within_the_width() {
    for settings in [Settings::for_url("http://h"), two_sided(12), Settings::for_simulator("demo")]
    {
        let plan = build(&matrix(), &settings).unwrap();
        for width in [60, 80, 120] {
            let text = plan.describe(width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
        }
    }
}

#[test]
fn a_plan_reads_well() {
    let mut settings = two_sided(2);
    settings.budget = Some(Duration::from_secs(900));
    settings.skip.burn_in = true;
    let plan = build(&matrix(), &settings).unwrap();
    insta::assert_snapshot!(plan.describe(80), @r#"
    6 load points, 2 rate-1 references, 2 starts
    two sides in pairs of starts, the first of a pair alternating
    about 16 min 31 s, 4 235 771 prompt and 312 001 answer tokens
    warm-up of at most 60.0 s before each load point, a pause of 10.0 s after it
    seed 0, workload fnv1a128:58978e61e2e6c3116d05919a9ceef833

    reference/512x128/r1
        512 => 128 tokens, 10 requests at 1/s, seed 9f164d0fabb9dba4
    reference/4096x128/r1
        4096 => 128 tokens, 10 requests at 1/s, seed d9ea0ce47637ea37
    chat/short/c1
        512 => 128 tokens, 30 requests, seed 49ebfab5107997cc
    chat/short/c16
        512 => 128 tokens, 30 requests, seed 5da4f8ae67503dba
    chat/short/c64
        512 => 128 tokens, 64 requests, seed 1fa7501d676fa2a0
    chat/long/r1
        4096 => 128 tokens, 30 requests, seed b6644c08af84b1e2
    chat/long/r20
        4096 => 128 tokens, 30 requests, seed 53d94d75408c7a8e
    chat/again/c4
        512 => 128 tokens, 30 requests, seed edead502cf6a0881

    start 1 (pair 1, base): reference/512x128/r1, reference/4096x128/r1,
        chat/short/c1, chat/short/c16, chat/short/c64, chat/long/r1, chat/long/r20,
        chat/again/c4
    start 2 (pair 1, new): reference/512x128/r1, reference/4096x128/r1,
        chat/short/c1, chat/short/c16, chat/short/c64, chat/long/r1, chat/long/r20,
        chat/again/c4
    for the budget: requests a round: 214 in place of 872 (first start)
    for the budget: requests of the reference: 20 in place of 120 (first start)
    for the budget: restarts: 1 in place of 2
    for the budget: fits 1 pair of restarts: fewer than 5 decide only gross changes
    for the budget: even so about 16 min 31 s are needed, not 15 min: choose fewer
        load points
    "#);
    let seeds =
        |id| -> Vec<u64> { Schedule::new(of_id(&plan, id)).take(2).map(|r| r.seed.0).collect() };
    assert_eq!(seeds("chat/long/r20"), [0x8657_b369_7c89_4742, 0x07cf_f7b8_efc9_b47d]);
    assert_eq!(seeds("chat/short/c16"), [0x68fb_348c_d9ef_d2bf, 0x2d67_70b3_b8a3_267a]);
    let due = Schedule::new(of_id(&plan, "chat/long/r20")).next().unwrap().due_ns;
    assert_eq!(due.unwrap() / 1000, 99_768, "microseconds");
}
