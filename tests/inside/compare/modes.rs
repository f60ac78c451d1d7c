//! What each mode may say, on made-up contenders whose truth is known.

use std::collections::BTreeSet;
use std::path::Path;

use inferometer::compare::calibration::{CalibratedTime, Calibration, CellNoise, work_of};
use inferometer::compare::design::Judging;
use inferometer::compare::design::{DaySpread, Pairing, standing};
use inferometer::compare::judge::judge;
use inferometer::compare::options::Sharing;
use inferometer::compare::side::{ComparedPoint, ComparedSide, Facts};
use inferometer::compare::{Cell, Comparison, Mode, Verdict};
use inferometer::metric::{Measure, Metric};
use inferometer::plan::Phase;
use inferometer::record::stored::RoundStatus;
use inferometer::rng::Seed;
use inferometer::scenario::{Length, LoadPoint};
use inferometer::settings::JudgeSettings;
use inferometer::summary::measured::MeasuredStart;
use inferometer::summary::{Distribution, Summary};

pub(super) const DAY_S: i64 = 86_400;

pub(super) fn point() -> LoadPoint {
    super::harness(&super::short(Path::new("unused"), 1, 1)).plan().unwrap().points[0].clone()
}

/// A start whose figures are all `ms`, give or take a tenth within.
pub(super) fn start(block: u32, at_s: i64, identity: Option<&str>, ms: f64) -> MeasuredStart {
    let distribution = Distribution {
        count: 200,
        mean: Some(ms),
        std: Some(0.1 * ms),
        p50: Some(ms),
        p90: Some(ms),
        p95: Some(ms),
        p99: Some(ms),
        ..Distribution::default()
    };
    let metrics = [Metric::Itl, Metric::Tpot, Metric::Ttft, Metric::E2el, Metric::WorstGap];
    let summary = Summary {
        distributions: metrics.into_iter().map(|metric| (metric, distribution)).collect(),
        output_throughput: Some(1e4 / ms),
        completed: 200,
        input_tokens: 200 * 32,
        output_tokens: 200 * 8,
        ..Summary::default()
    };
    MeasuredStart {
        server: inferometer::record::ServerState::Ran,
        run: format!("run-{at_s}"),
        block,
        start: block,
        seed: Seed(u64::from(block)),
        at: jiff::Timestamp::from_second(1_700_000_000 + at_s).unwrap(),
        identity: identity.map(str::to_owned),
        status: RoundStatus::Complete,
        contradiction: None,
        health: Vec::new(),
        warm_up: None,
        summary,
        ttft_trend: None,
        attempted: 200,
    }
}

pub(super) fn contender(label: &str, starts: Vec<MeasuredStart>) -> ComparedSide {
    let set = |text: &str| BTreeSet::from([text.to_owned()]);
    let point = point();
    ComparedSide {
        label: label.into(),
        runs: vec![format!("{label}-run")],
        facts: Facts {
            definitions: set("inferometer-1"),
            models: set("m"),
            apis: set("completions"),
            ..Facts::default()
        },
        points: vec![ComparedPoint { id: point.id(), phase: Phase::Load, point, starts }],
    }
}

/// Starts `hours` apart, each a little different, times `factor`.
pub(super) fn starts(count: u32, from_s: i64, hours: i64, factor: f64) -> Vec<MeasuredStart> {
    (0..count)
        .map(|block| {
            // What the block shares, and a part of each start's own: without it pairs would have no
            // spread at all.
            let own = Seed(from_s as u64).named(&format!("{factor}")).nth(block.into()).0 % 1000;
            let wobble = 1.0 + 0.002 * f64::from((block * 7 + 3) % 5) + own as f64 * 2e-6;
            let identity = format!("boot {from_s} {block}");
            let at_s = from_s + i64::from(block) * hours * 3600;
            start(block, at_s, Some(&identity), 10.0 * factor * wobble)
        })
        .collect()
}

pub(super) fn judged_with(
    base: &ComparedSide,
    new: &ComparedSide,
    (meeting, day): (Pairing, DaySpread),
    calibration: Option<&Calibration>,
) -> Comparison {
    let standing = standing(base, new, meeting, day, "the command that decides");
    let settings = JudgeSettings::default();
    let judging = Judging {
        standing: &standing,
        settings: &settings,
        looks: 1,
        idle_lag_ms: 0.0,
        calibration,
    };
    judge(base, new, &judging)
}

pub(super) fn judged(
    base: &ComparedSide,
    new: &ComparedSide,
    meeting: Pairing,
    day: DaySpread,
) -> Comparison {
    judged_with(base, new, (meeting, day), None)
}

pub(super) fn step(comparison: &Comparison) -> &Cell {
    comparison.cells.iter().find(|cell| cell.measure == Measure::ITL_P50).unwrap()
}

#[test]
fn one_start_against_one_calls_only_what_no_restart_makes() {
    let base = contender("main", starts(1, 0, 1, 1.0));
    let new = contender("new", starts(1, DAY_S, 1, 1.3));
    for meeting in [Pairing::PlainUrl, Pairing::Restarted] {
        let found = judged(&base, &new, meeting, DaySpread::Unknown);
        assert_eq!(found.mode, Mode::SingleStart);
        let advice = found.advice.as_ref().unwrap();
        assert!(advice.contains("one start against one start"), "{advice}");
        assert!(advice.contains("the command that decides"), "{advice}");
        let tpot = found.cells.iter().find(|c| c.measure == Measure::TPOT_MEAN).unwrap();
        assert_eq!(tpot.verdict, Verdict::Inconclusive);
        assert!((tpot.change.unwrap() - 0.3).abs() < 0.01);
        let (low, high) = tpot.interval.unwrap();
        // Restarts may differ by 15 %: ln 1.3 ± 1.96 × √2 × 0.15.
        assert!((low + 0.142).abs() < 0.01 && (high - 0.970).abs() < 0.01, "{low} {high}");
        // √2 × 0.15 × z(0.02 / 10) for five gated numbers, and the report states it.
        assert!((tpot.minimum_detectable.unwrap() - 0.842).abs() < 0.01, "{tpot:?}");
        assert!(tpot.reason_text().contains("from 85 % on"), "{}", tpot.reason_text());
        assert_eq!(found.gate.exit_code, 0);
        let twice = contender("new", starts(1, DAY_S, 1, 2.0));
        let found = judged(&base, &twice, meeting, DaySpread::Unknown);
        assert_eq!((step(&found).verdict, found.gate.exit_code), (Verdict::Regressed, 1));
        let half = contender("new", starts(1, DAY_S, 1, 0.5));
        let found = judged(&base, &half, meeting, DaySpread::Unknown);
        assert_eq!((step(&found).verdict, found.gate.exit_code), (Verdict::Improved, 0));
    }
}

#[test]
fn a_saved_baseline_of_one_day_needs_the_spread_between_days() {
    let base = contender("main", starts(8, 0, 0, 1.0));
    let new = contender("new", starts(8, DAY_S, 0, 1.1));
    let unknown = judged(&base, &new, Pairing::Restarted, DaySpread::Unknown);
    assert_eq!(unknown.mode, Mode::Saved);
    assert!(unknown.advice.as_ref().unwrap().contains("calibrate"), "{:?}", unknown.advice);
    assert_eq!((step(&unknown).verdict, unknown.gate.exit_code), (Verdict::Inconclusive, 0));
    // The simulator has no days.
    let none = judged(&base, &new, Pairing::Restarted, DaySpread::None);
    assert_eq!((none.mode, step(&none).verdict), (Mode::Saved, Verdict::Regressed));
    // Calibrated on six days: 0.3 % between them lets 10 % through, 4 % does not. Two days know
    // too little of it.
    let days = |count: usize, sd: f64| -> Vec<f64> {
        let n = count as f64;
        let levels = (0..count).map(|day| if day % 2 == 0 { 0.0 } else { 2.0 * sd });
        levels.map(|level| level * ((n - 1.0) / n).sqrt()).collect()
    };
    for (count, day_sd, verdict) in [
        (6, 0.003, Verdict::Regressed),
        (6, 0.04, Verdict::Inconclusive),
        (2, 0.003, Verdict::Inconclusive),
    ] {
        let known = calibration(&days(count, day_sd), 0.01);
        let grounds = (Pairing::Restarted, DaySpread::Calibrated);
        let found = judged_with(&base, &new, grounds, Some(&known));
        assert_eq!(step(&found).verdict, verdict, "{day_sd}: {:?}", step(&found));
        // What was not calibrated is not judged.
        let ttft = found.cells.iter().find(|c| c.measure == Measure::TTFT_P50).unwrap();
        assert_eq!(ttft.verdict, Verdict::Inconclusive);
        assert!(ttft.reason_text().contains("day to day"), "{ttft:?}");
    }
}

/// Calibrations of the decode step on one day each, with these levels.
fn calibration(levels: &[f64], detectable: f64) -> Calibration {
    let mut known = Calibration::default();
    for (day, level) in levels.iter().enumerate() {
        known.add(CalibratedTime {
            at: jiff::Timestamp::from_second(1_600_000_000 + DAY_S * day as i64).unwrap(),
            run: format!("calibration-{day}"),
            server: "s".into(),
            blocks: 8,
            rounds: 2,
            block_s: 60.0,
            cells: vec![CellNoise {
                point: "chat/short/c4".into(),
                work: work_of(&point()),
                measure: Measure::ITL_P50,
                within_sd: Some(0.001),
                start_sd: Some(0.002),
                pair_sd: 0.003,
                level: *level,
                detectable,
                best_rounds: Some(1),
            }],
        });
    }
    known
}

#[test]
fn a_calibrated_noisy_figure_is_observed_and_it_is_said() {
    let base = contender("a", starts(8, 0, 0, 1.0));
    let new = contender("b", starts(8, 1, 0, 1.2));
    let found = |detectable| {
        let known = calibration(&[0.0], detectable);
        judged_with(&base, &new, (Pairing::Blocks, DaySpread::None), Some(&known))
    };
    assert!(step(&found(0.02)).gated);
    let noisy = found(0.03);
    assert!(!step(&noisy).gated);
    assert!(noisy.notes.iter().any(|n| n.text.contains("observed only")), "{:?}", noisy.notes);
}

#[test]
fn history_judges_by_the_spread_of_starts_gathered_over_days() {
    let base = contender("main", starts(8, 0, 24, 1.0));
    for (count, factor, verdict) in [
        (1, 1.0, Verdict::Inconclusive),
        (5, 1.2, Verdict::Regressed),
        (1, 1.6, Verdict::Regressed),
    ] {
        let new = contender("new", starts(count, 30 * DAY_S, 0, factor));
        let found = judged(&base, &new, Pairing::PlainUrl, DaySpread::Unknown);
        assert_eq!((found.mode, found.advice.as_ref()), (Mode::History, None));
        assert_eq!(step(&found).verdict, verdict, "{count} × {factor}: {:?}", step(&found));
    }
    // One start of one night is suspected, and fails nothing until it is confirmed.
    let suspect = contender("new", starts(1, 30 * DAY_S, 0, 1.2));
    let found = judged(&base, &suspect, Pairing::PlainUrl, DaySpread::Unknown);
    assert_eq!((step(&found).verdict, found.gate.exit_code), (Verdict::Inconclusive, 0));
    assert!(step(&found).reason_text().contains("suspected"), "{:?}", step(&found));
    // Eight starts of one day say nothing of days.
    let one_day = contender("main", starts(8, 0, 0, 1.0));
    let new = contender("new", starts(1, 30 * DAY_S, 0, 1.2));
    let found = judged(&one_day, &new, Pairing::PlainUrl, DaySpread::Unknown);
    assert_eq!(step(&found).verdict, Verdict::Inconclusive);
    assert!(found.advice.unwrap().contains("from one day"));
    // One process measured eight times is one start.
    let same = (0..8).map(|day| start(day, i64::from(day) * DAY_S, Some("boot-1"), 10.0));
    let found =
        judged(&contender("main", same.collect()), &new, Pairing::PlainUrl, DaySpread::Unknown);
    assert_eq!(found.mode, Mode::SingleStart);
}

#[test]
fn two_urls_are_routes_only_where_both_tell_the_same_start() {
    let rounds = |identity: Option<&str>, factor: f64| -> Vec<MeasuredStart> {
        let one = |round: u32| {
            let ms = 10.0 * factor * (1.0 + 0.001 * f64::from(round % 3));
            MeasuredStart { start: 0, ..start(round, 0, identity, ms) }
        };
        (0..6).map(one).collect()
    };
    let with = |a, b| {
        let (base, new) =
            (contender("direct", rounds(a, 1.0)), contender("gateway", rounds(b, 1.1)));
        judged(&base, &new, Pairing::Routes, DaySpread::None)
    };
    let same = with(Some("boot-1"), Some("boot-1"));
    assert_eq!((same.mode, same.blocks, same.advice.as_ref()), (Mode::Routes, 6, None));
    assert_eq!(step(&same).verdict, Verdict::Regressed);
    for (a, b, word) in [
        (Some("boot-1"), Some("boot-2"), "different starts"),
        (Some("boot-1"), None, "do not both tell"),
    ] {
        let found = with(a, b);
        assert_eq!((found.mode, found.gate.exit_code), (Mode::SingleStart, 0));
        assert!(found.advice.as_ref().unwrap().contains(word), "{:?}", found.advice);
        assert_eq!(step(&found).verdict, Verdict::Inconclusive);
    }
}

#[test]
fn several_runs_of_a_baseline_meet_in_their_blocks_mean() {
    let mut runs = starts(5, 0, 0, 1.0);
    runs.extend(starts(5, 3600, 0, 1.21));
    let base = contender("main", runs);
    let new = contender("new", starts(5, 7200, 0, 1.1));
    let found = judged(&base, &new, Pairing::Restarted, DaySpread::None);
    assert_eq!(found.blocks, 5);
    // √(1 × 1.21) = 1.1: no change against the mean of both.
    assert!(step(&found).change.unwrap().abs() < 0.003, "{:?}", step(&found));
    // One run of another seed: nothing pairs.
    let mut other = starts(5, 0, 0, 1.0);
    other[2].seed = Seed(99);
    let found = judged(&contender("main", other), &new, Pairing::Restarted, DaySpread::None);
    assert_eq!(step(&found).pairs.len(), 5);
    assert_eq!(step(&found).verdict, Verdict::Regressed);
}

#[test]
fn what_differs_in_kind_is_incomparable_and_says_in_what() {
    let base = contender("a", starts(6, 0, 0, 1.0));
    type Change = fn(&mut ComparedSide);
    let changes: [(Change, &str); 5] = [
        (|c| c.facts.definitions = BTreeSet::from(["vllm".into()]), "definitions"),
        (|c| c.facts.models = BTreeSet::from(["other".into()]), "models"),
        (|c| c.points[0].point.input = Length::from(128), "lengths"),
        (
            |c| c.points[0].starts.iter_mut().for_each(|s| s.summary.output_tokens = 200 * 7),
            "output tokens",
        ),
        (|c| c.facts.apis = BTreeSet::from(["chat".into()]), "APIs"),
    ];
    for (change, word) in changes {
        let mut new = contender("b", starts(6, 1, 0, 1.5));
        change(&mut new);
        let found = judged(&base, &new, Pairing::Blocks, DaySpread::None);
        let cell = step(&found);
        assert_eq!(cell.verdict, Verdict::Incomparable, "{word}");
        assert!(cell.reason_text().contains(word), "{cell:?}");
        assert_eq!(found.gate.exit_code, 4, "{word}");
        assert!(!found.has_changed());
    }
}

#[test]
fn load_points_of_one_side_are_new_or_removed_and_fail_nothing() {
    let (mut base, mut new) =
        (contender("a", starts(6, 0, 0, 1.0)), contender("b", starts(6, 1, 0, 1.0)));
    let extra = |side: &mut ComparedSide, id: &str| {
        let mut point = side.points[0].clone();
        point.id = id.into();
        side.points.push(point);
    };
    extra(&mut base, "chat/old/c1");
    extra(&mut new, "chat/fresh/c1");
    let found = judged(&base, &new, Pairing::Blocks, DaySpread::None);
    let verdict_at = |id: &str| found.cells.iter().find(|c| c.point == id).unwrap().verdict;
    assert_eq!(verdict_at("chat/old/c1"), Verdict::Removed);
    assert_eq!(verdict_at("chat/fresh/c1"), Verdict::New);
    assert_eq!(found.gate.exit_code, 0, "{:?}", found.gate);
}

#[test]
fn an_invalid_start_costs_its_block_and_a_fifth_of_them_the_figure() {
    let busy = |starts: &mut Vec<MeasuredStart>, block: usize| {
        let health =
            inferometer::record::stored::Health { client_cpu: Some(0.99), ..Default::default() };
        starts[block].health = vec![health];
    };
    let base = contender("a", starts(8, 0, 0, 1.0));
    let mut few = starts(8, 1, 0, 1.1);
    busy(&mut few, 3);
    let found = judged(&base, &contender("b", few.clone()), Pairing::Blocks, DaySpread::None);
    assert_eq!((found.blocks, step(&found).verdict), (7, Verdict::Regressed));
    assert_eq!(step(&found).pairs[3].1, None);
    assert!(
        found.notes.iter().any(|n| n.text.contains("restart 4 of b left out")),
        "{:?}",
        found.notes
    );
    // Unpaired sides of equal length: one invalid start of each leaves seven of eight on both.
    let mut other = base.clone();
    busy(&mut other.points[0].starts, 5);
    let found = judged(&other, &contender("b", few.clone()), Pairing::PlainUrl, DaySpread::None);
    assert_eq!(found.blocks, 7, "{:?}", found.notes);
    busy(&mut few, 5);
    let found = judged(&base, &contender("b", few), Pairing::Blocks, DaySpread::None);
    assert_eq!((step(&found).verdict, found.gate.exit_code), (Verdict::Invalid, 4));
}

#[test]
fn days_are_times_six_hours_apart_and_their_spread_is_that_of_the_levels() {
    let known = calibration(&[0.0, 0.02], 0.01);
    assert_eq!(known.days(), 2);
    let noise = known.noise(&point(), Measure::ITL_P50).unwrap();
    let measured = noise.days.unwrap().measured();
    assert!((measured.sqrt() - 0.02 / 2.0_f64.sqrt()).abs() < 1e-12);
    assert!((noise.pair.value.sqrt() - 0.003).abs() < 1e-12);
    assert_eq!(noise.pair.df, 14.0);
    assert_eq!(known.noise(&point(), Measure::TTFT_P50), None);
    assert_eq!(calibration(&[0.0], 0.01).noise(&point(), Measure::ITL_P50).unwrap().days, None);
    let mut twice = calibration(&[0.0], 0.01);
    let mut again = twice.times[0].clone();
    again.at = jiff::Timestamp::from_second(again.at.as_second() + 3600).unwrap();
    twice.add(again);
    assert_eq!((twice.times.len(), twice.days()), (2, 1));
    // Planning: 0.3 % a pair finds 0.75 % of the decode step, and never in fewer than five.
    let cell = &known.times[0].cells[0];
    let sharing = Sharing::of_report(0.01, 1, 4);
    let needed = cell.blocks_for(0.0075, sharing).unwrap();
    assert!((8..25).contains(&needed), "{needed}");
    assert_eq!(cell.blocks_for(0.10, sharing), Some(5));
    assert_eq!(cell.blocks_for(0.004, sharing), None);
}

#[test]
fn a_start_whose_tails_are_late_keeps_its_medians() {
    let base = contender("a", starts(8, 0, 0, 1.0));
    let mut new = starts(8, 1, 0, 1.1);
    let late = |p50, p99| inferometer::record::stored::Health {
        loop_lag_p50_ms: Some(p50),
        loop_lag_p99_ms: Some(p99),
        ..Default::default()
    };
    new[2].health = vec![late(0.1, 900.0)];
    let found = judged(&base, &contender("b", new.clone()), Pairing::Blocks, DaySpread::None);
    let note = |found: &Comparison| found.notes[0].text.clone();
    assert!(note(&found).starts_with("means and tails of restart 3 of b left out"), "{found:?}");
    let pair = |measure| found.cells.iter().find(|c| c.measure == measure).unwrap().pairs[2];
    assert!(pair(Measure::ITL_P50).1.is_some() && pair(Measure::ITL_P99).1.is_none());
    new[2].health = vec![late(900.0, 900.0)];
    let found = judged(&base, &contender("b", new), Pairing::Blocks, DaySpread::None);
    assert!(note(&found).starts_with("latencies of restart 3 of b left out"), "{found:?}");
}
