//! An estimate: how long a plan takes and how many tokens it costs.

use super::{Design, Phase, Plan, RoundPlan};
use crate::scenario::Load;
use crate::settings::{Launch, Settings, Target};

/// Windows of completions that warm-up needs before it can find them stable.
const WARM_UP_WINDOWS: f64 = 3.0;
/// The least completions of such a window.
const WARM_UP_WINDOW: f64 = 16.0;

/// Loads that a search tries in a start: twice up, once too far, five times between.
const LOADS_OF_A_SEARCH: f64 = 8.0;

/// How fast the server is expected to be, and what the run adds. All in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expectation {
    /// TTFT, seconds.
    pub ttft_s: f64,
    /// TPOT, seconds.
    pub tpot_s: f64,
    /// Prompt length where it comes from a file, tokens.
    pub file_tokens: f64,
    /// A launch until ready, seconds; 0 where nobody launches.
    pub launch_s: f64,
    /// The longest warm-up of a load point, seconds.
    pub warm_up_limit_s: f64,
    /// The pause between load points, seconds.
    pub cool_down_s: f64,
}

/// What a plan takes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimate {
    /// Wall time, seconds.
    pub seconds: f64,
    /// Prompt tokens sent.
    pub input_tokens: f64,
    /// Tokens generated.
    pub output_tokens: f64,
}

impl Expectation {
    /// Before anything is measured: an 8B-like model on one data-centre card (TTFT 100 ms, TPOT
    /// 15 ms under moderate load, 90 s to launch), or the simulator's preset.
    #[must_use]
    pub fn assumed(settings: &Settings) -> Self {
        let simulated = settings.is_simulated();
        let (ttft_s, tpot_s) = if simulated { (0.005, 0.000_5) } else { (0.1, 0.015) };
        let launch = |target: &Target| -> f64 {
            match target.launch {
                Launch::External => 0.0,
                Launch::Simulator { .. } => 0.1,
                Launch::Command { .. } | Launch::Hooks { .. } => 90.0,
            }
        };
        let against_s = settings.against.as_ref().map_or(0.0, launch);
        Self {
            ttft_s,
            tpot_s,
            file_tokens: 512.0,
            launch_s: launch(&settings.target).max(against_s),
            warm_up_limit_s: if settings.skip.warm_up {
                0.0
            } else {
                settings.warm_up_time.as_secs_f64()
            },
            cool_down_s: settings.cool_down.as_secs_f64(),
        }
    }

    /// The expected E2E of a request of this round, seconds.
    #[must_use]
    pub fn e2e_s(&self, round: &RoundPlan) -> f64 {
        self.ttft_s + self.tpot_s * (round.point.output.mean() - 1.0).max(0.0)
    }
}

impl Plan {
    /// What the plan takes if the server is as fast as expected. Queueing beyond saturation is not
    /// foreseen; the limits of the rounds are.
    #[must_use]
    pub fn estimate(&self, expected: &Expectation) -> Estimate {
        let mut total = Estimate::default();
        for start in &self.starts {
            for round in &start.rounds {
                let one = estimate_round(round, expected);
                total.seconds += one.seconds + expected.cool_down_s;
                total.input_tokens += one.input_tokens;
                total.output_tokens += one.output_tokens;
            }
        }
        let launches = match self.design {
            Design::Routes => 1,
            Design::OneSided | Design::Interleaved => self.starts.len(),
        };
        total.seconds += expected.launch_s * launches as f64;
        if self.burn_in {
            total.seconds += 2.0 * (expected.launch_s + expected.warm_up_limit_s);
        }
        total
    }
}

/// Warm-up, ramp, window and drain of one round.
fn estimate_round(round: &RoundPlan, expected: &Expectation) -> Estimate {
    let e2e_s = expected.e2e_s(round);
    // Requests a second: Little's law in a closed loop, as offered in an open one.
    let per_s = match round.point.load {
        Load::Concurrency(n) => f64::from(n) / e2e_s.max(1e-9),
        Load::RequestRate(rate) => rate.per_s,
    };
    let in_flight = (per_s * e2e_s).max(WARM_UP_WINDOW);
    // A reference follows no load and needs no warm-up of its own.
    let warm_up_s = match round.phase {
        Phase::Load | Phase::Search => {
            (WARM_UP_WINDOWS * in_flight / per_s).min(expected.warm_up_limit_s)
        }
        Phase::Reference | Phase::WarmUp => 0.0,
    };
    let stop = round.stop;
    let window_s = (f64::from(stop.requests) / per_s)
        .max(stop.min_time_s)
        .max(3.0 * e2e_s)
        .min(stop.max_time_s);
    // The load is kept up through the ramp and until the last measured request has ended.
    let rounds = if round.phase == Phase::Search { LOADS_OF_A_SEARCH } else { 1.0 };
    let seconds = rounds * (warm_up_s + e2e_s + window_s + e2e_s);
    let requests = per_s * seconds;
    let input = match round.point.input.mean() {
        0.0 => expected.file_tokens,
        tokens => tokens,
    };
    Estimate {
        seconds,
        input_tokens: requests * input,
        output_tokens: requests * round.point.output.mean(),
    }
}
