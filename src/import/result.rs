//! One result of another benchmark client, in our terms: header, figures of the whole, requests.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::details::Details;
use crate::record::{FindingCode, Severity};
use crate::scenario::Load;

/// A benchmark client whose files are read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tool {
    /// Its name: `vllm bench serve`.
    pub(super) name: &'static str,
    /// The name of its definitions. Runs of different definitions are not compared.
    pub(super) definitions: &'static str,
    /// Where its definitions differ from ours, as half a sentence.
    pub(super) measures: &'static str,
    /// How its user gets single requests into the file.
    pub(super) keeps_requests: &'static str,
}

/// How the load was offered, as far as it needs a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offered {
    /// As the load says.
    AsSaid,
    /// No rate and no limit: all requests at once.
    AtOnce,
    /// The rate rose while it was measured.
    Ramp,
}

/// One result: one load point, measured once.
#[derive(Debug)]
pub(super) struct ToolResult {
    pub(super) tool: &'static Tool,
    pub(super) source: String,
    pub(super) model: String,
    pub(super) api: String,
    pub(super) settings: BTreeMap<String, String>,
    pub(super) metadata: BTreeMap<String, String>,
    /// When it ended, or the file was written.
    pub(super) written_at: Option<Timestamp>,
    pub(super) duration_s: f64,
    pub(super) num_prompts: Option<u32>,
    pub(super) completed: u64,
    /// `None` if the file does not count failures.
    pub(super) failed: Option<u64>,
    pub(super) input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    /// Lengths that all requests were asked to have, tokens; `None` if the file does not say.
    pub(super) asked: Asked,
    pub(super) load: Load,
    pub(super) offered: Offered,
    /// Figures of the whole round by our names; latencies in ms. See `StoredRound::reported`.
    pub(super) reported: BTreeMap<String, f64>,
    pub(super) details: Option<Details>,
    /// What the reader found about this result.
    pub(super) notes: Vec<Note>,
}

/// Fixed lengths that were asked for, tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) input: Option<u32>,
    pub(super) output: Option<u32>,
}

/// Something about one result that a reader of its figures should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) code: FindingCode,
    pub(super) severity: Severity,
    pub(super) text: String,
}

impl ToolResult {
    /// Requests that completed or failed.
    pub(super) fn attempted(&self) -> u64 {
        self.completed + self.failed.unwrap_or(0)
    }
    /// Whether another result has the same load and the same figures.
    pub(super) fn repeats(&self, other: &Self) -> bool {
        self.tool == other.tool
            && self.load == other.load
            && self.completed == other.completed
            && self.duration_s.to_bits() == other.duration_s.to_bits()
            && self.reported == other.reported
    }

    /// Adds the counts to the figures, and the rates that the file lacks: counts over the duration,
    /// as all these clients define them.
    #[allow(clippy::cast_precision_loss)] // counts of tokens and requests
    pub(super) fn complete(&mut self) {
        let both = self.input_tokens.zip(self.output_tokens).map(|(i, o)| i + o);
        let rates = [
            ("request_throughput", Some(self.completed)),
            ("output_throughput", self.output_tokens),
            ("total_token_throughput", both),
        ];
        for (name, count) in rates {
            if let Some(count) = count {
                let rate = count as f64 / self.duration_s;
                self.reported.entry(name.to_owned()).or_insert(rate);
            }
        }
        let counts = [
            ("completed", Some(self.completed)),
            ("failed", Some(self.failed.unwrap_or(0))),
            ("input_tokens", self.input_tokens),
            ("output_tokens", self.output_tokens),
        ];
        for (name, count) in counts {
            self.reported.extend(count.map(|count| (name.to_owned(), count as f64)));
        }
    }
}
