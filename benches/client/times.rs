//! The latencies of one answer by its token times, ms: the same reading of a client's and the server's.

use inferometer::internals::selftest::RequestTruth;
use inferometer::internals::units::ns_to_ms;

/// From `from_ns`, when it was sent or received, to the first token.
pub(crate) fn ttft(from_ns: u64, token_ns: &[u64]) -> Vec<f64> {
    vec![ns_to_ms(token_ns[0].saturating_sub(from_ns))]
}

pub(crate) fn tpot(_: u64, token_ns: &[u64]) -> Vec<f64> {
    #[allow(clippy::cast_precision_loss)]
    let later = token_ns.len() as f64 - 1.0;
    vec![ns_to_ms(token_ns[token_ns.len() - 1] - token_ns[0]) / later]
}

pub(crate) fn itl(_: u64, token_ns: &[u64]) -> Vec<f64> {
    token_ns.windows(2).map(|w| ns_to_ms(w[1] - w[0])).collect()
}

/// One of the three, over the server's log.
pub(crate) fn truth<'a>(
    log: impl IntoIterator<Item = &'a RequestTruth>,
    of: fn(u64, &[u64]) -> Vec<f64>,
) -> Vec<f64> {
    log.into_iter().flat_map(|beats| of(beats.received_ns, &beats.token_ns)).collect()
}
