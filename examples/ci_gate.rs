//! A gate for pull requests: two builds of a server, restarted in turn, decide by exit code.
//!
//! ```text
//! cargo run --example ci_gate -- \
//!     --server-cmd  'new/bin/vllm serve MODEL --port 8000' \
//!     --against-cmd 'old/bin/vllm serve MODEL --port 8000' \
//!     --looks 5,8,12 --require 'error_rate<1%'
//! ```
//!
//! Two git revisions are two checkouts with a server in each; two sets of flags are two commands
//! (`examples/against.toml`). A change found after five pairs of restarts ends the run there.
//!
//! Without a server two simulators meet, and `INFEROMETER_SIM_SLOWDOWN=1.10` makes the new one 10 %
//! slower: `INFEROMETER_SIM_SLOWDOWN=1.10 cargo run --example ci_gate -- --against-simulate demo`
//! ends with 1. Exit codes: 0 nothing against it, 1 a regression or a limit missed, 4 nothing that
//! can be trusted; the report and `junit.xml` lie in `target-reports/report`.

use std::process::ExitCode;

use inferometer::{Harness, Load, Scenario};

fn main() -> ExitCode {
    let mut harness = Harness::from_env();
    harness
        .group("gate")
        // The decode step (ITL p50) gates first: it is what restarts move least.
        .scenario(Scenario::new("chat").input(512).output(128).sweep(Load::concurrency, [1, 16]))
        .scenario(Scenario::new("prefill").input(2048).output(16).sweep(Load::concurrency, [4]));
    inferometer::bench_main([harness])
}
