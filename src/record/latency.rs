//! Latencies of one request, from the times of its record: TTFT, TTFO, TPOT, E2EL, and the longest gap.

use super::request::RequestRecord;
use crate::units::ns_to_ms;

impl RequestRecord {
    /// TTFT, ms.
    #[must_use]
    pub fn ttft_ms(&self) -> Option<f64> {
        span_ms(self.clock_start_ns(), self.first_token_ns)
    }

    /// TTFT counted from the send, ms.
    #[must_use]
    pub fn ttft_from_sent_ms(&self) -> Option<f64> {
        span_ms(self.sent_ns, self.first_token_ns)
    }

    /// TTFO, ms.
    #[must_use]
    pub fn ttfo_ms(&self) -> Option<f64> {
        span_ms(self.clock_start_ns(), self.first_output_ns)
    }

    /// TPOT, ms; `None` if no token follows the first event.
    ///
    /// (E2EL − TTFT) / (output tokens − tokens of the first event): vLLM's n − 1 where an event
    /// carries one token, and right where speculative decoding puts several into the first.
    #[must_use]
    pub fn tpot_ms(&self) -> Option<f64> {
        let later_tokens = self.output_tokens?.checked_sub(self.first_event_tokens)?;
        let span = span_ms(self.first_token_ns, self.last_token_ns)?;
        (later_tokens > 0 && self.events > 1).then(|| span / f64::from(later_tokens))
    }

    /// E2EL, ms.
    #[must_use]
    pub fn e2el_ms(&self) -> Option<f64> {
        span_ms(self.clock_start_ns(), self.last_token_ns)
    }

    /// E2EL counted from the send, ms.
    #[must_use]
    pub fn e2el_from_sent_ms(&self) -> Option<f64> {
        span_ms(self.sent_ns, self.last_token_ns)
    }

    /// Sent minus due, ms; none in a closed loop.
    #[must_use]
    pub fn schedule_delay_ms(&self) -> Option<f64> {
        span_ms(self.due_ns, self.sent_ns)
    }

    /// The longest gap between two token events, ms; none below two events.
    #[must_use]
    pub fn worst_gap_ms(&self) -> Option<f64> {
        self.worst_gap_ns.map(ns_to_ms)
    }
}

/// Later minus earlier, ms; never below zero.
fn span_ms(from_ns: Option<u64>, to_ns: Option<u64>) -> Option<f64> {
    Some(ns_to_ms(to_ns?.saturating_sub(from_ns?)))
}
