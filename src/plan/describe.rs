//! A description: the plan as text, before a byte is sent.

use super::{Design, Phase, Plan, Side, StartPlan, StopRule};
use crate::scenario::LoadPoint;
use crate::units;

/// Narrower, and the ids alone would not fit.
const LEAST_WIDTH: usize = 40;
/// Starts shown one by one; the rest are counted.
const MAX_STARTS_SHOWN: usize = 24;

/// How `list` prints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ListFormat {
    /// With a count at the end.
    #[default]
    Pretty,
    /// One line each, as test runners read it.
    Terse,
}

/// The ids, one a line, as libtest's `--list` has them.
#[must_use]
pub fn list(points: &[LoadPoint], format: ListFormat) -> String {
    let mut text: String =
        points.iter().map(|point| format!("{}: benchmark\n", point.id())).collect();
    if format == ListFormat::Pretty {
        text.push_str(&format!("\n0 tests, {}\n", units::plural(points.len(), "benchmark")));
    }
    text
}

impl Plan {
    /// The plan in lines of at most `width` characters (ids longer than that stand alone): what is
    /// measured, from which seeds, in which order, and what it takes.
    #[must_use]
    pub fn describe(&self, width: usize) -> String {
        let width = width.max(LEAST_WIDTH);
        let headline = self.headline();
        let mut lines: Vec<String> =
            headline.iter().flat_map(|line| wrap("", line, width, " ")).collect();
        lines.push(String::new());
        lines.extend(self.table(width));
        lines.push(String::new());
        for start in self.starts.iter().take(MAX_STARTS_SHOWN) {
            lines.extend(self.start_lines(start, width));
        }
        if let Some(more) = self.starts.len().checked_sub(MAX_STARTS_SHOWN + 1) {
            lines.push(format!("and {} more starts, in seeded orders of their own", more + 1));
        }
        for given_up in &self.given_up {
            lines.extend(wrap("for the budget: ", given_up, width, " "));
        }
        lines.join("\n") + "\n"
    }

    /// The plan in a few lines of at most `width` characters, before a run: how much and how long.
    #[must_use]
    pub fn announcement(&self, width: usize) -> String {
        let mut lines = wrap("plan: ", &self.counts(), width.max(LEAST_WIDTH), " ");
        lines.extend(wrap("", &self.takes(), width.max(LEAST_WIDTH), " "));
        for given_up in &self.given_up {
            lines.extend(wrap("for the budget: ", given_up, width.max(LEAST_WIDTH), " "));
        }
        lines.join("\n") + "\n"
    }

    fn counts(&self) -> String {
        let counts = [
            (self.points.len(), "load point"),
            (self.references.len(), "rate-1 reference"),
            (self.starts.len(), "start"),
        ];
        let told = counts.iter().filter(|(count, _)| *count > 0);
        told.map(|(count, what)| units::plural(*count, what)).collect::<Vec<_>>().join(", ")
    }

    fn takes(&self) -> String {
        let estimate = self.estimate(&self.expected);
        format!(
            "about {}, {} prompt and {} answer tokens",
            units::duration(estimate.seconds),
            tokens(estimate.input_tokens),
            tokens(estimate.output_tokens)
        )
    }

    fn headline(&self) -> Vec<String> {
        let design = match self.design {
            Design::OneSided => "one side",
            Design::Interleaved if self.burn_in => {
                "two sides in pairs of starts, the first of a pair alternating, after one unmeasured start each"
            }
            Design::Interleaved => "two sides in pairs of starts, the first of a pair alternating",
            Design::Routes => "two routes to one server, rounds alternating",
        };
        vec![
            self.counts(),
            design.to_owned(),
            self.takes(),
            self.pauses(),
            format!("seed {}, workload {}", self.seed.0, self.workload_hash),
        ]
    }

    /// What stands between the rounds.
    fn pauses(&self) -> String {
        let warm_up = match self.expected.warm_up_limit_s {
            0.0 => "no warm-up".to_owned(),
            limit_s => format!("warm-up of at most {}", units::duration(limit_s)),
        };
        let cool_down = match self.expected.cool_down_s {
            0.0 => "no pause".to_owned(),
            pause_s => format!("a pause of {}", units::duration(pause_s)),
        };
        format!("{warm_up} before each load point, {cool_down} after it")
    }

    /// A line a reference or load point: id, lengths, when it ends, and its seed in the first start.
    fn table(&self, width: usize) -> Vec<String> {
        let Some(first) = self.starts.first() else { return Vec::new() };
        let rows: Vec<(String, String)> = first
            .rounds
            .iter()
            .filter(|round| round.round == 0)
            .map(|round| {
                let point = &round.point;
                let facts = format!(
                    "{} => {} tokens, {}, seed {:016x}",
                    point.input,
                    point.output,
                    stop_text(&round.stop, round.phase),
                    round.seed.0
                );
                (point.id(), facts)
            })
            .collect();
        let id_width = rows.iter().map(|(id, _)| id.chars().count()).max().unwrap_or(0);
        let one_line = rows.iter().all(|(_, facts)| id_width + 2 + facts.chars().count() <= width);
        rows.into_iter()
            .flat_map(|(id, facts)| {
                if one_line {
                    vec![format!("{id:id_width$}  {facts}")]
                } else {
                    std::iter::once(id).chain(wrap("    ", &facts, width, " ")).collect()
                }
            })
            .collect()
    }

    fn start_lines(&self, start: &StartPlan, width: usize) -> Vec<String> {
        let side = match (self.design, start.side) {
            (Design::OneSided, _) => String::new(),
            (_, Side::Base) => format!(" (pair {}, base)", start.block + 1),
            (_, Side::New) => format!(" (pair {}, new)", start.block + 1),
        };
        let order: Vec<String> = start.rounds.iter().map(|round| round.point.id()).collect();
        wrap(&format!("start {}{side}: ", start.start + 1), &order.join(", "), width, ", ")
    }
}

fn stop_text(stop: &StopRule, phase: Phase) -> String {
    let requests = match phase {
        Phase::Reference => format!("{} at 1/s", units::plural(stop.requests as usize, "request")),
        Phase::Load | Phase::WarmUp => units::plural(stop.requests as usize, "request"),
        Phase::Search => {
            format!(
                "{} a load, searching from here",
                units::plural(stop.requests as usize, "request")
            )
        }
    };
    match (stop.min_time_s > 0.0, stop.requests > 1) {
        (false, _) => requests,
        (true, false) => units::duration(stop.min_time_s),
        (true, true) => format!(
            "{requests} and {} (at most {})",
            units::duration(stop.min_time_s),
            units::duration(stop.max_time_s)
        ),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // `as` saturates
fn tokens(count: f64) -> String {
    units::count(count.round() as u64)
}

/// `text` after `lead`, broken at `separator`; further lines are set in by four.
fn wrap(lead: &str, text: &str, width: usize, separator: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = lead.to_owned();
    let mut is_empty = true;
    for piece in text.split(separator) {
        let needed = line.chars().count() + separator.len() + piece.chars().count();
        if !is_empty && needed > width.saturating_sub(1) {
            lines.push(format!("{}{}", line, separator.trim_end()));
            line = "    ".to_owned();
            is_empty = true;
        }
        if !is_empty {
            line.push_str(separator);
        }
        line.push_str(piece);
        is_empty = false;
    }
    lines.push(line);
    lines
}
