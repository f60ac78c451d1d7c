//! The server's own word: its times and counters over a round, beside what the client saw.

use std::collections::BTreeMap;

use crate::record::{Finding, FindingCode, RequestRecord, Severity};

/// A server whose count of generated tokens exceeds the client's by more than this has others to
/// serve: cancelled and failed requests stay below it in a round that ended well.
const OTHERS_LIMIT: f64 = 0.05;

/// A prefix cache that gives more than this of the prompt tokens makes prefill cheaper than the
/// scenario says. The chat template alone is a per cent of a short prompt.
pub(super) const CACHE_LIMIT: f64 = 0.05;

/// Names of the pairs that are set side by side: (what the server reports, what the client saw, their
/// difference). All ms, means over every request of the round, ramp and tail included, since the
/// server's counters know no window.
const PAIRS: [(&str, &str, &str); 4] = [
    ("server_ttft_mean_ms", "client_ttft_mean_ms", "outside_ttft_ms"),
    ("server_tpot_mean_ms", "client_tpot_mean_ms", "outside_tpot_ms"),
    ("server_itl_mean_ms", "client_itl_mean_ms", "outside_itl_ms"),
    ("server_e2el_mean_ms", "client_e2el_mean_ms", "outside_e2el_ms"),
];

/// Sets the client's means beside the server's, where it tells them, and the difference: the share of
/// the gateway, the network and the client. Clocks start at the send, as the server's do at the
/// arrival. Nothing is added where the server is silent: not offered is not 0.
pub fn set_beside(telemetry: &mut BTreeMap<String, f64>, records: &[RequestRecord]) {
    let mut client = [Mean::default(); 4];
    let mut tokens = 0_u64;
    for record in records {
        tokens += u64::from(record.output_tokens.unwrap_or(0));
        client[0].add(record.ttft_from_sent_ms());
        if record.outcome == crate::record::Outcome::Completed {
            client[1].add(record.tpot_ms());
            client[2].weigh(record.tpot_ms(), f64::from(record.output_tokens.unwrap_or(1)) - 1.0);
            client[3].add(record.e2el_from_sent_ms());
        }
    }
    if telemetry.contains_key("generation_tokens") {
        #[allow(clippy::cast_precision_loss)] // below 2^53 tokens
        telemetry.insert("client_generation_tokens".to_owned(), tokens as f64);
    }
    for ((server_name, client_name, outside_name), mean) in PAIRS.into_iter().zip(client) {
        let (Some(server), Some(client)) = (telemetry.get(server_name).copied(), mean.value())
        else {
            continue;
        };
        telemetry.insert(client_name.to_owned(), client);
        telemetry.insert(outside_name.to_owned(), client - server);
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum: f64,
    weight: f64,
}

impl Mean {
    fn add(&mut self, value: Option<f64>) {
        self.weigh(value, 1.0);
    }

    fn weigh(&mut self, value: Option<f64>, weight: f64) {
        if let Some(value) = value.filter(|_| weight > 0.0) {
            self.sum += value * weight;
            self.weight += weight;
        }
    }

    fn value(self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

/// What the server told over the rounds of a load point, averaged over those that have it (counts
/// added up).
#[must_use]
pub fn pooled(rounds: &[BTreeMap<String, f64>]) -> BTreeMap<String, f64> {
    let mut means: BTreeMap<&str, Mean> = BTreeMap::new();
    for (name, value) in rounds.iter().flatten() {
        means.entry(name).or_default().add(Some(*value));
    }
    let is_count =
        |name: &str| !name.ends_with("_ms") && !name.contains("rate") && !name.contains("usage");
    means
        .into_iter()
        .map(|(name, mean)| {
            let value = if is_count(name) { mean.sum } else { mean.sum / mean.weight };
            (name.to_owned(), value)
        })
        .collect()
}

/// What the server's word reports that a reader must know, from [`pooled`] values.
#[must_use]
pub fn findings(told: &BTreeMap<String, f64>) -> Vec<Finding> {
    [beside(told), preempted(told), cached(told), others(told)].into_iter().flatten().collect()
}

/// The server's times beside ours, in one sentence.
fn beside(told: &BTreeMap<String, f64>) -> Option<Finding> {
    let mut parts = Vec::new();
    let named = PAIRS.into_iter().zip(["TTFT", "TPOT", "ITL", "E2EL"]);
    // The mean ITL says what the mean TPOT does.
    for ((server, client, outside), label) in named.filter(|(_, label)| *label != "ITL") {
        if let (Some(server), Some(client), Some(outside)) =
            (told.get(server), told.get(client), told.get(outside))
        {
            let sign = if *outside < 0.0 { '−' } else { '+' };
            parts.push(format!(
                "{label} {client:.2} ms = {server:.2} ms in the server {sign} {:.2} ms outside it",
                outside.abs()
            ));
        }
    }
    if parts.is_empty() {
        return None;
    }
    let queue = told
        .get("server_queue_time_mean_ms")
        .map(|ms| format!("; {ms:.2} ms of the server's time is in its queue"))
        .unwrap_or_default();
    let text = format!("mean latencies: {} (network, gateway, client){queue}", parts.join("; "));
    Some(Finding::new(FindingCode::ServerWord, Severity::Note, text))
}

fn preempted(told: &BTreeMap<String, f64>) -> Option<Finding> {
    let times = told.get("preemptions").copied().filter(|n| *n > 0.0)?;
    let text = format!(
        "the server preempted requests {times:.0} times because its KV cache was full; their work was \
         repeated"
    );
    let hint = "lower the load or the lengths, or give the KV cache more memory";
    Some(Finding::new(FindingCode::Preemptions, Severity::Warning, text).with_hint(hint))
}

fn cached(told: &BTreeMap<String, f64>) -> Option<Finding> {
    let rate = told.get("prefix_cache_hit_rate").copied().filter(|rate| *rate > CACHE_LIMIT)?;
    let before = told
        .get("prefix_cache_hit_rate_before")
        .map(|before| format!(" ({:.0} % before the round)", before * 100.0))
        .unwrap_or_default();
    Some(prefix_cache(rate, &before))
}

/// That prompts were cheaper than their lengths.
pub(super) fn prefix_cache(rate: f64, before: &str) -> Finding {
    let text = format!(
        "{:.0} % of the prompt tokens came from the server's prefix cache{before}: prefill was cheaper \
         than the lengths say",
        rate * 100.0
    );
    let hint = "prompts share their beginnings, or were sent before (`--replay-prompts`)";
    Finding::new(FindingCode::PrefixCache, Severity::Warning, text).with_hint(hint)
}

fn others(told: &BTreeMap<String, f64>) -> Option<Finding> {
    let (server, client) = (told.get("generation_tokens")?, told.get("client_generation_tokens")?);
    (*client > 0.0 && *server > client * (1.0 + OTHERS_LIMIT)).then(|| {
        let text = format!(
            "the server generated {server:.0} tokens while the client received {client:.0}: others use it \
             too, or answers were cut"
        );
        Finding::new(FindingCode::OtherTraffic, Severity::Warning, text)
            .with_hint("measure a server that serves nobody else")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(values: &[(&str, f64)]) -> BTreeMap<String, f64> {
        values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    fn codes(values: &[(&str, f64)]) -> Vec<String> {
        findings(&told(values)).into_iter().map(|finding| finding.code.into()).collect()
    }

    #[test]
    fn counts_add_up_and_times_are_averaged() {
        let rounds = [
            told(&[("preemptions", 2.0), ("server_ttft_mean_ms", 10.0)]),
            told(&[("preemptions", 3.0), ("server_ttft_mean_ms", 30.0)]),
            told(&[("prefix_cache_hit_rate", 0.5)]),
        ];
        let all = pooled(&rounds);
        assert_eq!(all["preemptions"], 5.0);
        assert_eq!(all["server_ttft_mean_ms"], 20.0);
        assert_eq!(all["prefix_cache_hit_rate"], 0.5, "only of rounds that have it");
    }

    #[test]
    fn what_is_not_offered_is_not_told() {
        assert!(codes(&[]).is_empty());
        assert!(codes(&[("preemptions", 0.0), ("prefix_cache_hit_rate", 0.0)]).is_empty());
        assert_eq!(codes(&[("preemptions", 1.0)]), ["preemptions"]);
        assert_eq!(codes(&[("prefix_cache_hit_rate", 0.4)]), ["prefix_cache"]);
        let near = [("generation_tokens", 104.0), ("client_generation_tokens", 100.0)];
        assert!(codes(&near).is_empty());
        let far = [("generation_tokens", 106.0), ("client_generation_tokens", 100.0)];
        assert_eq!(codes(&far), ["other_traffic"]);
    }

    #[test]
    fn nothing_is_set_beside_a_silent_server() {
        let mut silent = BTreeMap::new();
        set_beside(&mut silent, &[]);
        assert!(silent.is_empty());
        let mut no_requests = told(&[("server_ttft_mean_ms", 3.0)]);
        set_beside(&mut no_requests, &[]);
        assert_eq!(no_requests.len(), 1, "no request, no mean, no difference");
    }
}
