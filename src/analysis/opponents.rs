//! Opponents: what a run is compared with, and on which grounds.

use super::runs::RunSet;
use crate::compare::calibration::Calibration;
use crate::compare::design::{DaySpread, Pairing};
use crate::error::Result;
use crate::plan::{Design, Side};
use crate::record::StoredRun;
use crate::settings::Settings;
use crate::store::Store;

/// What a judgement rests on beside the two sides.
#[derive(Debug, Clone)]
pub(super) struct ComparisonContext {
    pub(super) meeting: Pairing,
    pub(super) day: DaySpread,
    pub(super) looks: u32,
    pub(super) calibration: Option<Calibration>,
    pub(super) idle_lag_ms: f64,
}

impl ComparisonContext {
    /// The grounds on which `new` meets a base of other runs.
    pub(super) fn apart(store: &Store, new: &RunSet) -> Result<Self> {
        let meeting = if new.was_restarted() { Pairing::Restarted } else { Pairing::PlainUrl };
        let grounds = Self::of(store, new, meeting)?;
        let several_days = grounds.calibration.as_ref().is_some_and(|known| known.days() >= 2);
        let day = match (new.is_simulated(), several_days) {
            (true, _) => DaySpread::None,
            (false, true) => DaySpread::Calibrated,
            (false, false) => DaySpread::Unknown,
        };
        Ok(Self { day, ..grounds })
    }

    /// The grounds on which the two sides of one run meet.
    pub(super) fn together(store: &Store, new: &RunSet, design: Design) -> Result<Self> {
        let meeting = if design == Design::Routes { Pairing::Routes } else { Pairing::Blocks };
        Self::of(store, new, meeting)
    }

    fn of(store: &Store, new: &RunSet, meeting: Pairing) -> Result<Self> {
        let calibration = match new.calibration_key() {
            Some(key) => store.load_calibration(&key)?,
            None => None,
        };
        let idle_lag_ms = store.idle_lag_ms();
        Ok(Self { meeting, day: DaySpread::None, looks: 1, calibration, idle_lag_ms })
    }
}

/// The sides of a run, and how they met; no grounds where there is one side alone.
pub(super) struct Opponents {
    pub(super) factions: Vec<RunSet>,
    pub(super) grounds: Option<ComparisonContext>,
}

pub(super) fn opponents(store: &Store, settings: &Settings, run: &StoredRun) -> Result<Opponents> {
    let mut factions = RunSet::sides_of(run);
    if let [_, new] = &factions[..] {
        let grounds = ComparisonContext::together(store, new, run.design)?;
        return Ok(Opponents { factions, grounds: Some(grounds) });
    }
    let Some(new) = factions.first() else { return Ok(Opponents { factions, grounds: None }) };
    let mut grounds = ComparisonContext::apart(store, new)?;
    let mut base = named_base(store, settings, std::slice::from_ref(run))?;
    if base.is_none() && settings.baseline.compare.is_none() && settings.against.is_none() {
        base = store.latest_but(&run.workload_hash, &run.id)?.map(|twin| {
            let name = format!("last run ({})", twin.id);
            RunSet { name, side: Side::New, runs: vec![twin] }
        });
        grounds.meeting = Pairing::LastTwin;
    }
    let grounds = base.is_some().then_some(grounds);
    if let Some(base) = base {
        factions.insert(0, base);
    }
    Ok(Opponents { factions, grounds })
}

/// The baseline that was asked for, without the runs that are judged themselves.
pub(super) fn named_base(
    store: &Store,
    settings: &Settings,
    judged: &[StoredRun],
) -> Result<Option<RunSet>> {
    let Some(name) = &settings.baseline.compare else { return Ok(None) };
    if settings.baseline.lenient && store.baselines().find(name)?.is_none() {
        return Ok(None);
    }
    let mut base = RunSet::named(store, name)?;
    base.runs.retain(|stored| judged.iter().all(|run| run.id != stored.id));
    Ok((!base.runs.is_empty()).then_some(base))
}
