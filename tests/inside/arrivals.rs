//! Arrivals of an open loop: their rate, their spread, how long they take.

use inferometer::plan::{Phase, RoundPlan, Schedule, StopRule};
use inferometer::rng::Seed;
use inferometer::scenario::{LoadPoint, RequestRate};
use inferometer::{Length, Load};

pub(crate) fn round(load: RequestRate, seed: u64) -> RoundPlan {
    let point = LoadPoint {
        group: "g".into(),
        scenario: "s".into(),
        input: Length::log_normal(400.0, 0.8),
        output: Length::from(1..=50),
        load: load.into(),
        prompt: inferometer::scenario::PromptSpec::Synthetic,
        slo: None,
        num_prompts: None,
        measurement_time_s: None,
    };
    let stop = StopRule { requests: 10, min_time_s: 0.0, max_time_s: 60.0 };
    RoundPlan { phase: Phase::Load, point, round: 0, seed: Seed(seed), stop, first_prompt: 0 }
}

fn gaps_s(load: RequestRate, seed: u64, count: usize) -> Vec<f64> {
    let mut round = round(load, seed);
    round.stop.requests = u32::try_from(count).unwrap();
    let dues: Vec<u64> = Schedule::new(&round).take(count).map(|r| r.due_ns.unwrap()).collect();
    let before = std::iter::once(0).chain(dues.iter().copied());
    before.zip(&dues).map(|(before, due)| (due - before) as f64 / 1e9).collect()
}

#[test]
fn arrivals_have_the_rate_and_the_cv_of_their_burstiness() {
    let n = 4000;
    for per_s in [0.1, 0.37, 1.0, 20.0, 333.3] {
        for burstiness in [0.5, 1.0, 2.0] {
            let load = Load::request_rate(per_s).burstiness(burstiness);
            let gaps = gaps_s(load, 5, n);
            let mean = gaps.iter().sum::<f64>() / n as f64;
            let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
            // Mean: sd of a gap is mean/√shape; 6 standard errors.
            let mean_bound = 6.0 / (burstiness * n as f64).sqrt();
            assert!((mean * per_s - 1.0).abs() < mean_bound, "{per_s}/s b{burstiness}: {mean}");
            // CV² = 1/shape. By the delta method Var(CV²)·n = μ4/μ⁴ − c² + 4c³ − 4cμ3/μ³ with
            // c = 1/k; for a gamma μ3 = 2c², μ4 = 3c² + 6c³ (in units of the mean): 2c² + 2c³.
            let c = 1.0 / burstiness;
            let bound = 6.0 * ((2.0 * c * c + 2.0 * c * c * c) / n as f64).sqrt();
            let cv2 = variance / (mean * mean);
            assert!(
                (cv2 - c).abs() < bound,
                "{per_s}/s b{burstiness}: CV² {cv2}, not {c} ± {bound}"
            );
        }
    }
}

#[test]
fn the_measured_arrivals_take_exactly_their_number_over_the_rate() {
    for seed in 0..50 {
        for (per_s, burstiness) in [(5.0, 1.0), (20.0, 0.25), (0.5, 4.0)] {
            let mut round = round(Load::request_rate(per_s).burstiness(burstiness), seed);
            round.stop.requests = 64;
            let due_s: Vec<f64> =
                Schedule::new(&round).take(128).map(|r| r.due_ns.unwrap() as f64 / 1e9).collect();
            for n in [64, 128] {
                let (last, right) = (due_s[n - 1], n as f64 / per_s);
                assert!((last - right).abs() < 1e-6, "{per_s}/s: {last} s, not {right} s");
            }
        }
    }
}

#[test]
fn a_time_is_filled_by_as_many_arrivals_as_the_rate_says() {
    let mut round = round(Load::request_rate(5.0), 3);
    round.stop = StopRule { requests: 1, min_time_s: 20.0, max_time_s: 40.0 };
    let due_s = Schedule::new(&round).nth(99).unwrap().due_ns.unwrap() as f64 / 1e9;
    assert!((due_s - 20.0).abs() < 1e-6, "{due_s}");
}

#[test]
fn the_reference_is_evenly_spaced() {
    let mut round = round(Load::request_rate(1.0), 3);
    round.phase = Phase::Reference;
    let due: Vec<u64> = Schedule::new(&round).take(3).map(|r| r.due_ns.unwrap()).collect();
    assert_eq!(due, [1_000_000_000, 2_000_000_000, 3_000_000_000]);
}

#[test]
fn poisson_counts_within_a_round_vary_as_poisson_does() {
    // 2000 windows of 4 s at 5/s, each the beginning of a round of 1000 requests (200 s): binomial
    // counts of mean 20 and variance 20·(1 − 4/200).
    let counts: Vec<f64> = (0..2000)
        .map(|seed| {
            let within = |r: &inferometer::plan::PlannedRequest| r.due_ns.unwrap() < 4_000_000_000;
            let mut round = round(Load::request_rate(5.0), seed);
            round.stop.requests = 1000;
            Schedule::new(&round).take_while(within).count() as f64
        })
        .collect();
    let n = counts.len() as f64;
    let mean = counts.iter().sum::<f64>() / n;
    let variance = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / (n - 1.0);
    assert!((mean - 20.0).abs() < 6.0 * (19.6 / n).sqrt(), "{mean}");
    // Var(s²) = (μ4 − σ⁴)/n with μ4 = λ + 3λ².
    let bound = 6.0 * ((20.0 + 2.0 * 400.0) / n).sqrt();
    assert!((variance - 19.6).abs() < bound, "{variance} ± {bound}");
}
