//! The report of a self-test: what this machine measures accurately, and its idle floor.

use serde::{Deserialize, Serialize};

use super::fidelity::Fidelity;
use super::reference_server::Scheme;
use crate::units::{count, significant};

/// Bumped when a field changes its meaning.
pub const SCHEMA: u32 = 1;

/// How late things run on this machine while it has nothing else to do, ms: what the limits on the
/// client's own lag are counted from (STATISTICS, D.8).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct IdleFloor {
    /// Median lateness of the runtime's timer, which is 1 ms coarse by design.
    pub timer_lateness_p50_ms: f64,
    /// p99 of it.
    pub timer_lateness_p99_ms: f64,
    /// p99 of the event loop's lag, as a round's health has it.
    pub loop_lag_p99_ms: Option<f64>,
    /// Median of sent − due in an open loop.
    pub schedule_lag_p50_ms: Option<f64>,
    /// p99 of it.
    pub schedule_lag_p99_ms: Option<f64>,
}

/// What a level showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Errors below the limit.
    Faithful,
    /// Errors above it, or requests lost.
    Beyond,
}

/// One level of load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// Streams at once.
    pub streams: u32,
    /// Events per second received in the window.
    pub events_per_s: f64,
    /// CPU time of the client per 1000 events, ms; `None` if the system does not report it.
    pub cpu_ms_per_1000_events: Option<f64>,
    /// The client beside the server's own log.
    pub fidelity: Fidelity,
    /// The verdict.
    pub trust: Trust,
}

/// What a self-test found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelftestReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The version of the client that ran it.
    pub version: String,
    /// When it ran.
    pub at: jiff::Timestamp,
    /// Cores that this process may use.
    pub cores: u32,
    /// The largest error that counts as true, ms.
    pub limit_ms: f64,
    /// Time to the first token that the server kept, ms.
    pub ttft_ms: f64,
    /// Gap between tokens that it kept, ms.
    pub gap_ms: f64,
    /// The idle floor.
    pub idle: IdleFloor,
    /// Levels of rising load; the first that was not measured truly is the last.
    pub levels: Vec<Level>,
    /// The same over `https`; empty where that was not tried.
    #[serde(default)]
    pub https_levels: Vec<Level>,
}

impl SelftestReport {
    /// The levels that were tried over a scheme.
    #[must_use]
    pub fn levels_over(&self, scheme: Scheme) -> &[Level] {
        match scheme {
            Scheme::Http => &self.levels,
            Scheme::Https => &self.https_levels,
        }
    }

    /// The highest level over a scheme up to which all were measured truly; `None` if not even the
    /// first was.
    #[must_use]
    pub fn proven(&self, scheme: Scheme) -> Option<&Level> {
        let levels = self.levels_over(scheme);
        levels.iter().take_while(|level| level.trust == Trust::Faithful).last()
    }

    /// Whether a load over a scheme lies beyond what was proven.
    #[must_use]
    #[cfg(test)]
    pub fn is_beyond(&self, scheme: Scheme, streams: f64, events_per_s: f64) -> bool {
        self.proven(scheme).is_none_or(|level| {
            streams > f64::from(level.streams) || events_per_s > level.events_per_s
        })
    }

    /// The report as text of at most 80 columns.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = format!(
            "a server of known timing: first token after {} ms, one every {} ms; {} cores\n\n",
            significant(self.ttft_ms),
            significant(self.gap_ms),
            self.cores
        );
        text.push_str("       streams  events/s  CPU ms per    TTFT error, ms     ITL error, ms\n");
        text.push_str("                            1000          p50       p99             p99\n");
        let tried: Vec<Scheme> = [Scheme::Http, Scheme::Https]
            .into_iter()
            .filter(|scheme| !self.levels_over(*scheme).is_empty())
            .collect();
        for scheme in &tried {
            for level in self.levels_over(*scheme) {
                text.push_str(&format!("{:<6} {}", scheme.name(), level.line()));
            }
        }
        text.push('\n');
        for scheme in tried {
            text.push_str(&self.sentence(scheme));
        }
        let idle = &self.idle;
        text.push_str(&format!(
            "idle floor, ms: timer {} (p50), {} (p99); event loop {} (p99);\n\
             sends after they are due {} (p50), {} (p99)\n",
            significant(idle.timer_lateness_p50_ms),
            significant(idle.timer_lateness_p99_ms),
            crate::units::optional(idle.loop_lag_p99_ms),
            crate::units::optional(idle.schedule_lag_p50_ms),
            crate::units::optional(idle.schedule_lag_p99_ms),
        ));
        text
    }

    fn sentence(&self, scheme: Scheme) -> String {
        let limit = significant(self.limit_ms);
        let over = scheme.name();
        let Some(level) = self.proven(scheme) else {
            return format!(
                "{over}: not even one stream was measured to within {limit} ms at p99\n"
            );
        };
        let streams = count(u64::from(level.streams));
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
        let events = count(level.events_per_s.round() as u64);
        let more = if self.levels_over(scheme).iter().all(|l| l.trust == Trust::Faithful) {
            " (the most that was tried)"
        } else {
            ""
        };
        format!(
            "{over}: this machine measures {streams} streams{more}\n\
             and {events} events/s to within {limit} ms at p99\n"
        )
    }
}

impl Level {
    fn line(&self) -> String {
        let (ttft, itl) = (self.fidelity.ttft.error(), self.fidelity.itl.error());
        let verdict = match (self.trust, self.fidelity.unmatched) {
            (Trust::Faithful, _) => String::new(),
            (Trust::Beyond, 0) => "  beyond".to_owned(),
            (Trust::Beyond, lost) => format!("  {lost} lost"),
        };
        format!(
            "{:>7} {:>9.0} {:>9} {:>12.3} {:>9.3} {:>15.3}{verdict}\n",
            self.streams,
            self.events_per_s,
            self.cpu_ms_per_1000_events.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1}")),
            ttft.p50_ms,
            self.fidelity.ttft_paired_p99_ms,
            itl.p99_ms,
        )
    }
}
