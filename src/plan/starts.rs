//! The starts of a run: how many, in which order, with which rounds and seeds.

use std::collections::BTreeMap;

use super::{Design, Expectation, Phase, Plan, RoundPlan, Side, StartPlan, StopRule, same_lengths};
use crate::error::{Error, Result};
use crate::rng::Seed;
use crate::scenario::{Length, Load, LoadPoint, PromptSpec, REFERENCE_GROUP, REFERENCE_PER_S};
use crate::settings::{Launch, SearchAxis, Settings, Target, extra_body};

/// Pairs of rounds where two routes alternate within a start and nothing else is said: the fewest
/// that a gate accepts.
const ROUTES_ROUNDS: u32 = 5;
/// A round by count that takes an hour has lost its server.
const LONGEST_ROUND_S: f64 = 3600.0;
/// Two months of rounds of a minute; keeps a typed digit too many from filling the memory.
const MAX_ROUNDS: u64 = 100_000;
/// Fewest measured requests on a real server: percentiles up to p90 need that many (docs/statistics.md, section 1).
const LEAST_REQUESTS: u32 = 128;
/// At concurrency 1 requests hardly differ, and each takes its whole time (docs/statistics.md, section 1).
const LEAST_REQUESTS_ALONE: u32 = 32;
/// The simulator's rounds last about a second.
const LEAST_REQUESTS_SIMULATED: u32 = 32;
/// A p99 that gates needs this many a start (docs/statistics.md, section 1).
const LEAST_REQUESTS_P99: u32 = 512;

/// Plans a run of these load points (see [`super::list`]).
///
/// # Errors
/// Where more starts are asked for than anything can launch, only one side of a comparison can be
/// launched, the extra body changes what is measured, or there would be more than 100 000 rounds.
pub fn build_points(mut points: Vec<LoadPoint>, settings: &Settings) -> Result<Plan> {
    extra_body::check(&settings.extra_body)?;
    let design = design(settings)?;
    run_up(&mut points);
    if let Some(search) = settings.search {
        points = begins(points, search, settings)?;
        check_search(design, settings)?;
    }
    let references =
        if settings.skip.reference { Vec::new() } else { references(&points, settings) };
    let passes = match design {
        _ if settings.search.is_some() => 1,
        Design::Routes if settings.rounds <= 1 => ROUTES_ROUNDS,
        _ => settings.rounds.max(1),
    };
    let rounds = (points.len() as u64)
        .saturating_mul(u64::from(passes))
        .saturating_mul(u64::from(settings.planned_starts()));
    if rounds > MAX_ROUNDS {
        return Err(Error::usage(format!("{rounds} rounds a side are planned"))
            .with_hint(format!("the limit is {MAX_ROUNDS}: fewer starts, rounds or load points")));
    }
    let layout = Layout { points: &points, references: &references, passes, settings };
    let starts = layout.starts(design);
    let mut plan = Plan {
        design,
        starts,
        burn_in: design == Design::Interleaved && !settings.skip.burn_in && has_caches(settings),
        points,
        references,
        seed: settings.seed,
        workload_hash: String::new(),
        expected: Expectation::assumed(settings),
        given_up: Vec::new(),
    };
    if let Some(budget) = settings.budget {
        plan.shrink(budget);
    }
    plan.note_datasets(&BTreeMap::new());
    Ok(plan)
}

/// A server of ours that is launched in earnest may be slower the first time; the simulator is not.
fn has_caches(settings: &Settings) -> bool {
    let sides = [Some(&settings.target), settings.against.as_ref()];
    sides.into_iter().flatten().any(|target| !matches!(target.launch, Launch::Simulator { .. }))
}

fn can_launch(target: &Target) -> bool {
    !matches!(target.launch, Launch::External)
}

/// The layout of the sides, from who can launch what.
fn design(settings: &Settings) -> Result<Design> {
    let design = match &settings.against {
        None => Design::OneSided,
        Some(against) if can_launch(against) => Design::Interleaved,
        Some(_) => Design::Routes,
    };
    if design == Design::Interleaved && !can_launch(&settings.target) {
        return Err(Error::usage("only the other side can be restarted").with_hint(
            "give this side a command or a restart hook too: blocks restart both sides in turn",
        ));
    }
    let one_start = design == Design::Routes || !can_launch(&settings.target);
    if one_start && settings.planned_starts() > 1 {
        return Err(Error::usage(format!(
            "{} starts are asked for, and nothing says how to start the server",
            settings.planned_starts()
        ))
        .with_hint("give `--server-cmd` or `--restart-cmd`, or repeat rounds by `--rounds`"));
    }
    Ok(design)
}

/// Orders the loads of each series upwards, so that saturation stops a sweep early. Series stay in
/// the order declared.
fn run_up(points: &mut [LoadPoint]) {
    for series in points.chunk_by_mut(|a, b| a.group == b.group && a.scenario == b.scenario) {
        series.sort_by(|a, b| {
            let ((kind_a, load_a), (kind_b, load_b)) = (a.load.rank(), b.load.rank());
            kind_a.cmp(&kind_b).then(load_a.total_cmp(&load_b))
        });
    }
}

/// Where the search of each scenario begins: at the middle one of its loads of that kind.
fn begins(points: Vec<LoadPoint>, axis: SearchAxis, settings: &Settings) -> Result<Vec<LoadPoint>> {
    let series = points.chunk_by(|a, b| a.group == b.group && a.scenario == b.scenario);
    series
        .map(|series| {
            let fits = |point: &&LoadPoint| match axis {
                SearchAxis::Declared => true,
                SearchAxis::Concurrency => matches!(point.load, Load::Concurrency(_)),
                SearchAxis::Rate => matches!(point.load, Load::RequestRate(_)),
            };
            let declared: Vec<&LoadPoint> = series.iter().filter(fits).collect();
            let mut begin = declared.get(declared.len() / 2).map_or(&series[0], |p| *p).clone();
            if declared.is_empty() {
                begin.load = match axis {
                    SearchAxis::Rate => Load::request_rate(1.0).into(),
                    _ => Load::Concurrency(if settings.is_simulated() { 4 } else { 16 }),
                };
            }
            if begin.slo.is_none() {
                let place = format!("{}/{}", begin.group, begin.scenario);
                return Err(Error::usage(format!("`{place}` has no SLO to search the capacity of"))
                    .with_hint("add limits: `--goodput ttft:200 tpot:30`, or `goodput = { ttft_ms = 200 }` in the scenario"));
            }
            Ok(begin)
        })
        .collect()
}

/// A search is made once in each start of a server.
fn check_search(design: Design, settings: &Settings) -> Result<()> {
    if design == Design::Routes {
        return Err(Error::usage("a search cannot alternate between two URLs")
            .with_hint("search each by itself, the first with `--save-baseline NAME`, the second with `--baseline NAME`"));
    }
    if settings.rounds > 1 {
        return Err(Error::usage(format!("{} rounds of a search are asked for", settings.rounds))
            .with_hint("a search is made once in each start: repeat it by `--starts`"));
    }
    Ok(())
}

/// A round of a search at this load, as it would be planned.
#[must_use]
pub fn at_load(begin: &RoundPlan, load: Load, settings: &Settings, block: u32) -> RoundPlan {
    let point = LoadPoint { load, ..begin.point.clone() };
    let layout = Layout { points: &[], references: &[], passes: 1, settings };
    layout.round(Phase::Search, &point, block, 0)
}

/// One reference per pair of lengths and prompts, in the order these first appear.
fn references(points: &[LoadPoint], settings: &Settings) -> Vec<LoadPoint> {
    let mut references: Vec<LoadPoint> = Vec::new();
    for point in points {
        if references.iter().any(|reference| same_lengths(reference, point)) {
            continue;
        }
        let name = match (&point.input, &point.prompt) {
            (Length::OfPrompt, PromptSpec::Jsonl { path }) => {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                // It becomes part of a path again, as a name of at most 40 plain characters.
                let plain = |c: char| if c.is_alphanumeric() || c == '-' { c } else { '_' };
                let stem: String = stem.chars().take(40).map(plain).collect();
                format!("{stem}x{}", point.output.label())
            }
            (input, _) => format!("{}x{}", input.label(), point.output.label()),
        };
        // Two files of one name in different folders.
        let taken = references.iter().filter(|known| known.scenario.starts_with(&name)).count();
        let scenario = if taken == 0 { name } else { format!("{name}-{}", taken + 1) };
        references.push(LoadPoint {
            group: REFERENCE_GROUP.into(),
            scenario,
            load: Load::request_rate(REFERENCE_PER_S).into(),
            num_prompts: Some(settings.reference_requests.max(1)),
            measurement_time_s: None,
            slo: None,
            ..point.clone()
        });
    }
    references
}

/// What the starts are made of.
struct Layout<'a> {
    points: &'a [LoadPoint],
    references: &'a [LoadPoint],
    passes: u32,
    settings: &'a Settings,
}

impl Layout<'_> {
    /// The starts in the order they happen. Blocks go ABBA: counted from 1, odd blocks start with
    /// base, even ones with new (docs/statistics.md, section 1), so that a steady drift cancels.
    fn starts(&self, design: Design) -> Vec<StartPlan> {
        let blocks = if design == Design::Routes { 1 } else { self.settings.planned_starts() };
        let sides = |block: u32| match design {
            Design::OneSided => vec![Side::New],
            _ if block.is_multiple_of(2) => vec![Side::Base, Side::New],
            _ => vec![Side::New, Side::Base],
        };
        (0..blocks)
            .flat_map(|block| sides(block).into_iter().map(move |side| (block, side)))
            .zip(0..)
            .map(|((block, side), start)| StartPlan {
                side,
                block,
                start,
                rounds: self.rounds(block),
            })
            .collect()
    }

    /// The rounds of one start: the same for both sides of a block. A start goes round all load
    /// points before it comes back to one (docs/statistics.md, section 1: neighbours in time are alike).
    fn rounds(&self, block: u32) -> Vec<RoundPlan> {
        let references = if block == 0 { self.references } else { &[] };
        let mut rounds: Vec<RoundPlan> =
            references.iter().map(|point| self.round(Phase::Reference, point, block, 0)).collect();
        for pass in 0..self.passes {
            let order = if (block, pass) == (0, 0) {
                (0..self.points.len()).collect()
            } else {
                let seed = self.settings.seed.named("order").nth(u64::from(block));
                shuffled(self.points.len(), seed.nth(u64::from(pass)))
            };
            let phase = if self.settings.search.is_some() { Phase::Search } else { Phase::Load };
            rounds
                .extend(order.into_iter().map(|i| self.round(phase, &self.points[i], block, pass)));
        }
        rounds
    }

    fn round(&self, phase: Phase, point: &LoadPoint, block: u32, pass: u32) -> RoundPlan {
        RoundPlan {
            phase,
            round: pass,
            // hash(seed, load point, block): the same on both sides, and in every run, so that a
            // stored baseline can be paired with later runs.
            seed: self.settings.seed.named(&point.id()).nth(u64::from(block)).nth(u64::from(pass)),
            stop: match phase {
                Phase::Load => {
                    stop_rule(point, default_requests(point, self.settings), self.settings)
                }
                Phase::Search => {
                    stop_rule(point, search_requests(point, self.settings), self.settings)
                }
                Phase::Reference | Phase::WarmUp => by_count(point, point.num_prompts.unwrap_or(1)),
            },
            point: point.clone(),
            first_prompt: 0,
        }
    }
}

/// An order of `0..count` from the seed alone (Fisher and Yates, as in Knuth 3.4.2 P), the same on
/// every platform and in every version of the generator's crate.
fn shuffled(count: usize, seed: Seed) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        let choices = last as u64 + 1;
        let choice = usize::try_from(seed.nth(last as u64).0 % choices).unwrap_or(last);
        order.swap(last, choice);
    }
    order
}

/// When a round ends. Flags win over the scenario; a count, a time, or the later of both, which
/// twice the time bounds; without either the default count for the load.
fn stop_rule(point: &LoadPoint, default: u32, settings: &Settings) -> StopRule {
    let requests = settings.num_prompts.or(point.num_prompts);
    let time_s =
        settings.measurement_time.map(|time| time.as_secs_f64()).or(point.measurement_time_s);
    match (requests, time_s) {
        (None, None) => by_count(point, default),
        (Some(requests), None) => by_count(point, requests.max(1)),
        (requests, Some(time_s)) => StopRule {
            requests: requests.unwrap_or(1).max(1),
            min_time_s: time_s,
            max_time_s: 2.0 * time_s,
        },
    }
}

/// By count alone. Slow rates may take as long as they must, twice; nothing else may take longer
/// than an hour.
fn by_count(point: &LoadPoint, requests: u32) -> StopRule {
    let offered_s = match point.load {
        Load::Concurrency(_) => 0.0,
        Load::RequestRate(rate) => f64::from(requests) / rate.per_s,
    };
    StopRule { requests, min_time_s: 0.0, max_time_s: LONGEST_ROUND_S.max(2.0 * offered_s) }
}

/// Twice as many: where a limit is crossed hangs on the slowest twentieth of the requests.
fn search_requests(point: &LoadPoint, settings: &Settings) -> u32 {
    default_requests(point, settings).saturating_mul(2)
}

/// max(128, 4 C) in a closed loop (32 at concurrency 1), max(128, 10 s × rate) in an open one, and
/// 512 where `ttft_p99` gates by name (docs/statistics.md, section 1). The simulator's rounds last about a second.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // `as` saturates
fn default_requests(point: &LoadPoint, settings: &Settings) -> u32 {
    let over_s = |rate_per_s: f64, seconds: f64| (rate_per_s * seconds).ceil() as u32;
    let requests = match (point.load, settings.is_simulated()) {
        (Load::Concurrency(n), true) => LEAST_REQUESTS_SIMULATED.max(n.saturating_mul(2)),
        (Load::Concurrency(1), false) => LEAST_REQUESTS_ALONE,
        (Load::Concurrency(n), false) => LEAST_REQUESTS.max(n.saturating_mul(4)),
        (Load::RequestRate(rate), true) => LEAST_REQUESTS_SIMULATED.max(over_s(rate.per_s, 1.0)),
        (Load::RequestRate(rate), false) => LEAST_REQUESTS.max(over_s(rate.per_s, 10.0)),
    };
    let gates_p99 = settings
        .judge
        .gate
        .as_ref()
        .is_some_and(|gate| gate.iter().any(|measure| measure.name() == "ttft_p99"));
    if gates_p99 { requests.max(LEAST_REQUESTS_P99) } else { requests }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffles_are_even() {
        // Each of 5 places gets each of 5 numbers 400 times in 2000 shuffles; sd √(2000·0.2·0.8).
        let mut counts = [[0_i32; 5]; 5];
        for i in 0..2000 {
            for (place, number) in shuffled(5, Seed(4).nth(i)).into_iter().enumerate() {
                counts[place][number] += 1;
            }
        }
        let bound = 5.0 * (2000.0 * 0.2 * 0.8_f64).sqrt();
        assert!(counts.iter().flatten().all(|n| f64::from((n - 400).abs()) < bound), "{counts:?}");
    }
}
