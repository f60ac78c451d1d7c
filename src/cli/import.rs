//! `import`: another tool's result files as a stored run, with a baseline that points at it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::clock::Clock;
use crate::compare::gate;
use crate::error::{Error, Result};
use crate::import::{self, Imported, ImportedRound, Order, Sends};
use crate::metric::{Measure, Metric, Statistic};
use crate::record::health::{lockstep, sends_inside};
use crate::record::stored::Health;
use crate::record::{StoredRun, Window};
use crate::report::terminal;
use crate::report::view::severity_label;
use crate::scenario::Load;
use crate::settings::{Settings, value};
use crate::store::{Baseline, Store, files};
use crate::summary::{self, RoundInput, lockstep};
use crate::units::s_to_ns;

/// Result files of other benchmark clients.
#[derive(Debug, Args)]
pub(super) struct ImportCommand {
    /// Result files of vLLM, SGLang, guidellm, aiperf, inference-perf or llm-d (JSON, JSON lines,
    /// either as `.gz`), folders of them, or patterns such as `results/*.json`; several make one
    /// run with several load points
    #[arg(value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
    /// Name of the baseline that then points at the run
    #[arg(long = "as", value_name = "NAME")]
    name: String,
    /// These files are of a further start of the same server: add them to the baseline
    #[arg(long)]
    append: bool,
    /// A fact that the files do not hold: `max_num_batched_tokens=2048`; repeatable
    #[arg(long, value_name = "K=V")]
    metadata: Vec<String>,
    /// Name of the scenario, where the lengths do not tell it (they differ from run to run)
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// Root of runs, baselines and reports
    #[arg(long, value_name = "DIR", env = "INFEROMETER_OUTPUT_DIR")]
    output_dir: Option<PathBuf>,
}

impl ImportCommand {
    pub(super) fn run(&self) -> Result<u8> {
        let root = match &self.output_dir {
            Some(dir) => dir.clone(),
            None => Settings::for_url("").output_dir,
        };
        let store = Store::open(root)?;
        let at = Clock::start().wall_origin();
        let order = Order {
            files: &self.files,
            name: &self.name,
            scenario: self.scenario.as_deref(),
            metadata: &facts(&self.metadata)?,
            command_line: command_line(),
            at,
        };
        let place = if self.append { Place::FurtherStart } else { Place::Alone };
        let run = into_store(&store, &order, place)?;
        let baseline = store.baselines().load(&self.name)?;
        terminal::print(&told(&baseline, &run))?;
        Ok(gate::FINE)
    }
}

/// The names of sides to compare, of which some may be result files: those are imported under their
/// file names. A baseline or a run of that name comes first.
pub(super) fn sides(store: &Store, names: &[String]) -> Result<Vec<String>> {
    let runs = store.run_ids()?;
    let file_names: Vec<_> = names.iter().filter_map(|name| Path::new(name).file_name()).collect();
    let mut sides = Vec::new();
    for name in names {
        let path = Path::new(name);
        let known = runs.contains(name) || store.baselines().find(name)?.is_some();
        if known || !files::exists(path) {
            sides.push(name.clone());
            continue;
        }
        // `old/result.json new/result.json`: the folders distinguish them.
        let twins = file_names.iter().filter(|other| Some(**other) == path.file_name()).count();
        let side = match path.file_name() {
            Some(file) if twins == 1 => file.to_string_lossy().into_owned(),
            _ => name.trim_start_matches(['.', '/']).replace('/', "-"),
        };
        let order = Order {
            files: &[path.to_owned()],
            name: &side,
            scenario: None,
            metadata: &BTreeMap::new(),
            command_line: command_line(),
            at: Clock::start().wall_origin(),
        };
        into_store(store, &order, Place::Alone)?;
        sides.push(side);
    }
    Ok(sides)
}

/// What a run is to its baseline.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// All that the name stands for.
    Alone,
    /// One more start beside those that the name stands for.
    FurtherStart,
}

/// Reads the files, writes the run, and points the baseline at it.
fn into_store(store: &Store, order: &Order<'_>, place: Place) -> Result<StoredRun> {
    let mut imported = import::read(order)?;
    find_waves(&mut imported);
    let baselines = store.baselines();
    if place == Place::FurtherStart {
        let known = baselines.find(order.name)?.map(|baseline| baseline.runs).unwrap_or_default();
        let before: Vec<StoredRun> =
            known.iter().map(|id| store.load_run(id)).collect::<Result<_>>()?;
        import::as_further_start(&mut imported, order.name, &before)?;
    }
    let run = keep(store, &imported)?;
    match place {
        Place::Alone => baselines.save(order.name, &run.id, order.at)?,
        Place::FurtherStart => baselines.append(order.name, &run.id, order.at)?,
    };
    Ok(run)
}

/// The command without the program's path.
fn command_line() -> Vec<String> {
    std::iter::once("inferometer".to_owned()).chain(std::env::args().skip(1)).collect()
}

/// `K=V`, split once.
fn facts(given: &[String]) -> Result<BTreeMap<String, String>> {
    let fact = |text: &String| {
        let (name, value) =
            text.split_once('=').filter(|(name, _)| !name.trim().is_empty()).ok_or_else(|| {
                Error::usage(format!("`{text}` is not a fact"))
                    .with_hint("write `--metadata NAME=VALUE`")
            })?;
        value::public(name.trim())?;
        Ok((name.trim().to_owned(), value.trim().to_owned()))
    };
    given.iter().map(fact).collect()
}

/// Writes the run with its rounds; returns it under the id that it got.
fn keep(store: &Store, imported: &Imported) -> Result<StoredRun> {
    let writer = store.begin_run(&imported.run)?;
    for ImportedRound { round, records, itl, icl, .. } in &imported.rounds {
        writer.write_round(&imported.run, round, records, itl, icl)?;
    }
    Ok(StoredRun { id: writer.id().to_owned(), ..imported.run.clone() })
}

/// Where the file says when requests were sent, it says whether they marched in waves; TTFT is then
/// that of the wave. ConclusionInput once a load point, of its worst round.
fn find_waves(imported: &mut Imported) {
    let mut worst: BTreeMap<String, (Health, usize)> = BTreeMap::new();
    for (place, whole) in imported.rounds.iter_mut().enumerate() {
        let ImportedRound { round, records, itl, icl, sends } = whole;
        let point = imported.run.points.iter().find(|point| point.id == round.point);
        let load = point.map(|listed| listed.point.load);
        let several = matches!(load, Some(Load::Concurrency(slots)) if slots > 1);
        if *sends == Sends::Unknown || !several {
            continue;
        }
        // The median is the tool's own where the file has no ends. Its window holds ramp and drain too, so
        // what was in flight is not ours to judge.
        let summary = summary::summarise(&[RoundInput { round, records, itl, icl }], None);
        let median_ms = summary.get(Measure::of(Metric::E2el, Statistic::P50));
        let sent: Vec<u64> = sends_inside(records, Window::of(round)).collect();
        round.health.lockstep = median_ms.and_then(|ms| lockstep(&sent, s_to_ns(ms / 1e3)));
        if let Some(listed) = imported.run.rounds.get_mut(place) {
            listed.health.clone_from(&round.health);
        }
        let (known, sends) = worst.entry(round.point.clone()).or_default();
        if round.health.lockstep > known.lockstep {
            known.clone_from(&round.health);
            *sends = sent.len();
        }
    }
    let waves = worst
        .iter()
        .filter_map(|(point, (health, sends))| lockstep::waves_finding(health, *sends, point));
    imported.run.findings.extend(waves);
}

fn told(baseline: &Baseline, run: &StoredRun) -> String {
    let mut text = String::new();
    for point in &run.points {
        let rounds = run.rounds.iter().filter(|round| round.point == point.id).count();
        let several = if rounds > 1 { format!(" ({rounds} rounds)") } else { String::new() };
        text.push_str(&format!("load point {}{several}\n", point.id));
    }
    for finding in &run.findings {
        let at = finding.point.as_ref().map(|point| format!("{point}: ")).unwrap_or_default();
        let severity = severity_label(finding.severity);
        text.push_str(&format!("{severity}: {at}{}\n", finding.text));
    }
    let name = &baseline.name;
    match baseline.runs.len() {
        0 | 1 => text.push_str(&format!("baseline {name} now points at run {}\n", run.id)),
        starts => text.push_str(&format!(
            "baseline {name} now holds {starts} starts, the last of them run {}\n",
            run.id
        )),
    }
    text
}
