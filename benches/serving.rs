//! The harness on itself: with no server configured, the embedded simulator runs.

use inferometer::{Harness, Load, Scenario, Slo, scenario_group, scenario_main};

fn chat(harness: &mut Harness) {
    harness.group("chat").scenario(
        Scenario::new("short")
            .input(512)
            .output(128)
            .sweep(Load::concurrency, [1, 4, 16])
            .goodput(Slo::new().ttft_ms(200).tpot_ms(30)),
    );
}

scenario_group! { name = serving; config = Harness::from_env(); targets = chat }
scenario_main!(serving);
