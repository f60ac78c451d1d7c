//! The kind of a finding: a stable name for machines.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($code:ident => $name:literal,)+) => {
        /// The kind of a finding. Its sentence explains it; its name never changes.
        #[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(from = "String", into = "String")]
        #[non_exhaustive]
        #[allow(missing_docs)] // the sentence of a finding says what its kind means
        pub enum FindingCode {
            $($code,)+
            /// A kind of another version of this program, kept as it was read.
            Other(String),
        }

        impl FindingCode {
            /// The name in files: `schedule_lag`.
            #[must_use]
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$code => $name,)+
                    Self::Other(name) => name,
                }
            }
        }

        impl From<String> for FindingCode {
            fn from(name: String) -> Self {
                match name.as_str() {
                    $($name => Self::$code,)+
                    _ => Self::Other(name),
                }
            }
        }
    };
}

codes! {
    Aiperf => "aiperf",
    AtCap => "at_cap",
    AtOnce => "at_once",
    BeyondSelftest => "beyond_selftest",
    ClientCpu => "client_cpu",
    ClientDescriptors => "client_descriptors",
    ClientPorts => "client_ports",
    ClientStall => "client_stall",
    Coalesced => "coalesced",
    ConnectTimeout => "connect_timeout",
    ContentFilter => "content_filter",
    Contradiction => "contradiction",
    CountsDiffer => "counts_differ",
    Decided => "decided",
    Descriptors => "descriptors",
    Dns => "dns",
    Drain => "drain",
    EarlyStops => "early_stops",
    Failures => "failures",
    FieldRefused => "field_refused",
    GpuMemoryHeld => "gpu_memory_held",
    Guidellm => "guidellm",
    IdenticalSettings => "identical_settings",
    IgnoreEos => "ignore_eos",
    IgnoreEosWithoutEffect => "ignore_eos_without_effect",
    Imported => "imported",
    InFlight => "in_flight",
    InFlightGuard => "in_flight_guard",
    InputLengths => "input_lengths",
    Interrupted => "interrupted",
    Judged => "judged",
    KeyRefused => "key_refused",
    KeySpaces => "key_spaces",
    LeftOut => "left_out",
    LengthIgnored => "length_ignored",
    Limit => "limit",
    Little => "little",
    LlmD => "llm_d",
    Lockstep => "lockstep",
    Looks => "looks",
    LoopLag => "loop_lag",
    MetricsGone => "metrics_gone",
    MixedMetadata => "mixed_metadata",
    Model => "model",
    ModelChosen => "model_chosen",
    NoAnswer => "no_answer",
    NoDate => "no_date",
    NoEnds => "no_ends",
    NoFailures => "no_failures",
    NoGaps => "no_gaps",
    NoDialect => "no_dialect",
    NoMetrics => "no_metrics",
    NoModels => "no_models",
    NoPreflight => "no_preflight",
    NoRequests => "no_requests",
    NoSelftest => "no_selftest",
    NoSends => "no_sends",
    NoStarts => "no_starts",
    NoTls => "no_tls",
    NoTokenize => "no_tokenize",
    NoUsage => "no_usage",
    NotSettled => "not_settled",
    NotSteady => "not_steady",
    OtherTraffic => "other_traffic",
    OutputLost => "output_lost",
    OutputOverCap => "output_over_cap",
    Overloaded => "overloaded",
    PassedOver => "passed_over",
    Ports => "ports",
    Preemptions => "preemptions",
    PrefixCache => "prefix_cache",
    ProbeFailed => "probe_failed",
    PromptCount => "prompt_count",
    PromptNotCounted => "prompt_not_counted",
    Quota => "quota",
    RampUp => "ramp_up",
    RateLimited => "rate_limited",
    Refused => "refused",
    RestartUnproven => "restart_unproven",
    Replicas => "replicas",
    Restarted => "restarted",
    Resumed => "resumed",
    RoundCut => "round_cut",
    Saturated => "saturated",
    ScheduleLag => "schedule_lag",
    ServerLost => "server_lost",
    ServerWord => "server_word",
    ShortRound => "short_round",
    SlowReference => "slow_reference",
    Speculative => "speculative",
    StaleConnections => "stale_connections",
    NotAppended => "not_appended",
    StartFailed => "start_failed",
    StartTold => "start_told",
    StopFailed => "stop_failed",
    Template => "template",
    Tls => "tls",
    TlsExpired => "tls_expired",
    TlsNameMismatch => "tls_name_mismatch",
    TlsUntrusted => "tls_untrusted",
    TlsWanted => "tls_wanted",
    TokenPrompts => "token_prompts",
    TokenSources => "token_sources",
    TokensBelowEvents => "tokens_below_events",
    TokensByEvents => "tokens_by_events",
    TokensPerEvent => "tokens_per_event",
    TooFewSamples => "too_few_samples",
    TooLong => "too_long",
    Unsent => "unsent",
    UsageRefused => "usage_refused",
}

impl From<FindingCode> for String {
    fn from(code: FindingCode) -> Self {
        code.name().to_owned()
    }
}

/// By name, so that an order does not change with the list above.
impl Ord for FindingCode {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}

impl PartialOrd for FindingCode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_stored_by_name_and_unknown_ones_are_kept() {
        let text = r#"["schedule_lag","of_a_later_version"]"#;
        let codes: Vec<FindingCode> = serde_json::from_str(text).unwrap();
        assert_eq!(codes[0], FindingCode::ScheduleLag);
        assert_eq!(codes[1], FindingCode::Other("of_a_later_version".into()));
        assert_eq!(serde_json::to_string(&codes).unwrap(), text);
    }
}
