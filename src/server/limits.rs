//! Limits: how long the steps of a server's life may take.

use std::time::Duration;

/// Limits of a server's life.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// How often a start is looked at.
    pub poll: Duration,
    /// From the request to end until the kill. vLLM takes about 5 s with its workers.
    pub stop: Duration,
    /// How long a stop hook may take.
    pub hook: Duration,
    /// How long the GPU's memory may take to come back.
    pub gpu_idle: Duration,
    /// How far above its first reading the GPU's memory still counts as idle, MiB: a CUDA context
    /// of another process takes about 500.
    pub gpu_slack_mib: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            poll: Duration::from_millis(100),
            stop: Duration::from_secs(30),
            hook: Duration::from_secs(300),
            gpu_idle: Duration::from_secs(60),
            gpu_slack_mib: 512.0,
        }
    }
}
