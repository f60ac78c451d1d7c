//! What a run tells while it runs: one closed enum, and who listens.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::cell_text::{Color, Tone, wrapped};
use super::detail::Detail;
use super::terminal;
use crate::clock::Clock;
use crate::record::{Finding, Severity};
use crate::summary::Summary;
use crate::{Result, units};

/// Something that happened.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// The run begins.
    RunStarted {
        /// The plan as text, with how long it takes.
        plan: &'a str,
        /// Rounds that will run.
        rounds: u64,
    },
    /// Preflight or a round found something.
    Finding(&'a Finding),
    /// A server is ready.
    StartReady {
        /// What reports call its side; empty where there is one.
        side: &'a str,
        /// Which start, from 1.
        start: u32,
        /// Of how many.
        starts: u32,
        /// How long it took, seconds; `None` if somebody else started it.
        ready_s: Option<f64>,
    },
    /// A load point is under way.
    RoundProgress {
        /// The load point's id.
        point: &'a str,
        /// What is going on: `warm-up`, `ramp`, `measuring`.
        stage: &'a str,
        /// Requests completed in this stage.
        completed: u64,
        /// Requests planned for this stage; `None` if it is not known.
        planned: Option<u64>,
    },
    /// A round of a load point ended.
    RoundEnded {
        /// The load point's id.
        point: &'a str,
        /// The side; empty where there is one.
        side: &'a str,
        /// Its figures.
        summary: &'a Summary,
        /// What to know of it: `saturated`; empty where all is well.
        status: &'a str,
    },
    /// Something worth a line.
    Note {
        /// The sentence.
        text: &'a str,
    },
    /// Something that does not stop the run.
    Warning {
        /// The sentence.
        text: &'a str,
    },
    /// The run failed: no report follows that would list its findings.
    RunFailed,
}

/// Who listens to a run.
pub trait Reporter: Send {
    /// Reports what happened.
    ///
    /// # Errors
    /// Where the output cannot be written. A closed pipe is not one.
    fn event(&mut self, event: &Event<'_>) -> Result<()>;
}

/// Reports nothing.
#[derive(Debug, Default)]
pub struct Silent;

impl Reporter for Silent {
    fn event(&mut self, _: &Event<'_>) -> Result<()> {
        Ok(())
    }
}

/// Which stream progress goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Where stdout carries the terminal's report.
    Stdout,
    /// Where stdout carries JSON or Markdown: progress must not mix with it.
    Stderr,
}

/// Without a terminal a progress line comes this often: enough for a CI log, few enough to read.
const PLAIN_EVERY: Duration = Duration::from_secs(10);

/// Reports it to people: a bar on a terminal, plain lines elsewhere.
pub struct Terminal {
    stream: Stream,
    color: Color,
    bar: Option<ProgressBar>,
    clock: Clock,
    last_plain_ns: Option<u64>,
    rounds: u64,
    ended: u64,
    /// What a report prints after the run; `None` if none follows.
    report: Option<Detail>,
    kept: Vec<Finding>,
}

impl Terminal {
    /// Reports on `stream`, before a report of this detail: findings and figures are left to it.
    #[must_use]
    pub fn before_report(stream: Stream, detail: Detail) -> Self {
        Self { report: Some(detail), ..Self::new(stream) }
    }

    /// Reports on `stream` everything at once.
    #[must_use]
    pub fn new(stream: Stream) -> Self {
        let (color, on_terminal) = match stream {
            Stream::Stdout => (Color::of(&std::io::stdout()), std::io::stdout().is_terminal()),
            Stream::Stderr => (Color::of(&std::io::stderr()), std::io::stderr().is_terminal()),
        };
        Self {
            stream,
            color,
            bar: on_terminal.then(|| bar(stream)),
            clock: Clock::start(),
            last_plain_ns: None,
            rounds: 0,
            ended: 0,
            report: None,
            kept: Vec::new(),
        }
    }

    /// Whether the report that follows shows this anyway.
    fn is_brief(&self) -> bool {
        self.report.is_some_and(|detail| detail != Detail::Verbose)
    }

    /// `round 3 of 25, about 20 s left: `; empty before the run has begun.
    fn place(&self) -> String {
        if self.rounds == 0 {
            return String::new();
        }
        let round = (self.ended + 1).min(self.rounds);
        let left = time_left(self.clock.now_ns(), self.ended, self.rounds);
        let left = left.map(|s| format!(", about {} left", whole(s)));
        format!("round {round} of {}{}: ", self.rounds, left.unwrap_or_default())
    }

    fn line(&self, text: &str) -> Result<()> {
        let text = format!("{text}\n");
        let print = || match self.stream {
            Stream::Stdout => terminal::print(&text),
            Stream::Stderr => terminal::print_message(&text),
        };
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    fn progress(
        &mut self,
        point: &str,
        stage: &str,
        completed: u64,
        planned: Option<u64>,
    ) -> Result<()> {
        let of = planned.map(|n| format!(" of {}", units::count(n))).unwrap_or_default();
        let point = terminal::plain(point);
        let place = self.place();
        let text = format!("{place}{point}: {stage}, {}{of} requests", units::count(completed));
        if let Some(bar) = &self.bar {
            bar.set_message(text);
            bar.tick();
            return Ok(());
        }
        let now_ns = self.clock.now_ns();
        let pause_ns = crate::clock::duration_ns(PLAIN_EVERY);
        if self.last_plain_ns.is_some_and(|last| now_ns - last < pause_ns) {
            return Ok(());
        }
        self.last_plain_ns = Some(now_ns);
        self.line(&self.color.paint(Tone::Dim, &format!("  {text}")))
    }

    fn finding(&self, finding: &Finding) -> Result<()> {
        let tone = match finding.severity {
            Severity::Note => Tone::Dim,
            Severity::Warning => Tone::Warn,
            Severity::Invalid | Severity::Fatal => Tone::Bad,
        };
        let label = super::view::severity_label(finding.severity);
        // Wrapped before it is painted: escapes have no width.
        let text = format!("{label}: {}", terminal::plain(&finding.text));
        let text = wrapped(&text, terminal::width() - 2, 2);
        self.line(&text.replacen(label, &self.color.paint(tone, label), 1))?;
        match &finding.hint {
            Some(hint) => {
                let hint = wrapped(&terminal::plain(hint), terminal::width() - 8, 8);
                self.line(&format!("  hint: {hint}"))
            }
            None => Ok(()),
        }
    }

    fn ended(&mut self, side: &str, line: &str, status: &str) -> Result<()> {
        self.ended += 1;
        if let Some(bar) = &self.bar {
            bar.set_position(self.ended.min(self.rounds));
        }
        let side =
            if side.is_empty() { String::new() } else { format!("  {}", terminal::plain(side)) };
        let status = match status {
            "" => String::new(),
            status => format!("  {}", self.color.paint(Tone::Warn, status)),
        };
        if self.is_brief() {
            return Ok(());
        }
        self.line(&format!("{line}{side}{status}"))
    }
}

/// How long the remaining rounds take if they are as long as those that ended; `None` before the first.
fn time_left(elapsed_ns: u64, ended: u64, rounds: u64) -> Option<f64> {
    let left = rounds.checked_sub(ended).filter(|left| *left > 0 && ended > 0)?;
    #[allow(clippy::cast_precision_loss)] // an estimate
    let share = left as f64 / ended as f64;
    Some((Duration::from_nanos(elapsed_ns).as_secs_f64() * share).round().max(1.0))
}

/// A time to wait, as exact as an estimate is.
fn whole(seconds: f64) -> String {
    if seconds < 120.0 { format!("{seconds:.0} s") } else { format!("{:.0} min", seconds / 60.0) }
}

fn bar(stream: Stream) -> ProgressBar {
    let target = match stream {
        Stream::Stdout => ProgressDrawTarget::stdout(),
        Stream::Stderr => ProgressDrawTarget::stderr(),
    };
    let bar = ProgressBar::with_draw_target(Some(0), target);
    // The template is ours; where it did not parse, the default serves.
    let style = ProgressStyle::with_template("{bar:12} {wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

impl Reporter for Terminal {
    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        match *event {
            Event::RunStarted { plan, rounds } => {
                self.rounds = rounds;
                if let Some(bar) = &self.bar {
                    bar.set_length(rounds);
                }
                self.line(plan.trim_end())
            }
            Event::Finding(finding) if self.report.is_some() => {
                self.kept.push(finding.clone());
                Ok(())
            }
            Event::Finding(finding) => self.finding(finding),
            Event::StartReady { ready_s: None, .. } if self.is_brief() => Ok(()),
            Event::StartReady { side, start, starts, ready_s } => {
                let side = if side.is_empty() {
                    String::new()
                } else {
                    format!(" of {}", terminal::plain(side))
                };
                let took =
                    ready_s.map(|s| format!(" after {}", units::duration(s))).unwrap_or_default();
                self.line(&format!("server ready{took}: start {start} of {starts}{side}"))
            }
            Event::RoundProgress { point, stage, completed, planned } => {
                self.progress(point, stage, completed, planned)
            }
            Event::RoundEnded { point, side, summary, status } => {
                self.ended(side, &terminal::point_line(point, summary), status)
            }
            Event::Note { text } => {
                let text = terminal::plain(text);
                self.line(&wrapped(&text, terminal::width() - 2, 2))
            }
            Event::Warning { text } => {
                let word = self.color.paint(Tone::Warn, "warning");
                self.line(&format!("{word}: {}", terminal::plain(text)))
            }
            Event::RunFailed => {
                if let Some(bar) = self.bar.take() {
                    bar.finish_and_clear();
                }
                let kept = std::mem::take(&mut self.kept);
                kept.iter().try_for_each(|finding| self.finding(finding))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_is_that_of_rounds_as_long_as_the_ended_ones() {
        assert_eq!(time_left(10_000_000_000, 5, 20), Some(30.0));
        assert_eq!(time_left(10_000_000_000, 0, 20), None);
        assert_eq!(time_left(10_000_000_000, 20, 20), None);
    }

    #[test]
    fn silence_is_silent_and_lines_are_lines() {
        let mut silent = Silent;
        silent.event(&Event::Warning { text: "x" }).unwrap();
        let summary = Summary { request_throughput: Some(43.9), ..Summary::default() };
        let line = terminal::point_line("chat/short/c64", &summary);
        assert_eq!(line, "chat/short/c64         43.9 req/s  TTFT p50 – p99 –  TPOT – ms");
    }
}
