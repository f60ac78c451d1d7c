//! A dialect of your own: completions with a priority per request, for a server that schedules by it
//! (`vllm serve … --scheduling-policy priority`).
//!
//! `cargo run --release --example custom_dialect` (the embedded simulator, or `INFEROMETER_URL`)

use std::process::ExitCode;
use std::sync::Arc;

use bytes::Bytes;
use inferometer::{Completions, Dialect, GenerateRequest, Harness, Load, Scenario, StreamEvent};

/// One request of ten is urgent; which one comes from its seed, so it is the same in every run.
struct WithPriority(Completions);

impl Dialect for WithPriority {
    fn name(&self) -> &'static str {
        "completions with priority"
    }

    fn path(&self) -> &'static str {
        self.0.path()
    }

    fn body(&self, request: &GenerateRequest<'_>) -> inferometer::Result<Bytes> {
        let priority = i32::from(!request.seed.is_multiple_of(10)); // vLLM: the lower, the sooner
        let mut extra = request.extra.clone();
        extra.insert("priority".to_owned(), priority.into());
        self.0.body(&GenerateRequest { extra: &extra, ..request.clone() })
    }

    fn event(&self, data: &[u8]) -> Result<StreamEvent, String> {
        self.0.event(data)
    }
}

fn main() -> ExitCode {
    let mut harness = Harness::from_env();
    harness.dialect(Arc::new(WithPriority(Completions)));
    harness
        .group("priority")
        .scenario(Scenario::new("chat").input(512).output(64).sweep(Load::concurrency, [1, 8]));
    inferometer::bench_main([harness])
}
