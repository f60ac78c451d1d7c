//! A set of runs: one side of a comparison, and what it measured.

use super::measure::{self, PointData};
use super::search::Searched;
use crate::compare::side::{ComparedPoint, ComparedSide, Facts};
use crate::error::Result;
use crate::plan::{Phase, Side};
use crate::record::stored::{RoundStatus, RunStatus, StoredPoint};
use crate::record::{StoredRun, StoredStart};
use crate::store::Store;

/// One side of a report: a name, its runs, and which side of them it is.
#[derive(Debug, Clone)]
pub(crate) struct RunSet {
    pub(crate) name: String,
    pub(crate) side: Side,
    pub(crate) runs: Vec<StoredRun>,
}

impl RunSet {
    /// A baseline or a run by its name.
    pub(crate) fn named(store: &Store, name: &str) -> Result<Self> {
        let ids = match store.baselines().find(name)? {
            Some(baseline) => baseline.runs.clone(),
            None if store.run_ids()?.iter().any(|id| id == name) => vec![name.to_owned()],
            None => {
                store.baselines().load(name)?;
                Vec::new()
            }
        };
        let runs = ids.iter().map(|id| store.load_run(id)).collect::<Result<Vec<_>>>()?;
        Ok(Self { name: name.to_owned(), side: Side::New, runs })
    }

    /// The sides of one run: the base first, where it has one.
    pub(crate) fn sides_of(run: &StoredRun) -> Vec<Self> {
        let mut factions = Vec::new();
        for side in [Side::Base, Side::New] {
            let measured = run.rounds.iter().any(|round| round.side == side);
            if measured || (side == Side::New && run.rounds.is_empty()) {
                let label = run.sides.get(&side).map(|s| s.label.clone());
                let name = label.filter(|label| !label.is_empty());
                let name = name.unwrap_or_else(|| side.name().to_owned());
                factions.push(Self { name, side, runs: vec![run.clone()] });
            }
        }
        let are_commands = run.sides.values().all(|side| side.command.is_some());
        if let [base, new] = &mut factions[..]
            && (are_commands || base.name == new.name)
        {
            [base.name, new.name] = told_apart(&base.name, &new.name);
        }
        factions
    }

    /// Its load points, those of its newest run first in order.
    pub(crate) fn points(&self) -> Vec<StoredPoint> {
        let mut listed: Vec<StoredPoint> = Vec::new();
        for point in self.runs.iter().rev().flat_map(|run| &run.points) {
            if !listed.iter().any(|known| known.id == point.id) {
                listed.push(point.clone());
            }
        }
        listed
    }

    /// Whether a load point without rounds lacks them for a fault: a run that ended leaves
    /// loads out after one that was stopped, and else only where that was asked for.
    pub(super) fn has_lost_points(&self) -> bool {
        self.runs.iter().any(|run| {
            run.status != RunStatus::Complete
                || run.rounds.iter().any(|round| round.status == RoundStatus::Stopped)
        })
    }

    /// What must agree, and no points yet.
    pub(crate) fn contender(&self) -> ComparedSide {
        let mut facts = Facts::default();
        for run in &self.runs {
            facts.definitions.insert(run.definitions.clone());
            let datasets = run.datasets().map(|(path, hash)| (path.to_owned(), hash.to_owned()));
            facts.datasets.extend(datasets);
            let fact = |name: &str| run.environment.get(name);
            if let (Some(model), Some(cores)) = (fact("cpu_model"), fact("cpu_cores")) {
                facts.clients.insert(format!("{model}, {cores} cores"));
            }
            if let Some(side) = run.sides.get(&self.side) {
                facts.models.insert(side.model.clone());
                facts.apis.insert(side.api.clone());
            }
        }
        ComparedSide {
            label: self.name.clone(),
            runs: self.runs.iter().map(|run| run.id.clone()).collect(),
            facts,
            points: Vec::new(),
        }
    }

    /// The contender with all it measured.
    pub(crate) fn measured(&self, store: &Store) -> Result<ComparedSide> {
        let mut contender = self.contender();
        let mut searched = Searched::default();
        for listed in self.points() {
            let Some(data) = self.pooled(store, &listed.id)? else { continue };
            if listed.phase == Phase::Search {
                searched.add(listed, data.side);
            } else {
                contender.points.push(contender_point(&listed, &data));
            }
        }
        contender.points.extend(searched.capacities(0).into_iter().map(|(_, point)| point));
        Ok(contender)
    }

    /// One load point over all its runs.
    pub(crate) fn pooled(&self, store: &Store, point_id: &str) -> Result<Option<PointData>> {
        measure::pooled_data(store, &self.runs, point_id, self.side)
    }

    /// Whether somebody restarted its servers for it: we did, or the embedded simulator.
    pub(crate) fn was_restarted(&self) -> bool {
        let mut starts = self.runs.iter().flat_map(|run| &run.starts);
        starts.any(|start| start.ready_s.is_some()) || self.is_simulated()
    }

    /// Whether all of it ran on the embedded simulator, which has no days.
    pub(crate) fn is_simulated(&self) -> bool {
        let mut starts = self.runs.iter().flat_map(|run| &run.starts).peekable();
        starts.peek().is_some() && starts.all(StoredStart::is_simulated)
    }

    /// The name of its model and engine, under which its noise is stored.
    pub(crate) fn calibration_key(&self) -> Option<String> {
        let side = self.runs.last()?.sides.get(&self.side)?;
        (!side.model.is_empty())
            .then(|| format!("{}-{}", side.model, side.engine.as_deref().unwrap_or("engine")))
    }
}

/// A load point with the starts that were measured there.
pub(crate) fn contender_point(listed: &StoredPoint, data: &PointData) -> ComparedPoint {
    ComparedPoint {
        id: listed.id.clone(),
        phase: listed.phase,
        point: listed.point.clone(),
        starts: data.side.starts.clone(),
    }
}

/// Longer names than this make no legend.
const LONGEST_NAME: usize = 48;

/// Two sides by the words of their commands that they do not share; `base` and `new` where those
/// are none or many. The commands stand whole among the run's facts.
fn told_apart(base: &str, new: &str) -> [String; 2] {
    let [old, fresh] = [base, new].map(|label| label.split_whitespace().collect::<Vec<_>>());
    let mut start = old.iter().zip(&fresh).take_while(|(a, b)| a == b).count();
    let ends = old[start..].iter().rev().zip(fresh[start..].iter().rev());
    let shared_end = ends.take_while(|(a, b)| a == b).count();
    // A value stays with its flag.
    let is_value =
        |words: &[&str]| words.len() > start + shared_end && !words[start].starts_with('-');
    let is_flag = |word: &str| word.starts_with('-') && !word.contains('=');
    if start > 0 && is_flag(old[start - 1]) && is_value(&old) && is_value(&fresh) {
        start -= 1;
    }
    let own = |words: &[&str]| words[start..words.len() - shared_end].join(" ");
    let names = match (own(&old), own(&fresh)) {
        (old, fresh) if old.is_empty() && !fresh.is_empty() => [format!("without {fresh}"), fresh],
        (old, fresh) if fresh.is_empty() && !old.is_empty() => {
            [old.clone(), format!("without {old}")]
        }
        (old, fresh) => [old, fresh],
    };
    if names.iter().any(|name| name.is_empty() || name.chars().count() > LONGEST_NAME) {
        return ["base".to_owned(), "new".to_owned()];
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_apart_by_the_words_they_do_not_share() {
        let names = |base: &str, new: &str| told_apart(base, new).join(" | ");
        let serve = "vllm serve Qwen/Qwen2.5-7B-Instruct";
        let with = |flags: &str| format!("{serve} {flags}");
        assert_eq!(names(&with("--seed 1"), &with("--seed 1")), "base | new");
        assert_eq!(
            names(
                &with("--max-num-batched-tokens 2048 --seed 1"),
                &with("--max-num-batched-tokens 8192 --seed 1")
            ),
            "--max-num-batched-tokens 2048 | --max-num-batched-tokens 8192"
        );
        assert_eq!(
            names(serve, &with("--enforce-eager")),
            "without --enforce-eager | --enforce-eager"
        );
        assert_eq!(names(&with("--a=1 --b=2"), &with("--a=3 --b=2")), "--a=1 | --a=3");
        assert_eq!(names("./old", "./new"), "./old | ./new");
        let long = "x".repeat(50);
        assert_eq!(names(&with(&long), &with("--y")), "base | new");
    }
}
