//! Fidelity: what the client measured, beside what the server knows of the same requests. Pure.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::RequestTruth;
use crate::record::{GapHistogram, RequestRecord};
use crate::stats::{moments, quantile};
use crate::units::ns_to_ms;

/// A distribution in three figures, ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Mean.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
}

/// One metric from the server's own time stamps and from the client's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Deviation {
    /// The truth.
    pub server: Figures,
    /// What was measured.
    pub client: Figures,
}

impl Deviation {
    /// Client − server.
    #[must_use]
    pub fn error(&self) -> Figures {
        Figures {
            mean_ms: self.client.mean_ms - self.server.mean_ms,
            p50_ms: self.client.p50_ms - self.server.p50_ms,
            p99_ms: self.client.p99_ms - self.server.p99_ms,
        }
    }
}

/// How truly a set of requests was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Fidelity {
    /// Measured requests that the server's log has too.
    pub matched: u64,
    /// Measured requests that failed, or that the log lacks.
    pub unmatched: u64,
    /// TTFT from the send.
    pub ttft: Deviation,
    /// TPOT.
    pub tpot: Deviation,
    /// ITL.
    pub itl: Deviation,
    /// p99 of |client − server| of the TTFT of each request, ms: stricter than the error of the p99,
    /// in which opposite errors cancel.
    pub ttft_paired_p99_ms: f64,
}

impl Fidelity {
    /// Compares the measured requests and the gaps of the completed among them with the log. The
    /// label of a request in the log is `label` of its record.
    #[must_use]
    pub fn of(
        records: &[RequestRecord],
        itl: &GapHistogram,
        log: &[RequestTruth],
        label: impl Fn(&RequestRecord) -> String,
    ) -> Self {
        let truth: HashMap<&str, &RequestTruth> =
            log.iter().map(|b| (b.label.as_str(), b)).collect();
        let mut pairs = Pairs::default();
        let mut unmatched = 0;
        for record in records.iter().filter(|r| r.part == crate::record::Part::Measured) {
            let beats = truth.get(label(record).as_str()).filter(|_| record.is_sample());
            if beats.and_then(|beats| pairs.add(record, beats)).is_none() {
                unmatched += 1;
            }
        }
        let paired: Vec<f64> = pairs.ttft.iter().map(|(c, s)| (c - s).abs()).collect();
        Self {
            matched: pairs.ttft.len() as u64,
            unmatched,
            ttft: deviation(&pairs.ttft),
            tpot: deviation(&pairs.tpot),
            itl: Deviation { server: figures(&pairs.server_gaps_ms), client: of_gaps(itl) },
            ttft_paired_p99_ms: quantile::quantile(&paired, 0.99).unwrap_or(0.0),
        }
    }

    /// The largest error that a reader of p99 could be misled by, ms: of the TTFT of single requests
    /// and of the median and p99 of ITL.
    #[must_use]
    pub fn worst_ms(&self) -> f64 {
        let itl = self.itl.error();
        self.ttft_paired_p99_ms.max(itl.p50_ms.abs()).max(itl.p99_ms.abs())
    }

    /// Whether everything was measured, with an error below `limit_ms`.
    #[must_use]
    pub fn is_within(&self, limit_ms: f64) -> bool {
        self.matched > 0 && self.unmatched == 0 && self.worst_ms() < limit_ms
    }
}

/// (client, server) of each request, ms.
#[derive(Debug, Default)]
struct Pairs {
    ttft: Vec<(f64, f64)>,
    tpot: Vec<(f64, f64)>,
    server_gaps_ms: Vec<f64>,
}

impl Pairs {
    fn add(&mut self, record: &RequestRecord, beats: &RequestTruth) -> Option<()> {
        let client_ttft_ms = record.ttft_from_sent_ms()?;
        let (first, last) = (*beats.token_ns.first()?, *beats.token_ns.last()?);
        self.ttft.push((client_ttft_ms, ns_to_ms(first.saturating_sub(beats.received_ns))));
        let gaps = beats.token_ns.windows(2).map(|w| ns_to_ms(w[1].saturating_sub(w[0])));
        self.server_gaps_ms.extend(gaps);
        if let (Some(tpot_ms), Some(later)) =
            (record.tpot_ms(), u32::try_from(beats.token_ns.len() - 1).ok().filter(|n| *n > 0))
        {
            self.tpot.push((tpot_ms, ns_to_ms(last.saturating_sub(first)) / f64::from(later)));
        }
        Some(())
    }
}

fn deviation(pairs: &[(f64, f64)]) -> Deviation {
    let (client, server): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    Deviation { server: figures(&server), client: figures(&client) }
}

/// The figures of values in ms; zero where there is none.
#[must_use]
pub fn figures(values_ms: &[f64]) -> Figures {
    let sorted = quantile::sorted(values_ms);
    Figures {
        mean_ms: moments::mean(values_ms).unwrap_or(0.0),
        p50_ms: quantile::of_sorted(&sorted, 0.5).unwrap_or(0.0),
        p99_ms: quantile::of_sorted(&sorted, 0.99).unwrap_or(0.0),
    }
}

fn of_gaps(gaps: &GapHistogram) -> Figures {
    let ms = |ns: Option<f64>| ns.unwrap_or(0.0) / 1e6;
    Figures {
        mean_ms: ms(gaps.mean()),
        p50_ms: ms(gaps.quantile(0.5)),
        p99_ms: ms(gaps.quantile(0.99)),
    }
}
