//! Calibrations: how noisy each server is, kept over days.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Store;
use super::files;
use super::runs::{not_ours, to_json};
use crate::error::Result;

/// The names under which a machine's own lag may stand in its self-test, ms.
const IDLE_LAGS: [&str; 3] = ["loop_lag_p99_ms", "schedule_lag_p99_ms", "timer_lateness_p99_ms"];
/// A self-test nests its figures no deeper than this.
const DEEPEST: u32 = 8;

impl Store {
    /// Stores the calibrations of a server.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn save_calibration(&self, key: &str, calibration: &impl Serialize) -> Result<()> {
        files::make_folder(&self.layout().calibrations())?;
        let path = self.layout().calibration(key);
        files::write_atomic(&path, to_json(&path, calibration)?)
    }

    /// Reads the calibrations of a server; `None` if it was never calibrated.
    ///
    /// # Errors
    /// Where the file cannot be read or understood.
    pub fn load_calibration<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        let path = self.layout().calibration(key);
        let Some(text) = files::read_text_if_any(&path)? else { return Ok(None) };
        serde_json::from_str(&text).map(Some).map_err(|error| not_ours(&path, error))
    }

    /// Reads the calibrations of all servers; files that are not calibrations are left out.
    ///
    /// # Errors
    /// Where the folder cannot be read.
    pub fn load_calibrations<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        let folder = self.layout().calibrations();
        if !files::exists(&folder) {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for name in files::names(&folder)? {
            if let Some(text) = files::read_text_if_any(&folder.join(name))? {
                found.extend(serde_json::from_str(&text).ok());
            }
        }
        Ok(found)
    }

    /// The latest self-test of this machine; `None` if there is none.
    ///
    /// # Errors
    /// Where the file is there and cannot be read.
    pub fn load_selftest<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let path = self.layout().selftest();
        let Some(text) = files::read_text_if_any(&path)? else { return Ok(None) };
        serde_json::from_str(&text).map(Some).map_err(|error| not_ours(&path, error))
    }

    /// How late this machine is when it has nothing to do, ms: of the latest self-test; 0 where
    /// there is none, or where it does not tell (a lag of our own is then nobody's but ours).
    #[must_use]
    pub fn idle_lag_ms(&self) -> f64 {
        let text = files::read_text_if_any(&self.layout().selftest()).ok().flatten();
        let file = text.and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
        file.and_then(|file| idle_lag(&file)).unwrap_or(0.0)
    }
}

/// The largest idle lag: the figures below `idle_floor` where there is such a part.
fn idle_lag(file: &serde_json::Value) -> Option<f64> {
    let floor = find(file, "idle_floor", DEEPEST).or_else(|| find(file, "idle", DEEPEST))?;
    let lags = IDLE_LAGS.iter().filter_map(|name| floor.get(name)?.as_f64());
    lags.filter(|lag| lag.is_finite() && *lag >= 0.0).reduce(f64::max)
}

fn find<'a>(value: &'a serde_json::Value, name: &str, depth: u32) -> Option<&'a serde_json::Value> {
    if depth == 0 {
        return None;
    }
    let fields = value.as_object()?;
    fields.get(name).or_else(|| fields.values().find_map(|inner| find(inner, name, depth - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_idle_lag_is_read_wherever_it_stands() {
        let lag = |text: &str| idle_lag(&serde_json::from_str(text).unwrap());
        let nested = r#"{"schema": 1, "idle_floor": {"loop_lag_p99_ms": 0.4,
            "schedule_lag_p99_ms": 1.25, "timer_lateness_p99_ms": null}}"#;
        assert_eq!(lag(nested), Some(1.25));
        // Lags under load say nothing of the idle machine.
        assert_eq!(lag(r#"{"levels": [{"loop_lag_p99_ms": 9.0}]}"#), None);
        assert_eq!(lag(r#"{"idle_floor": {"loop_lag_p99_ms": "x"}}"#), None);
    }
}
