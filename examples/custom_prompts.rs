//! Prompts of your own: every user's question behind one long system prompt, as chat products send
//! them. Run it twice against a server with prefix caching off and on, and compare.
//!
//! `cargo run --release --example custom_prompts` (the embedded simulator, or `INFEROMETER_URL`)

use std::process::ExitCode;
use std::sync::Arc;

use inferometer::{Harness, Load, Prompt, PromptSource, Scenario, Seed, WORDS};

/// Words that every prompt begins with.
const SHARED_WORDS: usize = 200;

struct SharedSystemPrompt;

impl PromptSource for SharedSystemPrompt {
    /// From the request's own seed alone, so that every run sends the same prompts in any order.
    fn prompt(&self, index: u64, tokens: u32, seed: Seed) -> inferometer::Result<Prompt> {
        let shared = (0..SHARED_WORDS).map(|place| WORDS[place % WORDS.len()]);
        let own = (tokens as usize).saturating_sub(SHARED_WORDS + 2);
        let own = (0..own as u64).map(|place| {
            let draw = seed.nth(place).0 % WORDS.len() as u64;
            WORDS[usize::try_from(draw).unwrap_or(0)]
        });
        let words: Vec<&str> = shared.chain(own).collect();
        Ok(Prompt::Text(format!("{} question {index}", words.join(" "))))
    }

    /// Runs with other prompts are not compared with these: change it with the text.
    fn content_hash(&self) -> Option<String> {
        Some("shared-system-prompt-1".to_owned())
    }
}

fn main() -> ExitCode {
    let mut harness = Harness::from_env();
    harness.prompts(Arc::new(SharedSystemPrompt));
    harness
        .group("assistant")
        .scenario(Scenario::new("chat").input(512).output(64).sweep(Load::concurrency, [1, 8]));
    inferometer::bench_main([harness])
}
