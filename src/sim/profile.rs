//! Profile: what an iteration costs and what the scheduler may put into it.

/// How prompts enter the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefill {
    /// In pieces, from the budget that the decodes leave (`--enable-chunked-prefill`).
    Chunked,
    /// Whole, where the budget that the decodes leave holds all of it (`--no-enable-chunked-prefill`, as
    /// vLLM's V1 scheduler has it).
    Whole,
}

/// When the next iteration is put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduling {
    /// When the one before it has ended (`--no-async-scheduling`).
    Sync,
    /// When the one before it begins: what arrives meanwhile waits for one more (`--async-scheduling`).
    Async,
}

/// The scheduler's limits, named as vLLM's flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Tokens an iteration may compute; at least 1.
    pub max_num_batched_tokens: u32,
    /// Sequences in the batch; at least 1.
    pub max_num_seqs: u32,
    /// How prompts enter.
    pub prefill: Prefill,
    /// When the next iteration is put together.
    pub scheduling: Scheduling,
    /// Tokens that the KV cache holds.
    pub kv_capacity_tokens: u64,
}

/// What an iteration costs, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// Each iteration.
    pub base_ms: f64,
    /// Each iteration that computes prompt tokens, beside their own cost: it runs outside of the graphs that
    /// were captured for decodes.
    pub prefill_ms: f64,
    /// Each prompt token computed.
    pub prefill_token_ms: f64,
    /// Each decoding sequence.
    pub decoding_ms: f64,
    /// Each token in the context of a decoding sequence.
    pub context_token_ms: f64,
    /// Each prompt token computed, times its position in the prompt.
    pub position_ms: f64,
}

/// What lies between the socket and the scheduler.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrontEnd {
    /// Time that the serial front end is busy with a request of 512 tokens: 40 % of it fixed, 60 % by length
    /// (the split that a real server's front end showed).
    pub busy_at_512_ms: f64,
    /// The way from the front end to the scheduler.
    pub in_ms: f64,
    /// Spread of the logarithm of `in_ms` between requests.
    pub in_sigma: f64,
    /// The way back of each token.
    pub out_ms: f64,
    /// Time that the front end is busy with a token on its way back. Requests wait meanwhile.
    pub busy_token_ms: f64,
}

impl FrontEnd {
    /// How long the front end is busy with a prompt of this many tokens, in milliseconds.
    #[must_use]
    pub fn busy_ms(&self, prompt_tokens: u32) -> f64 {
        self.busy_at_512_ms * (0.4 + 0.6 * f64::from(prompt_tokens) / 512.0)
    }
}

/// An engine, without its noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Profile {
    /// The scheduler's limits.
    pub limits: Limits,
    /// The cost of an iteration.
    pub costs: Costs,
    /// The way in and out.
    pub front: FrontEnd,
    /// A factor on every iteration: 1.10 is a server 10 % slower. Above 0.
    pub slowdown: f64,
}
