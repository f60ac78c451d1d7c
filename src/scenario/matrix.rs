//! The matrix behind `scenarios!`: rows of `group/scenario`, gathered to groups.

use super::{Place, Scenario, ScenarioGroup};

/// Rows so far. For the macro `scenarios!`.
#[derive(Debug)]
pub struct Matrix {
    file: &'static str,
    line: u32,
    rows: u32,
    groups: Vec<ScenarioGroup>,
}

impl Matrix {
    /// An empty matrix, written at this place.
    #[must_use]
    pub fn new(file: &'static str, line: u32) -> Self {
        Self { file, line, rows: 0, groups: Vec::new() }
    }

    /// Adds a row. An id without `/` leaves the group's name empty, which unfolding refuses.
    pub fn row(&mut self, id: &str, fill: impl FnOnce(Scenario) -> Scenario) {
        self.rows += 1;
        let (group, name) = id.split_once('/').unwrap_or(("", id));
        // A macro's rows all have the macro's line: the row's number distinguishes them.
        let place = Place::named(format!("{}:{}, row {}", self.file, self.line, self.rows));
        let scenario = fill(Scenario::new(name)).declared_at(place);
        match self.groups.iter_mut().find(|known| known.name == group) {
            Some(known) => known.scenarios.push(scenario),
            None => {
                self.groups.push(ScenarioGroup { name: group.into(), scenarios: vec![scenario] });
            }
        }
    }

    /// The groups, in the order of their first rows.
    #[must_use]
    pub fn into_groups(self) -> Vec<ScenarioGroup> {
        self.groups
    }
}
