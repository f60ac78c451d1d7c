//! A running vLLM server, by URL: `INFEROMETER_URL=http://127.0.0.1:8000 cargo run --release --example vllm`.
//!
//! The key, where the server wants one, comes from `INFEROMETER_API_KEY`.

use std::process::ExitCode;

use inferometer::{Harness, Load, Scenario, Slo};

fn main() -> ExitCode {
    let mut harness = Harness::from_env();
    harness
        .group("chat")
        .scenario(
            Scenario::new("short")
                .input(512)
                .output(128)
                .sweep(Load::concurrency, [1, 4, 16, 64, 128])
                .goodput(Slo::new().ttft_ms(200).tpot_ms(30)),
        )
        .scenario(
            Scenario::new("long")
                .input(4096)
                .output(128)
                .sweep(Load::concurrency, [1, 4, 16])
                .goodput(Slo::new().ttft_ms(1000).tpot_ms(50)),
        );
    harness.group("arrivals").scenario(
        Scenario::new("short").input(512).output(128).sweep(Load::request_rate, [1.0, 5.0, 10.0]),
    );
    inferometer::bench_main([harness])
}
