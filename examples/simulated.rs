//! The main job on the embedded simulator: no GPU, no server, under a minute.

use std::process::ExitCode;

use inferometer::{Harness, Load, Scenario, Slo};

fn main() -> ExitCode {
    let mut harness = Harness::from_env();
    // Enough for intervals, and the whole job ends within a minute; a gate wants five.
    harness.settings().starts = Some(3);
    harness.group("chat").scenario(
        Scenario::new("short")
            .input(512)
            .output(128)
            .sweep(Load::concurrency, [1, 4, 16, 64])
            .goodput(Slo::new().ttft_ms(200).tpot_ms(30)),
    );
    inferometer::bench_main([harness])
}
