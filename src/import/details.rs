//! Details: the times of single requests, as `--save-detailed` keeps them, or part of them.

use super::error_text;
use super::fields::Fields;
use super::imported::Sends;
use crate::error::Result;
use crate::plan::{Phase, Side};
use crate::record::request::Part;
use crate::record::{GapHistogram, Outcome, RequestRecord};
use crate::units::s_to_ns;

/// More requests than this are refused: their records would fill gigabytes.
const MOST_REQUESTS: usize = 4_000_000;

/// Two chunks closer than this, 50 µs in s, came in one read: as in our own records.
const COALESCED_S: f64 = 50e-6;

/// The arrays of one result, those it has, all of one length. Times in seconds.
#[derive(Debug, Default)]
pub(super) struct Details {
    pub(super) requests: usize,
    pub(super) input_lens: Option<Vec<u32>>,
    pub(super) output_lens: Option<Vec<u32>>,
    ttfts: Option<Vec<Option<f64>>>,
    pub(super) itls: Option<Vec<Vec<f64>>>,
    latencies: Option<Vec<Option<f64>>>,
    start_times: Option<Vec<f64>>,
    pub(super) errors: Option<Vec<String>>,
    gaps: Gaps,
}

/// What the gaps of a result lie between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Gaps {
    /// Tokens, as far as the client reports: one chunk is taken for one token.
    #[default]
    Tokens,
    /// Chunks, which the client does not take for tokens.
    Chunks,
}

/// One request as a client kept it, times in seconds.
#[derive(Debug, Clone, Default)]
pub(super) struct RequestTimes {
    /// On a clock that all requests of the result share.
    pub(super) start_s: Option<f64>,
    /// From the send.
    pub(super) ttft_s: Option<f64>,
    /// From the send to the last token.
    pub(super) latency_s: Option<f64>,
    pub(super) gaps_s: Option<Vec<f64>>,
    pub(super) input_tokens: Option<u32>,
    pub(super) output_tokens: Option<u32>,
    /// Empty if it completed.
    pub(super) error: String,
}

/// Requests and gaps of one round.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) records: Vec<RequestRecord>,
    pub(super) itl: GapHistogram,
    pub(super) icl: GapHistogram,
}

impl Details {
    /// Takes the arrays out; `None` if the file has no times of requests.
    pub(super) fn take(fields: &mut Fields) -> Result<Option<Self>> {
        let details = Self {
            requests: 0,
            input_lens: fields.take_list("input_lens")?,
            output_lens: fields.take_list("output_lens")?,
            ttfts: fields.take_list("ttfts")?,
            itls: fields.take_list("itls")?,
            latencies: fields.take_list("latencies")?,
            start_times: fields.take_list("start_times")?,
            errors: fields.take_list("errors")?,
            gaps: Gaps::Tokens,
        };
        let lengths = [
            ("ttfts", details.ttfts.as_ref().map(Vec::len)),
            ("latencies", details.latencies.as_ref().map(Vec::len)),
            ("errors", details.errors.as_ref().map(Vec::len)),
            ("input_lens", details.input_lens.as_ref().map(Vec::len)),
            ("output_lens", details.output_lens.as_ref().map(Vec::len)),
            ("itls", details.itls.as_ref().map(Vec::len)),
            ("start_times", details.start_times.as_ref().map(Vec::len)),
        ];
        let known = lengths.into_iter().filter_map(|(name, length)| Some((name, length?)));
        let known: Vec<(&str, usize)> = known.collect();
        let Some(&(first, requests)) = known.first() else { return Ok(None) };
        if let Some((other, length)) = known.iter().find(|(_, length)| *length != requests) {
            let what = format!("has {length} entries where `{first}` has {requests}");
            return Err(fields.wrong(other, &what));
        }
        if requests > MOST_REQUESTS {
            return Err(fields.wrong(first, &format!("has more than {MOST_REQUESTS} entries")));
        }
        // Without a time and without an error there is nothing to tell of single requests.
        let tells = requests > 0
            && (details.ttfts.is_some() || details.latencies.is_some() || details.errors.is_some());
        Ok(tells.then_some(Self { requests, ..details }))
    }

    /// Where the times and lengths of single requests contradict one another, or the total, a sentence each.
    pub(super) fn disagreements(&self, output_tokens: Option<u64>) -> Vec<String> {
        let mut found = Vec::new();
        let ttfts = self.ttfts.iter().flatten();
        let latencies = self.latencies.iter().flatten();
        let both = ttfts.zip(latencies).map(|(ttft, latency)| ttft.zip(*latency));
        let both: Vec<Option<(f64, f64)>> = both.collect();
        let many = |count: usize| 2 * count > both.iter().flatten().count();
        let early = both.iter().flatten().filter(|(ttft, latency)| *latency < ttft * 0.99);
        let early = early.count();
        if early > 0 && many(early) {
            found.push(format!("{early} answers end before their first token: latency below TTFT"));
        }
        let gaps = self.itls.iter().flatten().filter(|_| self.gaps == Gaps::Tokens);
        let apart = both.iter().zip(gaps).filter(|(times, gaps)| {
            let (sum, count) = (gaps.iter().sum::<f64>(), gaps.len());
            times.is_some_and(|(ttft, latency)| {
                count > 0 && (sum - (latency - ttft)).abs() > 0.2 * latency.max(1e-3)
            })
        });
        let apart = apart.count();
        if apart > 0 && many(apart) {
            found.push(format!(
                "the gaps between tokens of {apart} answers do not add up to their latency less TTFT"
            ));
        }
        let listed: Option<u64> =
            self.output_lens.as_ref().map(|all| all.iter().map(|tokens| u64::from(*tokens)).sum());
        if let (Some(listed), Some(total)) = (listed, output_tokens)
            && listed.abs_diff(total) * 20 > total.max(listed)
        {
            found.push(format!(
                "the lengths of the answers add up to {listed} tokens, the total is {total}"
            ));
        }
        found
    }

    /// From single requests; `None` if there are none. A column that no completed request has is
    /// missing.
    pub(super) fn of_requests(requests: Vec<RequestTimes>, gaps: Gaps) -> Option<Self> {
        let completed = || requests.iter().filter(|request| request.error.is_empty());
        let all = |has: fn(&RequestTimes) -> bool| completed().count() > 0 && completed().all(has);
        let some = |has: fn(&RequestTimes) -> bool| completed().any(has);
        let column = |has: bool, of: fn(&RequestTimes) -> Option<f64>| {
            has.then(|| requests.iter().map(of).collect::<Vec<_>>())
        };
        let tokens = |has: bool, of: fn(&RequestTimes) -> Option<u32>| {
            has.then(|| requests.iter().map(|request| of(request).unwrap_or(0)).collect())
        };
        let starts = all(|r| r.start_s.is_some()).then(|| {
            // A failed request without a time is put at the beginning.
            let first = completed().filter_map(|r| r.start_s).fold(f64::INFINITY, f64::min);
            requests.iter().map(|r| r.start_s.unwrap_or(first)).collect()
        });
        (!requests.is_empty() && requests.len() <= MOST_REQUESTS).then(|| Self {
            requests: requests.len(),
            input_lens: tokens(all(|r| r.input_tokens.is_some()), |r| r.input_tokens),
            output_lens: tokens(all(|r| r.output_tokens.is_some()), |r| r.output_tokens),
            ttfts: column(some(|r| r.ttft_s.is_some()), |r| r.ttft_s),
            latencies: column(some(|r| r.latency_s.is_some()), |r| r.latency_s),
            itls: some(|r| r.gaps_s.is_some()).then(|| {
                requests.iter().map(|request| request.gaps_s.clone().unwrap_or_default()).collect()
            }),
            start_times: starts,
            errors: Some(requests.iter().map(|request| request.error.clone()).collect()),
            gaps,
        })
    }

    /// Whether the file says when each request was sent.
    pub(super) fn sends(&self) -> Sends {
        if self.start_times.is_some() { Sends::Known } else { Sends::Unknown }
    }

    /// Whether the ends of requests are known.
    pub(super) fn has_ends(&self) -> bool {
        self.latencies.is_some() || (self.itls.is_some() && self.ttfts.is_some())
    }

    /// Whether that request failed: it has an error, or, where no errors are kept, neither a time nor a
    /// token. (Without `--save-detailed` vLLM 0.32.0 keeps `latencies` alone.)
    pub(super) fn failed(&self, index: usize) -> bool {
        match &self.errors {
            Some(errors) => !errors[index].is_empty(),
            None => {
                self.ttft_s(index).is_none()
                    && self.latency_s(index).is_none()
                    && self.output_lens.as_ref().is_none_or(|lens| lens[index] == 0)
            }
        }
    }

    /// How many requests the arrays show as completed.
    pub(super) fn completed(&self) -> u64 {
        (0..self.requests).filter(|index| !self.failed(*index)).count() as u64
    }

    fn ttft_s(&self, index: usize) -> Option<f64> {
        positive(self.ttfts.as_ref()?[index])
    }

    /// Send to last chunk. vLLM's client takes all its times from the same stamps, so where it did
    /// not keep the latency, TTFT and the gaps add up to it.
    fn latency_s(&self, index: usize) -> Option<f64> {
        match (&self.latencies, &self.itls) {
            (Some(latencies), _) => positive(latencies[index]),
            (None, Some(itls)) => Some(self.ttft_s(index)? + itls[index].iter().sum::<f64>()),
            (None, None) => None,
        }
    }

    /// The records of round `round` of its load point, and the gaps between their chunks.
    pub(super) fn measured(&self, round: u32) -> Measured {
        let starts = self.start_times.as_deref().unwrap_or_default();
        let origin_s = starts.iter().copied().fold(f64::INFINITY, f64::min);
        let mut measured = Measured::default();
        for index in 0..self.requests {
            let sent_ns = starts.get(index).map_or(0, |start_s| s_to_ns(start_s - origin_s));
            let record = self.record(index, round, sent_ns);
            if record.outcome == Outcome::Completed {
                for gap_s in self.gaps(index) {
                    if self.gaps == Gaps::Tokens {
                        measured.itl.record(s_to_ns(*gap_s), 1);
                    }
                    measured.icl.record(s_to_ns(*gap_s), 1);
                }
            }
            measured.records.push(record);
        }
        measured
    }

    fn gaps(&self, index: usize) -> &[f64] {
        self.itls.as_ref().map_or(&[], |itls| &itls[index])
    }

    fn record(&self, index: usize, round: u32, sent_ns: u64) -> RequestRecord {
        let failed = self.failed(index);
        let words = self.errors.as_ref().map_or("", |errors| &errors[index]);
        let evidence = failed.then(|| error_text::of(words));
        let at = |seconds: Option<f64>| {
            seconds.filter(|_| !failed).map(|seconds| sent_ns.saturating_add(s_to_ns(seconds)))
        };
        let (first_ns, last_ns) = (at(self.ttft_s(index)), at(self.latency_s(index)));
        let tokens = |lens: &Option<Vec<u32>>| lens.as_ref().map(|lens| lens[index]);
        let output_tokens = tokens(&self.output_lens).filter(|_| !failed);
        let gaps = if failed { &[] } else { self.gaps(index) };
        RequestRecord {
            side: Side::New,
            block: 0,
            start: 0,
            round,
            phase: Phase::Load,
            part: Part::Measured,
            index: index as u64,
            seed: 0,
            outcome: if failed { Outcome::Failed } else { Outcome::Completed },
            failure: evidence.as_ref().map(|failure| failure.kind),
            evidence: evidence.map(Box::new),
            status: None,
            due_ns: None,
            sent_ns: Some(sent_ns),
            headers_ns: None,
            first_byte_ns: None,
            first_token_ns: first_ns,
            first_output_ns: None,
            last_token_ns: last_ns,
            // A failed request without a time was over at once, as far as the file tells.
            end_ns: last_ns.or_else(|| {
                let lived_s = positive(self.latency_s(index)).unwrap_or(0.0);
                failed.then(|| sent_ns.saturating_add(s_to_ns(lived_s)))
            }),
            input_tokens_asked: tokens(&self.input_lens).unwrap_or(0),
            output_tokens_asked: output_tokens.unwrap_or(0),
            input_tokens: None,
            cached_tokens: None,
            output_tokens,
            // vLLM divides by the output tokens less one.
            first_event_tokens: 1,
            window_tokens: output_tokens.unwrap_or(0),
            token_source: None,
            events: events(gaps, first_ns, last_ns),
            coalesced_events: whole(gaps.iter().filter(|gap| **gap < COALESCED_S).count()),
            worst_gap_ns: gaps.iter().copied().reduce(f64::max).map(s_to_ns),
            finish: None,
            connection_reused: None,
            resent: false,
        }
    }
}

/// One chunk more than gaps; where gaps are not kept, the least that the times imply.
fn events(gaps: &[f64], first_ns: Option<u64>, last_ns: Option<u64>) -> u32 {
    match (first_ns, last_ns) {
        _ if !gaps.is_empty() => whole(gaps.len() + 1),
        (Some(first), Some(last)) if last > first => 2,
        (Some(_), _) => 1,
        _ => 0,
    }
}

fn whole(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A time that happened: vLLM writes 0 where none did.
fn positive(seconds: Option<f64>) -> Option<f64> {
    seconds.filter(|seconds| seconds.is_finite() && *seconds > 0.0)
}
