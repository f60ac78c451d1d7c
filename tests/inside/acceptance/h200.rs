//! The preset `h200-qwen2.5-7b` against what it was fitted to: vLLM 0.22 on one H200, by its own client.

use rand_distr::{Distribution, Exp1};

use super::virtual_run::{Arrival, SlotStart, VirtualRequest, closed_loop, open_loop};
use crate::rng::Seed;
use crate::sim::profile::Prefill;
use crate::sim::{Engine, Preset, Profile, RequestSpec};
use crate::stats::moments::mean;
use crate::stats::quantile::quantile;
use crate::units::{ns_to_ms, ns_to_s, s_to_ns};

/// How the server was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Started {
    /// `--no-enable-chunked-prefill --max-num-batched-tokens 8192`.
    A,
    /// `--max-num-batched-tokens 2048`.
    B,
    /// `--max-num-batched-tokens 8192`.
    C,
}

/// The load of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// Requests in flight, the first of them sent together.
    Closed(usize),
    /// Poisson arrivals per second, scaled to take their number over the rate.
    Rate(f64),
}

/// TTFT mean and p99, TPOT mean, ITL p99, E2EL mean (ms) and output tokens per second.
pub type Figures = [f64; 6];

/// A run of the real server.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// How it was started.
    pub started: Started,
    /// Prompt and answer, tokens.
    pub lengths: (u32, u32),
    /// The load.
    pub load: Load,
    /// Requests, all of them measured.
    pub requests: usize,
    /// What was measured; the mean over repeats where there are some.
    pub figures: Figures,
}

const fn row(
    started: Started,
    lengths: (u32, u32),
    load: Load,
    requests: usize,
    figures: Figures,
) -> Measured {
    Measured { started, lengths, load, requests, figures }
}

use Load::{Closed, Rate};
use Started::{A, B, C};

/// All runs, with 4096 × 128 at 16 and 64.
#[rustfmt::skip]
pub const MEASURED: [Measured; 28] = [
    row(A, (512, 128), Closed(1), 32, [24.3, 25.7, 4.75, 5.3, 628.0, 204.0]),
    row(A, (512, 128), Closed(4), 64, [47.1, 65.0, 4.87, 5.6, 666.0, 769.0]),
    row(A, (512, 128), Closed(16), 192, [135.5, 224.2, 5.39, 12.5, 820.0, 2494.0]),
    row(A, (512, 128), Closed(64), 512, [390.1, 839.0, 8.29, 110.6, 1443.0, 5613.0]),
    row(A, (512, 128), Closed(128), 768, [876.3, 1620.4, 11.52, 167.2, 2339.0, 6976.0]),
    row(A, (4096, 128), Closed(16), 64, [596.1, 1650.7, 12.75, 96.8, 2215.0, 919.0]),
    row(A, (4096, 128), Closed(64), 192, [1456.9, 5985.9, 42.57, 101.1, 6863.0, 1181.0]),
    row(B, (512, 128), Closed(1), 32, [23.5, 26.2, 4.73, 5.2, 624.0, 205.0]),
    row(B, (512, 128), Closed(4), 64, [51.0, 68.9, 4.85, 5.6, 667.0, 767.0]),
    row(B, (512, 128), Closed(16), 192, [127.3, 248.3, 5.54, 29.6, 831.0, 2457.0]),
    row(B, (512, 128), Closed(64), 512, [338.7, 789.3, 8.52, 48.0, 1420.0, 5735.0]),
    row(B, (512, 128), Closed(128), 768, [768.2, 1674.6, 12.47, 66.5, 2352.0, 6904.0]),
    row(B, (512, 256), Rate(1.0), 30, [28.3, 38.0, 4.79, 5.3, 1250.0, 246.0]),
    row(B, (512, 256), Rate(5.0), 150, [35.7, 58.7, 5.16, 19.7, 1352.0, 1229.0]),
    row(B, (512, 256), Rate(10.0), 150, [41.1, 71.5, 5.77, 23.5, 1511.0, 2362.0]),
    row(B, (512, 256), Rate(20.0), 200, [59.5, 125.5, 6.94, 27.1, 1830.0, 4514.0]),
    row(B, (512, 256), Rate(30.0), 240, [59.3, 236.3, 7.67, 26.4, 2016.0, 6495.0]),
    row(B, (512, 256), Rate(40.0), 240, [92.8, 181.5, 10.24, 43.1, 2703.0, 8121.0]),
    row(B, (512, 256), Rate(50.0), 250, [129.5, 408.0, 11.73, 61.3, 3121.0, 9275.0]),
    row(B, (4096, 128), Closed(16), 64, [546.6, 1701.5, 13.04, 53.2, 2202.0, 920.0]),
    row(B, (4096, 128), Closed(64), 192, [1483.0, 6680.7, 43.93, 59.9, 7062.0, 1137.0]),
    row(C, (512, 128), Closed(1), 32, [23.6, 25.8, 4.75, 5.2, 627.0, 204.0]),
    row(C, (512, 128), Closed(4), 64, [48.6, 71.7, 4.89, 5.8, 669.0, 765.0]),
    row(C, (512, 128), Closed(16), 192, [138.4, 213.3, 5.42, 16.5, 827.0, 2470.0]),
    row(C, (512, 128), Closed(64), 512, [493.9, 802.9, 7.62, 100.7, 1461.0, 5587.0]),
    row(C, (512, 128), Closed(128), 768, [855.8, 1567.2, 11.58, 177.1, 2327.0, 7006.0]),
    row(C, (4096, 128), Closed(16), 64, [826.3, 1594.4, 10.91, 183.5, 2211.0, 923.0]),
    row(C, (4096, 128), Closed(64), 192, [2792.0, 6310.5, 33.62, 194.2, 7062.0, 1152.0]),
];

fn profile(started: Started) -> Profile {
    let mut profile = Preset::H200Qwen25Seven.profile();
    let limits = &mut profile.limits;
    limits.max_num_batched_tokens = if started == B { 2048 } else { 8192 };
    limits.prefill = if started == A { Prefill::Whole } else { Prefill::Chunked };
    profile
}

/// What the simulator gives for a run: the mean of three starts.
#[must_use]
pub fn predicted(run: &Measured) -> Figures {
    let starts: Vec<Figures> = (0..3).map(|start| one_start(run, start)).collect();
    std::array::from_fn(|i| mean(&starts.iter().map(|s| s[i]).collect::<Vec<_>>()).unwrap())
}

fn one_start(run: &Measured, start: u64) -> Figures {
    let mut engine =
        Engine::new(profile(run.started), Preset::H200Qwen25Seven.noise(), Seed(start));
    let specs = vec![RequestSpec::new(run.lengths.0, run.lengths.1); run.requests];
    let requests = match run.load {
        Closed(slots) => closed_loop(&mut engine, 0, &specs, slots, SlotStart::Together),
        Rate(per_s) => open_loop(&mut engine, &arrivals(&specs, per_s, Seed(start))),
    };
    figures(&requests)
}

fn arrivals(specs: &[RequestSpec], per_s: f64, seed: Seed) -> Vec<Arrival> {
    let mut rng = seed.named("arrivals").rng();
    let gaps: Vec<f64> = specs.iter().map(|_| Exp1.sample(&mut rng)).collect();
    let scale = specs.len() as f64 / per_s / gaps.iter().sum::<f64>();
    let mut at_s = 0.0;
    let due = specs.iter().zip(&gaps).map(|(spec, gap)| {
        at_s += gap * scale;
        Arrival { due_ns: s_to_ns(at_s), spec: *spec }
    });
    due.collect()
}

fn figures(requests: &[VirtualRequest]) -> Figures {
    let ms = |of: fn(&VirtualRequest) -> u64| -> Vec<f64> {
        requests.iter().map(|r| ns_to_ms(of(r))).collect()
    };
    let ttft = ms(VirtualRequest::ttft_ns);
    let tpot: Vec<f64> = requests.iter().filter_map(VirtualRequest::tpot_ms).collect();
    let itl: Vec<f64> = requests.iter().flat_map(|r| &r.gaps_ns).map(|ns| ns_to_ms(*ns)).collect();
    let first = requests.iter().map(|r| r.sent_ns).min().unwrap_or(0);
    let last = requests.iter().map(|r| r.last_token_ns).max().unwrap_or(0);
    let tokens: u32 = requests.iter().map(|r| r.output_tokens).sum();
    [
        mean(&ttft).unwrap(),
        quantile(&ttft, 0.99).unwrap(),
        mean(&tpot).unwrap(),
        quantile(&itl, 0.99).unwrap(),
        mean(&ms(VirtualRequest::e2el_ns)).unwrap(),
        f64::from(tokens) / ns_to_s(last - first),
    ]
}

/// A line of the table in docs/simulator.md: measured → predicted.
#[must_use]
pub fn table_row(run: &Measured, ours: &Figures, fitted: bool) -> String {
    let load = match run.load {
        Closed(slots) => format!("c{slots}"),
        Rate(per_s) => format!("r{per_s}"),
    };
    let cell =
        |i: usize, digits: usize| format!("{:.digits$} → {:.digits$}", run.figures[i], ours[i]);
    let digits = [0, 0, 1, 0, 0, 0];
    let cells: Vec<String> = digits.iter().enumerate().map(|(i, d)| cell(i, *d)).collect();
    let mark = if fitted { "fitted" } else { "" };
    let (input, output) = run.lengths;
    format!("| {:?} | {input}/{output} | {load} | {} | {mark} |", run.started, cells.join(" | "))
}
